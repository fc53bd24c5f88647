// Messages for the user are handed to Python.
#include "hook/tell.h"

#include "common/ref.h"
#include "cpython/objects.h"
#include "hook/stress.h"

namespace pijit {
namespace {

// Immortal, so that nothing is dropped when the process ends.
Ref& listener() noexcept {
  static auto* callable = new Ref();
  return *callable;
}

constexpr const char* kKinds[] = {"stopped", "left", "leaving"};

}  // namespace

Switches& switches() noexcept {
  static Switches value;
  return value;
}

void set_listener(PyObject* callable) {
  listener() = Ref::borrow(callable);
}

void tell(Told kind, const Root& root, const StopInfo& cause, double seconds, const char* because) {
  if (!listener() || stress_words() != 0 || cpython::is_finalizing()) return;
  SavedError error;
  const bool placed = !cause.file.empty();
  const std::string codes = because == nullptr ? cause.code : std::string(cause.code) + ", " + because;
  Ref callable = Ref::borrow(listener().get());
  Ref done = Ref::steal(PyObject_CallFunction(
      callable.get(), "{s:s,s:i,s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:d}", "kind", kKinds[static_cast<size_t>(kind)], "root",
      root.id, "name", root.written.name.c_str(), "codes", codes.c_str(), "reason", cause.reason.c_str(), "file",
      (placed ? cause.file : root.written.file).c_str(), "line", placed ? cause.line : root.written.line, "function",
      (placed ? cause.function : root.written.name).c_str(), "inside", cause.inside.c_str(), "seconds", seconds));
  if (!done) PyErr_WriteUnraisable(callable.get());
}

}  // namespace pijit
