// Operations as Python: what they are called there, and their arguments.
#include <algorithm>
#include <map>
#include <vector>

#include "ir/print.h"

namespace pijit {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

namespace {

using Kind = OperatorArgument::Kind;

constexpr Py_ssize_t kFew = 64;  // numbers of a tensor that are written out

// Forms other than a call of the operator. {0}, {1}, ... are its arguments.
const std::map<std::string, const char*>& forms() {
  static const auto* table = new std::map<std::string, const char*>{
      {"tensor::size", "{0}.size({1})"},
      {"tensor::numel", "{0}.numel()"},
      {"tensor::item", "{0}.item()"},
      {"tensor::int", "int({0})"},
      {"tensor::float", "float({0})"},
      {"tensor::bool", "bool({0})"},
      {"tensor::not", "not {0}"},
      {"tensor::data", "{0}.data"},
      {"tensor::grad", "{0}.grad"},
      {"tensor::set_grad", "{0}.grad = {1}"},
      {"tensor::set_requires_grad", "{0}.requires_grad = {1}"},
      {"tensor::set_grad_enabled", "torch.set_grad_enabled({0})"},
      {"tensor::getitem", "{0}[{1}]"},
      {"tensor::setitem", "{0}[{1}] = {2}"},
  };
  return *table;
}

// What a check looks at. {1} is its detail: a dimension, a memory format.
const std::map<std::string, const char*>& facts() {
  static const auto* table = new std::map<std::string, const char*>{
      {"dtype", "{0}.dtype"},
      {"device", "{0}.device"},
      {"keys", "torch._C._dispatch_keys({0}).raw_repr()"},
      {"dim", "{0}.dim()"},
      {"size", "{0}.size({1})"},
      {"numel", "{0}.numel()"},
      {"strides", "{0}.stride()"},
      {"offset", "{0}.storage_offset()"},
      {"is_contiguous", "{0}.is_contiguous(memory_format={1})"},
      {"requires_grad", "{0}.requires_grad"},
      {"is_leaf", "{0}.is_leaf"},
      {"grad", "{0}.grad"},
  };
  return *table;
}

std::string filled(const std::string& form, const std::vector<std::string>& parts) {
  std::string text;
  for (size_t at = 0; at < form.size(); ++at) {
    if (form[at] != '{') {
      text += form[at];
      continue;
    }
    text += parts[static_cast<size_t>(form[at + 1] - '0')];
    at += 2;
  }
  return text;
}

class CallText {
 public:
  CallText(const OperatorCall& call, const RegisterName& name) : call_(call), name_(name) {}

  std::string text() const {
    if (call_.name == "tensor::check") return check();
    if (call_.name == "tensor::literal") return tensor(literal(0));
    if (const auto form = forms().find(call_.name); form != forms().end()) {
      std::vector<std::string> parts;
      for (const OperatorArgument& each : call_.arguments)
        parts.push_back(each.name == "index" ? index(each) : argument(each));
      return filled(form->second, parts);
    }
    if (call_.name == "aten::contiguous" && !call_.arguments.empty())
      return argument(call_.arguments[0]) + ".contiguous(" + arguments(1) + ")";
    return function() + "(" + arguments(0) + ")";
  }

 private:
  PyObject* literal(size_t i) const { return call_.arguments[i].literal.get(); }

  // "torch.ops.aten.add.Tensor", "torch.ones", "int"
  std::string function() const {
    const size_t at = call_.name.find("::");
    if (at == std::string::npos) return call_.name;
    const std::string space = call_.name.substr(0, at), name = call_.name.substr(at + 2);
    if (space == "builtins") return name;
    return call_.callable ? space + "." + name : "torch.ops." + space + "." + name;
  }

  // From argument `first` on. Those at the end that are what the schema has for a default are left out.
  std::string arguments(size_t first) const {
    const auto& all = call_.arguments;
    size_t positional = all.size();
    while (positional > 0 && all[positional - 1].keyword) positional -= 1;
    size_t given = positional;
    while (given > first && all[given - 1].usual) given -= 1;
    std::vector<std::string> parts;
    for (size_t i = first; i < all.size(); ++i) {
      if (i < positional ? i >= given : all[i].usual) continue;
      parts.push_back((i < positional ? "" : all[i].name + "=") + argument(all[i]));
    }
    return joined(parts);
  }

  std::string argument(const OperatorArgument& given) const {
    if (given.kind == Kind::kRegister) return name_(given.reg);
    if (given.kind == Kind::kLiteral) return given.literal ? python_object(given.literal.get()) : "None";
    std::vector<std::string> parts;
    for (const OperatorArgument& item : given.items) parts.push_back(argument(item));
    if (given.kind == Kind::kSlice) return "slice(" + joined(parts) + ")";
    if (given.kind == Kind::kList) return "[" + joined(parts) + "]";
    return "(" + joined(parts) + (parts.size() == 1 ? ",)" : ")");
  }

