// A test module with the owners of a recording's state that need the kernel alone: no frame, no recorder.
//
// begin() makes new ones. mark() notes where the recording is, undo(number) goes back there. A value is ("virtual", i),
// ("reg", i) or an object.
#include <string>

#include "cpython/keys.h"
#include "ir/log.h"
#include "record/state/heap.h"
#include "record/state/read_set.h"

namespace pijit {

void DriveDeleter::operator()(Drive*) const noexcept {}
void throw_wrong_shadow() {
  throw std::bad_alloc();
}

namespace {

struct State : Kernel {
  State()
      : Kernel(PyThreadState_Get(), nullptr, nullptr),
        frames(nullptr, false, 0),
        heap(*this, frames, snapshots),
        reads(*this) {
    live_ = true;
  }
  void stop(Abort, std::string detail) override {
    live_ = false;
    why = std::move(detail);
  }
  void fail(const char* what) noexcept override { why = what; }
  TraceMark here() const { return {mark(), reads.mark(), heap.mark()}; }
  void go_back(const TraceMark& mark) {
    reads.undo(mark);
    frames.undo(mark);
    heap.undo(mark);
    snapshots.undo(mark);
    undo(mark);
    live_ = true;
  }

  FrameStack frames;
  Snapshots snapshots;
  Heap heap;
  ReadSet reads;
  std::string why;
  std::vector<TraceMark> marks;
};

std::unique_ptr<State> state;

PyObject* from_val(Val value) {
  if (value.is_virtual()) return Py_BuildValue("(sI)", "virtual", value.index());
  if (value.is_reg()) return Py_BuildValue("(sI)", "reg", value.index());
  return new_reference(value.object() == nullptr ? Py_None : value.object());
}

PyObject* begin(PyObject*, PyObject*) {
  state = std::make_unique<State>();
  Py_RETURN_NONE;
}
PyObject* mark(PyObject*, PyObject*) {
  state->marks.push_back(state->here());
  return PyLong_FromSize_t(state->marks.size() - 1);
}
PyObject* undo(PyObject*, PyObject* number) {
  state->go_back(state->marks.at(PyLong_AsSize_t(number)));
  Py_RETURN_NONE;
}
PyObject* begin_epoch(PyObject*, PyObject*) {
  Epoch epoch;
  epoch.first = static_cast<uint32_t>(state->trace().guards.size());
  state->trace().epochs.push_back(std::move(epoch));
  Node node{};
  node.op = Op::kEpoch;
  state->trace().nodes.push_back(node);
  state->reads.forget();
  state->heap.go_stale();
  Py_RETURN_NONE;
}
PyObject* why(PyObject*, PyObject*) {
  return PyUnicode_FromString(state->why.c_str());
}
PyObject* read_item(PyObject*, PyObject* args) {
  PyObject *dict, *key, *value = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &dict, &key)) return nullptr;
  return PyBool_FromLong(state->reads.read_dict(dict, key, &value));
}
PyObject* read_all(PyObject*, PyObject* dict) {
  return PyBool_FromLong(state->reads.guard_dict_whole(dict));
}
PyObject* read_list(PyObject*, PyObject* list) {
  return PyBool_FromLong(state->reads.guard_list(list));
}
PyObject* holds(PyObject*, PyObject* args) {
  PyObject *set, *key;
  if (!PyArg_ParseTuple(args, "OO", &set, &key)) return nullptr;
  return PyLong_FromLong(state->reads.guarded_set_holds(set, key));
}
PyObject* touch(PyObject*, PyObject* dict) {
  return PyBool_FromLong(state->reads.touch_dict(dict));
}
PyObject* close_guards(PyObject*, PyObject*) {
  state->reads.close_dict_guards();
  Py_RETURN_NONE;
}
// (name, subject, items, aux) of each.
PyObject* guards(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (const Guard& guard : state->trace().guards) {
    PyObject* items = PyTuple_New(guard.count);
    for (uint32_t i = 0; i < guard.count; ++i) {
      PyObject* item = state->trace().guard_items[guard.first + i];
      PyTuple_SET_ITEM(items, i, new_reference(item == nullptr ? Py_None : item));
    }
    const Ref row = Ref::steal(Py_BuildValue("(sNNI)", guard_name(guard.op), from_val(guard.subject), items,
                                             static_cast<unsigned>(guard.aux)));
    PyList_Append(list, row.get());
  }
  return list;
}

