// Objects that foreign code returned or had in its hands: what they hold is found by the guards of an epoch. And how
// the containers that an epoch finds, those of the caller included (inputs.cpp), are told apart.
//
// Such an object is a register. When the program looks into one, its items or attributes are loaded where the epoch
// begins, and it is a container like an argument from there on. A tuple or list is taken with all it holds; of an
// instance the attributes are loaded and nothing is said of them, so that one that the program does not look at may be
// anything: they are looked into, or not, like the instance itself.
// 1. The loads show what was there when the epoch began. So only what was there then is found (no result of a later
//    node), and an object that the trace has written under another name since then is not.
// 2. Two names of one object: the containers of one class that an epoch finds are told apart by guards, and each from
//    the objects that are read under guards of their own, once one of the two is written; instances always.
// 3. Such loads are few beside the instructions that the program executes: a container that foreign code fills further
//    and further would be loaded whole after each call. One that costs too much is left to the calls that look into it.
// 4. Modules, functions and classes that the trace has met before the foreign code ran are taken to be these again.
#include <algorithm>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/instances.h"
#include "record/limits.h"
#include "record/recorder.h"
#include "record/state/contents.h"

namespace pijit {
namespace {

constexpr Py_ssize_t kMaxItems = 256;
constexpr int kMaxDepth = 4;
constexpr size_t kMaxFound = 64;  // of one epoch: each is told apart from all others
constexpr uint64_t kFreeLoads = 2048, kInstructionsOfLoad = 4;

// A tuple or list within itself, as deep as it would be adopted: it would be there under two names.
bool holds_itself(PyObject* object, Objects* within) {
  const bool tuple = PyTuple_CheckExact(object);
  if ((!tuple && !PyList_CheckExact(object)) || within->size() > kMaxDepth ||
      PySequence_Fast_GET_SIZE(object) > kMaxItems)
    return false;
  if (std::find(within->begin(), within->end(), object) != within->end()) return true;
  within->push_back(object);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (holds_itself(tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), within)) return true;
  within->pop_back();
  return false;
}

bool has_lasting_keys(PyObject* dict) {
  const Py_ssize_t size = PyDict_GET_SIZE(dict);
  if (size > kMaxItems) return false;
  cpython::DictCursor cursor;
  PyObject *key, *value;
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!cpython::dict_next(dict, &cursor, &key, &value) || !cpython::is_lasting_key(key)) return false;
  return cpython::dict_ends(dict, cursor);
}

// An instance of a class of Python whose attributes can be loaded one by one.
bool is_open(PyObject* object) {
  std::vector<Slot> slots;
  if (!find_slots(Py_TYPE(object), &slots) || hides_item(object, slots)) return false;
  switch (cpython::attribute_storage(object)) {
    case cpython::Storage::kNoDict:
    case cpython::Storage::kUnset:
      return true;
    case cpython::Storage::kInline:
      return cpython::shared_keys_version(Py_TYPE(object)) != 0;
    case cpython::Storage::kDict:
      return PyDict_CheckExact(cpython::instance_dict(object)) && has_lasting_keys(cpython::instance_dict(object));
    default:
      return false;
  }
}

// What it finds in its subject, others can write.
bool looks_into(GuardOp op) {
  return row_of(op).found == column::Found::changing;
}

// It was not made for the moment: a module, or a function or class that one has.
bool lasts(PyObject* object) {
  if (PyFunction_Check(object)) return cpython::is_importable(reinterpret_cast<PyFunctionObject*>(object));
  if (PyType_Check(object)) return cpython::is_importable(reinterpret_cast<PyTypeObject*>(object));
  return PyModule_Check(object) != 0;
}

}  // namespace

void Recorder::begin_finding() {
  foreign_.looked_nodes = static_cast<uint32_t>(trace_->nodes.size());
  foreign_.written_here.clear();
  foreign_.are_written_here.clear();
  foreign_.found.clear();
  foreign_.any_written = false;
}

