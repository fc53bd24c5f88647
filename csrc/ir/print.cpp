// The printer: one line per guard, node, virtual object and snapshot.
#include "ir/print.h"

#include <cstdio>
#include <cstring>

namespace pijit {

namespace {

constexpr size_t kLongest = 60;  // of a scalar's repr

std::string text_of(PyObject* str) {
  const char* text = str == nullptr ? nullptr : PyUnicode_AsUTF8(str);
  if (text != nullptr) return text;
  PyErr_Clear();
  return "?";
}

std::string shortened(std::string text) {
  if (text.size() > kLongest) text = text.substr(0, kLongest - 3) + "...";
  return text;
}

std::string hex(uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

const char* rep_name(Rep rep) {
  constexpr const char* names[] = {"empty", "object", "tensor", "int", "float", "bool"};
  return names[static_cast<size_t>(rep)];
}

const char* log_name(LogOp op) {
  constexpr const char* names[] = {"append",  "set",   "del",   "insert", "clear", "setattr",
                                   "delattr", "field", "index", "frame",  "traced"};
  return names[static_cast<size_t>(op)];
}

bool is_identifier(PyObject* object) {
  return PyUnicode_CheckExact(object) && PyUnicode_IsIdentifier(object) == 1;
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
    Ref text = Ref::steal(PyObject_Repr(object));
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
  return std::string("<") + Py_TYPE(object)->tp_name + ">";
}

Printer::Printer(const Trace& trace, bool alive, const ObjectSet* proven)
    : trace_(trace), alive_(alive), proven_(proven) {
  for (const Ref& object : trace.owned) owned_.insert(object.get());
  find_sources();
}

bool Printer::is_known(PyObject* object) const {
  return alive_ || owned_.count(object) != 0 || object == Py_None || object == Py_True || object == Py_False ||
         object == Py_Ellipsis || (proven_ != nullptr && proven_->count(object) != 0);
}

std::string Printer::object(PyObject* object) const {
  if (object == nullptr) return "nothing";
  if (proven_ != nullptr && !(is_known(object) && prints_itself(object)))
    if (auto found = names_.find(object); found != names_.end()) return found->second;
  if (!is_known(object)) return "<object at " + hex(reinterpret_cast<uintptr_t>(object)) + ">";
  return describe(object);
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
  if (value.is_reg()) {
    auto found = registers_.find(value.index());
    if (found != registers_.end()) return found->second;
  } else if (value.is_const()) {
    auto found = names_.find(value.object());
    if (found != names_.end()) return found->second;
  }
  return this->value(value);
}

void Printer::name_item(PyObject* object, std::string text) {
  if (object != nullptr && is_known(object) && prints_itself(object)) return;
  if (object != nullptr) names_.emplace(object, std::move(text));
}

// The variables that a function has from around it.
void Printer::name_cells(PyObject* function) {
  if (function == nullptr || proven_ == nullptr || !is_known(function) || !PyFunction_Check(function)) return;
  auto* of = reinterpret_cast<PyFunctionObject*>(function);
  if (of->func_closure == nullptr) return;
  auto* code = reinterpret_cast<PyCodeObject*>(of->func_code);
  const Py_ssize_t first = code->co_nlocalsplus - code->co_nfreevars;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(of->func_closure) && first + i < code->co_nlocalsplus; ++i)
    cells_.emplace(PyTuple_GET_ITEM(of->func_closure, i),
                   text_of(PyTuple_GET_ITEM(code->co_localsplusnames, first + i)));
}

// A dict that is guarded as a whole names all that it holds now.
void Printer::name_all(PyObject* dict, const std::string& subject, const std::string* owner) {
  if (proven_ == nullptr || dict == nullptr || !is_known(dict) || !PyDict_Check(dict)) return;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value)) {
    if (!PyUnicode_CheckExact(key)) continue;
    if (owner != nullptr && is_identifier(key))
      name_item(value, *owner + "." + text_of(key));
    else
      name_item(value, subject + "[" + describe(key) + "]");
  }
}

