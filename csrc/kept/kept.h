// A trace for another process, and a trace that another process has kept.
//
// Every object that a trace names gets a line with the path by which any process finds it (ir/origin.h), and with what
// it has to be there (kept/describe.h). Versions and addresses are left out and taken anew, of what is found and
// compared. So a trace that was kept may be of no use, and is never wrong: what it relies on is either found again
// here, or checked by its guards at each call.
//
// 1. What is found on two ways must be found on both: a step that leads from one object of the trace to another, and
//    that no guard looks at since it cannot change, is a condition ("also").
// 2. Two objects of the trace are two objects here.
// 3. A file runs nothing and imports nothing. It names operations of the adapter and objects of this process.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/trace.h"

namespace pijit {

// Between calls, while nothing runs. `owner`: the function or object of the root, alive; `arguments`: of
// living_arguments(), or null. Empty: it cannot be kept, and *why.
std::string kept_text(const Trace& trace, PyObject* owner, PyObject* arguments, std::string* why);

// Whether an object of the trace may still come, such as one that the first call makes; `why` as revive() gives it.
bool may_come(std::string_view why) noexcept;

// A trace that was not finished yet (finish_trace). `arguments`: of the call for which it is wanted. Null: it is of no
// use here, and *why.
std::unique_ptr<Trace> revive(const std::string& text, PyObject* owner, const std::vector<PyObject*>& arguments,
                              std::string* why);

}  // namespace pijit
