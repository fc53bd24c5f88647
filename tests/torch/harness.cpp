// A recorder of one call, for tests of the adapter alone: records a site, says what was emitted, replays it on other
// operands.
//
// Tensors are inputs; scalars are constants, or registers when the caller wants them dynamic; tuples, lists and slices
// are virtual.
#include <chrono>
#include <deque>
#include <stdexcept>

#include "adapter.h"
#include "common/ref.h"
#include "ir/call.h"

namespace {

using namespace pijit;

Adapter* g_adapter = nullptr;

struct VirtualItems {
  PyTypeObject* type;
  Vals values;
  std::vector<PyObject*> objects;
};

struct Recorded {
  std::vector<std::unique_ptr<AdapterOp>> ops;
  std::vector<RegFacts> regs;
  std::deque<VirtualItems> virtuals;
  std::vector<Ref> kept;
  std::unique_ptr<InputGuards> inputs;
  std::unique_ptr<StateGuard> state;
  Val result;
  bool dynamic = false;
};

PyObject* box(const Reg& reg) {
  switch (reg.rep) {
    case Rep::kObject:
      return new_reference(reg.object);
    case Rep::kTensor:
      return g_adapter->wrap(reg.tensor);
    case Rep::kInt:
      return PyLong_FromLongLong(reg.integer);
    case Rep::kFloat:
      return PyFloat_FromDouble(reg.number);
    case Rep::kBool:
      return PyBool_FromLong(reg.boolean);
    default:
      PyErr_SetString(PyExc_RuntimeError, "empty register");
      return nullptr;
  }
}

PyObject* build(const Recorded& trace, Val value, const Reg* regs) {
  if (value.is_const()) return new_reference(value.object());
  if (value.is_reg()) return box(regs[value.index()]);
  const VirtualItems& items = trace.virtuals[value.index()];
  Ref list = Ref::steal(PyList_New(0));
  for (Val item : items.values) {
    Ref object = Ref::steal(build(trace, item, regs));
    if (!object || PyList_Append(list.get(), object.get()) < 0) return nullptr;
  }
  if (items.type == &PyList_Type) return list.release();
  if (items.type == &PySlice_Type)
    return PySlice_New(PyList_GET_ITEM(list.get(), 0), PyList_GET_ITEM(list.get(), 1), PyList_GET_ITEM(list.get(), 2));
  Ref tuple = Ref::steal(PyList_AsTuple(list.get()));
  if (items.type == &PyTuple_Type) return tuple.release();
  return PyObject_CallOneArg(reinterpret_cast<PyObject*>(items.type), tuple.get());
}

// Builds a virtual sequence into a register.
class BuildOp final : public AdapterOp {
 public:
  BuildOp(const Recorded& trace, Val value, uint32_t out) : trace_(trace), value_(value), out_(out) {}
  bool run(Reg* regs) noexcept override {
    regs[out_].object = build(trace_, value_, regs);
    regs[out_].rep = Rep::kObject;
    regs[out_].owned = 1;
    return regs[out_].object != nullptr;
  }
  OperatorCall call() const override {
    OperatorCall made;
    made.name = "build";
    made.give(out_);
    return made;
  }
  bool keep(Words&) const override { return false; }

 private:
  const Recorded& trace_;
  Val value_;
  uint32_t out_;
};

class Recorder final : public RecordApi {
 public:
  explicit Recorder(Recorded& trace) : trace_(trace) {}

  Val shadow(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (g_adapter->is_tensor(object)) {
      Val source = new_reg(Rep::kObject, type), out = new_reg(Rep::kTensor, type);
      g_adapter->add_input(*trace_.inputs, source, object, out.index());
      return out;
    }
    if (type == &PyTuple_Type || type == &PyList_Type || type == &PySlice_Type) {
      VirtualItems items{type, {}, {}};
      if (type == &PySlice_Type) {
        auto* slice = reinterpret_cast<PySliceObject*>(object);
        items.objects = {slice->start, slice->stop, slice->step};
      } else {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
          items.objects.push_back(PySequence_Fast_GET_ITEM(object, i));
      }
      for (PyObject* item : items.objects) items.values.push_back(shadow(item));
      trace_.virtuals.push_back(items);
      return Val::virtual_object(static_cast<uint32_t>(trace_.virtuals.size() - 1));
    }
    if (trace_.dynamic && type == &PyLong_Type) return new_reg(Rep::kInt, type);
    if (trace_.dynamic && type == &PyFloat_Type) return new_reg(Rep::kFloat, type);
    return own_const(object);
  }

