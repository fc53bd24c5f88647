// Calls whose loops compute with numbers run as a program over native registers (scalar/program.h).
//
// A recording of such a loop has a node for each operation of each turn, and a call with other numbers makes another
// number of turns. A program takes the loop as it stands, and has no guards: it looks at the numbers that are there.
//
// 1. A loop of few turns is recorded: where its numbers are the same in each call its trace has the result.
// 2. A call that no trace takes, and one that makes many turns, runs as a program. So do later calls, first of all.
// 3. A run that ends before it has made many turns, and has written nothing, is forgotten: the call is treated as any
//    other. Else CPython, or traces that begin there, go on in the frame.
// 4. Who wants a recording gets one: exports, verification, stress.
#pragma once
#include "cache/root.h"
#include "cpython/frame.h"

namespace pijit {

// An option.
bool& runs_number_loops() noexcept;

// The call is to be run as a program before traces are asked.
bool runs_as_numbers_first(const Root& root) noexcept;
// True: *result is what the frame returns. `wanted`: no trace takes the call; else only one of many turns is to be run.
bool run_as_numbers(Root& root, PyThreadState* ts, cpython::Frame* frame, bool wanted, PyObject** result);

}  // namespace pijit
