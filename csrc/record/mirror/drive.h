// C code that calls Python, mirrored as coroutines: each is written as the C code runs, and waits where that enters a
// frame.
//
//   instruction begins --start()--> runs --needs a frame--> waits --go_on()--> runs ... --> ends
//
// The drive of an instruction is a stack of tasks (a C function, the C functions that it calls). While it waits, the
// frame that it asked for is the frame that CPython must enter next; its result or exception wakes the innermost task.
// 1. A task's first parameter is the Drive; all others are taken by value, for they live as long as the task.
// 2. A task ends with a shadow, or by raise() and unknown(), which end the drive and never come back.
// 3. While the instruction is under way CPython's own result is not there: a task says what it is, or hands over a
//    function that reads it (`observe`) when the instruction is complete.
// 4. A task changes what existed before only through logs, nodes and fillings (filling.h). An instruction is tried
//    again only after these are taken back, or if the first attempt left everything as it was (is_untouched).
#pragma once
#include <algorithm>
#include <coroutine>
#include <functional>
#include <utility>
#include <vector>

#include "record/recorder.h"

namespace pijit {

// What became of an inner call.
struct Inner {
  Val value;
  bool raised = false;  // the frame raised: is_raised() tells what
  bool ended = false;   // the generator ran to its end
  Val returned;         // what the generator returned
};

// A suspended C function. Starts when it is awaited; owns its coroutine.
template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle handle) noexcept : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }
  Handle handle() const noexcept { return handle_; }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) noexcept;
  T await_resume() noexcept { return std::move(handle_.promise().value); }

 private:
  Handle handle_;
};

class Restart;

class Drive : public FromPool {
 public:
  Drive(Recorder& recorder, ShadowFrame& frame, int pops, Then then)
      : recorder_(recorder), frame_(frame), pops_(pops), then_(then) {}

  Recorder& recorder() noexcept { return recorder_; }
  ShadowFrame& frame() noexcept { return frame_; }
  Then then() const noexcept { return then_; }  // how the result becomes that of the instruction
  int pops() const noexcept { return pops_; }   // operands of the instruction
  // How the instruction may be executed again (restart.h): of the innermost task that knows; null: of none.
  Restart*& restart() noexcept { return restart_; }

  // Awaiting this ends the drive.
  struct Never {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
  };
  Never unknown() noexcept;                     // not understood: the recording stops at the start of the instruction
  Never raise(Val exception = Val()) noexcept;  // guarded facts say that the C code raises here: that, or a new one
  Never pass_on() noexcept;                     // the exception of the inner frame leaves the C code

  // Ends it where the call that was just set up gives the result of the instruction, by a frame or as CPython shows it:
  // exits may be taken in that frame as in one that no C code called. False: it is no such call, or the task was reached
  // by an inner call; true: await Never.
  bool leave(Invoke outcome) noexcept;

  // Awaiting this gives what became of the call that was just set up (see invoke).
  struct Wait {
    Drive& drive;
    Invoke outcome;
    bool await_ready() noexcept { return drive.settled(outcome); }
    void await_suspend(std::coroutine_handle<> task) noexcept { drive.waiting_ = task; }
    Inner await_resume() noexcept { return std::exchange(drive.inner_, Inner()); }
  };
  Wait wait(Invoke outcome) noexcept { return {*this, outcome}; }

  // The exception of the inner frame is of this class; caught(): the C code clears it.
  bool is_raised(PyObject* type) const noexcept { return recorder_.raise.is_of(type); }
  void caught() noexcept { recorder_.raise.caught(); }

  // The result is what `finish` makes of CPython's, at the end of the instruction; only for the outermost task.
  void observe(Finish finish) noexcept { finish_ = finish; }

  // The result of an iterator that has ended, which kSend takes.
  void set_returned(Val value) noexcept { returned_ = value; }
  Val returned() const noexcept { return returned_; }

  // A C callable that is driven was reached by an inner call: the task that awaits it runs it.
  void defer(Driven function, const Arguments& args) {
    deferred_ = function;
    deferred_args_ = args;
  }
  Driven deferred() noexcept { return std::exchange(deferred_, nullptr); }
  Arguments& deferred_args() noexcept { return deferred_args_; }
  void go_inside() noexcept { ++depth_; }
  void come_out() noexcept { --depth_; }
  bool is_inside() const noexcept { return depth_ > 0; }  // its result is not that of the instruction

  // The text of a container is being made; false: it is within its own text, or too deep.
  bool enter_repr(Val container) {
    constexpr size_t kDeepest = 50;
    if (repr_.size() == kDeepest || std::find(repr_.begin(), repr_.end(), container) != repr_.end()) return false;
    repr_.push_back(container);
    return true;
  }
  void leave_repr() noexcept { repr_.pop_back(); }

  // What is to be done when the instruction is complete, and not before: in a frame that C code has called a replay can
  // only go back to where the instruction begins.
  void put_off(std::function<bool()> work) { put_off_.push_back(std::move(work)); }
  bool has_put_off() const noexcept { return !put_off_.empty(); }

  void next(std::coroutine_handle<> task) noexcept { next_ = task; }
  Invoke start(Driven function, const Arguments& args);
  void go_on();  // the inner call is over

 private:
  bool settled(Invoke outcome) noexcept;
  void run();
  Invoke end();
  bool catch_up();

  enum class State : uint8_t { kRunning, kUnknown, kRaises, kPassesOn, kLeft };
  Recorder& recorder_;
  ShadowFrame& frame_;
  int pops_;
  Then then_;
  State state_ = State::kRunning;
  Restart* restart_ = nullptr;  // outlives the tasks, which set it back
  bool waited_ = false;         // the instruction has begun: what is not understood now stops the recording
  Task<Val> root_{nullptr};
  std::coroutine_handle<> next_, waiting_;
  Inner inner_;
  Val raised_, returned_;
  Finish finish_ = nullptr;
  Driven deferred_ = nullptr;
  Arguments deferred_args_;
  int depth_ = 0;  // tasks under way that an inner call reached
  Vals repr_;      // containers, the innermost last
  std::vector<std::function<bool()>> put_off_;
};

template <class T>
struct Task<T>::promise_type : FromPool {
  // The first parameter of every task is its drive.
  template <class... Rest>
  explicit promise_type(Drive& of, Rest&&...) noexcept : drive(of) {}

  struct Final {
    bool await_ready() const noexcept { return false; }
    void await_suspend(Handle done) const noexcept { done.promise().drive.next(done.promise().caller); }
    void await_resume() const noexcept {}
  };
  Task get_return_object() noexcept { return Task(Handle::from_promise(*this)); }
  std::suspend_always initial_suspend() const noexcept { return {}; }
  Final final_suspend() const noexcept { return {}; }
  void return_value(T result) noexcept { value = std::move(result); }
  [[noreturn]] void unhandled_exception() const { throw; }  // caught at the border of the event (Recorder::guarded)

  Drive& drive;
  std::coroutine_handle<> caller;
  T value{};
};

template <class T>
void Task<T>::await_suspend(std::coroutine_handle<> caller) noexcept {
  handle_.promise().caller = caller;
  handle_.promise().drive.next(handle_);
}

// Of the outermost frame that drives C code; null: none does.
Drive* outermost_drive(Recorder& recorder) noexcept;

// Runs a driven C callable as what the instruction does. Inside a drive it becomes part of that. A null result ends the
// loop of kNext, or what kSend asks.
Invoke drive(Recorder& recorder, ShadowFrame& frame, Driven function, const Arguments& args, int pops,
             Then then = Then::kPush);

}  // namespace pijit
