// What an instruction waits for, and where its operands are.
#include "record/recorder.h"

namespace pijit {

void Recorder::done(ShadowFrame& frame, int pops, Val result) {
  frame.sp -= pops;
  frame.push(result);
}

Pending& Recorder::await(ShadowFrame& frame, int pops, int pushes) {
  frame.pending = Pending();
  frame.pending.active = true;
  frame.pending.pops = pops;
  frame.pending.pushes = static_cast<uint8_t>(pushes);
  return frame.pending;
}

void Recorder::observe(ShadowFrame& frame, int pops, Finish finish) {
  await(frame, pops, 1).finish = finish;
}

void Recorder::known(ShadowFrame& frame, int pops, Val result) {
  Pending& pending = await(frame, pops, 1);
  pending.result = result;
  pending.has_result = true;
}

void Recorder::will_raise(ShadowFrame& frame, int pops, Val exception, bool again) {
  await(frame, pops, 0).raises = true;
  begin_raise(frame, pops, exception, again);
}

}  // namespace pijit
