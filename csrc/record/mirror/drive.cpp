// Running tasks: from an instruction's begin to the first frame, from each frame's end to the next, and the result.
#include "record/mirror/drive.h"

#include "record/mirror/filling.h"
#include "record/state/pending.h"

namespace pijit {

void DriveDeleter::operator()(Drive* drive) const noexcept {
  delete drive;
}

Drive::Never Drive::unknown() noexcept {
  state_ = State::kUnknown;
  return {};
}

Drive::Never Drive::raise(Val exception) noexcept {
  raised_ = exception;
  state_ = State::kRaises;
  return {};
}

Drive::Never Drive::pass_on() noexcept {
  state_ = State::kPassesOn;
  return {};
}

// Whether the call that was set up is over already; if so, inner_ says how.
bool Drive::settled(Invoke outcome) noexcept {
  Pending& pending = frame_.pending;
  inner_ = Inner();
  if (outcome != Invoke::kStarted || !recorder_.live()) {
    state_ = State::kUnknown;
    return false;
  }
  if (deferred_ != nullptr) return true;
  if (pending.expects_frame()) return false;
  if (pending.raises || pending.is<Asking>() || pending.finish != nullptr || !pending.has_result) {
    // Nobody sees what is dispatched between two calls of Python.
    if (pending.is<Asking>()) recorder_.adapter()->cancel_call();
    state_ = pending.raises ? State::kRaises : State::kUnknown;
    return false;
  }
  inner_.value = pending.result;
  pending = Pending();
  return true;
}

bool Drive::leave(Invoke outcome) noexcept {
  Pending& pending = frame_.pending;
  if (outcome != Invoke::kStarted || !recorder_.live() || deferred_ != nullptr || depth_ > 0 || has_put_off())
    return false;
  const bool enters = pending.expects_frame();
  if (!enters && !pending.ignores_frames && !pending.is<Asking>() && pending.finish == nullptr) return false;
  pending.pops = pops_;
  state_ = State::kLeft;
  return true;
}

Invoke Drive::start(Driven function, const Arguments& args) {
  root_ = function(*this, args);
  next_ = root_.handle();
  run();
  return end();
}

void Drive::go_on() {
  Pending& pending = frame_.pending;
  if (pending.expects_frame()) return;  // one led to another: __getattribute__ to __getattr__
  inner_ = Inner();
  inner_.raised = recorder_.raise.is_foreseen();
  inner_.ended = !inner_.raised && !pending.has_result;
  if (inner_.ended) inner_.returned = pending.y;
  if (pending.has_result) inner_.value = pending.result;
  if (!inner_.raised) pending = Pending();
  next_ = std::exchange(waiting_, nullptr);
  run();
  end();
}

void Drive::run() {
  while (next_ && state_ == State::kRunning && recorder_.live()) std::exchange(next_, nullptr).resume();
}

// False: stopped.
bool Drive::catch_up() {
  for (const auto& work : std::exchange(put_off_, {}))
    if (!work()) return false;
  return true;
}

// What follows when no task can go on: the drive waits, or it is over and gone.
Invoke Drive::end() {
  if (recorder_.live() && state_ == State::kRunning && waiting_) {
    waited_ = true;
    return Invoke::kStarted;
  }
  const DrivePointer self = std::move(frame_.drive);
  if (!recorder_.live() || (state_ != State::kUnknown && !catch_up())) return Invoke::kStopped;
  switch (state_) {
    case State::kUnknown:
      frame_.pending = Pending();
      if (waited_) recorder_.stop(Abort::kUnknownCall, "what C code does between two calls of Python");
      return waited_ ? Invoke::kStopped : Invoke::kUnknown;
    case State::kRaises:
      will_raise(recorder_, frame_, pops_, raised_);
      // Behind the place where the trace ends if the exception leaves it.
      return end_fillings(recorder_, *this) ? Invoke::kStarted : Invoke::kStopped;
    case State::kPassesOn:
      return end_fillings(recorder_, *this) ? Invoke::kStarted : Invoke::kStopped;
    case State::kLeft:
      return Invoke::kStarted;
    case State::kRunning:
      break;
  }
  const Val value = root_.handle().promise().value;
  Pending& pending = await(frame_, pops_, then_ == Then::kDrop ? 0 : then_ == Then::kUnpack ? 4 : 1);
  pending.result = value;
  pending.has_result = !value.is_null();
  pending.then = then_;
  if (then_ == Then::kSend) pending.y = returned_;
  pending.finish = finish_;
  return Invoke::kStarted;
}

Drive* outermost_drive(Recorder& recorder) noexcept {
  for (const auto& frame : recorder.frames)
    if (frame->drive) return frame->drive.get();
  return nullptr;
}

Invoke drive(Recorder& recorder, ShadowFrame& frame, Driven function, const Arguments& args, int pops, Then then) {
  if (frame.drive) {
    frame.drive->defer(function, args);
    return Invoke::kStarted;
  }
  frame.drive.reset(new Drive(recorder, frame, pops, then));
  return frame.drive->start(function, args);
}

}  // namespace pijit
