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

struct Original {
  PyObject* object;  // null: it is there again
  bool scalar;       // object is; else it is an address only
};

struct ReadSet {
  explicit ReadSet(Kernel& of) : recording(of) {}

  ReadMark mark() const { return {static_cast<uint32_t>(facts.size()), static_cast<uint32_t>(overlay.size())}; }
  // Before the epochs since then are cut off.
  void undo(const TraceMark& mark) {
    // An epoch that is taken back has forgotten the facts before it, and those that are there are its own.
    const bool same_epoch = mark.epochs == recording.trace().epochs.size();
    facts.truncate(same_epoch ? mark.facts : 0);
    overlay.truncate(same_epoch ? mark.overlay : 0);
    items.fill(ReadItem());
    written.clear();
    const auto& epochs = recording.trace().epochs;
    const uint32_t epoch = mark.epochs == 0 ? 0 : epochs[mark.epochs - 1].first;
    for (auto each = written_dicts.lower_bound(epoch); each != written_dicts.end();)
      each = each->first < mark.guards && each->second.fact < mark.facts ? std::next(each) : written_dicts.erase(each);
    guarded_sets.erase(guarded_sets.lower_bound(mark.guards), guarded_sets.end());
  }
  // An epoch begins: nothing is known any more.
  void forget() {
    facts.clear();
    items.fill(ReadItem());
    overlay.clear();
  }
  ReadItem& item_of(PyObject* dict, PyObject* key) {
    return items[(reinterpret_cast<uintptr_t>(dict) ^ reinterpret_cast<uintptr_t>(key)) / 16 % kItems];
  }

  Kernel& recording;
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
  // Kept: the guard of a dict has the number of its row. A row of one that was taken back is nobody's; what another
  // row has too much is compared in vain. Key, value, ...; odd length: the tag alone decides.
  Vec<Objects> dict_items;
  // Kept, by guard of the registries: a guard that took the number of one that was taken back clears what it finds.
  // Abstract class, class, ...
  std::map<uint32_t, Objects> refused;
  // Kept: where the trace leaves another scalar, or another object by kind, than it found. A place too many is only
  // learnt to vary.
  Places<Original> changed;
};

}  // namespace pijit