  // As it stands in brackets: "0, 1:n, None".
  std::string index(const OperatorArgument& given) const {
    if (given.kind == Kind::kSlice) {
      const auto bound = [&](size_t i) {
        const OperatorArgument& item = given.items[i];
        return item.literal.get() == Py_None ? std::string() : argument(item);
      };
      return bound(0) + ":" + bound(1) + (bound(2).empty() ? "" : ":" + bound(2));
    }
    if (given.kind != Kind::kTuple || given.items.size() < 2) return argument(given);
    std::vector<std::string> parts;
    for (const OperatorArgument& item : given.items) parts.push_back(index(item));
    return joined(parts);
  }

  std::string check() const {
    const PyObject* expected = literal(call_.arguments.size() - 1);
    const bool identical = expected == Py_None || expected == Py_True || expected == Py_False;
    const std::string after = (identical ? " is " : " == ") + argument(call_.arguments.back());
    if (call_.callable) return "assert torch._C." + word(literal(0)) + "()" + after;
    const std::string fact = word(literal(1));
    if (fact == "has_no_node")
      return "assert " + argument(call_.arguments[0]) + ".grad_fn is " + (expected == Py_True ? "None" : "not None");
    const std::vector<std::string> parts = {argument(call_.arguments[0]), argument(call_.arguments[2])};
    const auto form = facts().find(fact);
    return "assert " + (form == facts().end() ? parts[0] + "." + fact : filled(form->second, parts)) + after;
  }

  static std::string word(PyObject* text) {
    const char* made = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
    if (made == nullptr) PyErr_Clear();
    return made == nullptr ? "?" : made;
  }

  // Numbers in lists, as tolist() gives them.
  static std::string numbers(PyObject* object) {
    if (!PyList_CheckExact(object)) return python_object(object);
    std::vector<std::string> parts;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) parts.push_back(numbers(PyList_GET_ITEM(object, i)));
    return "[" + joined(parts) + "]";
  }

  // ", device=..." where it is not the CPU.
  static std::string device(PyObject* tensor) {
    const Ref device = Ref::steal(PyObject_GetAttrString(tensor, "device"));
    const Ref kind = device ? Ref::steal(PyObject_GetAttrString(device.get(), "type")) : Ref();
    if (!kind) return PyErr_Clear(), "";
    return PyUnicode_CompareWithASCIIString(kind.get(), "cpu") == 0 ? "" : ", device=" + python_object(device.get());
  }

  static std::string tensor(PyObject* object) {
    const auto ask = [&](const char* method) {
      Ref made = object == nullptr ? Ref() : Ref::steal(PyObject_CallMethod(object, method, nullptr));
      if (!made) PyErr_Clear();
      return made;
    };
    const Ref count = ask("numel"), sizes = ask("size");
    const Ref dtype = object == nullptr ? Ref() : Ref::steal(PyObject_GetAttrString(object, "dtype"));
    if (!count || !sizes || !dtype) return PyErr_Clear(), "literal()";
    const Py_ssize_t size = PyLong_AsSsize_t(count.get());
    const Ref list = Ref::steal(PySequence_List(sizes.get()));
    const std::string shape = list ? numbers(list.get()) : "[]";
    const std::string end = ", dtype=" + python_object(dtype.get()) + ")";
    if (size == 0) return "torch.empty(" + shape + end.substr(0, end.size() - 1) + device(object) + ")";
    const Ref values = size <= kFew ? ask("tolist") : Ref();
    return values ? "torch.tensor(" + numbers(values.get()) + end : "literal(" + shape + end;
  }

  const OperatorCall& call_;
  const RegisterName& name_;
};

}  // namespace

std::string python_call(const OperatorCall& call, const RegisterName& name) {
  return CallText(call, name).text();
}

std::string python_targets(const OperatorCall& call, const RegisterName& name) {
  std::vector<std::string> parts;
  bool any = false, one = call.results.size() == 1;
  for (const OperatorResult& result : call.results) {
    any = any || !result.regs.empty();
    if (result.kind != OperatorResult::Kind::kList) {
      parts.push_back(result.regs.empty() ? "_" : name(result.regs[0]));
      continue;
    }
    std::vector<std::string> items;
    for (uint32_t reg : result.regs) items.push_back(name(reg));
    if (one && items.size() > 1)
      parts = items;
    else
      parts.push_back("(" + joined(items) + (items.size() == 1 ? ",)" : ")"));
  }
  return any ? joined(parts) : "";
}

}  // namespace pijit
