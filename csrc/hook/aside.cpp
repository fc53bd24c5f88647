// Tracers, profilers and modes of the framework have pijit step aside while they last.
#include "hook/aside.h"

#include "adapter.h"
#include "exec/replay.h"
#include "ir/adapter_slot.h"
#include "record/reasons.h"
#include "record/recorder.h"

namespace pijit {
namespace {

std::string text_of(const Ref& unicode) {
  const char* text = unicode && PyUnicode_Check(unicode.get()) ? PyUnicode_AsUTF8(unicode.get()) : nullptr;
  PyErr_Clear();
  return text == nullptr ? "" : text;
}

// "bdb.Bdb.trace_dispatch": a function, or the class of anything else.
std::string words_of(PyObject* thing) {
  if (thing == nullptr) return "";
  if (PyMethod_Check(thing)) thing = PyMethod_GET_FUNCTION(thing);
  PyObject* const named = PyFunction_Check(thing) ? thing : reinterpret_cast<PyObject*>(Py_TYPE(thing));
  const std::string module = text_of(Ref::steal(PyObject_GetAttrString(named, "__module__")));
  const std::string name = text_of(Ref::steal(PyObject_GetAttrString(named, "__qualname__")));
  return module.empty() ? name : module + "." + name;
}

std::string in_brackets(const std::string& words) {
  return words.empty() ? words : " (" + words + ")";
}

StopInfo at_root(const Root& root, Abort reason, const std::string& detail) {
  StopInfo info;
  const Reason& row = kAborts[static_cast<size_t>(reason)];
  info.code = row.code;
  info.reason = std::string(row.text) + ": " + detail;
  return root.written.placed(std::move(info));
}

}  // namespace

StopInfo why_aside(const Root& root, PyThreadState* ts) {
  const SavedError error;
  if (ts->c_tracefunc != nullptr)
    return at_root(root, Abort::kTraced, "a trace function is set" + in_brackets(words_of(ts->c_traceobj)));
  if (ts->c_profilefunc != nullptr)
    return at_root(root, Abort::kTraced, "a profiler is on" + in_brackets(words_of(ts->c_profileobj)));
  if (const Ref tool = cpython::monitoring_tool(ts))
    return at_root(root, Abort::kTraced, "a tool of sys.monitoring is on" + in_brackets(text_of(tool)));
  if (!cpython::untraced(ts)) return at_root(root, Abort::kTraced, "the call is made by a trace function or profiler");
  if (misses_origins(root.traces.coroutines(), ts))
    return at_root(root, Abort::kTraced, "the origin of coroutines is tracked");
  Adapter* adapter = current_adapter();
  const char* mode = adapter == nullptr ? nullptr : adapter->must_step_aside();
  return mode == nullptr ? StopInfo() : at_root(root, Abort::kAside, mode);
}

}  // namespace pijit
