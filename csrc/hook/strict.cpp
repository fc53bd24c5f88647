// Errors of roots under strict=True.
#include "hook/strict.h"

#include <algorithm>
#include <cstring>

#include "common/imports.h"
#include "cpython/places.h"
#include "hook/stress.h"
#include "record/reasons.h"

namespace pijit {
namespace {

const char* advice_of(const char* code) noexcept {
  constexpr struct {
    const char *code, *advice;
  } kRows[] = {
#define PIJIT_ABORT(name, code, text, advice) {code, advice},
#define PIJIT_LEFT(name, code, text, advice) {code, advice},
#include "record/aborts.def"
  };
  for (const auto& row : kRows)
    if (std::strcmp(row.code, code) == 0) return row.advice;
  return "";
}

// The place where the frames of a snapshot stand: the innermost line that the user wrote, else the innermost one.
StopInfo at_snapshot(const Trace& trace, uint32_t snapshot, const Reason& reason) {
  StopInfo info;
  info.code = reason.code;
  info.reason = reason.text;
  if (snapshot == kNone) return info;
  const FrameState* chosen = nullptr;
  for (uint32_t at = trace.snapshots[snapshot].frame; at != kNone; at = trace.frame_states[at].parent) {
    const FrameState& state = trace.frame_states[at];
    if (chosen == nullptr || !cpython::is_library(state.code)) chosen = &state;
    if (!cpython::is_library(state.code)) break;
  }
  if (chosen == nullptr) return info;
  cpython::Place place = cpython::place_of(chosen->code, chosen->call);
  info.file = std::move(place.file);
  info.function = std::move(place.function);
  info.line = place.line;
  return info;
}

StopInfo left_by(const Trace& trace) {
  return trace.stop.code != nullptr || trace.detours.empty() ? trace.stop : trace.detours.front();
}

}  // namespace

PyObject* raise_strict(const std::string& text) {
  Ref module = import_module("pijit.errors");
  Ref type = module ? Ref::steal(PyObject_GetAttrString(module.get(), "StrictError")) : Ref();
  if (type) PyErr_SetString(type.get(), text.c_str());
  return nullptr;
}

PyObject* raise_strict(const StopInfo& stop) {
  std::string text = stop.file + ":" + std::to_string(stop.line) + " in " + stop.function + "(): " + stop.reason;
  if (!stop.inside.empty()) text += " in " + stop.inside;
  return raise_strict(text + " [" + stop.code + "]. " + advice_of(stop.code));
}

StopInfo left_in_recording(const Root& root) {
  if (!root.traces.empty()) return left_by(*root.traces.back());
  if (root.last.stop.code != nullptr) return root.last.stop;
  StopInfo nothing;
  nothing.code = kNothingRecorded.code;
  nothing.reason = kNothingRecorded.text;
  return root.written.placed(std::move(nothing));
}

StopInfo left_in_replay(const Root& root, const Trace& trace, const Left& left) {
  if (stress_words() != 0) return StopInfo();
  if (left.opaque_calls > 0 || left.stopped) {
    StopInfo why = left_by(trace);
    for (const auto& other : root.traces)  // a side trace
      if (why.code == nullptr) why = left_by(*other);
    if (why.code != nullptr) return why;
  }
  if (left.trace == nullptr) return StopInfo();
  StopInfo why = at_snapshot(*left.trace, left.trace->nodes[left.node].snapshot, kLeft);
  if (why.line == 0) why.file.clear();
  return root.written.placed(std::move(why));
}

void raise_instead(const StopInfo& stop, PyObject** result) {
  if (stop.code == nullptr || *result == nullptr) return;
  drop_reference(std::exchange(*result, nullptr));
  raise_strict(stop);
}

}  // namespace pijit