// The trace has met the object, or knows what it holds.
bool Recorder::has_met(PyObject* object) {
  if (foreign_.known.count(object) != 0) return true;
  for (FactKind kind : {FactKind::kInstance, FactKind::kFunction, FactKind::kTypeVersion, FactKind::kDict,
                        FactKind::kDictWhole, FactKind::kList, FactKind::kAdopted})
    if (reads_.facts.get(object, kind) != nullptr) return true;
  return false;
}

// It is taken to be this very object in every call, until calls have come with others.
bool Recorder::is_fixed(Val reg, PyObject* object) {
  if (!has_met(object) && !(foreign_.is_held(reg) && lasts(object))) return false;
  return varying_ == nullptr || !varying_->has_argument(argument_way(*trace_, reg));
}

// The register is, everywhere, what was found there.
void Recorder::becomes(Val reg, Val found) {
  for (auto& frame : frames_)
    for (Val& value : frame->slots)
      if (value == reg) value = found;
  heap_.replace(reg, found);
}

// Which objects the nodes since the last look write.
void Recorder::look_for_writes() {
  for (; foreign_.looked_nodes < trace_->nodes.size(); ++foreign_.looked_nodes) {
    const Node& node = trace_->nodes[foreign_.looked_nodes];
    if (!may_let_die(node.op) || is_opaque(node.op)) continue;
    const bool attribute = node.op == Op::kStoreAttr || node.op == Op::kDelAttr;
    const auto note = [&](Val value) {
      if (PyObject* object = value.object()) {
        foreign_.note_write_here(object);
        if (PyObject* dict = attribute ? cpython::instance_dict(object) : nullptr) foreign_.note_write_here(dict);
      }
      if (value.is_virtual()) value = Val::reg(trace_->virtuals[value.index()].reg);
      for (size_t i = 0; i < foreign_.found.size() && value.is_reg(); ++i)
        if (foreign_.found[i].reg == value.index()) foreign_.note_written(foreign_.found[i]);
    };
    if (node.op != Op::kCall) note(node.a);
    for (uint32_t i = 0; node.op == Op::kCall && i < node.count; ++i) note(trace_->operands[node.first + i]);
  }
}

// After an instruction: what was found must not be another object that is written, nor one that is read if it is
// written itself.
void Recorder::guard_found() {
  if (foreign_.found.empty()) return;
  look_for_writes();
  if (foreign_.written_here.empty() && !foreign_.any_written) return;
  const auto is_other = [&](const Found& found, PyObject* object, PyTypeObject* type) {
    if (found.type != type || !is_same_object(found.reg, found.object, object)) return true;
    return abandon("an object is read under two names"), false;
  };
  for (Found& found : foreign_.found) {
    for (; found.told < foreign_.written_here.size(); ++found.told)
      if (!is_other(found, foreign_.written_here[found.told].first, foreign_.written_here[found.told].second)) return;
    for (const auto end = static_cast<uint32_t>(trace_->guards.size()); found.seen < end; ++found.seen) {
      const Guard guard = trace_->guards[found.seen];
      PyObject* object = looks_into(guard.op) ? guard.subject.object() : nullptr;
      if (object != nullptr && !is_other(found, object, Py_TYPE(object))) return;
    }
  }
}

// What has been loaded so far, and that many items, is little beside what the program has done.
bool Recorder::may_load(Py_ssize_t items) const {
  const uint64_t done = record_limits().operations - bytecodes_left();
  return loading_.items + static_cast<uint64_t>(items) <= kFreeLoads + done / kInstructionsOfLoad;
}

