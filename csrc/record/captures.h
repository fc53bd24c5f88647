// Recordings of which only the graph is wanted. Their traces are never replayed, so nothing of them is ever rebuilt.
#pragma once

namespace pijit {

// The root whose recordings are only read; -1: there is none.
int& root_only_read() noexcept;
// The recording under way is one of them.
bool& is_only_read() noexcept;

}  // namespace pijit
