// What the object of a generator's frame that has ended names as its f_back. CPython 3.13 changed that between two
// patch releases, and one build is for both: so it is looked at when pijit is loaded.
#pragma once

namespace pijit::cpython {

// Runs a small program; false: it raised.
bool look_at_ended_generators() noexcept;
// It names who resumed the generator last; else nobody.
bool ended_generators_have_callers() noexcept;

}  // namespace pijit::cpython
