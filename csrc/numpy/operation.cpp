// One call of NumPy in a replay.
#include "numpy/operation.h"

#include <cstring>
#include <optional>

#include "ir/call.h"
#include "ir/scalars.h"
#include "numpy/errors.h"
#include "numpy/items.h"
#include "numpy/library.h"
#include "numpy/loops.h"
#include "numpy/reductions.h"

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
        loop_(callable_),
        reduction_(callable_, names_, operands_.size()),
        items_(callable_, operands_.size()),
        into_(destination_of(callable_, names_, operands_.size())) {
    const bool last = into_ >= 0 && static_cast<size_t>(into_) + 1 == operands_.size() && named_ <= 1;
    const size_t inputs = last && rule_ != Rule::kWrites ? operands_.size() - 1 : operands_.size();
    direct_ = loop_.is_known() && (named_ == 0 || inputs != operands_.size()) && inputs == loop_.inputs();
    draws_ = rule_ == Rule::kDraws;
    if (into_ >= 0) {
      const Val into = operands_[static_cast<size_t>(into_)];
      writes_ = !(into == Val::constant(Py_None)) && !(into == Val::constant(Py_Ellipsis));
    }
  }

  bool run(Reg* regs) noexcept override {
    PyObject* room[kMostOperands + 1];  // the slot before the first is free, as vectorcall wants it
    PyObject** operands = room + 1;
    Ref made[kMostOperands];
    if (!operands_of(operands_, regs, operands, made)) return false;
    PyObject* result = nullptr;
    if (writes_ && is_array(operands[into_])) {
      result = write(operands);
    } else {
      result = compute(operands);
      if (result == nullptr) result = call(operands);
    }
    if (result == nullptr) return false;
    if (Py_TYPE(result) != type_ && is_repeatable()) return drop_reference(result), false;
    regs[out_].object = result;
    regs[out_].rep = Rep::kObject;
    regs[out_].owned = 1;
    return true;
  }
  bool is_repeatable() const noexcept override { return !writes_ && !draws_; }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "numpy::call";
    return made;
  }
  bool keep(Words&) const override { return false; }

 private:
  // Without NumPy. Null: it is to be called.
  PyObject* compute(PyObject* const* operands) const noexcept {
    if (direct_) return loop_.run(operands);
    if (items_.reads()) return items_.get(operands[0], operands[1]);
    return reduction_.is_known() ? reduction_.run(operands) : nullptr;
  }

  // What is computed is written; null: nothing has been.
  PyObject* write(PyObject** operands) const noexcept {
    PyObject* into = operands[into_];
    if ((as_array(into)->flags & kWriteable) == 0) return nullptr;
    if (items_.writes() && items_.set(into, operands[1], operands[2])) return new_reference(Py_None);
    if (direct_) {
      const Ref made = Ref::steal(loop_.run(operands));
      if (made && take_content(into, made.get())) return new_reference(into);
    }
    for (size_t i = 0; i < operands_.size(); ++i)
      if (!makes_no_complex_real(into, operands[i])) return nullptr;
    // An error of an element is found when others have been written.
    const Ref before = may_fail_late(operands) ? Ref::steal(PyObject_CallMethod(into, "copy", nullptr)) : Ref();
    if (!before && may_fail_late(operands)) return PyErr_Clear(), nullptr;
    PyObject* result = call(operands);
    if (result == nullptr && before && PyObject_SetItem(into, Py_Ellipsis, before.get()) != 0) PyErr_Clear();
    return result;
  }

  // Numbers are put where such numbers are: what is raised is raised before the first.
  bool may_fail_late(PyObject* const* operands) const noexcept {
    if (rule_ != Rule::kWrites || into_ != 0) return true;
    if (is_sort()) return false;
    if (!is_store() || operands_.empty()) return true;
    PyObject* value = operands[operands_.size() - 1];
    const int dtype = as_array(operands[0])->descr->type_num;
    if (is_array(value)) return as_array(value)->descr->type_num != dtype;
    if (PyFloat_CheckExact(value)) return dtype != kDouble;
    return !PyLong_CheckExact(value) || (dtype != kDouble && dtype != kLong);
  }
  bool is_store() const noexcept { return is_named("setitem") || is_named("fill") || is_named("copyto"); }
  bool is_sort() const noexcept { return is_named("sort"); }
  bool is_named(const char* name) const noexcept {
    if (PyCFunction_CheckExact(callable_))
      return std::strcmp(reinterpret_cast<PyCFunctionObject*>(callable_)->m_ml->ml_name, name) == 0;
    return Py_TYPE(callable_) == &PyMethodDescr_Type &&
           std::strcmp(reinterpret_cast<PyMethodDescrObject*>(callable_)->d_method->ml_name, name) == 0;
  }
  static bool makes_no_complex_real(PyObject* into, PyObject* operand) noexcept {
    const auto is_complex = [](PyObject* object) {
      if (PyComplex_CheckExact(object)) return true;
      if (is_array(object)) return as_array(object)->descr->kind == 'c';
      return is_scalar(object) && PyType_IsSubtype(Py_TYPE(object), library()->complex) != 0;
    };
    return is_complex(into) || !is_complex(operand);
  }

  // As the program would call it. Null, and no error is set: not with these operands, or it raised.
  PyObject* call(PyObject** operands) const noexcept {
    for (size_t i = draws_ ? 1 : 0; i < operands_.size(); ++i)
      if (!is_plain(operands[i])) return nullptr;
    if (draws_ && !is_generator(operands[0])) return nullptr;
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
    if (draws_) return false;
    return named_ > 0 || operands_.size() > kNameless || (rule_ != Rule::kMoves && rule_ != Rule::kNone);
  }

  PyObject *callable_, *names_;
  PyTypeObject* type_;
  uint32_t named_, out_;
  Vals operands_;
  Rule rule_;
  Elementwise loop_;
  Reduction reduction_;
  Items items_;
  int into_;  // the operand that is written to, if it is an array; -1: none
  bool direct_ = false, writes_ = false, draws_ = false;
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

void attach_write(Trace& trace, Node& node) {
  trace.adapter_ops.push_back(std::make_unique<Operation>(trace, node));
  node.adapter_op = trace.adapter_ops.back().get();
}

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
