// Roots: the functions and objects whose calls are recorded and replayed, and the traces of each.
//
// A root belongs to one function object or to one instance (the first local of the frame), so that what the trace takes
// for granted about closure and self holds at entry. Both are held weakly: when they die the root and its traces go.
// All members are guarded by the GIL; a trace that runs is kept by a shared pointer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/dispatch.h"
#include "cache/ledger.h"
#include "common/clock.h"
#include "cpython/entrance.h"
#include "cpython/frame.h"
#include "guard/varying.h"
#include "ir/trace.h"

namespace pijit {

struct Limits {
  int traces = 8;               // per root
  uint64_t aborted = 3;         // recordings in a row that gave nothing, before a root without traces is left alone
  uint64_t aborted_again = 32;  // the same, before a root with traces is
  uint64_t misses = 64;         // calls in a row that no trace took, before the root is left alone
  uint64_t stops = 8;           // times that one stop is reached in replays, before it is worth saying
  uint64_t exits = 32;          // times that a trace without a stop is left, before that is worth saying
  int wasted = 8;          // roots in a row, found by enable() in one code object, that died before they were worth it
  uint64_t worth = 8;      // replays for each recording, from which on a root was worth it
  size_t seen = 256;       // functions and objects that enable() remembers of one code object
  uint64_t hot = 3;        // times that a trace is left at one node, before a side trace is recorded
  int tries = 4;           // side traces that are tried for one node
  uint64_t useless = 2;    // replays of a trace, all left before its end, before it is forgotten
  uint64_t forgotten = 4;  // traces that are forgotten, for one root
  uint64_t stale = 8;      // replays in a row, all left, before a trace that has served is forgotten
  uint64_t turned = 32;    // replays in a row, all left, before any trace is forgotten for which no side trace came
  uint64_t recorded = 16;  // recordings of a root before it is recorded ever more rarely; 0: any number
  uint64_t pays = 16;      // replays for each recording, from which on it is not
  uint64_t pause = 32;     // calls without a recording then: at first, later ever twice as many
  int64_t served = 64;     // replays to the end, after which forgetting a trace does not count
};

// A call that the guards of a trace let in is to be recorded, to become the side trace of a node.
struct Wanted {
  std::shared_ptr<Trace> from;
  uint32_t node = 0;
  int wait = 0;  // calls that are let by before: ways may alternate
};

// Why calls of a root are CPython's from now on.
struct Farewell {
  StopInfo cause;
  const char* because = nullptr;  // code of what led to it, or null
};

struct Root {
  int id = 0;
  PyCodeObject* code = nullptr;
  Ref held_code;  // the same: the function may be given another, and this one is asked for its roots when they go
  PyObject* function = nullptr;  // borrowed, compared only; null for an instance root
  PyObject* instance = nullptr;  // borrowed, compared only; null for a function root
  Ref weak;                      // its callback removes the root
  std::string name;
  std::string file;  // where the user wrote it: the function under its decorators, or a method of the object's class
  int line = 0;
  bool strict = false, automatic = false, dead = false;
  bool dying = false;    // it is looked at for the last time
  int entered_at = -1;   // the instruction, if it is an entry in the middle of the function (hook/entries.h)
  bool is_loop = false;  // of an entry: that is the head of a loop
  uint32_t idle = 0;     // of a loop: replays in which no operator ran, more than others (hook/payoff.h)
  int entered_for = 0;   // of an entry: the root whose call came to it last
  std::vector<std::weak_ptr<Root>> entries;  // to which its calls came (cache/entry_points.h)
  bool suspends = false;     // of a generator or coroutine function: its body is CPython's, and it has no traces
  bool fixed_sizes = false;  // of tensors (SizePolicy)
  uint64_t verify = 0;       // every how many calls one is compared with CPython; 0: as for all
  uint64_t since_verified = 0;
  std::vector<std::shared_ptr<Trace>> traces;
  bool unprepared = false;  // for replays: some of them
  Dispatch dispatch;
  uint32_t depth = 1;       // deepest inlined level of all traces
  bool coroutines = false;  // some trace makes some
  Wanted wanted;            // null: none
  Varying varying;
  std::string disabled;  // why it is left alone; empty: it is not
  bool gave_up = false;  // it was left alone before because its replays lost
  bool closed = false;   // what it calls is not looked at while it is left alone
  Ledger ledger;
  bool awaits_plans = false;       // compilers were at work for it when the ledger last asked for a call
  Ref market;                      // asked for plans of segments: callable; null: native replay alone answers
  bool passes = false;             // the role of root has passed to what it calls
  double plain_seconds = 0;        // of a call in CPython, as far as it is known without the ledger
  double owed = 0, last_cost = 0;  // seconds of recordings that no call could use so far, of the last one
  std::vector<Ref> drivers;        // functions that took most of the last long recording, and were called once
  uint64_t calls = 0, records = 0, aborts = 0, replays = 0, exits = 0, misses = 0;
  uint64_t ended = 0;                      // replays that traces did to their end, be it several
  uint64_t stopped = 0, opaque_calls = 0;  // replays that came to where the recording had stopped; calls they made
  uint64_t pause = 0,
           records_again = 0;  // of calls: how long nothing is recorded, and from which on it is; 0: never was
  uint64_t misses_in_a_row = 0, aborts_in_a_row = 0, asides = 0, forgotten = 0;
  uint64_t left_in_a_row = 0;  // replays that CPython has ended, whatever became of the trace
  // Of the budget of bytes (cache/memory.h): times that its traces gave way; the calls before the next recording; the
  // replays of its traces when some root last had to give way.
  int evictions = 0;
  uint64_t waits_until = 0, replays_before = 0;
  StopInfo last_stop;
  StopInfo aside;     // why the last call was CPython's, because of what was on meanwhile; no code: it was not
  StopInfo given_up;  // why all are, while `disabled`
  std::string last_miss;
  std::optional<Farewell> farewell;  // to be said once it is known what the calls take
  double after = 0;                  // seconds that CPython took where replays stopped or were left
  Spent plain;                       // calls that CPython ran, the first ones of them
  Spent recorded;                    // with the calls that were watched, and with what replays need
  // While savings are measured (hook/savings.h): calls that were replayed, from their beginning, without what was
  // recorded in them; what recordings took in its calls; calls of the ledger's rounds that CPython ran, those of its
  // first round apart; the first call under enable(); calls that were left to CPython.
  Spent replayed, compared, compared_early, first, left;
  double recording = 0;

