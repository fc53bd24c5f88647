// Whether the owner of a root is still there, and what is said in its name.
#include "cache/owner.h"

#include <utility>

namespace pijit {

void Owner::set_code(PyCodeObject* its) noexcept {
  code = its;
  held_code = Ref::borrow(reinterpret_cast<PyObject*>(its));
}

PyObject* Owner::living() const noexcept {
  const bool gone = dead || (!dying && weak && PyWeakref_GET_OBJECT(weak.get()) == Py_None);
  return gone ? nullptr : object();
}

StopInfo Written::placed(StopInfo stop) const {
  if (stop.code == nullptr || !stop.file.empty()) return stop;
  stop.file = file;
  stop.line = line;
  stop.function = name;
  return stop;
}

}  // namespace pijit
