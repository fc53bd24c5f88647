// The guards of a trace: checked before a replay, and explained from the same rows when one does not hold.
//
// 1. No check runs Python, allocates, or raises.
// 2. Guards run in order: the modes of the framework, then Trace::guards, then the tensors. A guard looks only into
//    objects that are known to be alive: an argument, something that an earlier guard found in its place, or an object
//    that the trace owns.
// 3. What a guard expects may be dead. It is compared by address; it is looked into only if it is a scalar that the
// trace owns.
#pragma once
#include <string>

#include "ir/trace.h"

namespace pijit {

// Packs Trace::guards into Trace::fast_guards; called once, when the guards are final.
void compile_guards(Trace& trace);

// regs: inputs are loaded; loads write the other registers. False: a guard does not hold, or could not be decided.
bool check_guards(const Trace& trace, Reg* regs) noexcept;
// Checks the guards as well, but passes over those of Trace::guards whose indices are in `but`, in rising order.
bool check_guards_but(const Trace& trace, const Vec<uint32_t>& but, Reg* regs) noexcept;
// Checks them without the modes of the framework.
bool check_objects(const Trace& trace, Reg* regs) noexcept;
// The guards of an epoch, in the middle of a replay.
bool check_epoch(const Trace& trace, const Epoch& epoch, Reg* regs) noexcept;
// Checks the guards of an epoch to which the replay has not come yet. The modes of the adapter are not asked. Guards whose
// indices are in `but`, in rising order, are passed over: they are about what the replay makes on the way.
bool foresee_epoch(const Trace& trace, const Epoch& epoch, const Vec<uint32_t>& but, Reg* regs) noexcept;
// The same without the tensors that are loaded into these registers.
bool foresee_epoch(const Trace& trace, const Epoch& epoch, const Vec<uint32_t>& but, const Vec<uint32_t>& without,
                   Reg* regs) noexcept;
// What the guard is about, borrowed; null: nothing is there, or a tensor that no Python code has seen.
PyObject* subject_of(const Guard& guard, const Reg* regs) noexcept;
// The subject has the layout that the guard looks into. What an address held before may have died and something of
// another type live there now.
bool has_layout(const Guard& guard, PyObject* subject) noexcept;
// `now` is item `index` of Trace::guard_items: that object, or a scalar with the same bits. It may be null.
bool is_item(const Trace& trace, uint32_t index, PyObject* now) noexcept;
// The value that a dict has under that item, null: none. False: nothing can be looked for in the key.
bool look_up_key(const Trace& trace, uint32_t index, PyObject* dict, PyObject** value) noexcept;

// What a check saw where it failed. An explanation says that, and does not look again. Objects are borrowed.
struct Mismatch {
  enum class What : uint8_t {
    kRow,    // what the row of the guard says
    kOther,  // the subject is another object
    kClass,  // the subject is of another class
    kSize,   // `size` items where there were `before`
    kItem,   // item `item` of the guard is `now`
  };
  What what = What::kRow;
  uint32_t item = 0;
  uint64_t size = 0, before = 0;
  PyObject* now = nullptr;  // null: nothing is there
};

// One of Trace::guards. `why` is written if the guard does not hold; null: nobody asks.
bool check_guard(const Trace& trace, const Guard& guard, Reg* regs, Mismatch* why = nullptr) noexcept;

// Which guard does not hold, in words, with both values; empty if all hold. Checks again, so registers are written.
// `start` is the function or object that the trace belongs to, which is alive.
std::string explain_miss(const Trace& trace, PyObject* start, Reg* regs);
std::string explain_miss(const Trace& trace, const Epoch& epoch, Reg* regs);

}  // namespace pijit
