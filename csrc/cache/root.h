// Roots: the functions and objects whose calls are recorded and replayed, and what is known of each.
//
// All members are guarded by the GIL; a trace that runs is kept by a shared pointer.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cache/counts.h"
#include "cache/ledger.h"
#include "cache/limits.h"
#include "cache/number_loops.h"
#include "cache/owner.h"
#include "cache/recordings.h"
#include "cache/savings.h"
#include "cache/standing.h"
#include "cache/traces.h"
#include "cache/variants.h"
#include "cpython/entrance.h"
#include "guard/varying.h"

namespace pijit {

// What of a root outlives the process (hook/kept.h).
struct Kept {
  bool asked = false;                // the cache was looked into, for a call
  bool ahead = false;                // its traces were there before the first call, which is still to come
  bool profiled = false;             // and the profile
  uint64_t found = 0, recorded = 0;  // traces that came from there, and recordings when its traces were last written
  std::vector<Ref> arguments;        // of calls that were recorded: weak references
  std::vector<std::string> left;     // traces of which an object was not there yet
  int tries = 0;                     // that these have left
};

struct Root {
  int id = 0;
  Owner owner;
  Written written;
  Asked asked;
  Verification verification;
  Entry entry;
  std::vector<std::weak_ptr<Root>> entries;  // to which its calls came (cache/entry_points.h)
  Traces traces;
  Variants variants;
  Varying varying;
  NumberLoops numbers;
  Standing standing;
  Aside aside;
  Last last;
  Counts counts;
  InARow in_a_row;
  Recordings recordings;
  Evictions evictions;
  Ledger ledger;
  bool awaits_plans = false;  // compilers were at work for it when the ledger last asked for a call
  Savings savings;
  Kept kept;

  bool is_entry() const noexcept { return entry.at >= 0; }
  bool is_live() const noexcept { return !standing.is_disabled() || standing.passes; }
  // Seconds of a call in CPython; 0: not known.
  double plain_call() const noexcept { return ledger.plain() > 0 ? ledger.plain() : recordings.plain; }
  Saved saved() const noexcept { return savings.saved(is_entry() ? entry.rounds.known() : ledger.known()); }
  // Its calls, or those that it calls, are found among all frames: no entrance of its function tells of them.
  bool needs_frames() const noexcept {
    if (asked.automatic) return false;  // enable() has all frames looked at
    return owner.suspends || standing.passes || owner.function == nullptr ||
           !cpython::is_entered_by_calls(owner.function);
  }
};

struct Stats {
  uint64_t codes = 0, replayed_codes = 0;  // code objects of which a trace was made, and of which one ran
  uint64_t records = 0, aborts = 0, replays = 0, exits = 0, guard_failures = 0, opaque_calls = 0;
};

Stats& stats() noexcept;
std::vector<std::shared_ptr<Root>>& all_roots() noexcept;
// Some root is not left to CPython, or has passed its role on. To be told when a root is left or taken up again.
bool any_live_root() noexcept;
bool any_live_root_of_user() noexcept;  // one that enable() has not found
bool any_root_needs_frames() noexcept;
void roots_changed() noexcept;

// Roots whose function or object died, without their traces; kept only after keep_dead_roots().
std::vector<std::shared_ptr<Root>>& dead_roots() noexcept;
void keep_dead_roots() noexcept;
// Called with the number of a root that has traces, while these and the object are still there; null: nobody is.
Ref& dead_root_keeper() noexcept;
// The same of any root, for what outlives the process (hook/kept.h).
Ref& dying_root_writer() noexcept;

// The function that decorators wrap, as functools.wraps notes it; else the function itself. Borrowed.
PyObject* undecorated(PyObject* function) noexcept;
// Some root has been of a generator or coroutine function.
bool any_suspends() noexcept;
// Whom roots that are found by themselves ask for plans; null: nobody.
Ref& default_market() noexcept;
// Adds a root; -1 with an error set.
int add_root(PyCodeObject* code, PyObject* function, PyObject* instance, std::string name, bool strict, bool automatic);
void remove_root(int id);
// An entry, too.
std::shared_ptr<Root> find_root(int id);
// The number of a root that is made.
int next_root() noexcept;
int root_of(PyObject* object) noexcept;
void reset_root(Root& root);
// Resets the roots whose traces follow this function, or a method of this object.
void forget_followed(PyObject* thing);

}  // namespace pijit
