// What the recording has read of objects that existed before, and what it has written to them.
//
// Where an instruction is taken back each member is taken back with it, is kept for a reason, or is computed anew. Maps
// by address: a guard before keeps the object alive until the recording, or its epoch, ends; `facts` goes with the
// epoch.
#pragma once
#include <array>
#include <map>

#include "record/recording.h"
#include "record/state/facts.h"
#include "record/state/key_list.h"
#include "record/state/places.h"

namespace pijit {

// An item that was read and guarded.
struct ReadItem {
  uint64_t version = 0;  // of the dict; no other dict has it
  PyObject* key = nullptr;
  Val value;  // Null: it is not there
};

// A dict before the trace writes it.
struct BeforeWrite {
  Objects items;    // keys and values
  size_t fact = 0;  // how many facts there were
};

struct ReadSet {
  explicit ReadSet(Kernel& of) : recording(of) {}

  ReadMark mark() const { return {static_cast<uint32_t>(facts.size()), static_cast<uint32_t>(overlay.size())}; }
  void undo(const TraceMark& mark);  // before the epochs since then are cut off
  // An epoch begins: nothing is known any more.
  void forget() {
    facts.clear();
    items.fill(ReadItem());
    overlay.clear();
    members.clear();
  }
  ReadItem& item_of(PyObject* dict, PyObject* key) {
    return items[(reinterpret_cast<uintptr_t>(dict) ^ reinterpret_cast<uintptr_t>(key)) / 16 % kItems];
  }

  // Each guard is emitted where the first read happens. What has changed since then stops the recording.
  Val owned(PyObject* object);  // immutable: kept by the trace
  uint32_t add_guard(const Guard& guard);
  // `instance` is one of it that is proven; null: the class itself is.
  void guard_type_version(PyTypeObject* type, PyObject* instance = nullptr);
  PyObject* lookup_type(PyTypeObject* type, PyObject* name, PyObject* instance = nullptr);  // borrowed or null
  bool dict_fact(PyObject* dict, Fact** out);
  bool read_dict(PyObject* dict, PyObject* key, PyObject** value);  // *value null: absent
  bool guard_item(PyObject* dict, PyObject* key, PyObject* value);  // what was found there
  // The value of a key that is in the dict itself, of any class and with this hash: false: it is not known.
  bool read_same(PyObject* dict, PyObject* key, Py_hash_t hash, PyObject** value);
  bool guard_dict_whole(PyObject* dict);  // its items, in order
  bool guard_dict_order(PyObject* dict);  // and the order, where it is not the dict's own
  bool guard_dict_keys(PyObject* dict);   // in place of all that: the keys, in order; items are read one by one
  bool touch_dict(PyObject* dict);        // before a write to a dict that existed before the call
  void written_dict(PyObject* dict);      // after that write: the tag moved on
  // All that it holds is guarded; what this read looks at, one item or (kSize) none, must be as it was guarded.
  static constexpr Py_ssize_t kWhole = -1, kSize = -2;
  bool guard_list(PyObject* list, Py_ssize_t at = kWhole);
  bool guard_set(PyObject* set, Py_ssize_t at = kWhole);
  int guarded_set_holds(PyObject* set, PyObject* key);  // 1, 0; -1: not known
  void guard_value(PyObject* object);                   // what C code looks into of an object that cannot change
  bool guard_parts(PyObject* object);  // what a tuple, bound method or slice holds: its address may be used again
  bool guard_function(PyFunctionObject* function);
  bool guard_cell(PyObject* cell, PyObject** content);
  bool guard_slot(PyObject* object, Py_ssize_t offset, PyObject** value);
  bool guard_context_var(PyObject* var, PyObject** value);
  bool guard_inline(PyObject* object, PyObject* name, PyObject** value);       // of an instance with inline values
  bool guard_before_dict(PyObject* object, PyObject* name, PyObject** value);  // inline before its dict was made here
  uint32_t guard_inline_slot(Val source, PyTypeObject* type, Py_ssize_t index, PyObject* value);
  void guard_no_dict(PyObject* object, Val source);
  void guard_recursion_limit();
  void guard_abc_registry();
  void note_refused(PyObject* abstract, PyObject* cls);  // `abstract` has no such subclass; null: not known which
  bool is_adopted(PyObject* object);
  // At the end: what was read of each dict, and asked of the registries.
  void close_dict_guards();
  void close_abc_guards();

  // Taken back: facts come and go in one order.
  Facts facts;
  // Taken back as facts are. A value that was replaced in place is not: that is a lasting change (note_lasting).
  Places<Val> overlay;
  // Computed anew: who misses one reads it again.
  static constexpr size_t kItems = 512;
  std::array<ReadItem, kItems> items{};
  // Taken back: CPython has not run what writes these dicts. At the end of the instruction it is empty.
  Objects written;
  // Taken back with the guard of the dict, or with the fact that it is written: keys and values before a write, which
  // take the place of its tag. One that the trace does not write after all has its tag.
  std::map<uint32_t, BeforeWrite> written_dicts;
  // Taken back with the guard of the set: what it holds.
  std::map<uint32_t, KeyList> guarded_sets;
  // Taken back with its guard, and forgotten with the facts: a set that was asked for a key.
  Vec<Member> members;
  // Kept: the guard of a dict has the number of its row. A row of one that was taken back is nobody's; what another
  // row has too much is compared in vain. Key, value, ...; odd length: the tag decides; all items, if the dict ends them.
  Vec<Objects> dict_items;
  // Kept, by guard of the registries: a guard that took the number of one that was taken back clears what it finds.
  // Abstract class, class, ...
  std::map<uint32_t, Objects> refused;
  // Kept: where the trace leaves another scalar, or another object by kind, than it found. A place too many is only
  // learnt to vary.
  Places<Original> changed;

 private:
  int guard_member(PyObject* set, PyObject* key);
  void guard_written_keys(PyObject* dict, const Fact& fact);
  Trace& trace() { return recording.trace(); }

  Kernel& recording;
};

}  // namespace pijit