// What stands at `source`: a tensor, a container whose items are loaded, or a register of known type.
Val Recorder::adopted(PyObject* object, Val source, int depth) {
  if (adapter_ != nullptr && adapter_->is_tensor(object)) return input(object, source, depth);
  if (object == Py_None || PyBool_Check(object)) {
    input_guard(GuardOp::kIs, source).expected = object;
    return Val::constant(object);
  }
  if (!cpython::is_importable(Py_TYPE(object))) return source;
  input_guard(GuardOp::kType, source).expected = owned(reinterpret_cast<PyObject*>(Py_TYPE(object))).object();
  set_type(source, Py_TYPE(object));
  const bool tuple = PyTuple_CheckExact(object);
  if (!tuple && !PyList_CheckExact(object)) return source;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  if (size > kMaxItems || depth > kMaxDepth || !may_load(size)) return source;
  if (const Val first = known_container(object, source); !first.is_null()) return first;
  if (!tuple && !is_new_here(object)) return source;
  if (!tuple) note_container(object, source);
  input_guard(tuple ? GuardOp::kTupleSize : GuardOp::kListSize, source).number = static_cast<uint64_t>(size);
  Vals items;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
    Val loaded = load_input(tuple ? GuardOp::kLoadTupleItem : GuardOp::kLoadListItem, source, i, item);
    trace_->regs[loaded.index()].type = nullptr;
    items.push_back(adopted(item, loaded, depth + 1));
  }
  Val result =
      new_sequence(tuple ? VirtualKind::kTuple : VirtualKind::kList, Py_TYPE(object), items.data(), items.size());
  model(result).real = object;
  return real_container(result, source);
}

// It is none of the containers that this epoch found, and none that was written.
bool Recorder::is_new_here(PyObject* object) {
  look_for_writes();
  return !foreign_.is_written_here(object) && foreign_.found.size() < kMaxFound && !foreign_.is_found(object);
}

// The trace loads what the container holds. Two that are distinct objects now may be one object in another call.
void Recorder::note_container(PyObject* object, Val source) {
  for (const Found& other : foreign_.found)
    if (other.type == Py_TYPE(object)) input_guard(GuardOp::kNotSame, source).number = other.reg;
  foreign_.found.push_back({source.index(), object, Py_TYPE(object), kNone, kNone, 0, heap_.arguments.size()});
}

// An attribute, or the item of a dict that is one: what it is, only a tensor tells at once.
Val Recorder::found_part(PyObject* object, Val source, int depth) {
  trace_->regs[source.index()].type = nullptr;
  return adapter_ != nullptr && adapter_->is_tensor(object) ? input(object, source, depth) : source;
}

// A dict or an instance; Null: not with what it holds.
Val Recorder::found_container(PyObject* object, Val source) {
  const bool dict = PyDict_CheckExact(object) || Py_TYPE(object) == &PyODict_Type;
  // A dict that foreign code keeps, and gives away itself, is often a table that grows; an OrderedDict may be given
  // attributes.
  const bool given = !foreign_.is_loaded(source);
  if (dict && given && (foreign_.is_held(source) || !PyDict_CheckExact(object))) return Val();
  PyObject* const attributes = dict ? nullptr : cpython::instance_dict(object);
  PyObject* const loaded = dict ? object : attributes;
  if (!may_load(loaded != nullptr && PyDict_Check(loaded) ? PyDict_GET_SIZE(loaded) : 1)) return Val();
  if (dict ? !has_lasting_keys(object) : !is_open(object)) return Val();
  if (const Val first = known_container(object, source); !first.is_null()) return first;
  if (foreign_.found.size() + 2 > kMaxFound || !is_new_here(object)) return Val();
  if (attributes != nullptr && (has_met(attributes) || !is_new_here(attributes))) return Val();
  return dict ? input_dict(object, source, 0, false, &Recorder::found_part)
              : input_instance(object, source, 0, &Recorder::found_part);
}

// What is in the register becomes known, if it was there when the epoch began.
bool Recorder::adopt(Val reg, PyObject* object) {
  if (is_own_list(*this, reg)) return false;
  const RegInfo& info = trace_->regs[reg.index()];
  if (info.rep != Rep::kObject || (info.epoch >= trace_->epochs.size() && !foreign_.is_loaded(reg))) return false;
  Val found;
  Objects within;
  if (is_fixed(reg, object)) {
    input_guard(GuardOp::kIs, reg).expected = object;
    input_guard(GuardOp::kType, reg).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
    found = Val::constant(object);
  } else if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    found =
        !may_load(PySequence_Fast_GET_SIZE(object)) || holds_itself(object, &within) ? Val() : adopted(object, reg, 0);
  } else {
    found = found_container(object, reg);
  }
  if (!found.is_const() && !found.is_virtual()) return false;
  becomes(reg, found);
  return true;
}

}  // namespace pijit
