// The threads that compile beside the program, and their share of its time.
//
// CPython gives the GIL to whoever waits for it, each 5 ms. With no idle core the program then waits until the other
// thread has had a core, too, and calls that replay in a fraction of a millisecond take 10 ms.
//
// 1. A thread that compiles does not wait for the GIL while the program computes. After a slice of work it parks, and
//    a call of the program that begins gives it the next one (`give_turn`). The call waits until the slice is over.
// 2. How long calls waited is measured on the clock of the wall, and bounds when the next slice may begin. So calls
//    lose the same share of their time whether the machine is loaded or not.
// 3. A thread that comes from a wait, for a file or a process, asks as any other does; the call puts that off (`due`).
//    Then it lends the GIL for a slice, whether a thread has asked for it or not.
// 4. Where nobody holds the GIL, or no call begins for a while, a parked thread goes on by itself.
// 5. Slices end where the thread calls a function of Python: the hook is in place while one compiles.
// 6. The state is guarded by a mutex of its own. Nobody who holds it waits for the GIL.
#pragma once
#include "common/python.h"

namespace pijit {

// This thread belongs to pijit, until it leaves: it never waits for plans, and is none of the program's.
void join_beside() noexcept;
void leave_beside() noexcept;
// This thread compiles from now on; may be nested.
void begin_compiling() noexcept;
void end_compiling() noexcept;
// Some thread compiles.
bool any_compiles() noexcept;
// The next seconds that calls wait for such threads are half of the time, not a tenth, from now on: what is made is known
// to pay.
void hurry_compilers(double seconds) noexcept;
// How long calls have waited for such threads, in seconds.
double waited_for_compilers() noexcept;
// In the child of a fork, which has none of these threads.
void forget_beside() noexcept;

extern constinit thread_local bool t_compiles;
// This thread compiles, and has come to a place where a slice may end.
void end_slice_if_over() noexcept;
inline void pause_if_beside() noexcept {
  if (t_compiles) end_slice_if_over();
}

// A call of the program begins: one parked thread has a slice, if one is due.
void give_turn(PyThreadState* ts) noexcept;
// A call of the program has waited since then: for a thread that compiles, if there is one.
void note_wait(double start) noexcept;
// A thread that compiles may come from a wait of its own and want the GIL: if a slice is due, it has one, in which the
// call does not want the GIL back. Else a thread that imports would have it for microseconds, up to the next read of a
// file, and where each call frees the GIL for a moment, never. False: no slice is due, or one is parked, or another
// thread of the program may be the one that waits.
bool lend_gil(PyThreadState* ts) noexcept;
// A thread that compiles has asked for the GIL as any other thread does, since it comes from a wait of its own, and no
// slice is due: it asks again. Not where another thread of the program may be the one that asks.
bool put_off_compilers(PyThreadState* ts) noexcept;
// The program has threads other than this one, pijit's own not counted.
bool has_other_threads(PyThreadState* ts) noexcept;

}  // namespace pijit
