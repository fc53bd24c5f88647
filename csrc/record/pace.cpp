// The time of a recording, split between the recorder and CPython.
#include "record/pace.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "record/captures.h"

namespace pijit {

Pace& recording_pace() noexcept {
  thread_local Pace pace;
  return pace;
}

uint64_t& record_budget() noexcept {
  static uint64_t value = 4;
  return value;
}

bool& keeps_inputs() noexcept {
  static bool value = false;
  return value;
}

int& root_only_read() noexcept {
  static int value = -1;
  return value;
}

bool& is_only_read() noexcept {
  static bool value = false;
  return value;
}

bool& keeps_decisions() noexcept {
  static bool value = false;
  return value;
}

void Pace::begin(bool limited, double plain, double owed) noexcept {
  limited_ = limited && record_budget() != 0;
  known_ = plain;
  owed_ = owed;
  over_ = false;
  own_ = count_ = frames_ = 0;
  looks_ = 0;
  sampled_ = kSampled;
  unmeasured_ = 0;
  taken_ = plain_ = 0;
  functions_.clear();
  began_ = computed();
  began_ticks_ = ticks();
}

double Pace::allowance(double plain) noexcept {
  if (record_budget() == 0) return std::numeric_limits<double>::infinity();
  return std::min(kMost, std::max(kLeast, static_cast<double>(record_budget()) * plain));
}

// Ticks go on while other threads compute, so they only say which share is whose.
void Pace::measure() noexcept {
  const double all = computed() - began_;
  const double share = static_cast<double>(own_) / static_cast<double>(std::max<uint64_t>(ticks() - began_ticks_, 1));
  const double rest = all * (1 - std::min(share, 1.0));
  const auto instructions = static_cast<double>(count_), frames = static_cast<double>(frames_);
  const double seen =
      std::max(rest - instructions * kEvent - frames * kFrame, std::min(rest, instructions * kInstruction));
  taken_ = all - seen;
  plain_ = known_ > 0 ? known_ : seen;
}

void Pace::look(PyCodeObject* code) noexcept {
  const auto found = functions_.find(code);
  if (found == functions_.end() || std::exchange(found->second.last, looks_ + 1) == looks_ + 1) return;
  found->second.looks += 1;
}

void Pace::looked() noexcept {
  if (++looks_ % kCheck != 0 || !limited_ || over_) return;
  measure();
  over_ = !allows(plain_, owed_, taken_);
}

void Pace::follow(PyCodeObject* code) {
  frames_ += 1;
  functions_[code].times += 1;
}

std::vector<Ref> Pace::drivers() const {
  std::vector<Ref> drivers;
  for (const auto& [code, function] : functions_)
    if (function.times == 1 && 2 * function.looks > looks_)
      drivers.push_back(Ref::borrow(reinterpret_cast<PyObject*>(code)));
  return drivers;
}

}  // namespace pijit
