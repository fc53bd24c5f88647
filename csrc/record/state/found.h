// A container that existed before, or that foreign code returned, of which the recorder loads the content (found.cpp).
#pragma once
#include <cstddef>
#include <cstdint>

#include "common/python.h"

namespace pijit {

struct Found {  // a container whose content the trace loads, or the __dict__ of such an instance
  uint32_t reg;
  PyObject* object;
  PyTypeObject* type;
  uint32_t dict;    // of an instance: where its __dict__ is
  uint32_t seen;    // it is written: up to which guard it was told apart from what is read
  size_t told;      // from how many objects that are written it was told apart, always
  size_t argument;  // how many containers were known before
};

}  // namespace pijit
