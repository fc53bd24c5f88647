// Calls of audit hooks, as tasks, and the operations that CPython tells them of.
#include "record/mirror/audits.h"

#include "cpython/events.h"
#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/state/contents.h"

namespace pijit {
namespace {

// A list, or null.
PyObject* hooks_in_python() noexcept {
  return PyThreadState_Get()->interp->audit_hooks;
}

}  // namespace

bool is_audited() noexcept {
  return cpython::kHooksHaveEvents && hooks_in_python() != nullptr;
}

Task<bool> audit(Drive& drive, const char* event, Vals details) {
  Recorder& recorder = drive.recorder();
  Vals hooks;
  if (!try_items(recorder, Val::constant(hooks_in_python()), &hooks)) co_await drive.unknown();
  const Val name = recorder.reads.owned(Ref::steal(PyUnicode_InternFromString(event)).get());
  const Val more = recorder.new_tuple(&PyTuple_Type, details.data(), details.size());
  for (const Val hook : hooks) {
    if (hook.object() == nullptr || !PyFunction_Check(hook.object())) co_await drive.unknown();
    co_await call_two(drive, hook, name, more);
  }
  co_return true;
}

bool is_audited_attribute(PyObject* name) noexcept {
  return has_name(name, "__code__") || has_name(name, "__defaults__") || has_name(name, "__kwdefaults__");
}

Task<Val> audited_attribute(Drive& drive, Arguments args) {
  const Val function = args.values[0], name = args.values[1];
  co_await audit(drive, "object.__getattr__", args.values);
  const Val value = function_attribute(drive.recorder(), function, name.object());  // what the hooks have left there
  if (value.is_null()) co_await drive.unknown();
  co_return value;
}

Task<Val> audited_id(Drive& drive, Arguments args) {
  co_await audit(drive, "builtins.id", args.values);
  co_return args.values[0];
}

}  // namespace pijit
