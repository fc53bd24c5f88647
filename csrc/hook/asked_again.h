// What abstract base classes answered, asked again after a registration.
//
// A registration with any of them (a compiler that is imported makes dozens) moves the one counter that CPython keeps.
// Most answers stay what they were, and a trace that relies on them needs not be recorded anew.
#pragma once
#include "cache/root.h"

namespace pijit {

// A trace of the root that only the counter kept from this call holds again: the classes have answered as before. They
// answer in Python, as they would in the call.
bool ask_again(Root& root, cpython::Frame* frame);

}  // namespace pijit
