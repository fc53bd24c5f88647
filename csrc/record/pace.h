// What a recording takes beside what CPython takes for the same call, and in which functions.
//
// A recording has a budget: record_budget times the plain call, never under kLeast and never over kMost seconds. What
// recordings took before that no call could use is part of it. Time is split between the recorder and the rest at some
// instructions; the rest, less what the events cost CPython, is taken for the plain call.
#pragma once
#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/clock.h"
#include "common/ref.h"

namespace pijit {

// A counter that takes next to no time to read, of no particular unit.
inline uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

class Pace {
 public:
  // A recording is to begin. `plain`: seconds of the call in CPython, 0: not known. Not `limited`: there is no budget.
  void begin(bool limited, double plain, double owed) noexcept;

  // Around what the recorder does.
  void enter() noexcept { entered_ = ticks(); }
  void leave() noexcept { own_ += ticks() - entered_; }
  // The same at an instruction. One in kSampled stands for all, until one takes long: to read the counter twice takes
  // as long as what many instructions need. True: every frame is to be looked at, from the root inwards.
  void enter_instruction() noexcept {
    if (unmeasured_ == 0) enter();
  }
  bool leave_instruction() noexcept {
    if (unmeasured_ == 0)
      leave_measured();
    else
      unmeasured_ -= 1;
    return ++count_ % kEvery == 0;
  }
  void look(PyCodeObject* code) noexcept;
  // Every so many looks the budget is.
  void looked() noexcept;
  // A frame is followed.
  void follow(PyCodeObject* code);
  // The recording has used up its budget.
  bool is_over() const noexcept { return over_; }

  // The recording has ended.
  void end() noexcept { measure(); }
  double taken() const noexcept { return taken_; }  // seconds beyond what CPython took
  double plain() const noexcept { return plain_; }  // seconds of CPython
  // Functions that were called once, and in which most of the recording took place. The role of root passes through
  // them.
  std::vector<Ref> drivers() const;

  // Whether such a recording may be made, where recordings have taken so much that no call could use.
  static bool allows(double plain, double owed, double next) noexcept { return owed + next <= allowance(plain); }

 private:
  static constexpr uint64_t kEvery = 128;     // instructions between two looks
  static constexpr uint64_t kSampled = 7;     // of which one is measured; loops often have an even number
  static constexpr uint64_t kLong = 1 << 16;  // ticks of an instruction after which each is measured
  static constexpr uint32_t kCheck = 8;       // looks between two checks of the budget
  // Seconds that CPython takes for an instruction at least; for one event; for a frame that has them.
  static constexpr double kInstruction = 6e-9, kEvent = 40e-9, kFrame = 600e-9;
  static constexpr double kLeast = 0.05, kMost = 1.0;

  struct Function {
    uint32_t times = 0, looks = 0, last = 0;
  };

  void leave_measured() noexcept {
    const uint64_t spent = ticks() - entered_;
    if (spent > kLong) sampled_ = 1;
    own_ += sampled_ * spent;
    unmeasured_ = sampled_ - 1;
  }
  static double allowance(double plain) noexcept;
  void measure() noexcept;

  uint64_t entered_ = 0, own_ = 0, count_ = 0, frames_ = 0, began_ticks_ = 0;
  uint64_t sampled_ = kSampled, unmeasured_ = 0;
  uint32_t looks_ = 0;
  double began_ = 0, known_ = 0, owed_ = 0, taken_ = 0, plain_ = 0;
  bool limited_ = false, over_ = false;
  std::unordered_map<PyCodeObject*, Function> functions_;  // each is kept by the trace
};

// Of the recording of this thread: there is one at most.
Pace& recording_pace() noexcept;
// How many times the plain call a recording may take; 0: any. An option.
uint64_t& record_budget() noexcept;
// Traces hold the tensors that came in and the objects whose methods were called, for whoever wants these very objects:
// a trace as data names few of them else.
bool& keeps_inputs() noexcept;
// Recordings are for a graph that keeps the decisions of the call: they mark where loops begin their turns (heads.h).
bool& keeps_decisions() noexcept;

}  // namespace pijit
