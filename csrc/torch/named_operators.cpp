// Finds out which operator the function behind a name such as torch.ops.aten.add.Tensor calls.
//
// Each overload, and each packet of overloads, has a function of pybind11. Torch makes it when the program first asks
// for the operator, so no table can list these functions before. A function that pybind11 made, and that no table
// knows, is therefore looked for in torch.ops.aten, once. Operators of other namespaces may do anything.
#include "torch/named_operators.h"

#include <cstring>

#include "common/ref.h"
#include "torch/pch.h"

namespace pijit::torch_adapter {
namespace {

constexpr size_t kMaxStrangers = 4096;

struct Space {
  PyCFunction dispatcher = nullptr;  // what pybind11 enters for each function that it has made
  Ref ops;
  PyTypeObject *packet = nullptr, *overload = nullptr;
  std::unordered_map<const void*, Ref> strangers;  // by definition: pybind11's functions that are no operators
};
Space& space() {
  static auto* all = new Space;
  return *all;
}

Ref attribute(PyObject* object, const char* name) {
  return Ref::steal(object != nullptr ? PyObject_GetAttrString(object, name) : nullptr);
}

// What stands under a name in the dict of an object (borrowed), without code of its class; null: nothing.
PyObject* kept_under(PyObject* dict, const char* name) noexcept {
  return dict != nullptr && PyDict_Check(dict) ? PyDict_GetItemString(dict, name) : nullptr;
}

Ref dict_of(PyObject* object) noexcept {
  Ref dict = Ref::steal(object != nullptr ? PyObject_GenericGetDict(object, nullptr) : nullptr);
  if (!dict) PyErr_Clear();
  return dict;
}

bool has_function(PyObject* dict, const PyMethodDef* wanted) noexcept {
  PyObject* function = kept_under(dict, "_op");
  return function != nullptr && PyCFunction_Check(function) &&
         reinterpret_cast<PyCFunctionObject*>(function)->m_ml == wanted;
}

std::string text_of(PyObject* text) {
  const char* data = text != nullptr && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (data == nullptr) PyErr_Clear();
  return data != nullptr ? data : "";
}

// "aten::add.Tensor" for an overload, "add" for a packet; empty: the packet has nothing with this function.
std::string name_in(PyObject* packet, const PyMethodDef* wanted) {
  const Ref dict = dict_of(packet);
  if (!dict) return "";
  if (has_function(dict.get(), wanted)) {
    const std::string full = text_of(kept_under(dict.get(), "_qualified_op_name"));
    return full.rfind("aten::", 0) == 0 ? full.substr(std::strlen("aten::")) : "";
  }
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict.get(), &position, &key, &item)) {
    if (Py_TYPE(item) != space().overload) continue;
    const Ref own = dict_of(item);
    if (own && has_function(own.get(), wanted)) return text_of(kept_under(own.get(), "_name"));
  }
  return "";
}

std::string name_of(const PyMethodDef* wanted) {
  const Ref all = dict_of(space().ops.get());
  const Ref aten = dict_of(kept_under(all.get(), "aten"));
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (aten && PyDict_Next(aten.get(), &position, &key, &item)) {
    if (Py_TYPE(item) != space().packet) continue;
    if (std::string found = name_in(item, wanted); !found.empty()) return found;
  }
  return "";
}

}  // namespace

bool find_operator_space(PyObject* torch) {
  const Ref core = attribute(torch, "_C"), ops = attribute(torch, "_ops");
  const Ref maker = attribute(core.get(), "_get_operation_overload");
  Ref packet = attribute(ops.get(), "OpOverloadPacket"), overload = attribute(ops.get(), "OpOverload");
  space().ops = attribute(torch, "ops");
  if (!maker || !packet || !overload || !space().ops) return false;
  if (!PyCFunction_Check(maker.get()) || !PyType_Check(packet.get()) || !PyType_Check(overload.get())) return true;
  space().dispatcher = reinterpret_cast<PyCFunctionObject*>(maker.get())->m_ml->ml_meth;
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
    const std::string name = name_of(definition);
    if (!name.empty()) return add_named_operator(function, name);
    strangers.emplace(definition, Ref::borrow(function));
  } catch (...) {
  }
  return nullptr;
}

}  // namespace pijit::torch_adapter
