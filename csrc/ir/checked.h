// Whether this build checks itself: the shadow against the real frame before each instruction, each trace against the
// rules of traces. A difference stops the process.
#pragma once

namespace pijit {

extern const bool kChecked;

}  // namespace pijit
