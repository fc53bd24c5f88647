// Devices other than the CPU: which one of them and which of its streams is current is a mode of the thread.
//
// An operator that is told "cuda" and no number takes the current device, and each puts its kernels on the current
// stream. A trace relies on neither unless it touches such a device, so it learns of one when it meets a tensor there,
// and a trace of the CPU alone asks nothing. All that is asked goes through c10's interface for guards of devices,
// which every backend registers: no library of a backend is linked.
//
// 1. A backend is asked only once a tensor of it was seen: before, a question could be the one that starts its runtime,
// after which the process can no longer fork.
// 2. While a stream is captured (a CUDA graph) nothing is recorded or replayed.
// 3. A backend that does not say which stream is current is left to CPython.
#pragma once
#include <algorithm>

#include "torch/pch.h"

namespace pijit::torch_adapter {

class AcceleratorModes {
 public:
  // Operators or tensors of the trace are on this device. Null, or why nothing can be recorded that touches it.
  const char* touch(c10::Device device) noexcept;
  bool touches(c10::DeviceType type) const noexcept {
    return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.device.type() == type; });
  }
  bool check() const noexcept;
  // "current device of cuda=0, current stream of cuda:0=3".
  std::string describe() const;
  // What is not as it is at the start of a program: "cuda:1", "stream 3 of cuda:0".
  std::string summary() const;
  // What check() found, with both values; "": nothing.
  std::string explain() const;

 private:
  struct Row {
    c10::Device device;
    c10::DeviceIndex current;  // device of the type
    c10::StreamId stream;      // current one of `device`
    c10::ScalarType autocast;  // dtype, for the type
  };
  c10::SmallVector<Row, 1> rows_;
};

// Neither the CPU nor "meta", where nothing is computed.
inline bool is_accelerator(c10::Device device) noexcept {
  return device.type() != c10::kCPU && device.type() != c10::kMeta;
}

// A stream is captured on this thread, of a backend of which a tensor was seen. Null: none.
const char* capture_under_way() noexcept;

// On which operators on this device, which is an accelerator, run now. Raises c10::Error where the backend does not say.
c10::Stream current_stream(c10::Device device);

// The generator that operators on this device draw from. Undefined: the backend has none, or does not give it.
at::Generator default_generator(c10::Device device) noexcept;

}  // namespace pijit::torch_adapter
