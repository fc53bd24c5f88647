// What a maker of tapes has seen of a stretch, and the tape that is put together of it.
#pragma once
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "torch/operators.h"
#include "torch/tape.h"
#include "torch/tape_values.h"

namespace pijit::torch_adapter {

// Operators are seen without the GIL, which the pool needs: their vectors are of the heap.

// An argument of an operator that was seen: a constant, a value, or a list of values (kNone: none).
struct SeenArgument {
  enum Kind : uint8_t { kConstant, kTensor, kTensors, kMaybeTensors };
  Kind kind = kConstant;
  c10::IValue constant;
  std::vector<uint32_t> values;
};

struct SeenResult {
  std::vector<uint32_t> values;    // kNone: undefined
  bool list = false, old = false;  // old: an argument that was written to
};

struct SeenOperator {
  const OperatorInfo* info;
  std::vector<SeenArgument> arguments;
  std::vector<SeenResult> results;
  bool depends_on_data = false;  // the sizes of its results
  uint32_t draws_as = kNone;     // of the engine: the node that has drawn the same random numbers
};

// What a node of the stretch has done.
struct SeenNode {
  bool looked = false;  // it may have made something that requires gradients
  bool has_gradients = false;
  bool is_plain = false;  // it makes tensors without gradients, and what it does is known: it may be taped
  bool taped = false;
  bool is_others = false;  // a tape of another stretch has done it
  bool draws = false;
  bool is_hooked = false;  // functions of Python get what it saves for the backward pass
  Draws drawn;             // before it draws random numbers, if it is hooked
  Vec<uint32_t> loaded;    // by TapeNode::reads: the values of tensors; kNone: a number
  std::vector<const c10::StorageImpl*> changed;
  std::vector<std::pair<uint32_t, Reg>> numbers;
  std::vector<std::pair<uint32_t, uint32_t>> wrapped;  // registers of numbers, and values that are tensors of them
  std::vector<SeenOperator> operators;
  std::vector<std::pair<uint32_t, uint32_t>> results;  // registers and values
  std::vector<uint32_t> versions;
  torch::autograd::edge_list functions;  // of the results; an invalid edge: it has none
};

// A leaf that gradients lead to. It got one, unless the engine gives gradients to its caller.
struct SeenLeaf {
  at::Tensor tensor;
  uint32_t value, gradient = kNone, version = 0;
  at::Tensor held = {};  // the gradient that it had
};

// A gradient that the engine gave to its caller; kNone: None.
struct SeenGiven {
  uint32_t input, gradient = kNone;
  at::Tensor tensor;
};

// All of it.
struct SeenStretch {
  explicit SeenStretch(const TapeStretch& stretch) : of(stretch), nodes(stretch.nodes.size()) {}
  // There cannot be a tape; the first reason counts.
  bool fail(std::string reason) {
    if (why.empty()) why = std::move(reason);
    return false;
  }

  const TapeStretch& of;
  std::vector<SeenNode> nodes;  // as there; the engine comes last
  TapeValues values;
  std::vector<TensorForm> forms;  // by value, when it was first met
  std::vector<SeenLeaf> leaves;
  std::vector<SeenGiven> given;                              // by input
  std::optional<c10::Device> device;                         // the one beside the CPU that tensors are of
  std::unordered_set<const torch::autograd::Node*> visited;  // functions behind the roots
  std::unordered_set<const torch::autograd::Node*> used;     // those that the pass goes through
  std::string why;
};

// Null: what was seen does not make one, and `why` says so.
std::shared_ptr<Tape> assemble(SeenStretch* seen);

}  // namespace pijit::torch_adapter
