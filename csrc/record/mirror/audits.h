// Audit hooks that are written in Python: what CPython tells them while an instruction is under way.
//
// 1. Each hook is called in turn, as C code calls Python (drive.h). One that is no function is foreign code.
// 2. Hooks stay for ever, so a guard on their list finds only that there are more.
// 3. Where CPython gives hooks no events (kHooksHaveEvents), what they do cannot be followed: they are foreign code.
#pragma once
#include "record/mirror/drive.h"

namespace pijit {

// Somebody is told of events, and can be followed.
bool is_audited() noexcept;
// PySys_Audit(event, *details); true.
Task<bool> audit(Drive& drive, const char* event, Vals details);
// CPython tells of it that this attribute of a function is read.
bool is_audited_attribute(PyObject* name) noexcept;
// Reads such an attribute; takes the function and the name.
Task<Val> audited_attribute(Drive& drive, Arguments args);
// id(); takes the number that it gives.
Task<Val> audited_id(Drive& drive, Arguments args);

}  // namespace pijit
