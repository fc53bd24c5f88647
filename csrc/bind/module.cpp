// The core module's Python face: private functions that pijit/*.py calls.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "adapter.h"
#include "bind/data.h"
#include "bind/data_guards.h"
#include "bind/layout.h"
#include "bind/plans.h"
#include "bind/views.h"
#include "cache/code_state.h"
#include "cache/entry_points.h"
#include "cache/memory.h"
#include "cache/root.h"
#include "common/work.h"
#include "cpython/objects.h"
#include "cpython/patch_releases.h"
#include "cpython/places.h"
#include "exec/registers.h"
#include "exec/replay.h"
#include "exec/side_exit.h"
#include "guard/check.h"
#include "hook/automatic.h"
#include "hook/entries.h"
#include "hook/events.h"
#include "hook/hook.h"
#include "hook/in_loop.h"
#include "hook/kept.h"
#include "hook/log.h"
#include "hook/numbers.h"
#include "hook/payoff.h"
#include "hook/rest.h"
#include "hook/running.h"
#include "hook/savings.h"
#include "hook/serve.h"
#include "hook/share.h"
#include "hook/stress.h"
#include "hook/tell.h"
#include "hook/verify.h"
#include "hook/worth.h"
#include "ir/adapter_slot.h"
#include "ir/checked.h"
#include "plan/number_functions.h"
#include "plan/tapes.h"
#include "record/captures.h"
#include "record/known_loops.h"
#include "record/limits.h"
#include "record/marks.h"
#include "record/mirror/builtins.h"
#include "record/pace.h"
#include "record/recorder.h"

namespace py = pybind11;

