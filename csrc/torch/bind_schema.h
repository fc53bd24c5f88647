// Binds the Python operands of a call to the arguments of the operators that the eye reported, and emits those
// operators.
//
// An argument of an operator is explained by an operand if it is the same tensor, or the same value of a fitting type;
// by a default of the schema; by an option that modes decide (dtype, device, ... of factories); or by the result of an
// earlier operator of the same call. A scalar keeps the register it came from. If one argument cannot be explained,
// nothing is emitted: the binding did something of its own, and the call is not lowered here.
#pragma once
#include "torch/lowered.h"
#include "torch/recording.h"

namespace pijit::torch_adapter {

// Turns the operators of one observed call into operations.
class Lowering {
 public:
  explicit Lowering(Recording& recording, const CallSite& site) : recording_(recording), site_(site) {}

  // All operators but the last: a binding that wants a number, and is given a tensor, asks it for its number.
  bool bind_numbers();
  // One operator whose arguments are those of the Python call, by position and name.
  bool bind_call(const SeenOp& op, bool method);
  // Operators whose first arguments are the operands in any order (binary operators and the like); the rest are
  // defaults.
  bool bind_free(const SeenOp& op);
  // One operator as it was seen: every argument that is not a tensor operand is a constant. For bindings that decide by
  // constants.
  bool bind_as_seen(const SeenOp& op);

  // The value of what CPython returned, made of results of the bound operators and of operands. False: it is not made
  // of those.
  bool find_result(PyObject* object, Val* result);
  // Results of operator `op` (in binding order), e.g. the rows of unbind.
  Vals tensors_of(size_t op) const;
  // The single scalar result of the last operator, or null.
  Val scalar() const;

  // Appends everything that was bound.
  void emit();
  // Emits what options of factories depend on: dtype and device of the tensor operands.
  void require_options();

 private:
  struct Produced {
    Impl* tensor;
    Val value;
    size_t op;
  };

  struct Number {
    const Impl* tensor;  // of an operand
    Arg number;
  };

  bool explain_asked(const SeenOp& op, size_t argument, const Arg& arg, const SeenValue& seen);
  const Arg& number_of(const Arg& arg) const;
  bool place_operands(const SeenOp& op, bool method, Vec<int>* given, bool* gathered);
  bool place_keyword(const OperatorInfo& info, PyObject* name, size_t operand, Vec<int>* given);
  bool explain(const SeenOp& op, size_t argument, const Arg& arg);
  bool explain_tensor(const SeenOp& op, size_t argument, const Arg& arg, const SeenValue& seen);
  bool explain_value(const SeenOp& op, size_t argument, const Arg& arg, const c10::IValue& value);
  bool explain_ints(size_t argument, const Arg* items, size_t count, bool repeat, const c10::IValue& value);
  bool explain_missing(const SeenOp& op, size_t argument);
  bool explain_known_tensor(const SeenOp& op, size_t argument);
  void use(size_t argument, Slot slot, Val value);
  void constant(size_t argument, const SeenValue& seen);
  bool start(const SeenOp& op);
  bool produce(const SeenOp& op);
  Val value_of(const Impl* tensor) const;
  Val written_operand(const SeenOp& op, size_t result) const;
  bool place_outs(const OperatorInfo& info, const Arg& outs, Vec<int>* given);
  PyTypeObject* result_type(const Impl* tensor) const;

  Recording& recording_;
  const CallSite& site_;
  Vec<std::unique_ptr<LoweredOp>> ops_;
  Vec<Produced> produced_;
  std::vector<Number> numbers_;
  Val scalar_;
  PyTypeObject* scalar_type_ = nullptr;
  bool options_ = false;
  LoweredOp* op_ = nullptr;  // under construction
  Vals bound_;               // its tensor and scalar registers, by argument
};

// Whether a Python constant and a value of the dispatcher are the same.
bool same_value(const Arg& arg, const c10::IValue& value, Form form);
// Whether two values of the dispatcher are the same plain data (numbers, strings, lists of them, None).
bool same_data(const c10::IValue& a, const c10::IValue& b);

}  // namespace pijit::torch_adapter
