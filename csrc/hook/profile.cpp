// Places of a root as another process finds them.
#include "hook/profile.h"

#include <utility>

#include "cpython/objects.h"
#include "hook/aftermath.h"
#include "hook/kept.h"
#include "hook/payoff.h"

namespace pijit {
namespace {

constexpr int kModule = -2, kInstance = -1;

// The containers in which places of the root are looked for, and their numbers.
std::vector<std::pair<int, PyObject*>> containers_of(const Root& root) {
  std::vector<std::pair<int, PyObject*>> found;
  PyObject* owner = root.owner.living();
  if (owner == nullptr) return found;
  if (root.owner.instance != nullptr) {
    found.emplace_back(kInstance, owner);
    if (PyObject* dict = cpython::instance_dict(owner)) found.emplace_back(kInstance, dict);
  }
  if (!PyFunction_Check(owner)) return found;
  auto* function = reinterpret_cast<PyFunctionObject*>(owner);
  found.emplace_back(kModule, function->func_globals);
  for (Py_ssize_t i = 0; function->func_closure != nullptr && i < PyTuple_GET_SIZE(function->func_closure); ++i)
    found.emplace_back(static_cast<int>(i), PyTuple_GET_ITEM(function->func_closure, i));
  return found;
}

}  // namespace

Profile& profile() noexcept {
  static auto* all = new Profile;
  return *all;
}

Profiled learnt_by(const Root& root) {
  Profiled made;
  if (root.standing.is_disabled()) made.useless = root.standing.disabled;
  made.passes = root.standing.passes;
  made.inputs = root.varying.open_inputs();
  for (const auto& [number, container] : containers_of(root)) {
    for (const Ref& key : root.varying.keys_in(container)) {
      const char* text = key.get() == Py_None              ? ""
                         : PyUnicode_CheckExact(key.get()) ? PyUnicode_AsUTF8(key.get())
                                                           : nullptr;
      if (text == nullptr) {
        PyErr_Clear();
        continue;
      }
      made.places.push_back({number, text});
    }
  }
  return made;
}

bool begin_as_profiled(Root& root) {
  if (profile().empty() || std::exchange(root.kept.profiled, true)) return false;
  const auto found = profile().find(kept_name(root).code);
  if (found == profile().end()) return false;
  const Profiled& learnt = found->second;
  if (!learnt.useless.empty() && !root.asked.strict) {
    if (learnt.passes)
      pass_on(root, "a profile says so");
    else
      leave_alone(root, kDoesNotPay, "a profile says so");
    root.standing.farewell.reset();
    return root.standing.is_disabled();
  }
  for (const uint32_t input : learnt.inputs) root.varying.open_input(input);
  for (const auto& [number, container] : containers_of(root)) {
    for (const ProfiledPlace& place : learnt.places) {
      if (place.container != number) continue;
      const Ref key = place.key.empty() ? Ref::borrow(Py_None) : Ref::steal(PyUnicode_FromString(place.key.c_str()));
      if (!key) PyErr_Clear();
      if (key) root.varying.add(container, key.get());
    }
  }
  return false;
}

}  // namespace pijit
