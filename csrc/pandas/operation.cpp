// One call of pandas in a replay.
#include "pandas/operation.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cpython/frame.h"
#include "ir/call.h"
#include "ir/scalars.h"
#include "pandas/library.h"
#include "pandas/warnings.h"

namespace pijit::pandas {
namespace {

constexpr size_t kMostOperands = 24;

// What the node that makes it promises, for behind foreign code the type of a register is guarded at each use.
bool is_derived(const Trace& trace, Val value) {
  return value.is_reg() && std::any_of(trace.nodes.begin(), trace.nodes.end(), [&](const Node& node) {
           return node.op == Op::kPure && node.out == value.index() &&
                  kind_of(reinterpret_cast<PyTypeObject*>(node.imm)) == Kind::kDerived;
         });
}

// For its life CPython calls functions of Python in its own, quicker way: nothing in such a call is for the hook. With other
// threads it stays, for they may record.
class WithoutHook {
 public:
  WithoutHook() noexcept : ts_(PyThreadState_Get()), hook_(cpython::get_eval_frame(ts_)) {
    alone_ = PyThreadState_Next(PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(ts_))) == nullptr;
    if (alone_) cpython::set_eval_frame(ts_, cpython::default_eval_frame());
  }
  ~WithoutHook() {
    if (alone_) cpython::set_eval_frame(ts_, hook_);
  }
  WithoutHook(const WithoutHook&) = delete;
  WithoutHook& operator=(const WithoutHook&) = delete;

 private:
  PyThreadState* ts_;
  cpython::FrameEval hook_;
  bool alone_;
};

class Operation final : public AdapterOp {
 public:
  Operation(const Trace& trace, const Node& node)
      : callable_(node.a.object()),
        names_(node.b.object()),
        shortcut_(shortcut_of(callable_)),
        type_(reinterpret_cast<PyTypeObject*>(node.imm)),
        named_(node.aux),
        out_(node.out),
        operands_(trace.operands.begin() + node.first, trace.operands.begin() + node.first + node.count) {
    for (Val value : operands_) derived_.push_back(is_derived(trace, value));
  }

  bool run(Reg* regs) noexcept override {
    PyObject* room[kMostOperands + 1];  // the slot before the first is free, as vectorcall wants it
    PyObject** operands = room + 1;
    Ref made[kMostOperands];
    if (!operands_of(operands_, regs, operands, made)) return false;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (!(derived_[i] ? kind_of(Py_TYPE(operands[i])) == Kind::kDerived : is_plain(operands[i]))) return false;
    PyObject* result = call(operands);
    if (result == nullptr) return PyErr_Clear(), false;
    if (Py_TYPE(result) != type_) return drop_reference(result), false;
    regs[out_].object = result;
    regs[out_].rep = Rep::kObject;
    regs[out_].owned = 1;
    return true;
  }
  bool is_repeatable() const noexcept override { return true; }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "pandas::call";
    return made;
  }
  bool keep(Words&) const override { return false; }

 private:
  PyObject* call(PyObject** operands) const noexcept {
    const size_t count = (operands_.size() - named_) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    const StrictWarnings strict;
    const WithoutHook without;
    if (strict.failed()) return nullptr;
    if (shortcut_ != nullptr) {
      PyObject* result = PyObject_Vectorcall(shortcut_, operands, count, names_);
      if (result != Py_NotImplemented && result != nullptr) return result;
      drop_reference(result);
      PyErr_Clear();
    }
    return PyObject_Vectorcall(callable_, operands, count, names_);
  }

  PyObject *callable_, *names_, *shortcut_;
  PyTypeObject* type_;
  uint32_t named_, out_;
  Vals operands_;
  std::vector<bool> derived_;
};

bool is_class_of_pandas(const void* type) noexcept {
  return kind_of(static_cast<PyTypeObject*>(const_cast<void*>(type))) != Kind::kNone;
}

// The registers that hold objects of pandas: their type is known, promised by a node, or guarded.
std::vector<bool> registers_of_pandas(const Trace& trace) {
  std::vector<bool> known(trace.regs.size());
  for (size_t i = 0; i < trace.regs.size(); ++i) known[i] = is_class_of_pandas(trace.regs[i].type);
  for (const Guard& guard : trace.guards)
    if (guard.op == GuardOp::kType && guard.subject.is_reg() && is_class_of_pandas(guard.expected))
      known[guard.subject.index()] = true;
  for (const Node& node : trace.nodes) {
    if (node.op == Op::kPure && is_class_of_pandas(reinterpret_cast<PyTypeObject*>(node.imm))) known[node.out] = true;
    if (node.op == Op::kGuardType && node.a.is_reg() && is_class_of_pandas(node.b.object()))
      known[node.a.index()] = true;
  }
  return known;
}

// Operators are for all objects: it is one of pandas where an operand or the result is.
bool is_call(const Trace& trace, const Node& node, const std::vector<bool>& known) {
  if (node.op != Op::kPure || !node.a.is_const() || node.count > kMostOperands || node.adapter_op != nullptr)
    return false;
  bool of_pandas = is_of_pandas(node.a.object()) || makes_frames(node.a.object()) || known[node.out];
  for (uint32_t i = 0; i < node.count; ++i) {
    const Val value = trace.operands[node.first + i];
    if (value.is_virtual() || (value.is_reg() && trace.regs[value.index()].rep == Rep::kTensor)) return false;
    of_pandas = of_pandas || (value.is_reg() ? known[value.index()] : is_class_of_pandas(Py_TYPE(value.object())));
  }
  return of_pandas;
}

}  // namespace

void attach_operations(Trace& trace) {
  if (!is_loaded()) return;
  const std::vector<bool> known = registers_of_pandas(trace);
  for (Node& node : trace.nodes) {
    if (!is_call(trace, node, known)) continue;
    trace.adapter_ops.push_back(std::make_unique<Operation>(trace, node));
    node.adapter_op = trace.adapter_ops.back().get();
  }
}

}  // namespace pijit::pandas
