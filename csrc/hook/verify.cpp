// One replay beside its call.
#include "hook/verify.h"

#include <utility>

#include "common/ref.h"
#include "exec/replay.h"
#include "hook/evaluate.h"
#include "hook/log.h"
#include "ir/print.h"

namespace pijit {
namespace {

uint64_t g_every = 0;

// Immortal, so that nothing is dropped when the process ends.
Ref& comparer() noexcept {
  static auto* callable = new Ref();
  return *callable;
}

void log_unverified(const Root& root, const Trace& trace, const Node& effect) {
  if (!logs(Channel::kGuards)) return;
  const Printer printer(trace, false);
  log_line(Channel::kGuards, "verify " + root.written.name + ": a replay cannot be done twice, because of " +
                                 printer.node(effect) + ", " + printer.site(effect.site));
}

// The comparer looks at the results, after the call has returned. Its words if they differ, else nothing.
std::string compared(PyObject* plain, PyObject* replayed) {
  SavedError error;
  Ref callable = Ref::borrow(comparer().get());
  Ref said = Ref::steal(PyObject_CallFunctionObjArgs(callable.get(), plain, replayed, nullptr));
  const char* text = said && PyUnicode_Check(said.get()) ? PyUnicode_AsUTF8(said.get()) : nullptr;
  if (text == nullptr) PyErr_WriteUnraisable(callable.get());
  return text == nullptr ? "" : text;
}

std::string raised_text() {
  PyObject* raised = PyErr_Occurred();
  const char* name = raised != nullptr && PyType_Check(raised) ? reinterpret_cast<PyTypeObject*>(raised)->tp_name : "?";
  return "CPython raises " + std::string(name) + ", and a replay returns";
}

}  // namespace

uint64_t& verify_every() noexcept {
  return g_every;
}

uint64_t verified_each(const Root& root, bool always) noexcept {
  return root.verification.every != 0 ? root.verification.every : always ? 1 : g_every;
}

bool is_verified(Root& root, bool always) noexcept {
  if (root.is_entry()) return false;  // what CPython runs is more than one replay
  const uint64_t every = verified_each(root, always);
  return root.verification.is_due(every);
}

void set_comparer(PyObject* callable) {
  comparer() = Ref::borrow(callable);
}

bool verify_replay(const Root& root, const Trace& trace, PyThreadState* ts, cpython::Frame* frame, PyObject** result,
                   std::string* wrong) {
  if (!comparer()) return false;
  if (const Node* effect = first_effect(trace)) return log_unverified(root, trace, *effect), false;
  const Ref replayed = rehearse(trace, frame, ts);
  if (!replayed) return false;
  *result = plain(ts, frame, 0);
  *wrong = *result == nullptr ? raised_text() : compared(*result, replayed.get());
  return true;
}

}  // namespace pijit
