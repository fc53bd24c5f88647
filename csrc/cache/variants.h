// Calls of a root that has many traces: which of them give one more, and which trace gives way to it.
//
// 1. The first traces of a root (the option max_traces) cost nothing but their recording. More are recorded only while
//    calls show that they come back, up to kTimes as many: this call has missed before, or most of the traces that there
//    are have been replayed. Else each call of a stream of calls that never come back would be recorded.
// 2. A call looks as one that missed before by its arguments (cache/dispatch.h). Where it is told from others by
//    anything else, or its arguments are new in each call, the replays of other traces have to speak for it.
// 3. A root that has as many as it may have pays for the next one with replays. The trace gives way that was replayed or
//    recorded longest ago, as far as misses tell; of those that are alike in that, the one whose replays have saved the
//    least since.
// 4. Each miss tries the guards of all traces. Where fewer than half of many calls are replayed though there are more
//    traces than usual, there are too many variants: those beyond the usual number go, and no more come.
// 5. While a root gets more traces than usual, what its calls take tells nothing: the ledger begins anew then.
// 6. With strict=True nothing of that is done: which calls raise is to be known beforehand.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "cpython/frame.h"
#include "ir/trace.h"

namespace pijit {

class Adapter;
struct Root;

struct Variants {
  // Of a trace, at the last miss for which a trace would have had to give way.
  struct Use {
    uint64_t replays = 0;
    uint64_t at = 0;      // the number of the call
    uint64_t gained = 0;  // by replays since the miss before, about: bytecodes that CPython did not run
  };
  std::unordered_set<uint64_t> missed;  // what calls looked like for which there was no room
  std::unordered_map<const Trace*, Use> uses;
  uint64_t calls = 0, replays = 0;  // of the root, when what is counted for the next verdict began
  bool refused = false;             // there are too many variants
  bool grew = false;                // it has had more traces than cost nothing since the ledger was last asked
  uint64_t paid = 0;                // replays that have paid for a trace in the place of another
};

// Of its traces that some replay has entered.
size_t replayed_traces(const Root& root) noexcept;
// One more may be recorded, whatever the call is.
bool may_grow(const Root& root) noexcept;
// The call, which no trace took, may give one more.
bool has_room(Root& root, cpython::Frame* frame, const Adapter* adapter);
// A trace is about to be added for a call; true: another one gave way.
bool make_place(Root& root);

}  // namespace pijit