  bool is_live() const noexcept { return disabled.empty() || passes; }
  // Seconds of a call in CPython; 0: not known.
  double plain_call() const noexcept { return ledger.plain() > 0 ? ledger.plain() : plain_seconds; }
  // Its calls, or those that it calls, are found among all frames: no entrance of its function tells of them.
  bool needs_frames() const noexcept {
    if (automatic) return false;  // enable() has all frames looked at
    return suspends || passes || function == nullptr || !cpython::is_entered_by_calls(function);
  }
  bool matches(cpython::Frame* frame) const noexcept {
    return function != nullptr ? cpython::function(frame) == function : cpython::slot(frame, 0) == instance;
  }
};

// A place in the middle of a function to which frames come that replays have left.
struct EntryPoint {
  Ref weak;            // of the function
  PyObject* function;  // borrowed, compared only
  int index;           // the instruction
  uint64_t shape;      // which slots of the frame are empty
  int counted_for;     // the root whose call came to it last
  uint32_t arrivals;
  std::shared_ptr<Root> root;  // null: it has no traces yet
};

// What the hook keeps on a code object.
struct CodeState {
  std::vector<std::shared_ptr<Root>> roots;
  // Under enable():
  std::vector<const void*> seen;  // functions and objects whose calls were watched; addresses only
  size_t next_seen = 0;
  uint32_t plain_calls = 0;  // watched calls without tensor operators
  int wasted = 0;            // roots in a row that died before they were worth it
  Spent watched;             // the last of these calls, while savings are measured
  bool has_operators = false;
  bool recorded = false;     // a trace was made of it
  bool replayed = false;     // a trace of it ran
  uint32_t observed = 0;     // under PIJIT_STRESS=observe: calls that were recorded
  bool passes_on = false;    // what it calls is looked at instead
  double plain_seconds = 0;  // of the last call that was watched
  std::vector<EntryPoint> entries;
};

struct Stats {
  uint64_t codes = 0, replayed_codes = 0;  // code objects of which a trace was made, and of which one ran
  uint64_t records = 0, aborts = 0, replays = 0, exits = 0, guard_failures = 0, opaque_calls = 0;
};

Limits& limits() noexcept;
Stats& stats() noexcept;
std::vector<std::shared_ptr<Root>>& all_roots() noexcept;
// Some root is not left to CPython, or has passed its role on. To be told when a root is left or taken up again.
bool any_live_root() noexcept;
bool any_root_needs_frames() noexcept;
void roots_changed() noexcept;

// Roots whose function or object died, without their traces; kept only after keep_dead_roots().
std::vector<std::shared_ptr<Root>>& dead_roots() noexcept;
void keep_dead_roots() noexcept;
// Called with the number of a root that has traces, while these and the object are still there; null: nobody is.
Ref& dead_root_keeper() noexcept;

// Null if none (or, with create, on memory trouble).
CodeState* code_state(PyCodeObject* code, bool create) noexcept;
// False with an error set.
bool start_cache() noexcept;

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
// Of all calls, while savings are measured: what CPython took for what was left to it; and what all calls took less
// than they would have in CPython, recordings counted.
double seconds_lost(const Root& root) noexcept;
// `error`: standard. Both are 0 if no call was compared.
struct Saved {
  double seconds = 0, error = 0;
};
Saved seconds_saved(const Root& root) noexcept;
// Resets the roots whose traces follow this function.
void forget_followed(PyObject* function);

}  // namespace pijit