// Follows the guards from the arguments inwards: each container that is guarded names what was found in it.
void Printer::find_sources() {
  auto* code = reinterpret_cast<PyCodeObject*>(trace_.code.get());
  for (uint32_t i = 0; code != nullptr && i < trace_.inputs; ++i)
    registers_.emplace(i, text_of(PyTuple_GET_ITEM(code->co_localsplusnames, i)));
  if (proven_ != nullptr)
    for (PyObject* object : *proven_)
      if (PyFunction_Check(object) && reinterpret_cast<PyFunctionObject*>(object)->func_code == trace_.code.get())
        name_cells(object);
  std::unordered_map<PyObject*, std::string> owners;  // dict -> the object whose attributes it holds
  for (const Guard& guard : trace_.guards) {
    const std::string subject = source(guard.subject);
    const auto item = [&](uint32_t i) { return trace_.guard_items[guard.first + i]; };
    switch (guard.op) {
      case GuardOp::kInstance:
        if (guard.number != 0) owners.emplace(reinterpret_cast<PyObject*>(guard.number), subject);
        break;
      case GuardOp::kDict: {
        auto owner = owners.find(guard.subject.object());
        if (guard.count == 0 && (owner != owners.end() || names_.count(guard.subject.object()) != 0))
          name_all(guard.subject.object(), subject, owner == owners.end() ? nullptr : &owner->second);
        const bool named = names_.count(guard.subject.object()) != 0;
        for (uint32_t i = 0; i + 1 < guard.count; i += 2) {
          if (owned_.count(item(i)) == 0) continue;
          const bool word = is_identifier(item(i));
          if (owner != owners.end() && word) {
            name_item(item(i + 1), owner->second + "." + text_of(item(i)));
          } else if (word && !named && guard.subject.is_const()) {
            name_item(item(i + 1), text_of(item(i)));  // a global
          } else {
            name_item(item(i + 1), subject + "[" + object(item(i)) + "]");
          }
        }
        break;
      }
      case GuardOp::kInlineSlot:
        name_item(item(0), subject + ".<slot " + std::to_string(guard.aux) + ">");
        break;
      case GuardOp::kList:
        for (uint32_t i = 0; i < guard.count; ++i) name_item(item(i), subject + "[" + std::to_string(i) + "]");
        break;
      case GuardOp::kParts:
        if (auto* const type = reinterpret_cast<PyTypeObject*>(guard.expected); type == &PyMethod_Type) {
          name_item(item(0), subject + ".__func__");
          name_item(item(1), subject + ".__self__");
        } else if (type == &PyTuple_Type || (alive_ && PyType_FastSubclass(type, Py_TPFLAGS_TUPLE_SUBCLASS))) {
          for (uint32_t i = 0; i < guard.count; ++i) name_item(item(i), subject + "[" + std::to_string(i) + "]");
        }
        break;
      case GuardOp::kFunction:
        name_cells(guard.subject.object());
        break;
      case GuardOp::kCell: {
        auto cell = cells_.find(guard.subject.object());
        name_item(guard.expected, cell != cells_.end() ? cell->second : subject + ".cell_contents");
        break;
      }
      case GuardOp::kContextVar:
        name_item(guard.expected, subject + ".get()");
        break;
      case GuardOp::kIs:
        if (guard.subject.is_reg()) name_item(guard.expected, subject);
        break;
      case GuardOp::kLoadSelf:
        registers_.emplace(guard.out, subject);
        break;
      case GuardOp::kLoadTupleItem:
      case GuardOp::kLoadListItem:
        registers_.emplace(guard.out, subject + "[" + std::to_string(guard.number) + "]");
        break;
      case GuardOp::kLoadCell:
        registers_.emplace(guard.out, subject + ".cell_contents");
        break;
      case GuardOp::kLoadSlot:
        registers_.emplace(guard.out, subject + ".<offset " + std::to_string(guard.number) + ">");
        break;
      case GuardOp::kLoadInline:
        registers_.emplace(guard.out, subject + ".<slot " + std::to_string(guard.aux) + ">");
        break;
      case GuardOp::kLoadDictItem:
        if (auto owner = owners.find(guard.subject.object()); owner != owners.end() && is_identifier(guard.expected))
          registers_.emplace(guard.out, owner->second + "." + text_of(guard.expected));
        else
          registers_.emplace(guard.out, subject + "[" + object(guard.expected) + "]");
        break;
      case GuardOp::kLoadDictKeyAt:
        registers_.emplace(guard.out, "list(" + subject + ")[" + std::to_string(guard.number) + "]");
        break;
      case GuardOp::kLoadDictValueAt:
        registers_.emplace(guard.out, "list(" + subject + ".values())[" + std::to_string(guard.number) + "]");
        break;
      default:
        break;
    }
  }
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
  text += std::string(guard_name(guard.op)) + " " + source(guard.subject);
  if (guard.expected != nullptr) text += " is " + object(guard.expected);
  switch (guard.op) {
    case GuardOp::kSame:
    case GuardOp::kNotSame:
      return text + " r" + std::to_string(guard.number);
    case GuardOp::kInlineSlot:
      return text + " slot " + std::to_string(guard.aux) + " is " + items(guard);
    case GuardOp::kTupleSize:
    case GuardOp::kListSize:
    case GuardOp::kDictSize:
    case GuardOp::kSlot:
    case GuardOp::kLoadTupleItem:
    case GuardOp::kLoadListItem:
    case GuardOp::kLoadDictKeyAt:
    case GuardOp::kLoadDictValueAt:
    case GuardOp::kRecursionLimit:
      text += " " + std::to_string(guard.number);
      break;
    default:
      break;
  }
  return guard.count == 0 ? text : text + " {" + items(guard) + "}";
}

// "r5 + 1"
std::string Printer::scalar(const Node& node) const {
  constexpr struct {
    const char* name;
    int arity;
  } kRows[] = {
#define PIJIT_SCALAR(name, print, arity) {print, arity},
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
  if (node.adapter_op != nullptr) {
    text += node.adapter_op->describe();
  } else if (node.op == Op::kGuard) {
    text += "guard " + guard(trace_.guards[node.aux]);
  } else if (node.op == Op::kScalar) {
    text += scalar(node);
  } else {
    text += op_name(node.op);
    for (Val operand : {node.a, node.b, node.c})
      if (!operand.is_null()) text += " " + value(operand);
    for (uint32_t i = 0; i < node.count; ++i) text += (i == 0 ? " (" : ", ") + value(trace_.operands[node.first + i]);
    if (node.count != 0) text += ")";
    if (node.op == Op::kEpoch) text += " " + std::to_string(trace_.epochs[node.aux].count) + " guards";
    if (node.op == Op::kRun || node.op == Op::kRunRaise) text += " level " + std::to_string(node.aux);
    if (node.op == Op::kGuardBool) text += node.aux != 0 ? " True" : " False";
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

std::string Printer::all() const {
  std::string text = "guards\n";
  if (trace_.state != nullptr) text += "  state " + trace_.state->describe() + "\n";
  for (const Guard& guard : trace_.guards) text += "  " + this->guard(guard) + "\n";
  for (size_t i = 0; trace_.tensors != nullptr && i < trace_.tensors->size(); ++i)
    text += "  tensor " + trace_.tensors->describe(i) + "\n";
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
