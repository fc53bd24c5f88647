// What CPython 3.13 changed between its patch releases. One build is for all of them, so it is looked at when pijit is
// loaded; of other versions it is known.
#pragma once

namespace pijit::cpython {

// Runs a small program; false: it raised.
bool look_at_patch_release() noexcept;
// The object of a generator's frame that has ended names, as its f_back, who resumed the generator last; else nobody.
bool ended_generators_have_callers() noexcept;
// The group that `except*` makes of an exception that is none has a traceback.
bool wrapped_have_tracebacks() noexcept;

}  // namespace pijit::cpython