  // Fills the registers that shadow() made, in the same order.
  static bool load(const Recorded& trace, PyObject* object, Reg* regs, uint32_t* next) {
    PyTypeObject* type = Py_TYPE(object);
    if (g_adapter->is_tensor(object)) {
      regs[*next].object = object;
      regs[*next].rep = Rep::kObject;
      *next += 2;
    } else if (type == &PyTuple_Type || type == &PyList_Type) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
        if (!load(trace, PySequence_Fast_GET_ITEM(object, i), regs, next)) return false;
    } else if (type == &PySlice_Type) {
      auto* slice = reinterpret_cast<PySliceObject*>(object);
      return load(trace, slice->start, regs, next) && load(trace, slice->stop, regs, next) &&
             load(trace, slice->step, regs, next);
    } else if (trace.dynamic && type == &PyLong_Type) {
      regs[*next].integer = PyLong_AsLongLong(object);
      regs[(*next)++].rep = Rep::kInt;
    } else if (trace.dynamic && type == &PyFloat_Type) {
      regs[*next].number = PyFloat_AS_DOUBLE(object);
      regs[(*next)++].rep = Rep::kFloat;
    }
    return true;
  }

  RegFacts facts(Val reg) const override { return trace_.regs[reg.index()]; }
  Val new_reg(Rep rep, PyTypeObject* type) override {
    trace_.regs.push_back({rep, type});
    return Val::reg(static_cast<uint32_t>(trace_.regs.size() - 1));
  }
  Val new_int(int64_t) override { return new_reg(Rep::kInt, &PyLong_Type); }
  Val force_const(Val value, PyObject* observed) override { return value.is_const() ? value : own_const(observed); }
  Val unbox(Val, PyObject*) override { return Val(); }
  bool check_class(Operand) override { return true; }
  Val own_const(PyObject* object) override {
    trace_.kept.push_back(Ref::borrow(object));
    return Val::constant(object);
  }
  bool sequence_items(Operand sequence, std::vector<Operand>* items) override {
    if (!sequence.value.is_virtual()) return false;
    const VirtualItems& known = trace_.virtuals[sequence.value.index()];
    for (size_t i = 0; i < known.values.size(); ++i) items->push_back({known.values[i], known.objects[i]});
    return true;
  }
  bool slice_fields(Operand slice, Operand fields[3]) override {
    const VirtualItems& known = trace_.virtuals[slice.value.index()];
    for (size_t i = 0; i < 3; ++i) fields[i] = {known.values[i], known.objects[i]};
    return true;
  }
  Val new_tuple(PyTypeObject* type, const Val* items, size_t count) override {
    trace_.virtuals.push_back({type, Vals(items, items + count), {}});
    return Val::virtual_object(static_cast<uint32_t>(trace_.virtuals.size() - 1));
  }
  Val new_list(const Val* items, size_t count) override { return new_tuple(&PyList_Type, items, count); }
  // Of one call: its items are the pairs in order.
  Val new_dict(const Val* keys, const Val* values, size_t count) override {
    Vals pairs;
    for (size_t i = 0; i < count; ++i) {
      const Val pair[] = {keys[i], values[i]};
      pairs.push_back(new_tuple(&PyTuple_Type, pair, 2));
    }
    return new_list(pairs.data(), pairs.size());
  }
  Val product(const Val* factors, size_t count) override {
    int64_t result = 1;
    for (size_t i = 0; i < count; ++i) {
      if (!factors[i].is_const()) return reason = "a product of registers", Val();
      result *= PyLong_AsLongLong(factors[i].object());
    }
    return own_const(Ref::steal(PyLong_FromLongLong(result)).get());
  }
  Val materialize(Operand operand) override {
    if (!operand.value.is_virtual()) return operand.value;
    Val out = new_reg(Rep::kObject, nullptr);
    trace_.ops.push_back(std::make_unique<BuildOp>(trace_, operand.value, out.index()));
    return out;
  }
  void emit(std::unique_ptr<AdapterOp> op, const Vals&, const Vals&, bool) override {
    trace_.ops.push_back(std::move(op));
  }
  void stop(const char*, std::string why) override { reason = why; }

