// The only file that sees PIJIT_CHECKED: the objects of all others serve the installed and the checked module.
#include "ir/checked.h"

#ifndef PIJIT_CHECKED
#define PIJIT_CHECKED 0
#endif

namespace pijit {

const bool kChecked = PIJIT_CHECKED;

}  // namespace pijit
