// Log channels over Python's logging.
#include "hook/log.h"

#include "common/imports.h"

namespace pijit {
namespace {

uint32_t g_channels = 0;

}  // namespace

uint32_t& log_channels() noexcept {
  return g_channels;
}

void log_line(Channel channel, const std::string& text) {
  if (!logs(channel)) return;
  SavedError error;
  const uint32_t before = g_channels;
  g_channels = 0;  // what the handlers run is not logged
  Ref logging = import_module("logging");
  Ref logger = logging ? Ref::steal(PyObject_CallMethod(logging.get(), "getLogger", "s", "pijit")) : Ref();
  Ref done = logger ? Ref::steal(PyObject_CallMethod(logger.get(), "debug", "ss", "%s", text.c_str())) : Ref();
  if (!done) PyErr_WriteUnraisable(logger.get());
  g_channels = before;
}

}  // namespace pijit
