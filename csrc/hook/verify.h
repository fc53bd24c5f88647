// Replays are compared with CPython, every n-th one.
//
// A replay that changes nothing is done beside the call, which CPython runs as if pijit were not there; what the two
// give is compared by Python (pijit/_verify.py). One that changes something cannot be done twice, and is not compared.
// Plans of segments are compared with native replay as often (exec/plans.h), whatever the trace changes.
#pragma once
#include "cache/root.h"

namespace pijit {

// How often, where neither the root nor the stance says anything else; 0: never.
uint64_t& verify_every() noexcept;
// Of so many replays of this root one is compared; 0: none. `always`: the stance asks for each.
uint64_t verified_each(const Root& root, bool always) noexcept;
// This call is to be compared.
bool is_verified(Root& root, bool always) noexcept;

// Who compares: called with what CPython and the replay gave, says where they differ or "".
void set_comparer(PyObject* callable);
// True: CPython has run the call; *result is what it gave, and *wrong where the replay differs, or "". False: nothing
// was done.
bool verify_replay(const Root& root, const Trace& trace, PyThreadState* ts, cpython::Frame* frame, PyObject** result,
                   std::string* wrong);

}  // namespace pijit