namespace pijit {

std::shared_ptr<Root> root_or_raise(int id) {
  auto root = find_root(id);
  if (root == nullptr) throw py::value_error("there is no such root; it was removed, or its function died");
  return root;
}

namespace {

int py_add_root(py::object code, py::object function, py::object instance, std::string name, bool strict,
                uint64_t verify, bool fixed_sizes) {
  if (!PyCode_Check(code.ptr())) throw py::type_error("code must be a code object");
  PyObject* f = function.is_none() ? nullptr : function.ptr();
  PyObject* i = instance.is_none() ? nullptr : instance.ptr();
  if ((f == nullptr) == (i == nullptr)) throw py::type_error("a root is a function or an instance");
  build_builtin_table();
  int id = add_root(reinterpret_cast<PyCodeObject*>(code.ptr()), f, i, std::move(name), strict, false);
  if (id < 0) throw py::error_already_set();
  find_root(id)->verification.every = verify;
  find_root(id)->asked.fixed_sizes = fixed_sizes;
  if (f != nullptr) give_entrance(f);
  roots_changed();
  settle_hook();
  return id;
}

void py_remove_root(int id) {
  const auto root = find_root(id);
  remove_root(id);
  if (root != nullptr && root->owner.function != nullptr &&
      PyWeakref_GetObject(root->owner.weak.get()) == root->owner.function)
    take_entrance(root->owner.function);
  settle_hook();
}

// Held by the caller: whatever runs meanwhile may drop it.
std::shared_ptr<Trace> trace_or_raise(const Root& root, size_t index) {
  if (index >= root.traces.size())
    throw py::index_error("the root has " + std::to_string(root.traces.size()) + " traces");
  return root.traces[index];
}

py::dict py_trace_data(int id, size_t index) {
  const auto root = root_or_raise(id);
  return trace_data(*root, *trace_or_raise(*root, index));
}

py::dict py_guard_data(int id, size_t index) {
  const auto root = root_or_raise(id);
  return guard_data(*root, *trace_or_raise(*root, index));
}

std::string py_trace_text(int id, size_t index) {
  const auto root = root_or_raise(id);
  return text_of_trace(*root, *trace_or_raise(*root, index));
}

void py_reset(int id) {
  wake_hook();
  if (id >= 0) return reset_root(*root_or_raise(id));
  const std::vector<std::shared_ptr<Root>> roots = all_roots();  // what dies meanwhile takes itself off the list
  for (auto& root : roots) reset_root(*root);
  forget_entries();
  stats() = Stats();
}

void py_attach(py::object capsule) {
  auto* adapter = static_cast<Adapter*>(PyCapsule_GetPointer(capsule.ptr(), kAdapterCapsule));
  if (adapter == nullptr) throw py::error_already_set();
  if (adapter->version() != kAdapterVersion)
    throw py::import_error("this adapter was built against another pijit; reinstall pijit");
  build_builtin_table();
  for (PyTypeObject* const* type = adapter->value_types(); *type != nullptr; ++type) cpython::add_value_type(*type);
  for (PyTypeObject* const* type = adapter->tuple_types(); *type != nullptr; ++type) cpython::add_tuple_type(*type);
  set_adapter(adapter);
  wake_hook();
}

// The value is one that Python has checked; what does not fit is as much as does.
template <typename T>
void set_limited(T& option, int64_t value) {
  option = static_cast<T>(std::min<uint64_t>(static_cast<uint64_t>(value), std::numeric_limits<T>::max()));
}

void py_set_option(const std::string& name, int64_t value) {
#define PIJIT_OPTION(option, kind, place, least, doc) \
  if (name == #option) return set_limited(place, value);
#include "bind/options.def"
#undef PIJIT_OPTION
  throw py::key_error(name);
}

int64_t py_get_option(const std::string& name) {
#define PIJIT_OPTION(option, kind, place, least, doc) \
  if (name == #option) return static_cast<int64_t>(place);
#include "bind/options.def"
#undef PIJIT_OPTION
  throw py::key_error(name);
}

constexpr const char* kStances[] = {"on", "off", "replay_only", "fail_on_record", "verify"};

void py_set_stance(const std::string& name) {
  for (size_t i = 0; i < std::size(kStances); ++i)
    if (name == kStances[i]) return set_stance(static_cast<Stance>(i));
  throw py::value_error(name);
}

constexpr const char* kMarks[] = {"", "skip", "opaque", "constant", "enter", "leave", "whole", "sides"};

// What was recorded through a function, or through the methods of an object, that is marked now is forgotten; of a module
// or a class that is not known.
void py_set_mark(py::object thing, const std::string& name, std::string reason) {
  size_t mark = 0;
  while (mark < std::size(kMarks) && name != kMarks[mark]) ++mark;
  if (mark == std::size(kMarks)) throw py::value_error(name);
  if (!set_mark(thing.ptr(), static_cast<Mark>(mark), std::move(reason))) throw py::error_already_set();
  if (!PyModule_Check(thing.ptr()) && !PyType_Check(thing.ptr())) return forget_followed(thing.ptr());
  const std::vector<std::shared_ptr<Root>> roots = all_roots();  // what dies meanwhile takes itself off the list
  for (const auto& root : roots) reset_root(*root);
}

// Those of the first trace of a root that takes no arguments, but for modes.
bool guards_hold(int id) {
  const std::shared_ptr<Root> root = root_or_raise(id);
  if (root->traces.empty()) return false;
  const std::shared_ptr<Trace> trace = *root->traces.begin();
  const RegisterFile file(trace->regs.size());
  return trace->inputs == 0 && file.get() != nullptr && check_objects(*trace, file.get());
}

py::tuple py_mark_of(py::object object) {
  return py::make_tuple(kMarks[static_cast<size_t>(mark_of(object.ptr()))], mark_reason(object.ptr()));
}

}  // namespace
}  // namespace pijit

PYBIND11_MODULE(_core, m) {
  using namespace pijit;
  m.doc() = "pijit's engine (private).";
  if (!start_cache() || !cpython::look_at_patch_release()) throw py::error_already_set();
  set_resume(resume);
  m.attr("checked") = kChecked;  // a check that fails stops the process
  m.def("hook_install", [] {
    build_builtin_table();
    install_hook();
  });
  m.def("hook_remove", [] { remove_hook(); });
  m.def("hook_installed", [] { return hook_installed(); });
  m.def("hook_rests", [] { return hook_rests(); });
  m.def("layout_trouble", [] {
    const char* name = python_layout_trouble();
    return std::string(name == nullptr ? "" : name);
  });
  m.def("add_root", &py_add_root, py::arg("code"), py::arg("function"), py::arg("instance"), py::arg("name"),
        py::arg("strict"), py::arg("verify"), py::arg("fixed_sizes"));
  m.def("remove_root", &py_remove_root, py::arg("root"));
  m.def("set_varying_sizes", [](std::vector<int64_t> sizes) { varying_sizes() = std::move(sizes); }, py::arg("sizes"));
  m.def(
      "set_auto",
      [](bool on) {
        set_automatic(on);
        settle_hook();
      },
      py::arg("on"));
  m.def("number_functions", [] { return py::reinterpret_borrow<py::object>(number_functions()); });
  m.def("set_stance", &py_set_stance, py::arg("name"));
  m.def("get_stance", [] { return kStances[static_cast<size_t>(stance())]; });
  m.def("set_mark", &py_set_mark, py::arg("thing"), py::arg("mark"), py::arg("reason"));
  m.def("mark_of", &py_mark_of, py::arg("obj"));
  m.def("set_listener", [](py::object callable) { set_listener(callable.ptr()); }, py::arg("callable"));
  m.def("set_comparer", [](py::object callable) { set_comparer(callable.ptr()); }, py::arg("callable"));
  m.def("keep_dead_roots", [](const py::object& keeper) {
    keep_dead_roots();
    dead_root_keeper() = keeper.is_none() ? Ref() : Ref::borrow(keeper.ptr());
  });
  m.def("measure_savings", [] { measure_savings(); });
  m.def("note_events", [](bool replays) { note_events(replays); });
  m.def("events", [] { return events_view(); });
  m.def(
      "set_library", [](std::vector<std::string> names) { cpython::set_library(std::move(names)); },
      py::arg("directories"));
  m.def("outermost", [] { return outermost_view(); });
  m.def("roots", [] { return roots_view(); });
  m.def("entries", [] { return entries_view(); });
  m.def("root_of", [](py::object object) { return root_of(object.ptr()); }, py::arg("obj"));
  m.def("root_status", [](int id) { return root_status(*root_or_raise(id)); }, py::arg("root"));
  m.def("time_guards", time_guards, py::arg("root"), py::arg("repeats"));
  m.def("guard_times", [] { return std::make_pair(guard_times().first, guard_times().again); });
  m.def("root_report", [](int id) { return root_report(*root_or_raise(id)); }, py::arg("root"));
  m.def("root_traces", [](int id) { return root_traces(*root_or_raise(id)); }, py::arg("root"));
  m.def("keep_inputs", [](bool on) { return std::exchange(keeps_inputs(), on); }, py::arg("on"));
  m.def("only_read", [](int root) { return std::exchange(root_only_read(), root); }, py::arg("root"));
  m.def(
      "keep_decisions",
      [](bool on) {
        forget_loops();
        return std::exchange(keeps_decisions(), on);
      },
      py::arg("on"));
  m.def("guards_hold", &guards_hold, py::arg("root"));
  m.def("trace_data", &py_trace_data, py::arg("root"), py::arg("index"));
  m.def("trace_text", &py_trace_text, py::arg("root"), py::arg("index"));
  bind_text(m);
  bind_kept(m);
  bind_ledger(m);
  m.def("guard_data", &py_guard_data, py::arg("root"), py::arg("index"));
  m.def("reset", &py_reset, py::arg("root"));
  m.def("stats", [] { return stats_view(); });
  m.def("choose_exit", [](uint64_t point) { return choose_exit(point); }, py::arg("point") = kAnywhere);
  m.def("work_so_far", [] { return work_done; });
  m.def("limit_work", [](uint64_t steps) { return std::exchange(most_work_of_event, steps); }, py::arg("steps"));
  m.def("tables", [] { return tables_view(); });
  add_plans(m);
  m.def("attach_adapter", &py_attach, py::arg("capsule"));
  m.def("set_option", &py_set_option, py::arg("name"), py::arg("value"));
  m.def("get_option", &py_get_option, py::arg("name"));
}
