// The modes under which a trace was recorded, and those under which nothing is recorded at all.
#pragma once
#include "adapter.h"
#include "torch/pch.h"

namespace pijit::torch_adapter {

std::unique_ptr<StateGuard> capture_state();
// As StateGuard::keep() has it; null: it is none.
std::unique_ptr<StateGuard> make_state(const Words& words);

// What is recorded on this thread touches a device: its modes belong to the state that was captured last. Null, or why
// that cannot be recorded.
const char* touch_device(c10::Device device) noexcept;
// The state that was captured last has the dtype of autocast on such devices.
bool has_autocast_dtype(c10::DeviceType type) noexcept;

// What was captured last is another recording's while this lives.
class CapturedAside {
 public:
  CapturedAside() noexcept;
  ~CapturedAside();
  CapturedAside(const CapturedAside&) = delete;
  CapturedAside& operator=(const CapturedAside&) = delete;

 private:
  StateGuard* latest_;
};

// Why nothing is recorded now, or null; `recording`: one is under way on this thread; `has_levels`: it has opened levels
// of torch.func. GIL held.
const char* must_step_aside(bool recording, bool has_levels) noexcept;

// What an operator under gradients saves for its backward pass is handed to functions of Python.
bool has_saved_hooks() noexcept;
// These may do anything.
bool runs_saved_hooks() noexcept;

}  // namespace pijit::torch_adapter