  std::string reason;

 private:
  Recorded& trace_;
};

void free_trace(PyObject* capsule) {
  delete static_cast<Recorded*>(PyCapsule_GetPointer(capsule, "trace"));
}

// connect(capsule): the adapter under test.
PyObject* connect(PyObject*, PyObject* capsule) {
  g_adapter = static_cast<Adapter*>(PyCapsule_GetPointer(capsule, kAdapterCapsule));
  if (g_adapter == nullptr) return nullptr;
  if (g_adapter->version() != kAdapterVersion) {
    PyErr_SetString(PyExc_RuntimeError, "version");
    return nullptr;
  }
  return new_reference(Py_None);
}

// record(kind, callable, name, oparg, operands, kwnames, execute, dynamic) -> (trace or None, reason, executed result)
PyObject* record(PyObject*, PyObject* args) {
  int kind = 0, oparg = 0, dynamic = 0;
  PyObject *callable, *name, *operands, *kwnames, *execute;
  if (!PyArg_ParseTuple(args, "iOOiOOOp", &kind, &callable, &name, &oparg, &operands, &kwnames, &execute, &dynamic))
    return nullptr;
  auto trace = std::make_unique<Recorded>();
  trace->dynamic = dynamic != 0;
  trace->inputs = g_adapter->new_inputs();
  trace->state = g_adapter->capture_state();
  Recorder recorder(*trace);
  if (const char* why = g_adapter->must_step_aside()) return Py_BuildValue("OsO", Py_None, why, Py_None);
  g_adapter->begin_recording(recorder);
  std::vector<Operand> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i) {
    PyObject* object = PyTuple_GET_ITEM(operands, i);
    values.push_back({recorder.shadow(object), object});
  }
  CallSite site{static_cast<SiteKind>(kind)};
  site.callable = callable == Py_None ? nullptr : callable;
  site.name = name == Py_None ? nullptr : name;
  site.oparg = oparg;
  site.operands = values.data();
  site.count = values.size();
  site.kwnames = kwnames == Py_None ? nullptr : kwnames;
  CallFate fate = g_adapter->begin_call(site, &trace->result);
  Ref result = Ref::steal(PyObject_CallNoArgs(execute));
  bool good = fate == CallFate::kDone;
  if (!result)
    g_adapter->cancel_call();
  else if (fate == CallFate::kObserve)
    good = g_adapter->finish_call(site, result.get(), &trace->result);
  g_adapter->end_recording();
  if (!result) return nullptr;
  if (!good) {
    const char* why = fate == CallFate::kUnknown ? "unknown" : recorder.reason.c_str();
    return Py_BuildValue("OsO", Py_None, why, result.get());
  }
  Ref capsule = Ref::steal(PyCapsule_New(trace.release(), "trace", free_trace));
  return capsule ? Py_BuildValue("OsO", capsule.get(), "", result.get()) : nullptr;
}

