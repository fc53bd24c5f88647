// Generated bindings and Python operators: their operators are those of the call.
#include "torch/calls.h"

#include <string_view>

#include "torch/bind_schema.h"

namespace pijit::torch_adapter {
namespace {

// Whether the operators seen are one of the alternatives: "div|reciprocal mul".
bool matches(const Eye& eye, std::string_view alternatives) {
  while (!alternatives.empty()) {
    size_t end = alternatives.find('|');
    std::string_view names = alternatives.substr(0, end);
    size_t i = 0;
    bool same = true;
    while (same && !names.empty()) {
      size_t space = names.find(' ');
      same = i < eye.ops.size() && eye.ops[i].info->base == names.substr(0, space);
      ++i;
      names = space == std::string_view::npos ? std::string_view() : names.substr(space + 1);
    }
    if (same && i == eye.ops.size()) return true;
    alternatives = end == std::string_view::npos ? std::string_view() : alternatives.substr(end + 1);
  }
  return false;
}

bool take(Lowering& lowering, PyObject* object, Val* result) {
  if (!lowering.find_result(object, result)) return false;
  lowering.emit();
  return true;
}

}  // namespace

bool finish_operator(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  const Callable& callable = *recording.callable;
  const Eye& eye = recording.eye;
  const OperatorInfo* last = eye.ops.empty() ? nullptr : eye.ops.back().info;
  if (last != nullptr && (last->base == callable.op || last->full == callable.op)) {
    Lowering lowering(recording, site);
    if (lowering.bind_numbers() && lowering.bind_call(eye.ops.back(), callable.family == Family::kMethod) &&
        take(lowering, object, result))
      return true;
  }
  return !recording.stopped && finish_callable(recording, site, object, result);
}

bool finish_as_seen(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  Lowering lowering(recording, site);
  if (recording.eye.ops.size() > 1) return false;
  if (recording.eye.ops.size() == 1 && !lowering.bind_as_seen(recording.eye.ops[0])) return false;
  return take(lowering, object, result);
}

bool finish_view(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  if (!matches(recording.eye, recording.callable->op)) return false;
  Lowering lowering(recording, site);
  return lowering.bind_free(recording.eye.ops[0]) && take(lowering, object, result);
}

bool finish_site(Recording& recording, const CallSite& site, PyObject* object, Val* result) {
  const char* names = site_operators(site);
  Eye& eye = recording.eye;
  const bool truth = site.kind == SiteKind::kCompareTruth, compares = truth || site.kind == SiteKind::kCompare;
  // x == None and the like: decided by the types.
  if (eye.ops.empty() && compares && object != nullptr && Py_TYPE(object) == &PyBool_Type) {
    for (size_t i = 0; i < recording.operands; ++i)
      if (recording.arg(i).kind == ArgKind::kOther) return false;
    *result = Val::constant(object);
    return true;
  }
  if (names == nullptr || !matches(eye, names)) return false;
  Lowering lowering(recording, site);
  const size_t bound = eye.ops.size() - (truth ? 1 : 0);
  for (size_t i = 0; i < bound; ++i)
    if (!lowering.bind_free(eye.ops[i])) return false;
  if (truth) {
    const Vals compared = lowering.tensors_of(0);
    if (compared.size() != 1) return false;
    lowering.emit();
    *result = emit_truth(recording, compared[0]);
    return true;
  }
  if (site.kind == SiteKind::kIter || site.kind == SiteKind::kUnpack) {
    Vals rows = lowering.tensors_of(0);
    if (site.kind == SiteKind::kUnpack && rows.size() != static_cast<size_t>(site.oparg)) return false;
    *result = recording.api.new_tuple(&PyTuple_Type, rows.data(), rows.size());
    if (result->is_null()) return false;
    lowering.emit();
    return true;
  }
  return take(lowering, object, result);
}

}  // namespace pijit::torch_adapter
