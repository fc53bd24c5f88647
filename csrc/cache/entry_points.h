// The places in the middle of functions where frames go on, and the entries there (hook/entries.h).
//
// A place is kept with the function's code; its entry, once it has one, is a root of its own. Both are shared by all
// roots whose calls come to the place and that ask the same market for plans, under one policy of sizes.
#pragma once
#include "cache/code_state.h"

namespace pijit {

// Adds a place to those of the code. The reference holds until the next one is added or forgotten.
EntryPoint& add_point(CodeState& state, EntryPoint point);
// The state of a code object that dies.
void forget_points(CodeState* state) noexcept;

// The entries that there are, and those that calls of the root came to, in the order in which they were made.
std::vector<std::shared_ptr<Root>> all_entries();
std::vector<std::shared_ptr<Root>> entries_of(const Root& root);
// It is one from now on.
void note_entry(const std::shared_ptr<Root>& entry);
// A call of the root came to the entry.
void note_entered(Root& root, const std::shared_ptr<Root>& entry);

// No entry, and no count of a place, is used any more: none at all, this one, or those that calls of the root came to.
void forget_entries();
void forget_entry(const Root& entry);
void forget_entries_of(const Root& root);

}  // namespace pijit
