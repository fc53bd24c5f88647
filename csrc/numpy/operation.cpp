// One call of NumPy in a replay.
#include "numpy/operation.h"

#include <optional>

#include "ir/call.h"
#include "ir/scalars.h"
#include "numpy/errors.h"
#include "numpy/library.h"
#include "numpy/loops.h"

namespace pijit::numpy {
namespace {

constexpr size_t kMostOperands = 12;
constexpr size_t kNameless = 2;  // so many operands of what moves numbers name no dtype

// What is there at each replay: that the operands are plain is looked at then, since a guard of a class does not say
// which dtype an array has.
class Operation final : public AdapterOp {
 public:
  Operation(const Trace& trace, const Node& node)
      : callable_(node.a.object()),
        names_(node.b.object()),
        type_(reinterpret_cast<PyTypeObject*>(node.imm)),
        named_(node.aux),
        out_(node.out),
        operands_(trace.operands.begin() + node.first, trace.operands.begin() + node.first + node.count),
        rule_(known_callable(callable_).rule),
        loop_(callable_) {
    direct_ = loop_.is_known() && named_ == 0 && operands_.size() == loop_.inputs();
  }

  bool run(Reg* regs) noexcept override {
    PyObject* room[kMostOperands + 1];  // the slot before the first is free, as vectorcall wants it
    PyObject** operands = room + 1;
    Ref made[kMostOperands];
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Val value = operands_[i];
      operands[i] = value.object();
      if (operands[i] != nullptr) continue;
      const Reg& reg = regs[value.index()];
      if (reg.rep != Rep::kObject) made[i] = Ref::steal(number_object(reg));
      operands[i] = reg.rep == Rep::kObject ? reg.object : made[i].get();
      if (operands[i] == nullptr) return PyErr_Clear(), false;
    }
    PyObject* result = direct_ ? loop_.run(operands) : nullptr;
    if (result == nullptr) result = call(operands);
    if (result == nullptr) return false;
    if (Py_TYPE(result) != type_) return drop_reference(result), false;
    regs[out_].object = result;
    regs[out_].rep = Rep::kObject;
    regs[out_].owned = 1;
    return true;
  }
  bool is_repeatable() const noexcept override { return true; }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "numpy::call";
    return made;
  }
  bool keep(Words&) const override { return false; }

 private:
  // As the program would call it. Null, and no error is set: not with these operands, or it raised.
  PyObject* call(PyObject** operands) const noexcept {
    for (size_t i = 0; i < operands_.size(); ++i)
      if (!is_plain(operands[i])) return nullptr;
    if (!fit(rule_, operands, operands_.size())) return nullptr;
    std::optional<StrictErrors> strict;
    if (calculates()) strict.emplace();
    PyObject* result = nullptr;
    if (!strict || !strict->failed())
      result = PyObject_Vectorcall(callable_, operands, (operands_.size() - named_) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   names_);
    if (result == nullptr) PyErr_Clear();
    return result;
  }

  bool calculates() const noexcept {  // attributes have no rule
    return named_ > 0 || operands_.size() > kNameless || (rule_ != Rule::kMoves && rule_ != Rule::kNone);
  }

  PyObject *callable_, *names_;
  PyTypeObject* type_;
  uint32_t named_, out_;
  Vals operands_;
  Rule rule_;
  Elementwise loop_;
  bool direct_ = false;
};

bool is_of_numpy(PyTypeObject* type) noexcept {
  return type != nullptr && (type == library()->array || is_type_of_scalars(type));
}

// Operators are for all objects: it is one of NumPy where an operand or the result is.
bool is_call(const Trace& trace, const Node& node) {
  if (node.op != Op::kPure || !node.a.is_const() || node.count > kMostOperands || node.adapter_op != nullptr)
    return false;
  bool of_numpy = is_of_numpy(reinterpret_cast<PyTypeObject*>(node.imm));
  for (uint32_t i = 0; i < node.count; ++i) {
    const Val value = trace.operands[node.first + i];
    if (value.is_virtual()) return false;
    if (value.is_reg() && trace.regs[value.index()].rep == Rep::kTensor) return false;
    of_numpy = of_numpy || (value.is_reg() ? is_of_numpy(trace.regs[value.index()].type)
                                           : value.is_const() && is_of_numpy(Py_TYPE(value.object())));
  }
  return of_numpy || is_known_ufunc(node.a.object());
}

}  // namespace

void attach_operations(Trace& trace) {
  find_library();
  if (library() == nullptr) return;
  for (Node& node : trace.nodes) {
    if (!is_call(trace, node)) continue;
    trace.adapter_ops.push_back(std::make_unique<Operation>(trace, node));
    node.adapter_op = trace.adapter_ops.back().get();
  }
}

}  // namespace pijit::numpy
