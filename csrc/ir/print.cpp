// The printer: one line per guard, node, virtual object and snapshot.
#include "ir/print.h"

#include <cstdio>
#include <cstring>

#include "cpython/objects.h"

namespace pijit {

std::string text_of(PyObject* str) {
  const char* text = str == nullptr ? nullptr : PyUnicode_AsUTF8(str);
  if (text != nullptr) return text;
  PyErr_Clear();
  return "?";
}

namespace {

constexpr size_t kLongest = 60;  // of a scalar's repr

std::string shortened(std::string text) {
  if (text.size() > kLongest) text = text.substr(0, kLongest - 3) + "...";
  return text;
}

std::string hex(uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

// Without PyObject_Repr, which lets signal handlers run, as do the digits of a long int: what a handler changes may free
// the objects that are being told about, and its exception would be lost.
Ref quiet_repr(PyObject* object) {
  if (!PyLong_CheckExact(object)) return Ref::steal(Py_TYPE(object)->tp_repr(object));
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return Ref::steal(overflow == 0 ? PyUnicode_FromFormat("%lld", number) : PyNumber_ToBase(object, 16));
}

// The name of the module whose globals a dict has; empty: it is another object.
std::string module_of(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__name__");
  static PyObject* const spec = PyUnicode_InternFromString("__spec__");
  PyObject *found = nullptr, *origin = nullptr;
  if (!PyDict_CheckExact(object) || cpython::dict_lookup_exact(object, spec, &origin) != 1) return "";
  const bool named = cpython::dict_lookup_exact(object, name, &found) == 1 && PyUnicode_Check(found);
  return named ? text_of(found) : "";
}

}  // namespace

bool prints_itself(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type ||
         type == &PyBytes_Type || type == &PyComplex_Type || object == Py_None || object == Py_Ellipsis;
}

std::string describe(PyObject* object) {
  if (object == nullptr) return "nothing";
  if (prints_itself(object)) {
    const Ref text = quiet_repr(object);
    if (!text) PyErr_Clear();
    return shortened(text_of(text.get()));
  }
  if (PyType_Check(object)) return std::string("class ") + reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (PyFunction_Check(object))
    return "function " + text_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  if (PyCFunction_Check(object))
    return std::string("builtin ") + reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name;
  if (PyModule_Check(object)) {
    const char* name = PyModule_GetName(object);
    if (name == nullptr) PyErr_Clear();
    return std::string("module ") + (name == nullptr ? "?" : name);
  }
  if (std::string module = module_of(object); !module.empty()) return "<globals of " + module + ">";
  return std::string("<") + Py_TYPE(object)->tp_name + ">";
}

std::string words(const TensorFacts& facts) {
  std::string text;
  for (int64_t size : facts.sizes)
    text += (text.empty() ? "" : ", ") + (size == TensorFacts::kAnySize ? "*" : std::to_string(size));
  return facts.dtype + "[" + text + "] on " + facts.device;
}

Printer::Printer(const Trace& trace, bool alive, const ObjectSet* proven, PyCodeObject* written)
    : trace_(trace), proven_(proven), sources_(trace, alive, proven, written) {}

std::string Printer::object(PyObject* object) const {
  if (object == nullptr) return "nothing";
  const bool known = sources_.is_known(object);
  if (proven_ != nullptr && !(known && prints_itself(object)))
    if (const Source* found = sources_.of(object)) return sources_.text(*found);
  if (known) return describe(object);
  const PyTypeObject* type = sources_.class_of(object);
  return type != nullptr ? std::string("<") + type->tp_name + ">" : "<an object>";
}

std::string Printer::value(Val value) const {
  switch (value.kind()) {
    case ValueKind::kNull:
      return "-";
    case ValueKind::kConst:
      return object(value.object());
    case ValueKind::kReg:
      return "r" + std::to_string(value.index());
    case ValueKind::kVirtual:
      return "v" + std::to_string(value.index());
  }
  return "?";
}

std::string Printer::source(Val value) const {
  const Source* found = sources_.of(value);
  return found != nullptr ? sources_.text(*found) : this->value(value);
}

std::string Printer::items(const Guard& guard) const {
  std::string text;
  for (uint32_t i = 0; i < guard.count; ++i) {
    if (i == 12) return text + ", ... " + std::to_string(guard.count - i) + " more";
    text += (i == 0 ? "" : ", ") + object(trace_.guard_items[guard.first + i]);
  }
  return text;
}

std::string Printer::guard(const Guard& guard) const {
  std::string text = guard.out == kNone ? "" : "r" + std::to_string(guard.out) + " = ";
  const std::string place = sources_.place(guard);
  const bool is_member = place != source(guard.subject) && guard.op != GuardOp::kNoAttribute;
  text += std::string(guard_name(guard.op)) + " " + (is_member ? place : source(guard.subject));
  const GuardRow& row = row_of(guard.op);
  if (row.aux == column::GuardAux::index) return guard.count == 0 ? text : text + " is " + items(guard);
  if (guard.expected != nullptr) text += " is " + object(guard.expected);
  if (row.number == column::Number::offset) return text;
  if (row.number == column::Number::register_) return text + " r" + std::to_string(guard.number);
  if (row.number == column::Number::size || row.number == column::Number::index)
    text += " " + std::to_string(guard.number);
  return guard.count == 0 ? text : text + " {" + items(guard) + "}";
}

// "r5 + 1"
std::string Printer::scalar(const Node& node) const {
  constexpr struct {
    const char* name;
    int arity;
  } kRows[] = {
#define PIJIT_SCALAR(name, print, function, arity) {print, arity},
#include "ir/scalars.def"
#undef PIJIT_SCALAR
  };
  double number = 0;
  std::memcpy(&number, &node.imm, sizeof number);
  const std::string constant = node.rep == Rep::kFloat  ? std::to_string(number)
                               : node.rep == Rep::kBool ? (node.imm != 0 ? "True" : "False")
                                                        : std::to_string(static_cast<int64_t>(node.imm));
  const auto& row = kRows[node.aux];
  const std::string first = node.a.is_null() ? constant : value(node.a);
  if (row.arity == 1) return std::string(row.name) + " " + first;
  return first + " " + row.name + " " + (node.b.is_null() ? constant : value(node.b));
}

std::string Printer::node(const Node& node) const {
  std::string text;
  if (node.out != kNone) text += "r" + std::to_string(node.out);
  for (uint32_t i = 0; i < node.outs_count; ++i)
    text += (text.empty() ? "r" : ", r") + std::to_string(trace_.outs[node.outs_first + i]);
  if (!text.empty()) text += " = ";
  if (is_operation(node)) {
    text += python_call(node.adapter_op->call(), [](uint32_t reg) { return "r" + std::to_string(reg); });
  } else if (node.op == Op::kScalar) {
    text += scalar(node);
  } else {
    text += op_name(node.op);
    for (Val operand : {node.a, node.b, node.c})
      if (!operand.is_null()) text += " " + value(operand);
    for (uint32_t i = 0; i < node.count; ++i) text += (i == 0 ? " (" : ", ") + value(trace_.operands[node.first + i]);
    if (node.count != 0) text += ")";
    if (node.op == Op::kEpoch) text += " " + std::to_string(trace_.epochs[node.aux].count) + " guards";
    if (row_of(node.op).aux == column::Aux::level) text += " level " + std::to_string(node.aux);
    if (node.op == Op::kRegion) text += node.imm != 0 ? " begins" : " ends";
    if (node.op == Op::kGuardBool) text += node.imm != 0 ? " True" : " False";
    if (node.op == Op::kGuardInt) text += " " + std::to_string(static_cast<int64_t>(node.imm));
    if (node.op == Op::kGuardFloat) text += " bits " + hex(node.imm);
  }
  if (node.snapshot != kNone) text += "  ~s" + std::to_string(node.snapshot);
  return text;
}

std::string Printer::virtual_object(uint32_t index) const {
  const Virtual& object = trace_.virtuals[index];
  std::string text =
      "v" + std::to_string(index) + " = " + virtual_name(object.kind) + " @" + std::to_string(object.birth);
  if (object.reg != kNone) text += " in r" + std::to_string(object.reg) + " from @" + std::to_string(object.reg_time);
  for (uint32_t at = object.head; at != kNone; at = trace_.log[at].next) {
    const LogEntry& entry = trace_.log[at];
    text += std::string("; @") + std::to_string(entry.time) + " " + log_name(entry.op);
    if (entry.op == LogOp::kFrame && entry.index == kNone) {
      text += " running";
    } else if (entry.op == LogOp::kFrame) {
      text += frame(trace_.frame_states[entry.index]);
    }
    if (entry.op == LogOp::kField || entry.op == LogOp::kIndex || entry.op == LogOp::kTraced)
      text += " " + std::to_string(entry.index);
    if (!entry.key.is_null()) text += " " + value(entry.key);
    if (!entry.value.is_null() || entry.op == LogOp::kField) text += " " + value(entry.value);
  }
  return text;
}

std::string Printer::frame(const FrameState& state) const {
  std::string text = text_of(state.code->co_qualname) + " at " + std::to_string(state.resume) + " (";
  for (uint32_t i = 0; i < state.locals; ++i) text += (i == 0 ? "" : ", ") + value(trace_.slots[state.first + i]);
  text += " | ";
  for (uint32_t i = 0; i < state.stack; ++i)
    text += (i == 0 ? "" : ", ") + value(trace_.slots[state.first + state.locals + i]);
  return text + ")";
}

std::string Printer::snapshot(uint32_t index) const {
  const Snapshot& taken = trace_.snapshots[index];
  std::string text = "s" + std::to_string(index) + " @" + std::to_string(taken.time);
  for (uint32_t at = taken.frame; at != kNone; at = trace_.frame_states[at].parent) {
    const FrameState& state = trace_.frame_states[at];
    text += "\n    " + frame(state);
  }
  return text;
}

std::string Printer::site(uint32_t index) const {
  if (index >= trace_.sites.size() || trace_.sites[index].code == nullptr) return "";
  const Site& site = trace_.sites[index];
  const int line = PyCode_Addr2Line(site.code, site.instruction * 2);
  return text_of(site.code->co_filename) + ":" + std::to_string(line) + " in " + text_of(site.code->co_qualname);
}

std::string Printer::tensor_input(const InputGuards& inputs, size_t index) const {
  const TensorFacts facts = inputs.facts(index);
  const Val from = inputs.source(index);
  return "r" + std::to_string(inputs.register_of(index)) + " = " + facts.type->tp_name + " " +
         (from.is_const() ? "constant" : value(from)) + ": " + words(facts);
}

std::string Printer::all() const {
  std::string text = "guards\n";
  if (trace_.state != nullptr) text += "  state " + trace_.state->describe() + "\n";
  for (const Guard& guard : trace_.guards) text += "  " + this->guard(guard) + "\n";
  for (size_t i = 0; trace_.tensors != nullptr && i < trace_.tensors->size(); ++i)
    text += "  tensor " + tensor_input(*trace_.tensors, i) + "\n";
  text += "registers\n ";
  for (const RegInfo& info : trace_.regs) text += std::string(" ") + rep_name(info.rep);
  text += "\nnodes\n";
  for (const Node& node : trace_.nodes) text += "  " + this->node(node) + "\n";
  text += "virtual objects\n";
  for (uint32_t i = 0; i < trace_.virtuals.size(); ++i) text += "  " + virtual_object(i) + "\n";
  text += "snapshots\n";
  for (uint32_t i = 0; i < trace_.snapshots.size(); ++i) text += "  " + snapshot(i) + "\n";
  return text;
}

std::string print_trace(const Trace& trace, bool alive) {
  return Printer(trace, alive).all();
}

}  // namespace pijit
