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
#include "record/state/found.h"

#include <algorithm>

#include "cpython/keys.h"
#include "cpython/objects.h"
#include "guard/instances.h"
#include "mindspore/library.h"
#include "pandas/library.h"
#include "record/limits.h"
#include "record/recorder.h"
#include "record/state/contents.h"
#include "record/state/inputs.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {
namespace {

constexpr Py_ssize_t kMaxItems = 256;
constexpr int kMaxDepth = 4;
constexpr uint64_t kFreeLoads = 2048, kInstructionsOfLoad = 4;

// A tuple or list within itself, as deep as it would be adopted: it would be there under two names.
bool holds_itself(PyObject* object, Objects* within) {
  const bool tuple = cpython::is_plain_tuple(object);
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
  if (PyList_Check(object) || !find_slots(Py_TYPE(object), &slots) || hides_item(object, slots)) return false;
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

// The trace has met the object, or knows what it holds.
bool has_met(Recorder& recorder, PyObject* object) {
  if (recorder.foreign.known.count(object) != 0) return true;
  for (FactKind kind : {FactKind::kInstance, FactKind::kFunction, FactKind::kTypeVersion, FactKind::kDict,
                        FactKind::kDictWhole, FactKind::kList, FactKind::kAdopted})
    if (recorder.reads.facts.get(object, kind) != nullptr) return true;
  return false;
}

bool is_fixed(Recorder& recorder, Val reg, PyObject* object) {
  if (!has_met(recorder, object) && !(recorder.foreign.is_held(reg) && lasts(object))) return false;
  return recorder.varying() == nullptr || !recorder.varying()->has_argument(way_of(recorder, reg));
}

namespace {

// The register is, everywhere, what was found there.
void becomes(Recorder& recorder, Val reg, Val found) {
  for (auto& frame : recorder.frames)
    for (Val& value : frame->slots)
      if (value == reg) value = found;
  recorder.heap.replace(reg, found);
}

}  // namespace

// After an instruction: what was found must not be another object that is written, nor one that is read if it is
// written itself.
void guard_found(Recorder& recorder) {
  if (recorder.foreign.found.empty()) return;
  recorder.foreign.look_for_writes();
  if (recorder.foreign.written_here.empty() && !recorder.foreign.any_written) return;
  const auto is_other = [&](const Found& found, PyObject* object, PyTypeObject* type) {
    if (found.type != type || !is_same_object(recorder.reads, found.reg, found.object, object)) return true;
    return recorder.abandon("an object is read under two names"), false;
  };
  for (Found& found : recorder.foreign.found) {
    for (; found.told < recorder.foreign.written_here.size(); ++found.told)
      if (!is_other(found, recorder.foreign.written_here[found.told].first,
                    recorder.foreign.written_here[found.told].second))
        return;
    for (const auto end = static_cast<uint32_t>(recorder.trace().guards.size()); found.seen < end; ++found.seen) {
      const Guard guard = recorder.trace().guards[found.seen];
      PyObject* object = looks_into(guard.op) ? guard.subject.object() : nullptr;
      if (object != nullptr && !is_other(found, object, Py_TYPE(object))) return;
    }
  }
}

namespace {

// What has been loaded so far, and that many items, is little beside what the program has done.
bool may_load(const Recorder& recorder, Py_ssize_t items) {
  const uint64_t done = record_limits().operations - recorder.bytecodes_left();
  return recorder.loading.items + static_cast<uint64_t>(items) <= kFreeLoads + done / kInstructionsOfLoad;
}

}  // namespace

// What stands at `source`: a tensor, a container whose items are loaded, or a register of known type.
Val adopted(Recorder& recorder, PyObject* object, Val source, int depth) {
  if (recorder.adapter() != nullptr && recorder.adapter()->is_tensor(object))
    return input(recorder, object, source, depth);
  if (object == Py_None || PyBool_Check(object)) {
    input_guard(recorder, GuardOp::kIs, source).expected = object;
    return Val::constant(object);
  }
  if (!cpython::is_importable(Py_TYPE(object))) return source;
  input_guard(recorder, GuardOp::kType, source).expected =
      recorder.reads.owned(reinterpret_cast<PyObject*>(Py_TYPE(object))).object();
  recorder.foreign.set_type(source, Py_TYPE(object));
  const bool tuple = cpython::is_plain_tuple(object);
  if (!tuple && !PyList_CheckExact(object)) return source;
  if (tuple && !guard_tuple_class(recorder, object)) return source;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  if (size > kMaxItems || depth > kMaxDepth || !may_load(recorder, size)) return source;
  if (const Val first = known_container(recorder, object, source); !first.is_null()) return first;
  if (!tuple && (!recorder.foreign.is_new_here(object) || recorder.foreign.found.size() >= Foreign::kMaxFound))
    return source;
  if (!tuple) note_container(recorder, object, source);
  input_guard(recorder, tuple ? GuardOp::kTupleSize : GuardOp::kListSize, source).number = static_cast<uint64_t>(size);
  Vals items;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
    Val loaded = load_input(recorder, tuple ? GuardOp::kLoadTupleItem : GuardOp::kLoadListItem, source, i, item);
    recorder.trace().regs[loaded.index()].type = nullptr;
    items.push_back(adopted(recorder, item, loaded, depth + 1));
  }
  Val result = new_sequence(recorder, tuple ? VirtualKind::kTuple : VirtualKind::kList, Py_TYPE(object), items.data(),
                            items.size());
  recorder.heap.model(result).real = object;
  return real_container(recorder, result, source);
}

// The trace loads what the container holds. Two that are distinct objects now may be one object in another call.
void note_container(Recorder& recorder, PyObject* object, Val source) {
  for (const Found& other : recorder.foreign.found)
    if (other.type == Py_TYPE(object)) input_guard(recorder, GuardOp::kNotSame, source).number = other.reg;
  recorder.foreign.found.push_back(
      {source.index(), object, Py_TYPE(object), kNone, kNone, 0, recorder.heap.arguments.size()});
}

namespace {

// An attribute, or the item of a dict that is one: what it is, only a tensor tells at once.
Val found_part(Recorder& recorder, PyObject* object, Val source, int depth) {
  recorder.trace().regs[source.index()].type = nullptr;
  return recorder.adapter() != nullptr && recorder.adapter()->is_tensor(object) ? input(recorder, object, source, depth)
                                                                                : source;
}

// A dict or an instance; Null: not with what it holds.
Val found_container(Recorder& recorder, PyObject* object, Val source) {
  const bool dict = PyDict_CheckExact(object) || Py_TYPE(object) == &PyODict_Type;
  // A dict that foreign code keeps, and gives away itself, is often a table that grows; an OrderedDict may be given
  // attributes.
  const bool given = !recorder.foreign.is_loaded(source);
  if (dict && given && !PyDict_CheckExact(object)) return Val();
  if (PyDict_Check(object) && given && recorder.foreign.is_held(source)) return Val();
  PyObject* const attributes = dict ? nullptr : cpython::instance_dict(object);
  PyObject* const loaded = dict ? object : attributes;
  if (!may_load(recorder, loaded != nullptr && PyDict_Check(loaded) ? PyDict_GET_SIZE(loaded) : 1)) return Val();
  if (PyDict_Check(object) && (!has_lasting_keys(object) || !may_load(recorder, PyDict_GET_SIZE(object)))) return Val();
  if (!dict && !is_open(object)) return Val();
  if (const Val first = known_container(recorder, object, source); !first.is_null()) return first;
  if (recorder.foreign.found.size() + 2 > Foreign::kMaxFound || !recorder.foreign.is_new_here(object)) return Val();
  if (attributes != nullptr && (has_met(recorder, attributes) || !recorder.foreign.is_new_here(attributes)))
    return Val();
  return dict ? input_dict(recorder, object, source, 0, false, found_part)
              : input_instance(recorder, object, source, 0, found_part);
}

}  // namespace

// What is in the register becomes known, if it was there when the epoch began.
bool adopt(Recorder& recorder, Val reg, PyObject* object) {
  if (is_own_list(recorder.heap, reg)) return false;
  if (mindspore::is_tensor(object) && !cpython::has_own_attributes(object)) return false;  // its class says it all
  if (pandas::kind_of(Py_TYPE(object)) != pandas::Kind::kNone) return false;               // nothing looks into one
  const RegInfo& info = recorder.trace().regs[reg.index()];
  if (info.rep != Rep::kObject || (info.epoch >= recorder.trace().epochs.size() && !recorder.foreign.is_loaded(reg)))
    return false;
  Val found;
  Objects within;
  if (is_fixed(recorder, reg, object)) {
    input_guard(recorder, GuardOp::kIs, reg).expected = object;
    input_guard(recorder, GuardOp::kType, reg).expected = reinterpret_cast<PyObject*>(Py_TYPE(object));
    found = Val::constant(object);
  } else if (cpython::is_plain_tuple(object) || PyList_CheckExact(object)) {
    found = !may_load(recorder, PySequence_Fast_GET_SIZE(object)) || holds_itself(object, &within)
                ? Val()
                : adopted(recorder, object, reg, 0);
  } else {
    found = found_container(recorder, object, reg);
  }
  if (!found.is_const() && !found.is_virtual()) return false;
  becomes(recorder, reg, found);
  return true;
}

}  // namespace pijit
