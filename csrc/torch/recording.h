// One recording under way: the operands of the current call as values, and what the trace has checked about each
// register.
//
// Operands are converted before CPython runs the call: afterwards temporaries are gone. What is not a tensor, a scalar
// register or a sequence becomes a constant, guarded in place by the core.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "adapter.h"
#include "torch/eye.h"

namespace pijit::torch_adapter {

struct Callable;

enum class ArgKind : uint8_t {
  kNull,
  kNone,
  kEllipsis,
  kTensor,
  kBool,
  kInt,
  kFloat,
  kComplex,
  kString,
  kDtype,
  kLayout,
  kMemoryFormat,
  kDevice,
  kGenerator,
  kSequence,  // tuple, list or torch.Size with known items
  kSlice,     // three children
  kOther,     // something else; only its exact type is known
};

// An operand, or an item of one.
struct Arg {
  Val value;
  ArgKind kind = ArgKind::kNull;
  bool dynamic = false;          // a scalar register: may differ at replay
  PyTypeObject* type = nullptr;  // exact type, null if not known
  union {
    Impl* tensor;
    int64_t integer;  // kInt, kBool; dtype, layout and memory format by number
    double number;
    PyObject* object;  // borrowed; alive while constant
  };
  uint32_t first = 0, count = 0;  // children in Recording::args
  int64_t dtype = 0,
          device = 0;  // kTensor: as Fact::kDtype and Fact::kDevice read them (a temporary is gone after the call)
  Arg() : object(nullptr) {}
};

// What is known of a register's tensor on every replay.
struct Known {
  bool dtype = false, device = false, keys = false, dim = false;
  bool strides = false, requires_grad = false, leaf = false, nodeless = false, offset = false;
  bool contiguous = false;                      // or known not to be: in either case checked
  Vec<std::pair<int64_t, Val>> sizes{};         // the registers with the sizes that were read, by dimension
  uint32_t all = 0, layouts = 0, autograd = 0;  // how often such facts had been forgotten when these were found
};

class Recording {
 public:
  Recording(RecordApi& record_api, Eye& operator_eye) : api(record_api), eye(operator_eye) {}

  // Takes the operands of a call; false: stopped.
  bool take(const CallSite& site);
  const Arg& arg(size_t i) const { return args[i]; }
  const Arg& child(const Arg& parent, size_t i) const { return args[parent.first + i]; }

  // The recording can follow what is done to this tensor.
  bool follows(const Impl* tensor) const noexcept {
    return has_levels ? is_plain_or_wrapped(tensor) : is_plain(tensor);
  }
  bool follows(PyObject* object) const noexcept {
    return has_levels ? is_plain_or_wrapped_tensor(object) : is_plain_tensor(object);
  }

  Known& known(Val reg);
  void forget_layouts();   // an operator changed sizes, strides or storage in place
  void forget_autograd();  // an operator wrote in place: requires_grad and is_leaf may differ now
  bool has_forgotten_layouts() const { return forgot_layouts_; }  // since inputs were checked
  void forget_all() {
    all_ += 1;
    forgot_layouts_ = false;
    checked_getters.clear();
  }

  // A constant number as the dispatcher got it: one tensor for all places that have it, so that few of the small things
  // that the program makes between its tensors stay where they are.
  const at::Tensor& shared_number(const at::Tensor& number);
  // The first list of these integers that the trace holds.
  const c10::IValue& shared_list(const c10::IValue& list);

  bool stop(std::string reason) {
    api.stop("PJ209", std::move(reason));
    stopped = true;
    return false;
  }

  RecordApi& api;
  Eye& eye;
  const Callable* callable = nullptr;
  Vec<Arg> args;  // [0, operands), then their children
  size_t operands = 0;
  size_t keywords = 0;  // the last ones, named by kwnames
  std::vector<std::pair<PyObject*, PyObject*>>
      checked_getters;  // mode getters checked in this trace (borrowed, never compared deeply)
  bool stopped = false;
  bool has_levels = false;         // the trace opens levels of torch.func: wrapped tensors are among its registers
  uint32_t unexpected_before = 0;  // operators outside of observed calls, when an idle call began

 private:
  bool convert(const Operand& operand, size_t slot, int depth);
  bool convert_constant(PyObject* object, Arg& arg);

  // By register. What is forgotten is forgotten when it is asked for: a program that writes many tensors in place, or
  // calls foreign code many times, has a long list of them.
  Vec<Known> known_;
  uint32_t all_ = 0, layouts_ = 0, autograd_ = 0;
  bool forgot_layouts_ = false;
  std::unordered_map<std::string, at::Tensor> numbers_;  // by type and bytes
  std::map<std::vector<int64_t>, c10::IValue> lists_;
};

}  // namespace pijit::torch_adapter
