// Makes Python objects of the values of a trace: registers are boxed or wrapped, virtual objects are built as of a
// given time.
//
// 1. One Materialiser makes each virtual object and boxes each register once, so aliases and cycles come out as they
// were.
// 2. A mutable object is made empty first and then filled from its log, so that it may hold itself.
// 3. No user code runs for the kinds of virtuals.def; the caller pauses garbage collection if the frames are not in
// place.
#pragma once
#include <unordered_map>
#include <vector>

#include "exec/tracebacks.h"
#include "ir/trace.h"

namespace pijit {

class Materialiser {
 public:
  Materialiser(const Trace& trace, const Reg* regs, uint32_t time) noexcept : trace_(trace), regs_(regs), time_(time) {}
  ~Materialiser();
  Materialiser(const Materialiser&) = delete;
  Materialiser& operator=(const Materialiser&) = delete;

  // New reference; null with an error set. The value must not be Null.
  PyObject* value(Val value) noexcept;
  // The function of a frame that only stands: what is not made yet is not made for that, with all that it captures.
  PyObject* function_to_show(Val function) noexcept;
  // New reference to the virtual object, built from its log even if a register is to hold it.
  PyObject* build(uint32_t index) noexcept;
  // What the frames of tracebacks hold, last of all: an exception may be in the making that one of them holds. False
  // with an error set.
  bool collect_frames() noexcept;
  // Of the exceptions that were built; the caller attaches them once the frames that stand are in place.
  Tracebacks& tracebacks() noexcept { return tracebacks_; }

 private:
  using Key = uint64_t;
  static Key reg_key(uint32_t index) noexcept { return (uint64_t{1} << 32) | index; }
  static constexpr size_t kInline = 16;

  PyObject* find(Key key) const noexcept;
  PyObject* keep(Key key, PyObject* object) noexcept;  // steals into the memo, returns it borrowed
  PyObject* borrow(Val value) noexcept;                // from the memo (or the value itself); null with an error set
  PyObject* borrow_optional(Val value, bool* ok) noexcept;
  PyObject* object_of(uint32_t index) noexcept;  // borrowed
  PyObject* make(uint32_t index) noexcept;

  PyObject* make_empty(const Virtual& object) noexcept;
  bool fill(const Virtual& object, PyObject* made) noexcept;
  bool apply(const Virtual& object, PyObject* made, const LogEntry& entry, uint32_t* position) noexcept;
  bool apply_list(PyObject* list, const LogEntry& entry) noexcept;
  PyObject* make_deque(const Virtual& object) noexcept;
  bool apply_deque(PyObject* deque, const LogEntry& entry) noexcept;
  bool apply_set(PyObject* set, const LogEntry& entry) noexcept;
  bool apply_function(PyObject* function, const LogEntry& entry) noexcept;
  PyObject* make_from_fields(const Virtual& object) noexcept;
  PyObject* make_dict(const Virtual& object) noexcept;
  PyObject* make_instance(PyTypeObject* type) noexcept;
  PyObject* make_tuple(const Virtual& object) noexcept;
  PyObject* make_iterator(const Virtual& object, PyObject* const* fields) noexcept;
  PyObject* make_zip(const Virtual& object) noexcept;
  PyObject* make_exception(const Virtual& object) noexcept;
  bool apply_exception(const Virtual& object, PyObject* made, const LogEntry& entry, uint32_t* position) noexcept;
  PyObject* make_traceback(const Virtual& object) noexcept;
  bool collect_frame(const Virtual& object) noexcept;
  PyObject* make_lazy(const Virtual& object) noexcept;
  PyObject* make_partial(const Virtual& object, const Val* fields) noexcept;
  PyObject* emptied_generator(const Virtual& object) const noexcept;
  PyObject* make_generator(const Virtual& object) noexcept;
  bool fill_generator(const Virtual& object, PyObject* generator) noexcept;

  uint32_t index_of(const LogEntry& entry) const noexcept { return static_cast<uint32_t>(&entry - trace_.log.data()); }
  // None where a later entry undoes this one: what it says may be dead.
  Val value_of(const LogEntry& entry) const noexcept {
    return trace_.stands(index_of(entry), time_) || entry.value.is_null() ? entry.value : Val::constant(Py_None);
  }
  // The entries of an object that `time_` sees.
  template <typename Visit>
  bool each(const Virtual& object, Visit visit) noexcept {
    for (uint32_t at = object.head; at != kNone && trace_.log[at].time <= time_; at = trace_.log[at].next)
      if (!visit(trace_.log[at])) return false;
    return true;
  }

  const Trace& trace_;
  const Reg* regs_;
  uint32_t time_;
  size_t count_ = 0;  // of the inline memo
  Tracebacks tracebacks_;
  std::vector<const Virtual*> frames_;
  std::pair<Key, PyObject*> memo_[kInline];
  std::unordered_map<Key, PyObject*> overflow_;
};

}  // namespace pijit