// replay(trace, operands) -> result; RuntimeError when a guard or an operation failed.
PyObject* replay(PyObject*, PyObject* args) {
  PyObject *capsule, *operands;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &operands)) return nullptr;
  auto* trace = static_cast<Recorded*>(PyCapsule_GetPointer(capsule, "trace"));
  if (trace == nullptr) return nullptr;
  std::vector<Reg> regs(trace->regs.size() + 1);
  for (Reg& reg : regs) reg.rep = Rep::kEmpty, reg.owned = 0;
  uint32_t next = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i)
    Recorder::load(*trace, PyTuple_GET_ITEM(operands, i), regs.data(), &next);
  if (!trace->state->check()) return PyErr_Format(PyExc_RuntimeError, "state: %s", trace->state->explain().c_str());
  Val source;
  if (!trace->inputs->check(regs.data()))
    return PyErr_Format(PyExc_RuntimeError, "input: %s", trace->inputs->explain(regs.data(), &source).c_str());
  Ref result;
  bool good = true;
  for (auto& op : trace->ops) {
    if (PyErr_Occurred() != nullptr) return PyErr_Format(PyExc_SystemError, "an error is set");
    if (op->run(regs.data())) continue;
    PyErr_Format(PyExc_RuntimeError, "failed: %s", op->call().name.c_str());
    good = false;
    break;
  }
  if (good)
    result = Ref::steal(build(*trace, trace->result.is_null() ? Val::constant(Py_None) : trace->result, regs.data()));
  for (Reg& reg : regs) {
    if (reg.owned == 0) continue;
    if (reg.rep == Rep::kTensor)
      g_adapter->release(reg.tensor);
    else
      drop_reference(reg.object);
  }
  return result.release();
}

// times(trace, operands, repeat) -> nanoseconds of (state guard, input guards, operations)
PyObject* times(PyObject*, PyObject* args) {
  PyObject *capsule, *operands;
  int repeat = 0;
  if (!PyArg_ParseTuple(args, "OOi", &capsule, &operands, &repeat)) return nullptr;
  auto* trace = static_cast<Recorded*>(PyCapsule_GetPointer(capsule, "trace"));
  if (trace == nullptr) return nullptr;
  std::vector<Reg> regs(trace->regs.size() + 1);
  uint32_t next = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operands); ++i)
    Recorder::load(*trace, PyTuple_GET_ITEM(operands, i), regs.data(), &next);
  auto measure = [repeat](auto body) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeat; ++i) body();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / repeat;
  };
  volatile bool good = true;
  double state = measure([&] { good = trace->state->check(); });
  double inputs = measure([&] { good = trace->inputs->check(regs.data()); });
  double ops = measure([&] {
    for (auto& op : trace->ops) good = op->run(regs.data());
    for (Reg& reg : regs) {
      if (reg.owned != 0 && reg.rep == Rep::kTensor) g_adapter->release(reg.tensor);
      reg.owned = 0;
    }
  });
  return Py_BuildValue("ddd", state, inputs, ops);
}

PyObject* describe(PyObject*, PyObject* capsule) {
  auto* trace = static_cast<Recorded*>(PyCapsule_GetPointer(capsule, "trace"));
  Ref list = Ref::steal(PyList_New(0));
  for (size_t i = 0; i < trace->inputs->size(); ++i) {
    Ref text = Ref::steal(PyUnicode_FromString(trace->inputs->facts(i).dtype.c_str()));
    if (!text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  for (auto& op : trace->ops) {
    Ref text = Ref::steal(PyUnicode_FromString(op->call().name.c_str()));
    if (!text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* claims(PyObject*, PyObject* object) {
  return PyBool_FromLong(g_adapter->claims(object));
}

PyObject* count(PyObject*, PyObject* execute) {
  g_adapter->count_operators(true);
  Ref result = Ref::steal(PyObject_CallNoArgs(execute));
  g_adapter->count_operators(false);
  return result ? PyLong_FromUnsignedLongLong(g_adapter->operators_counted()) : nullptr;
}

PyMethodDef kMethods[] = {{"connect", connect, METH_O, nullptr},     {"record", record, METH_VARARGS, nullptr},
                          {"replay", replay, METH_VARARGS, nullptr}, {"describe", describe, METH_O, nullptr},
                          {"claims", claims, METH_O, nullptr},       {"count", count, METH_O, nullptr},
                          {"times", times, METH_VARARGS, nullptr},   {nullptr, nullptr, 0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "harness", nullptr, -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_harness() {
  return PyModule_Create(&kModule);
}
