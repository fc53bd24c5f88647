// What functions of torch make when they are first called, and keep, is made before a call is recorded.
//
// Methods of optimizers, and a few others, are wrapped by torch._disable_dynamo. The wrapper makes a function at its
// first call and keeps it as `__dynamo_disable` of the function that it wraps. A recording of that call would be of a
// state that never comes back: a later call would have to be recorded anew. So the wrapper finds made what it would
// make now, in the way in which it makes it. Nothing is imported for that: where torch._dynamo is not loaded yet, the
// first call loads it.
#include "torch/first_calls.h"

#include "common/ref.h"

namespace pijit::torch_adapter {
namespace {

constexpr const char* kKept = "__dynamo_disable";

struct Wrapper {
  const char *module, *owner, *name;  // owner: a class of the module, or null
  bool made = false;
};

Wrapper g_wrappers[] = {
    {"torch.optim.optimizer", "Optimizer", "zero_grad"},  {"torch.optim.optimizer", "Optimizer", "add_param_group"},
    {"torch.optim.optimizer", "Optimizer", "state_dict"}, {"torch.optim.optimizer", "Optimizer", "load_state_dict"},
    {"torch.utils.checkpoint", nullptr, "checkpoint"},    {"torch", nullptr, "manual_seed"}};

// A module that has been loaded, or null.
Ref loaded(const char* name) {
  const Ref text = Ref::steal(PyUnicode_FromString(name));
  return Ref::steal(text ? PyImport_GetModule(text.get()) : nullptr);
}

Ref attribute(PyObject* object, const char* name) {
  return Ref::steal(PyObject_GetAttrString(object, name));
}

// The wrapper's free variable of that name, or null.
Ref free_variable(PyObject* wrapper, PyObject* code, const char* name) {
  const Ref names = attribute(code, "co_freevars");
  PyObject* cells = PyFunction_GetClosure(wrapper);
  for (Py_ssize_t i = 0; names && cells != nullptr && i < PyTuple_GET_SIZE(names.get()); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), name) == 0)
      return Ref::borrow(PyCell_GET(PyTuple_GET_ITEM(cells, i)));
  return Ref();
}

// The code keeps what it makes.
bool keeps(PyObject* code) {
  const Ref names = attribute(code, "co_names");
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), kKept) == 0) return true;
  return false;
}

// As the wrapper does when it is first called.
void make(PyObject* dynamo, PyObject* wrapper) {
  PyObject* code = PyFunction_Check(wrapper) ? PyFunction_GetCode(wrapper) : nullptr;
  if (code == nullptr || !keeps(code)) return;
  const Ref function = free_variable(wrapper, code, "fn"), recursive = free_variable(wrapper, code, "recursive");
  if (!function || !recursive || !PyFunction_Check(function.get())) return;
  if (PyObject_HasAttrString(function.get(), kKept) != 0) return;
  const Ref disable = attribute(dynamo, "disable");
  const Ref args = Ref::steal(PyTuple_Pack(2, function.get(), recursive.get()));
  const Ref named = Ref::steal(Py_BuildValue("{sO}", "wrapping", Py_False));
  if (!disable || !args || !named) return;
  const Ref made = Ref::steal(PyObject_Call(disable.get(), args.get(), named.get()));
  if (made) PyObject_SetAttrString(function.get(), kKept, made.get());
}

}  // namespace

void make_what_first_calls_make() noexcept {
  static bool all = false;
  if (all) return;
  const Ref dynamo = loaded("torch._dynamo");
  all = static_cast<bool>(dynamo);
  for (Wrapper& each : g_wrappers) {
    if (!dynamo || each.made) continue;
    const Ref module = loaded(each.module);
    each.made = static_cast<bool>(module);  // before Python code runs, which may be recorded itself
    all = all && module;
    const Ref owner = module && each.owner != nullptr ? attribute(module.get(), each.owner) : Ref::borrow(module.get());
    const Ref wrapper = owner ? attribute(owner.get(), each.name) : Ref();
    if (wrapper) make(dynamo.get(), wrapper.get());
    PyErr_Clear();
  }
  PyErr_Clear();
}

}  // namespace pijit::torch_adapter
