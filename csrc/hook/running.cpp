// Looks at the calls that run.
#include "hook/running.h"

#include <new>
#include <utility>

#include "cache/code_state.h"
#include "common/clock.h"

namespace pijit {
namespace {

// A driver has passed the role on for so many seconds, and has called roots so many times.
constexpr double kDrives = 0.075;
constexpr uint32_t kTurns = 16;

}  // namespace

constinit thread_local RunningCalls running_calls;

uint64_t& long_call() noexcept {
  static uint64_t value = 25;
  return value;
}

void look_at_running() noexcept {
  RunningCalls& calls = running_calls;
  const double time = now();
  const bool begins = calls.looked == 0;
  if (!begins && time - calls.looked < 1e-3 * static_cast<double>(long_call())) return;
  for (Running* call = calls.innermost; call != nullptr && !begins; call = call->outer_) {
    if (call->began_ > calls.before || call->code_) continue;
    call->pass(time);
  }
  calls.looked = time;
  calls.before = calls.frames;
}

InLoop* Running::find_loops() noexcept {
  if (loops_ == nullptr && InLoop::may_be_of(frame_)) loops_.reset(new (std::nothrow) InLoop());
  return loops_.get();
}

void Running::pass(double time) noexcept {
  passed_ = time;
  code_ = Ref::borrow(reinterpret_cast<PyObject*>(cpython::code(frame_)));
}

void Running::tell_if_driver() const noexcept {
  if (turns_ < kTurns || now() - passed_ < kDrives) return;
  if (CodeState* state = code_state(reinterpret_cast<PyCodeObject*>(code_.get()), true)) state->passes_on = true;
}

Unlooked::Unlooked() noexcept : outer_(std::exchange(running_calls.innermost, nullptr)) {}

Unlooked::~Unlooked() {
  running_calls.innermost = outer_;
  running_calls.looked = 0;
}

// Its one argument is the iterator. Most code is told apart by that: asked of each call, names are in no cache.
bool is_comprehension(PyCodeObject* code) noexcept {
  if (code->co_argcount != 1 || PyUnicode_READ_CHAR(code->co_name, 0) != '<') return false;
  for (const char* name : {"<listcomp>", "<setcomp>", "<dictcomp>"})
    if (cpython::equals_ascii(code->co_name, name)) return true;
  return false;
}

bool passes_on(PyThreadState* ts) noexcept {
  Running* const call = running_calls.innermost;
  if (call == nullptr || !call->code_) return false;
  cpython::Frame* caller = cpython::current_frame(ts);
  while (caller != nullptr && is_comprehension(cpython::code(caller))) caller = cpython::previous(caller);
  return caller == call->frame_;
}

bool Running::tries_loop(PyThreadState* ts) const noexcept {
  return loops_ != nullptr && loops_->keeps_role() && in_cpython_ && cpython::current_frame(ts) == frame_;
}

void Running::count_call(PyThreadState* ts) noexcept {
  if (InLoop* loops = find_loops()) loops->note_call(ts, frame_);
}

void note_engine_call(PyThreadState* ts) noexcept {
  Running* const call = running_calls.innermost;
  if (call == nullptr || !call->makes_call(ts)) return;
  if (InLoop* loops = call->find_loops()) loops->note_engine(call->frame_);
}

void note_turn() noexcept {
  Running* const call = running_calls.innermost;
  if (call == nullptr || ++call->turns_ % kTurns != 0 || !call->code_) return;
  CodeState* state = code_state(reinterpret_cast<PyCodeObject*>(call->code_.get()), true);
  if (state != nullptr) state->has_operators = true;
}

}  // namespace pijit
