// Nodes as Python.
#include "ir/python.h"

#include <cstring>

namespace pijit {
namespace {

constexpr int kDeepest = 6;  // of objects in objects
// Begins the name of a register; arguments of the program seldom have it.
const std::string kRegister = "r";

bool is_name(const std::string& text) {
  for (char letter : text)
    if (!(isalnum(static_cast<unsigned char>(letter)) || letter == '_')) return false;
  return !text.empty() && !isdigit(static_cast<unsigned char>(text[0]));
}

// It was made by a `class` statement, and may be called with other arguments than its base.
bool is_written(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0;
}

// "torch.Size" of a class of C, the last part of the name of any other.
std::string class_name(const Printer& printer, PyTypeObject* type) {
  std::string text = printer.python(reinterpret_cast<PyObject*>(type));
  return text;
}

std::string operator_text(ScalarOp op) {
  constexpr const char* kNames[] = {
#define PIJIT_SCALAR(name, print, function, arity) print,
#include "ir/scalars.def"
#undef PIJIT_SCALAR
  };
  return kNames[static_cast<size_t>(op)];
}

}  // namespace

PythonText::PythonText(const Trace& trace, const Printer& printer) : trace_(trace), printer_(printer) {
  names_.reserve(trace.regs.size());
  for (size_t i = 0; i < trace.regs.size(); ++i) names_.push_back(kRegister + std::to_string(i));
  name_inputs();
}

// Arguments have their names; a tensor that is a constant of the trace has the expression that leads to it.
void PythonText::name_inputs() {
  for (uint32_t i = 0; i < trace_.inputs && i < names_.size(); ++i) names_[i] = printer_.source(Val::reg(i));
  const auto load = [&](uint32_t out, Val from, const std::string& facts) {
    const std::string source = from.is_const() ? value(from, 0) : printer_.source(from);
    const bool inlined = from.is_const() || is_name(source);
    if (inlined) names_[out] = source;
    loaded_.push_back({names_[out], source, facts, from.is_const()});
  };
  for (size_t i = 0; i < trace_.entry_guards(); ++i) {
    const Guard& guard = trace_.guards[i];
    if (guard.out != kNone) loaded_.push_back({names_[guard.out], printer_.source(Val::reg(guard.out)), "", false});
  }
  for (size_t i = 0; trace_.tensors != nullptr && i < trace_.tensors->size(); ++i)
    load(trace_.tensors->register_of(i), trace_.tensors->source(i), words(trace_.tensors->facts(i)));
  for (const Epoch& epoch : trace_.epochs)
    for (size_t i = 0; epoch.tensors != nullptr && i < epoch.tensors->size(); ++i)
      if (const Val from = epoch.tensors->source(i); from.is_const())
        names_[epoch.tensors->register_of(i)] = value(from, 0);
}

std::string PythonText::name_of(uint32_t reg) const {
  return reg < names_.size() ? names_[reg] : kRegister + std::to_string(reg);
}

std::string PythonText::value(Val value, uint32_t time, int depth) const {
  switch (value.kind()) {
    case ValueKind::kNull:
      return "None";
    case ValueKind::kConst:
      return printer_.python(value.object());
    case ValueKind::kReg:
      return name_of(value.index());
    case ValueKind::kVirtual:
      break;
  }
  const Virtual& made = trace_.virtuals[value.index()];
  if (made.is_real(time)) return name_of(made.reg);
  return depth > kDeepest ? "..." : named(value.index(), made, time, depth + 1);
}

// At its second place the variable; at its first one the object, which the variable is set to if there is a second.
std::string PythonText::named(uint32_t index, const Virtual& made, uint32_t time, int depth) const {
  if (const auto held = held_.find(index); held != held_.end()) return held->second;
  const auto times = times_.find(index);
  const bool again = naming_ && times != times_.end() && times->second > 1;
  if (!naming_) times_[index] += 1;
  const std::string text = object(made, time, depth);
  if (!again) return text;
  const std::string name = "same_" + std::to_string(count_++);
  held_[index] = name;
  return "(" + name + " := " + text + ")";
}

std::string PythonText::container(const Virtual& object, const Content& content, uint32_t time, int depth) const {
  std::vector<std::string> items;
  for (Val item : content.items) items.push_back(value(item, time, depth));
  for (const auto& [key, held] : content.pairs)
    items.push_back(value(key, time, depth) + (held.is_null() ? "" : ": " + value(held, time, depth)));
  const std::string text = joined(items);
  const std::string type = object.type == nullptr ? "" : class_name(printer_, object.type);
  switch (object.kind) {
    case VirtualKind::kTuple: {
      const std::string tuple = "(" + text + (items.size() == 1 ? ",)" : ")");
      if (object.type == nullptr || object.type == &PyTuple_Type) return tuple;
      return (is_written(object.type) ? "tuple.__new__(" + type + ", " : type + "(") + tuple + ")";
    }
    case VirtualKind::kList:
      return "[" + text + "]";
    case VirtualKind::kDeque:
      return type + "([" + text + "])";
    case VirtualKind::kSet:
      return object.type == &PySet_Type && !items.empty() ? "{" + text + "}" : type + "([" + text + "])";
    default:
      if (!content.field(0).is_null()) return value(content.field(0), time, depth) + ".__dict__";
      if (!content.field(1).is_null()) return type + "(" + value(content.field(1), time, depth) + ", {" + text + "})";
      return object.type == nullptr || object.type == &PyDict_Type ? "{" + text + "}" : type + "({" + text + "})";
  }
}

// The objects that are made of a few fields.
std::string PythonText::fields(const Virtual& object, const Content& content, uint32_t time, int depth) const {
  const auto part = [&](size_t i) { return value(content.field(i), time, depth); };
  const auto all = [&](const Vals& values) {
    std::vector<std::string> parts;
    for (Val each : values) parts.push_back(value(each, time, depth));
    return joined(parts);
  };
  switch (object.kind) {
    case VirtualKind::kSlice:
      return "slice(" + part(0) + ", " + part(1) + ", " + part(2) + ")";
    case VirtualKind::kBoundMethod:
    case VirtualKind::kBuiltinMethod:
      return part(0) + ".__get__(" + part(1) + ")";
    case VirtualKind::kIterator:
      return "iter(" + part(0) + ")";
    case VirtualKind::kEnumerate:
      return "enumerate(" + part(0) + ")";
    case VirtualKind::kZip:
      return "zip(" + all(content.items) + ")";
    case VirtualKind::kPartial:
      return "functools.partial(" + part(0) + ", *" + part(1) + ", **" + part(2) + ")";
    case VirtualKind::kException:
      return class_name(printer_, object.type) + "(*" + part(0) + ")";
    case VirtualKind::kFunction:
      return "function(" + part(function_field::kQualname) + ")";
    case VirtualKind::kAddress:
      return "id(" + part(0) + ")";
    case VirtualKind::kCell:
      return "types.CellType(" + part(0) + ")";
    case VirtualKind::kLazy:
    case VirtualKind::kView:
      return class_name(printer_, object.type) + "(" + all(content.fields) + ")";
    default:
      return "new(" + std::string("'") + virtual_name(object.kind) + "')";
  }
}

std::string PythonText::object(const Virtual& object, uint32_t time, int depth) const {
  const Content content = content_of(trace_, object, time);
  switch (object.kind) {
    case VirtualKind::kTuple:
    case VirtualKind::kList:
    case VirtualKind::kDeque:
    case VirtualKind::kDict:
    case VirtualKind::kSet:
      return container(object, content, time, depth);
    case VirtualKind::kInstance:
      break;
    default:
      return fields(object, content, time, depth);
  }
  std::vector<std::string> parts = {class_name(printer_, object.type)}, items;
  for (const auto& [key, held] : content.pairs)
    items.push_back(value(key, time, depth) + ": " + value(held, time, depth));
  if (!items.empty()) parts.push_back("{" + joined(items) + "}");
  for (const auto& [key, held] : content.attributes)
    parts.push_back(printer_.word(key.object()) + "=" + value(held, time, depth));
  return "new(" + joined(parts) + ")";
}

std::string PythonText::operation(const Node& node, std::string* targets) const {
  const OperatorCall made = node.adapter_op->call();
  const RegisterName name = [this](uint32_t reg) { return name_of(reg); };
  if (targets != nullptr) *targets = python_targets(made, name);
  return python_call(made, name);
}

std::string PythonText::scalar(const Node& node) const {
  const auto op = static_cast<ScalarOp>(node.aux);
  double number = 0;
  std::memcpy(&number, &node.imm, sizeof number);
  std::string constant = std::to_string(static_cast<int64_t>(node.imm));
  if (node.rep == Rep::kFloat) constant = python_number(number);
  if (node.rep == Rep::kBool) constant = node.imm != 0 ? "True" : "False";
  const std::string a = node.a.is_null() ? constant : value(node.a, node.time);
  const std::string b = node.b.is_null() ? constant : value(node.b, node.time);
  switch (op) {
    case ScalarOp::kNegative:
      return "-" + a;
    case ScalarOp::kTruth:
      return "bool(" + a + ")";
    case ScalarOp::kNot:
      return "not " + a;
    case ScalarOp::kSame:
      return a;
    default:
      return a + " " + operator_text(op) + " " + b;
  }
}

std::string PythonText::call(const Node& node) const {
  std::vector<std::string> parts;
  for (uint32_t i = 0; i < node.count; ++i) parts.push_back(value(trace_.operands[node.first + i], node.time));
  if (node.aux == kNone) {
    if (!parts.empty()) parts[0] = "*" + parts[0];
    if (parts.size() > 1) parts[1] = "**" + parts[1];
  }
  PyObject* names = node.aux == kNone || node.aux == 0 ? nullptr : node.b.object();
  for (uint32_t i = 0; names != nullptr && PyTuple_Check(names) && i < node.aux && i < node.count; ++i) {
    std::string& part = parts[node.count - node.aux + i];
    part = printer_.word(PyTuple_GET_ITEM(names, i)) + "=" + part;
  }
  return value(node.a, node.time) + "(" + joined(parts) + ")";
}

// What a node gives; empty: it gives nothing.
std::string PythonText::expression(const Node& node) const {
  switch (node.op) {
    case Op::kBuild:
      return object(trace_.virtuals[node.a.index()], node.time, 0);
    case Op::kCall:
    case Op::kPure:
    case Op::kOpaque:
    case Op::kOpaqueRaise:
      return call(node);
    case Op::kNext:
      if (node.count == 0) return "next(" + value(node.a, node.time) + ")";
      return value(node.a, node.time) + ".send(" + value(trace_.operands[node.first], node.time) + ")";
    case Op::kAdvance:
      return "next(" + value(node.a, node.time) + ")";
    case Op::kScalar:
      return scalar(node);
    case Op::kRun:
    case Op::kRunRaise: {
      uint32_t at = trace_.snapshots[node.snapshot].frame;
      uint32_t level = 0;
      for (uint32_t up = at; up != kNone; up = trace_.frame_states[up].parent) ++level;
      for (; level > node.aux + 1 && trace_.frame_states[at].parent != kNone; --level)
        at = trace_.frame_states[at].parent;
      return "rest_of('" + printer_.word(trace_.frame_states[at].code->co_qualname) + "')";
    }
    case Op::kLoadCell:
      return value(node.a, node.time) + ".cell_contents";
    case Op::kBox:
    case Op::kUnbox:
      return value(node.op == Op::kBox ? node.b : node.a, node.time);
    default:
      return "";
  }
}

std::string PythonText::guard(const Node& node) const {
  const std::string a = value(node.a, node.time);
  double number = 0;
  std::memcpy(&number, &node.imm, sizeof number);
  switch (node.op) {
    case Op::kGuardBool:
      return "assert " + a + (node.imm != 0 ? " is True" : " is False");
    case Op::kGuardInt:
      return "assert " + a + " == " + std::to_string(static_cast<int64_t>(node.imm));
    case Op::kGuardFloat:
      return "assert " + a + " == " + python_number(number);
    case Op::kGuardIs:
      return "assert " + a + " is " + value(node.b, node.time);
    default:
      return "assert type(" + a + ") is " + value(node.b, node.time);
  }
}

std::string PythonText::statement(const Node& node) const {
  const auto of = [&](Val operand) { return value(operand, node.time); };
  switch (node.op) {
    case Op::kGuardBool:
    case Op::kGuardInt:
    case Op::kGuardFloat:
    case Op::kGuardIs:
    case Op::kGuardType:
      return guard(node);
    case Op::kStoreAttr:
      return of(node.a) + "." + printer_.word(node.b.object()) + " = " + of(node.c);
    case Op::kDelAttr:
      return "del " + of(node.a) + "." + printer_.word(node.b.object());
    case Op::kStoreItem:
      return of(node.a) + "[" + of(node.b) + "] = " + of(node.c);
    case Op::kDelItem:
      return "del " + of(node.a) + "[" + of(node.b) + "]";
    case Op::kStoreCell:
      return of(node.a) + ".cell_contents = " + of(node.b);
    case Op::kEpoch:
      return "# checked again, as the call before may have changed it: " +
             std::to_string(trace_.epochs[node.aux].count) + " guards";
    case Op::kRegion: {
      const bool known = node.a.is_const() && printer_.sources().is_known(node.a.object());
      const Ref name = Ref::steal(known ? PyObject_Repr(node.a.object()) : nullptr);
      const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
      if (known && text == nullptr) PyErr_Clear();
      return std::string(node.imm != 0 ? "# begins: " : "# ends: ") + (text != nullptr ? text : of(node.a));
    }
    case Op::kReturn:
      return "return " + of(node.a);
    default:
      return "";
  }
}

std::string PythonText::node(const Node& node) {
  times_.clear();
  held_.clear();
  naming_ = false;
  const std::string text = line(node);
  for (const auto& [index, times] : times_) naming_ = naming_ || times > 1;
  return naming_ ? line(node) : text;
}

std::string PythonText::line(const Node& node) {
  if (node.op == Op::kBox || node.op == Op::kUnbox) {
    names_[node.out] = expression(node);
    return "";
  }
  std::string target = node.out != kNone ? name_of(node.out) : "";
  std::string made = is_operation(node) ? operation(node, &target) : expression(node);
  for (uint32_t i = 0; node.op == Op::kBuild && i < node.count; ++i) {
    target += ", " + name_of(trace_.outs[node.outs_first + i]);
    made += ", " + value(trace_.operands[node.first + i], node.time);
  }
  if (made.empty()) return statement(node);
  return target.empty() ? made : target + " = " + made;
}

}  // namespace pijit
