// Lists of tensors by device and dtype, as optimizers and the clipping of gradients sort them.
//
// Which tensor gets into which group follows from dtypes and devices, which are checked. So the result is a dict of
// lists that the trace builds where somebody can see it. The order of the groups is that of the dict which CPython got:
// it hangs on their keys alone.
#include "common/ref.h"
#include "torch/calls.h"
#include "torch/metadata.h"

namespace pijit::torch_adapter {
namespace {

bool is_list_of_tensors(const Recording& recording, const Arg& list, bool complete) {
  if (list.kind != ArgKind::kSequence) return false;
  for (uint32_t i = 0; i < list.count; ++i) {
    const ArgKind kind = recording.child(list, i).kind;
    if (kind != ArgKind::kTensor && (complete || kind != ArgKind::kNone)) return false;
  }
  return true;
}

// The places in the first list whose tensors are of the device and dtype of this one.
std::vector<uint32_t> members(const Recording& recording, const Arg& first, const Impl* like) {
  const int64_t dtype = read_fact(like, Fact::kDtype), device = read_fact(like, Fact::kDevice);
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < first.count; ++i) {
    const Arg& tensor = recording.child(first, i);
    if (tensor.dtype == dtype && tensor.device == device) found.push_back(i);
  }
  return found;
}

// What a group of CPython's has: ([[tensor]], [index]). Null: not in the form that this file knows.
PyObject* first_tensor(PyObject* group) noexcept {
  if (!PyTuple_CheckExact(group) || PyTuple_GET_SIZE(group) != 2) return nullptr;
  PyObject* lists = PyTuple_GET_ITEM(group, 0);
  if (!PyList_CheckExact(lists) || PyList_GET_SIZE(lists) == 0) return nullptr;
  PyObject* list = PyList_GET_ITEM(lists, 0);
  if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) == 0) return nullptr;
  PyObject* tensor = PyList_GET_ITEM(list, 0);
  return is_plain_tensor(tensor) ? tensor : nullptr;
}

// The group of the tensors at these places, as CPython's has it.
Val group_of(Recording& recording, const Arg& nested, const std::vector<uint32_t>& places, bool indexed) {
  RecordApi& api = recording.api;
  Vals lists, indices;
  for (uint32_t j = 0; j < nested.count; ++j) {
    const Arg list = recording.child(nested, j);
    Vals items;
    for (uint32_t i : places)
      if (list.count != 0) items.push_back(recording.child(list, i).value);
    lists.push_back(api.new_list(items.data(), items.size()));
  }
  for (uint32_t i : places)
    if (indexed) indices.push_back(api.own_const(Ref::steal(PyLong_FromUnsignedLong(i)).get()));
  const Val parts[] = {api.new_list(lists.data(), lists.size()), api.new_list(indices.data(), indices.size())};
  return api.new_tuple(&PyTuple_Type, parts, 2);
}

}  // namespace

CallFate begin_groups(Recording& recording) {
  if (recording.operands != 2 || recording.keywords != 0 || recording.arg(1).kind != ArgKind::kBool ||
      recording.arg(1).dynamic || recording.arg(0).kind != ArgKind::kSequence || recording.arg(0).count == 0)
    return CallFate::kUnknown;
  const Arg nested = recording.arg(0);
  const Arg first = recording.child(nested, 0);
  if (first.count == 0) return CallFate::kUnknown;
  for (uint32_t j = 0; j < nested.count; ++j) {
    const Arg& list = recording.child(nested, j);
    if (!is_list_of_tensors(recording, list, j == 0) || (list.count != 0 && list.count != first.count))
      return CallFate::kUnknown;
  }
  return CallFate::kObserve;
}

bool finish_groups(Recording& recording, PyObject* object, Val* result) {
  if (object == nullptr || !PyDict_CheckExact(object) || !recording.eye.ops.empty()) return false;
  const Arg nested = recording.arg(0);
  const Arg first = recording.child(nested, 0);
  std::vector<std::vector<uint32_t>> groups;
  Vals keys, values;
  PyObject *key = nullptr, *group = nullptr;
  size_t placed = 0;
  for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &group);) {
    PyObject* tensor = first_tensor(group);
    if (tensor == nullptr) return false;
    groups.push_back(members(recording, first, impl_of(tensor)));
    placed += groups.back().size();
    keys.push_back(recording.api.own_const(key));
  }
  if (placed != first.count) return false;
  for (uint32_t i = 0; i < first.count; ++i) {
    require(recording, recording.child(first, i), Fact::kDtype);
    require(recording, recording.child(first, i), Fact::kDevice);
  }
  for (const auto& places : groups)
    values.push_back(group_of(recording, nested, places, recording.arg(1).integer != 0));
  *result = recording.api.new_dict(keys.data(), values.data(), keys.size());
  return true;
}

}  // namespace pijit::torch_adapter
