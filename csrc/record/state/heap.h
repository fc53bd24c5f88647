// Objects that the recording made or looks into: their models, and what changed when.
//
// The log of the trace is the truth about a virtual object, and its model follows from it. Where an instruction is
// taken back each member is taken back with it, or is kept for a reason. Virtual objects, registers and entries of the
// log keep their numbers.
#pragma once
#include "record/recording.h"
#include "record/state/frames.h"
#include "record/state/holders.h"
#include "record/state/model.h"
#include "record/state/snapshots.h"

namespace pijit {

class Filling;

class Heap {
 public:
  Heap(Kernel& recording, FrameStack& frames, Snapshots& snapshots)
      : recording_(recording), frames_(frames), snapshots_(snapshots) {}

  Kernel& recording() const { return recording_; }
  Trace& trace() const { return recording_.trace(); }
  HeapMark mark() const {
    return {static_cast<uint32_t>(arguments.size()), lasting,
            static_cast<uint32_t>(recording_.trace().virtuals.size())};
  }
  // After the nodes since then were cut off (undo.cpp).
  void undo(const TraceMark& mark);

  Model& model(uint32_t index) { return *models[index]; }
  Model& model(Val value) { return *models[value.index()]; }
  bool is_virtual(Val value, VirtualKind kind) const {
    return value.is_virtual() && models[value.index()]->kind == kind;
  }
  PyObject* real(Val value) const;         // the object it stands for now, if known
  PyTypeObject* type_of(Val value) const;  // exact type, or null
  Val virtual_field(Val object, size_t field) { return model(object).items[field]; }
  bool is_fresh(Val object) const { return virtual_of(object).reg_time != 0; }  // no argument
  bool is_built(Val object) const { return virtual_of(object).reg != kNone; }
  Val add(VirtualKind kind, PyTypeObject* type);
  void log(Val object, LogEntry entry);
  void note_part(Val object, const LogEntry& entry);
  // The model of `holder` mentions `part` there: what is logged says so itself.
  void mention(Val holder, Val part, size_t place);
  void becomes_real(Val object, uint32_t reg, uint32_t time);  // from that time on it is what the register holds
  void note_begun(Val iterator);                               // see family::Progress
  void reshape(Val source);                                    // its keys, or the items of a deque, come or go now
  bool is_stale(uint32_t iterator, uint32_t time);  // keys of its source came or went: what it gives next is not known
  Val fresh_key(PyObject* key) const;               // what is compared as this key; Null: the key is itself
  Vec<uint32_t>& reshaped(Val source);  // when keys of the dict or set, or of what a view shows, came or went
  void note_key(PyObject* key, Val value) { virtual_keys[key] = value; }
  void note_address(PyObject* object) { addresses.insert(object); }  // id() was asked for it, it is no scalar
  // The model of what existed before changes, or becomes known: only an epoch makes good what a rollback leaves.
  void note_lasting() { lasting += 1; }
  // Every mention of it in a model, or in the frame of a generator, becomes a mention of the other.
  void replace(Val value, Val by);
  void go_stale();           // where an epoch begins
  Val now(Val value) const;  // what stands for it: it may have gone stale since it was found
  Vals now(Vals values) const;

  // Kept: what was made since is nobody's (forget_made).
  Vec<std::unique_ptr<Model>> models;
  // Kept, by entry of the log: whose it is, and the one before.
  struct LogLink {
    uint32_t object, previous;
  };
  Vec<LogLink> log_links;
  // Kept: who is not a holder any more is asked in vain.
  Holders holders;
  // Taken back: containers that the caller passed, or that were loaded.
  Vals arguments;
  // Taken back: virtual objects that became registers, and at which node; the registers, by object (kNone: none).
  struct Stale {
    uint32_t nodes, object, reg;
  };
  Vec<Stale> stale;
  Vec<uint32_t> stale_regs;
  // Taken back where an object was adopted or has gone stale: real objects that an epoch makes stale. One that is
  // virtual again is passed over there.
  Vec<uint32_t> due;
  // Taken back, in order: objects that became real; iterators that no call makes any more; what was reshaped.
  Vec<uint32_t> built;
  Vec<uint32_t> begun;
  Vals reshapes;
  // Taken back with `reshapes`: when existing dicts were reshaped. By address: a guard keeps such a dict, and where one
  // has died and another stands there, its iterators are taken to be stale too early.
  Map<PyObject*, Seldom<uint32_t>> reshaped_dicts;
  // Kept on purpose: it counts what cannot be taken back.
  uint32_t lasting = 0;
  // Kept, by register: the object that it holds, or null.
  Objects reg_objects;
  // Taken back for what was adopted; the rest is kept, since no container has a key any more that was made since. By
  // address: who brings a key along says what it is now (meet_key).
  Map<PyObject*, Val> virtual_keys;
  // Kept: they only make the recording more careful.
  ObjectSet addresses;         // objects, no scalars, whose addresses were taken
  bool old_addresses = false;  // some may be keys of objects that were there at entry
  // Kept: variable and value before, of each token of a ContextVar.
  Vec<std::pair<Val, std::pair<Val, Val>>> tokens;
  // Taken back with the drive that fills it: it is a local variable there. Lives longer than the frames, whose drives
  // hold them.
  Vec<Filling*> fillings;

 private:
  const Virtual& virtual_of(Val object) const { return recording_.trace().virtuals[object.index()]; }
  Vals forget_adopted(size_t mark);
  void undo_stale(uint32_t nodes, const Vals& forgotten);
  void forget_made(uint32_t made, uint32_t time);
  void restore(uint32_t object, uint32_t items, bool moves, bool others);
  void restore_all(uint32_t object);
  PyObject* key_object(Val key);
  bool set_keys(KeyList& list, const Vals& keys);

  Kernel& recording_;
  FrameStack& frames_;
  Snapshots& snapshots_;
};

}  // namespace pijit
