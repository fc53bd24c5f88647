// A tape of PyTorch: operators beneath autograd, on registers of its own.
//
// 1. A node's operators are those that torch dispatched beneath autograd when the node was watched, with the same
//    constants, in the same order. So kernels and bits are those of eager execution.
// 2. Operands that come from outside are looked at when a node is done: each has to be of the form that it had. So have
//    numbers, results whose sizes depend on data, and memory that two operands shared.
// 3. Gradients reach leaves when all of them are there. A leaf takes its first gradient, or adds to the one it has. An
//    engine that was asked for the gradients of inputs gives them as a tuple instead.
// 4. Nothing that existed before is written until then, but for the running statistics of normalisations. These are not
//    written once more when an operation is done again with autograd.
// 5. A checkpoint does its forward pass once more in the engine. These operators are the engine's, on the random numbers
//    of then, and no Python runs: between the two passes nothing has changed that it could read (plan/tapes.cpp).
// 6. The engine computes gradients on the streams of the forward pass. So all nodes of a tape find the same stream of the
//    device current, which was current for all of them when they were watched, too.
#pragma once
#include <optional>

#include "ir/executable.h"
#include "torch/form.h"
#include "torch/node_modes.h"
#include "torch/undo.h"
#include "torch/used_graph.h"

namespace pijit::torch_adapter {

// An operand of a node that comes from outside of the tape.
struct TapeLoad {
  uint32_t reg, value;
  std::optional<TensorForm> form;  // none: it shares the memory of a value that is there
};

struct TapeStep {
  std::unique_ptr<AdapterOp> op;
  Vec<uint32_t> drops;                                           // values that nothing needs behind it
  std::vector<std::pair<uint32_t, std::vector<int64_t>>> sizes;  // that depend on data, by value
  uint32_t draws_as = kNone;                                     // the node that has drawn the same random numbers
};

// A result that a register of the replay gets.
struct TapeResult {
  uint32_t reg, value;
};

// A tensor that somebody may see behind the tape: it gets the graph that was gone through.
struct TapeShown {
  uint32_t value, version;                                                          // of its content
  uint32_t base = kNone;                                                            // the value that it is a view of
  torch::autograd::CreationMeta creation = torch::autograd::CreationMeta::DEFAULT;  // of the view
};

// The tensors that the engine is called with: all roots, what they are given, undefined where that is nothing, and all
// inputs.
std::vector<at::Tensor> engine_operands(const TapeNode& engine, const Reg* regs);

// One node of the stretch.
struct TapedNode {
  AdapterOp* op = nullptr;  // of the trace; null: the engine
  std::vector<TapeLoad> loads;
  std::vector<std::pair<uint32_t, Reg>> numbers;       // that are the same each time
  std::vector<std::pair<uint32_t, uint32_t>> wrapped;  // others: registers, and values that are tensors of them
  std::vector<TapeStep> steps;
  std::vector<TapeResult> results;
  Vec<uint32_t> drops;  // behind all of these
  bool draws = false;   // random numbers
  bool looks = false;   // at what the tape has made: it need not
  bool casts = false;   // anew: autocast has forgotten what it had cast for nodes before
  Vec<uint32_t> kept;   // values that it may write in secret: running statistics
};

struct TapeLeaf {
  uint32_t value;     // the leaf
  uint32_t gradient;  // the value that it gets, or adds to the gradient that it has; kNone: it gets nothing
  uint32_t version;   // of what it gets
};

// A gradient that the engine gives to its caller.
struct TapeGiven {
  uint32_t input;     // the value whose gradient it is
  uint32_t gradient;  // kNone: None
  uint32_t version;
  uint32_t base = kNone;                                                            // the value that it is a view of
  torch::autograd::CreationMeta creation = torch::autograd::CreationMeta::DEFAULT;  // of the view
};

class TorchTape final : public Tape, public std::enable_shared_from_this<TorchTape> {
 public:
  const Vec<uint32_t>& nodes() const noexcept override { return order; }
  std::unique_ptr<Run> begin() noexcept override;

  // -- filled in by its maker
  Vec<uint32_t> order;           // what nodes() gives
  std::vector<TapedNode> taped;  // by node of the stretch; those of `order`
  std::vector<TapeLeaf> leaves;
  std::vector<TapeGiven> given;       // by input of the engine
  Vec<uint32_t> saved;                // values from outside that the gradients are computed with
  std::vector<TapeShown> shown;       // views behind what they are views of
  std::shared_ptr<UsedGraph> graph;   // of these, by index; null: there are none
  std::optional<c10::Device> device;  // the one beside the CPU that tensors are of
  TapeNode engine;                    // its loads have indices of engine_operands() for registers
  uint32_t values = 0;
};

}  // namespace pijit::torch_adapter
