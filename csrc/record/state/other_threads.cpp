// Containers that other threads write while this one records.
//
// CPython changes threads between two instructions. A container with a model is what the model says as long as nobody
// else writes it; what the model gives and what CPython gives would part otherwise, and the trace would go on with the
// one along the way that the other has taken. CPython counts the changes of threads: only after one is a container
// compared with its model, and only where the instruction under way looks into it, for its operands are alive. What is
// read under a guard is compared with the guard at each read (reads.cpp).
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "record/state/contents.h"
#include "record/state/writes.h"

namespace pijit {

bool has_changed(Recorder& recorder, Val container) {
  Model& content = recorder.heap.model(container);
  auto* const shared = content.find<family::Shared>();
  if (shared == nullptr) return false;
  const unsigned long now = cpython::thread_switches(recorder.thread());
  if (shared->switches == now || recorder.foreign.epoch_due) return false;
  const auto* written = content.find<family::Written>();
  PyObject* const object = written == nullptr || written->home.is_null() ? content.real : written->home.object();
  if (object == nullptr || !is_real(recorder.heap, container)) return false;
  // A number in a register is an object of its own wherever it is stored.
  const auto same = [&](Val known, PyObject* there) {
    PyObject* const seen = recorder.heap.real(known);
    return seen == nullptr || seen == there || cpython::same_scalar(seen, there) ||
           (known.is_reg() && is_number(recorder.trace().regs[known.index()].rep));
  };
  const auto at = [&](PyObject* key) { return cpython::is_native_key(key) ? content.keys().find(key) : -1; };
  Py_ssize_t position = 0;
  PyObject *key, *value;
  // Items from before, of which there is no model.
  const size_t unread = written != nullptr && written->unread ? written->original.size() : 0;
  const auto is_size = [&](Py_ssize_t size) { return size == static_cast<Py_ssize_t>(unread + content.items.size()); };
  bool as_known = true;
  const char* what = "a list";
  switch (content.kind) {
    case VirtualKind::kList:
      as_known = is_size(PyList_GET_SIZE(object));
      for (size_t i = 0; as_known && i < unread; ++i)
        as_known = written->original[i] == PyList_GET_ITEM(object, static_cast<Py_ssize_t>(i));
      for (size_t i = 0; as_known && i < content.items.size(); ++i)
        as_known = same(content.items[i], PyList_GET_ITEM(object, static_cast<Py_ssize_t>(unread + i)));
      break;
    case VirtualKind::kDeque:
      what = "a deque";
      as_known = is_size(PySequence_Size(object));
      for (size_t i = 0; as_known && i < content.items.size(); ++i) {
        const Ref item = Ref::steal(PySequence_GetItem(object, static_cast<Py_ssize_t>(i)));
        as_known = item && same(content.items[i], item.get());
      }
      break;
    case VirtualKind::kSet: {
      what = "a set";
      const ObjectSet before(written->original.begin(), written->original.begin() + unread);
      KeyList there;
      size_t kept = 0;
      while (as_known && cpython::next_set_item(object, &position, &key)) {
        kept += before.count(key);
        as_known = before.count(key) != 0 || at(key) >= 0;
        if (cpython::is_native_key(key)) there.push_back(key);
      }
      as_known = as_known && kept == unread;
      for (PyObject* known : content.keys()) as_known = as_known && there.holds(known);
      break;
    }
    case VirtualKind::kDict:
      if (content.owner() != kNone) return false;
      what = "a dict";
      as_known = is_size(PyDict_GET_SIZE(object));
      while (as_known && PyDict_Next(object, &position, &key, &value)) {
        const ptrdiff_t place = at(key);
        as_known = place >= 0 && same(content.items[static_cast<size_t>(place)], value);
      }
      break;
    default:
      return false;
  }
  if (as_known)
    shared->switches = now;
  else  // the instruction is tried again with other operands: it is to stop again
    recorder.stop(Abort::kChanged, std::string(what) + " that another thread writes");
  return !as_known;
}

}  // namespace pijit
