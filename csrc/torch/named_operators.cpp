// Finds out which operator the function behind a name such as torch.ops.aten.add.Tensor calls.
//
// Each overload, and each packet of overloads, has a function of pybind11. Torch makes it when the program first asks
// for the operator, so no table can list these functions before. A function that pybind11 made, and that no table
// knows, is therefore looked for in torch.ops.aten, once. Operators of other namespaces may do anything.
//
// 1. Torch writes the namespace into each of these functions. One without it is not looked for: there are thousands of
// operators, and a first call may well meet ten other functions of pybind11.
// 2. What was found is kept with its name, whatever it was looked for. The next look passes over packets to which
// nothing came since.
#include "torch/named_operators.h"

#include <cstring>
#include <string_view>

#include "common/ref.h"
#include "torch/pch.h"

namespace pijit::torch_adapter {
namespace {

constexpr size_t kMaxStrangers = 4096;

struct Space {
  PyCFunction dispatcher = nullptr;  // what pybind11 enters for each function that it has made
  Ref ops;
  PyTypeObject *packet = nullptr, *overload = nullptr;
  Ref aten, op, qualified_op_name, name;           // names of attributes
  std::unordered_map<const void*, Ref> strangers;  // by definition: pybind11's functions that are no operators
  struct Named {
    Ref function;
    std::string name;  // "aten::add.Tensor" without the namespace, "add" for a packet
  };
  std::unordered_map<const void*, Named> operators;  // by definition: those that were there at the last look
  struct Looked {
    Ref packet;
    Py_ssize_t attributes;
  };
  std::unordered_map<const void*, Looked> looked;  // packets, and how much each had at the last look
};
Space& space() {
  static auto* all = new Space;
  return *all;
}

Ref attribute_of(PyObject* object, const char* name) {
  return Ref::steal(object != nullptr ? PyObject_GetAttrString(object, name) : nullptr);
}

// What stands under a name in the dict of an object (borrowed), without code of its class; null: nothing.
PyObject* kept_under(PyObject* dict, const Ref& name) noexcept {
  return dict != nullptr && PyDict_Check(dict) ? PyDict_GetItem(dict, name.get()) : nullptr;
}

Ref dict_of(PyObject* object) noexcept {
  Ref dict = Ref::steal(object != nullptr ? PyObject_GenericGetDict(object, nullptr) : nullptr);
  if (!dict) PyErr_Clear();
  return dict;
}

std::string text_of(PyObject* text) {
  const char* data = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (data == nullptr) PyErr_Clear();
  return data != nullptr ? data : "";
}

// Whether torch has written the namespace into the function.
bool is_of_aten(PyObject* function) {
  constexpr std::string_view kEnd = ".aten";
  const std::string module = text_of(reinterpret_cast<PyCFunctionObject*>(function)->m_module);
  return module.size() >= kEnd.size() && module.compare(module.size() - kEnd.size(), kEnd.size(), kEnd) == 0;
}

// The function of a packet or overload, whose dict this is, has this name.
void note_function(PyObject* dict, std::string name) {
  PyObject* function = kept_under(dict, space().op);
  if (name.empty() || function == nullptr || !PyCFunction_Check(function)) return;
  const void* definition = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  space().operators.try_emplace(definition, Space::Named{Ref::borrow(function), std::move(name)});
}

void look_into(PyObject* packet) {
  const Ref dict = dict_of(packet);
  if (!dict || !PyDict_Check(dict.get())) return;
  const Py_ssize_t size = PyDict_GET_SIZE(dict.get());
  const auto [known, added] = space().looked.try_emplace(packet, Space::Looked{Ref::borrow(packet), size});
  if (!added && std::exchange(known->second.attributes, size) == size) return;
  const std::string full = text_of(kept_under(dict.get(), space().qualified_op_name));
  if (full.rfind("aten::", 0) == 0) note_function(dict.get(), full.substr(std::strlen("aten::")));
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict.get(), &position, &key, &item)) {
    if (Py_TYPE(item) != space().overload) continue;
    const Ref own = dict_of(item);
    note_function(own.get(), text_of(kept_under(own.get(), space().name)));
  }
}

// Null: it is no operator.
const std::string* name_of(const PyMethodDef* wanted) {
  const auto& operators = space().operators;
  auto found = operators.find(wanted);
  if (found == operators.end()) {
    const Ref all = dict_of(space().ops.get());
    const Ref aten = dict_of(kept_under(all.get(), space().aten));
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (aten && PyDict_Next(aten.get(), &position, &key, &item))
      if (Py_TYPE(item) == space().packet) look_into(item);
    found = operators.find(wanted);
  }
  return found == operators.end() ? nullptr : &found->second.name;
}

}  // namespace

bool find_operator_space(PyObject* torch) {
  const Ref core = attribute_of(torch, "_C"), ops = attribute_of(torch, "_ops");
  const Ref maker = attribute_of(core.get(), "_get_operation_overload");
  Ref packet = attribute_of(ops.get(), "OpOverloadPacket"), overload = attribute_of(ops.get(), "OpOverload");
  space().ops = attribute_of(torch, "ops");
  if (!maker || !packet || !overload || !space().ops) return false;
  if (!PyCFunction_Check(maker.get()) || !PyType_Check(packet.get()) || !PyType_Check(overload.get())) return true;
  space().dispatcher = reinterpret_cast<PyCFunctionObject*>(maker.get())->m_ml->ml_meth;
  const std::pair<Ref Space::*, const char*> names[] = {{&Space::aten, "aten"},
                                                        {&Space::op, "_op"},
                                                        {&Space::name, "_name"},
                                                        {&Space::qualified_op_name, "_qualified_op_name"}};
  for (const auto& [name, text] : names) {
    space().*name = Ref::steal(PyUnicode_InternFromString(text));
    if (!(space().*name)) return false;
  }
  space().packet = reinterpret_cast<PyTypeObject*>(packet.release());  // for good
  space().overload = reinterpret_cast<PyTypeObject*>(overload.release());
  return true;
}

const Callable* find_named_operator(PyObject* function) noexcept {
  if (Py_TYPE(function) != &PyCFunction_Type || space().dispatcher == nullptr) return nullptr;
  const PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  auto& strangers = space().strangers;
  if (definition->ml_meth != space().dispatcher || strangers.count(definition) != 0 ||
      strangers.size() >= kMaxStrangers)
    return nullptr;
  try {
    const std::string* name = is_of_aten(function) ? name_of(definition) : nullptr;
    if (name != nullptr) return add_named_operator(function, *name);
    strangers.emplace(definition, Ref::borrow(function));
  } catch (...) {
  }
  return nullptr;
}

}  // namespace pijit::torch_adapter
