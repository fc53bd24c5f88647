// The form of an array is its dtype, sizes and strides, and that of a number its class.
//
// Code warns of nothing. Where the program has floating point errors raise, or asks to be called, it does not answer.
#include "numpy/plan_key.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ir/scalars.h"
#include "numpy/errors.h"
#include "numpy/library.h"

namespace pijit::numpy {
namespace {

constexpr const char* kComputing[] = {"add", "and_", "floordiv", "matmul", "mod", "mul",    "or_", "pow",
                                      "sub", "lt",   "truediv",  "xor",    "le",  "eq",     "ne",  "gt",
                                      "ge",  "neg",  "invert",   "where",  "dot", "reduce", "sum", "mean"};

bool is_computing(PyObject* callable) noexcept {
  if (is_known_ufunc(callable)) return true;
  const char* name = nullptr;
  if (PyCFunction_CheckExact(callable)) name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (Py_TYPE(callable) == &PyMethodDescr_Type)
    name = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
  return name != nullptr && known_callable(callable).rule != Rule::kNone &&
         std::any_of(std::begin(kComputing), std::end(kComputing),
                     [&](const char* each) { return std::strcmp(each, name) == 0; });
}

struct Form {
  PyTypeObject* type = nullptr;
  int dtype = 0;
  std::vector<Py_ssize_t> sizes, strides;

  explicit Form(PyObject* object) : type(Py_TYPE(object)) {
    if (type != library()->array) return;
    const Array* array = as_array(object);
    dtype = array->descr->type_num;
    sizes.assign(array->sizes, array->sizes + array->nd);
    strides.assign(array->strides, array->strides + array->nd);
  }
  bool matches(const Reg& reg) const noexcept {
    if (reg.rep != Rep::kObject || Py_TYPE(reg.object) != type) return false;
    return type != library()->array || matches_array(reg.object);
  }
  bool matches_array(PyObject* object) const noexcept {
    const Array* array = as_array(object);
    return is_array(object) && array->descr->type_num == dtype && static_cast<size_t>(array->nd) == sizes.size() &&
           std::equal(sizes.begin(), sizes.end(), array->sizes) &&
           std::equal(strides.begin(), strides.end(), array->strides) && is_usual(array);
  }
  // What frameworks take without a copy.
  static bool is_usual(const Array* array) noexcept {
    const bool forward =
        std::all_of(array->strides, array->strides + array->nd, [](Py_ssize_t step) { return step >= 0; });
    return forward && (array->flags & kWriteable) != 0 && (array->flags & kAligned) != 0;
  }
  std::string describe() const {
    std::string text = type == library()->array ? "array" : type->tp_name;
    if (type != library()->array) return text;
    text += ' ' + std::to_string(dtype) + '[';
    for (Py_ssize_t size : sizes) text += (text.back() == '[' ? "" : ", ") + std::to_string(size);
    return text + ']';
  }
};

class ArrayKey final : public PlanKey {
 public:
  ArrayKey(const PlanRegisters& registers, const Reg* regs) : free_at_(registers.free), numbers_at_(registers.numbers) {
    for (uint32_t reg : free_at_) free_.emplace_back(regs[reg].object);
    for (uint32_t reg : numbers_at_) numbers_.push_back(regs[reg]);
    outputs_at_ = registers.outputs;
  }
  Match match(const Reg* regs) noexcept override {
    for (size_t i = 0; i < free_.size(); ++i)
      if (!free_[i].matches(regs[free_at_[i]])) return Match::kNo;
    for (size_t i = 0; i < numbers_.size(); ++i)
      if (!same_number(regs[numbers_at_[i]], numbers_[i])) return Match::kNo;
    return answers_errors() ? Match::kNo : Match::kYes;
  }
  Match match_bound(const Reg*) noexcept override { return Match::kYes; }
  void note_outputs(const Reg* regs) override {
    for (uint32_t reg : outputs_at_) outputs_.emplace_back(regs[reg].object);
  }
  void refresh(const Reg*) noexcept override {}
  bool take(size_t output, PyObject* made, Reg* regs) noexcept override {
    Reg now;
    now.rep = Rep::kObject;
    now.object = made;
    if (output >= outputs_.size() || !outputs_[output].matches(now)) return false;
    Reg& reg = regs[outputs_at_[output]];
    reg.object = new_reference(made);
    reg.rep = Rep::kObject;
    reg.owned = 1;
    return true;
  }
  std::string describe() const override {
    std::string text;
    for (const Form& form : free_) text += (text.empty() ? "" : "; ") + form.describe();
    return text;
  }

 private:
  Vec<uint32_t> free_at_, numbers_at_, outputs_at_;
  std::vector<Form> free_, outputs_;
  std::vector<Reg> numbers_;
};

}  // namespace

bool is_kind(const RegInfo& reg) noexcept {
  return reg.rep == Rep::kObject && reg.type != nullptr && library() != nullptr &&
         (reg.type == library()->array || is_type_of_scalars(reg.type));
}

bool computes_anew(const Trace& trace, const Node& node) noexcept {
  if (node.op != Op::kPure || node.adapter_op == nullptr || !node.adapter_op->is_repeatable() || library() == nullptr)
    return false;
  if (node.out == kNone || !is_kind(trace.regs[node.out]) || !is_computing(node.a.object())) return false;
  for (uint32_t i = 0; i < node.count; ++i) {
    const Val value = trace.operands[node.first + i];
    if (value.is_virtual()) return false;
    if (value.is_const() ? Py_TYPE(value.object()) == library()->array
                         : !is_kind(trace.regs[value.index()]) && !is_number(trace.regs[value.index()].rep))
      return false;
  }
  return true;
}

std::unique_ptr<PlanKey> make_key(const PlanRegisters& registers, const Reg* regs) noexcept {
  try {
    if (!registers.bound.empty() || answers_errors()) return nullptr;
    for (uint32_t reg : registers.free) {
      if (regs[reg].rep != Rep::kObject) return nullptr;
      PyObject* object = regs[reg].object;
      if (!is_scalar(object) && !(is_array(object) && Form::is_usual(as_array(object)))) return nullptr;
    }
    return std::make_unique<ArrayKey>(registers, regs);
  } catch (const std::exception&) {
    return nullptr;
  }
}

Ref copy_of(PyObject* object) noexcept {
  if (!is_array(object)) return Ref::borrow(object);
  return Ref::steal(PyObject_CallMethod(object, "copy", "s", "K"));
}

}  // namespace pijit::numpy
