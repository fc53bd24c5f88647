// Looks at the calls that run.
#include "hook/running.h"

#include <new>
#include <utility>

#include "cache/code_state.h"
#include "common/clock.h"
#include "hook/in_loop.h"

namespace pijit {
namespace {

// Frames between two glances at the clock.
constexpr uint64_t kGlance = 8;
// A driver has passed the role on for so many seconds, and has called roots so many times.
constexpr double kDrives = 0.075;
constexpr uint32_t kTurns = 16;

thread_local Running* t_running = nullptr;
thread_local uint64_t t_frames = 0;
thread_local uint64_t t_before = 0;  // of them, at the last look
thread_local double t_looked = 0;    // when that was; 0: calls that run have run for no time

}  // namespace

uint64_t& long_call() noexcept {
  static uint64_t value = 25;
  return value;
}

void look_at_running() noexcept {
  const double time = now();
  const bool begins = t_looked == 0;
  if (!begins && time - t_looked < 1e-3 * static_cast<double>(long_call())) return;
  for (Running* call = t_running; call != nullptr && !begins; call = call->outer_) {
    if (call->began_ > t_before || call->code_) continue;
    call->pass(time);
  }
  t_looked = time;
  t_before = t_frames;
}

Running::Running(cpython::Frame* frame, bool counts, bool passes) noexcept
    : frame_(counts ? frame : nullptr), outer_(t_running) {
  if (!counts) return;
  if (outer_ == nullptr) t_looked = 0;
  began_ = t_frames;
  t_running = this;
  if (passes) pass(now());
}

Running::~Running() {
  if (frame_ == nullptr) return;
  t_running = outer_;
  if (code_ && turns_ >= kTurns) tell_driver();
}

Running* Running::of(cpython::Frame* frame) noexcept {
  return t_running != nullptr && t_running->frame_ == frame ? t_running : nullptr;
}

InLoop* Running::find_loops() noexcept {
  if (loops_ == nullptr && InLoop::may_be_of(frame_)) loops_.reset(new (std::nothrow) InLoop());
  return loops_.get();
}

void Running::pass(double time) noexcept {
  passed_ = time;
  code_ = Ref::borrow(reinterpret_cast<PyObject*>(cpython::code(frame_)));
}

void Running::tell_driver() const noexcept {
  if (now() - passed_ < kDrives) return;
  if (CodeState* state = code_state(reinterpret_cast<PyCodeObject*>(code_.get()), true)) state->passes_on = true;
}

Unlooked::Unlooked() noexcept : outer_(std::exchange(t_running, nullptr)) {}

Unlooked::~Unlooked() {
  t_running = outer_;
  t_looked = 0;
}

// Its one argument is the iterator. Most code is told apart by that: asked of each call, names are in no cache.
bool is_comprehension(PyCodeObject* code) noexcept {
  if (code->co_argcount != 1 || PyUnicode_READ_CHAR(code->co_name, 0) != '<') return false;
  for (const char* name : {"<listcomp>", "<setcomp>", "<dictcomp>"})
    if (cpython::equals_ascii(code->co_name, name)) return true;
  return false;
}

bool passes_on(PyThreadState* ts) noexcept {
  if (t_running == nullptr || !t_running->code_) return false;
  cpython::Frame* caller = cpython::current_frame(ts);
  while (caller != nullptr && is_comprehension(cpython::code(caller))) caller = cpython::previous(caller);
  return caller == t_running->frame_;
}

bool tries_loop(PyThreadState* ts) noexcept {
  return t_running != nullptr && t_running->loops_ != nullptr && t_running->loops_->keeps_role() &&
         t_running->in_cpython_ && cpython::current_frame(ts) == t_running->frame_;
}

void note_frame() noexcept {
  if (++t_frames % kGlance == 0 && t_running != nullptr) look_at_running();
}

void note_call(PyThreadState* ts) noexcept {
  Running* const call = t_running;
  if (call == nullptr || !call->code_ || !call->in_cpython_ || cpython::current_frame(ts) != call->frame_) return;
  if (InLoop* loops = call->find_loops()) loops->note_call(ts, call->frame_);
}

void note_engine_call(PyThreadState* ts) noexcept {
  Running* const call = t_running;
  if (call == nullptr || !call->code_ || !call->in_cpython_ || cpython::current_frame(ts) != call->frame_) return;
  if (InLoop* loops = call->find_loops()) loops->note_engine(call->frame_);
}

void note_turn() noexcept {
  if (t_running == nullptr || ++t_running->turns_ % kTurns != 0 || !t_running->code_) return;
  CodeState* state = code_state(reinterpret_cast<PyCodeObject*>(t_running->code_.get()), true);
  if (state != nullptr) state->has_operators = true;
}

}  // namespace pijit