// A virtual list or dict.
PyObject* make(PyObject*, PyObject* type) {
  const VirtualKind kind = type == reinterpret_cast<PyObject*>(&PyDict_Type) ? VirtualKind::kDict : VirtualKind::kList;
  return from_val(state->heap.add(kind, reinterpret_cast<PyTypeObject*>(type)));
}
Val to_val(PyObject* value) {
  if (!PyTuple_CheckExact(value)) return state->reads.owned(value);
  const auto index = static_cast<uint32_t>(PyLong_AsLong(PyTuple_GET_ITEM(value, 1)));
  const bool reg = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(value, 0), "reg") == 0;
  return reg ? Val::reg(index) : Val::virtual_object(index);
}
void note(Val object, LogOp op, uint32_t index, Val key, Val value) {
  LogEntry entry{};
  entry.op = op;
  entry.index = index;
  entry.key = key;
  entry.value = value;
  state->heap.note_part(object, entry);
  state->heap.log(object, entry);
}
PyObject* append(PyObject*, PyObject* args) {
  PyObject *list, *value;
  if (!PyArg_ParseTuple(args, "OO", &list, &value)) return nullptr;
  const Val object = to_val(list), item = to_val(value);
  state->heap.model(object).items.push_back(item);
  note(object, LogOp::kItem, 0, Val(), item);
  Py_RETURN_NONE;
}
PyObject* set_item(PyObject*, PyObject* args) {
  PyObject *list, *value;
  unsigned at;
  if (!PyArg_ParseTuple(args, "OIO", &list, &at, &value)) return nullptr;
  const Val object = to_val(list), item = to_val(value);
  state->heap.model(object).items.at(at) = item;
  note(object, LogOp::kSetItem, at, Val(), item);
  Py_RETURN_NONE;
}
PyObject* put(PyObject*, PyObject* args) {
  PyObject *dict, *key, *value;
  if (!PyArg_ParseTuple(args, "OOO", &dict, &key, &value)) return nullptr;
  const Val object = to_val(dict), item = to_val(value);
  Model& content = state->heap.model(object);
  content.keys().push_back(key);
  content.items.push_back(item);
  note(object, LogOp::kSetItem, 0, state->reads.owned(key), item);
  Py_RETURN_NONE;
}
PyObject* items(PyObject*, PyObject* object) {
  PyObject* list = PyList_New(0);
  for (Val item : state->heap.model(to_val(object)).items) PyList_Append(list, Ref::steal(from_val(item)).get());
  return list;
}
PyObject* keys(PyObject*, PyObject* object) {
  if (state->heap.model(to_val(object)).find<family::Keys>() == nullptr) Py_RETURN_NONE;
  PyObject* list = PyList_New(0);
  for (PyObject* key : state->heap.model(to_val(object)).keys()) PyList_Append(list, key);
  return list;
}
PyObject* gives_keys(PyObject*, PyObject* object) {
  try {
    state->heap.model(to_val(object)).keys();
  } catch (const std::bad_variant_access&) {
    Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}
// It becomes real: its register.
PyObject* build(PyObject*, PyObject* object) {
  Trace& trace = state->trace();
  trace.regs.push_back({});
  state->heap.reg_objects.push_back(nullptr);
  Node node{};
  node.op = Op::kBuild;
  node.out = static_cast<uint32_t>(trace.regs.size() - 1);
  trace.nodes.push_back(node);
  state->heap.becomes_real(to_val(object), node.out, ++trace.clock);
  return from_val(Val::reg(node.out));
}
PyObject* is_real(PyObject*, PyObject* object) {
  return PyBool_FromLong(state->trace().virtuals[to_val(object).index()].reg != kNone);
}
PyObject* reshape(PyObject*, PyObject* object) {
  state->heap.reshape(to_val(object));
  Py_RETURN_NONE;
}
PyObject* reshaped(PyObject*, PyObject* object) {
  return PyLong_FromSize_t(state->heap.reshaped(to_val(object)).size());
}
PyObject* log_length(PyObject*, PyObject* object) {
  size_t count = 0;
  const Trace& trace = state->trace();
  for (uint32_t at = trace.virtuals[to_val(object).index()].head; at != kNone; at = trace.log[at].next) ++count;
  return PyLong_FromSize_t(count);
}

PyMethodDef methods[] = {{"begin", begin, METH_NOARGS, nullptr},
                         {"mark", mark, METH_NOARGS, nullptr},
                         {"undo", undo, METH_O, nullptr},
                         {"begin_epoch", begin_epoch, METH_NOARGS, nullptr},
                         {"why", why, METH_NOARGS, nullptr},
                         {"read_item", read_item, METH_VARARGS, nullptr},
                         {"read_all", read_all, METH_O, nullptr},
                         {"read_list", read_list, METH_O, nullptr},
                         {"holds", holds, METH_VARARGS, nullptr},
                         {"touch", touch, METH_O, nullptr},
                         {"close_guards", close_guards, METH_NOARGS, nullptr},
                         {"guards", guards, METH_NOARGS, nullptr},
                         {"make", make, METH_O, nullptr},
                         {"append", append, METH_VARARGS, nullptr},
                         {"set_item", set_item, METH_VARARGS, nullptr},
                         {"put", put, METH_VARARGS, nullptr},
                         {"items", items, METH_O, nullptr},
                         {"keys", keys, METH_O, nullptr},
                         {"gives_keys", gives_keys, METH_O, nullptr},
                         {"build", build, METH_O, nullptr},
                         {"is_real", is_real, METH_O, nullptr},
                         {"reshape", reshape, METH_O, nullptr},
                         {"reshaped", reshaped, METH_O, nullptr},
                         {"log_length", log_length, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "owners", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace pijit

PyMODINIT_FUNC PyInit_owners() {
  return PyModule_Create(&pijit::module);
}
