// What an instruction waits for, and where its operands are.
#include "record/state/pending.h"

#include "record/recorder.h"
#include "record/state/exceptions.h"

namespace pijit {

void done(ShadowFrame& frame, int pops, Val result) {
  frame.sp -= pops;
  frame.push(result);
}

Pending& await(ShadowFrame& frame, int pops, int pushes) {
  frame.pending = kNothingPending;
  frame.pending.active = true;
  frame.pending.pops = pops;
  frame.pending.pushes = static_cast<uint8_t>(pushes);
  return frame.pending;
}

void observe(ShadowFrame& frame, int pops, Finish finish) {
  await(frame, pops, 1).finish = finish;
}

void known(ShadowFrame& frame, int pops, Val result) {
  Pending& pending = await(frame, pops, 1);
  pending.result = result;
  pending.has_result = true;
}

void will_raise(Recorder& recorder, ShadowFrame& frame, int pops, Val exception, bool again) {
  await(frame, pops, 0).raises = true;
  begin_raise(recorder, frame, pops, exception, again);
}

}  // namespace pijit
