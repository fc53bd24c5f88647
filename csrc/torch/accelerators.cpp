// Asks the guards of devices, and compares.
#include "torch/accelerators.h"

#include <atomic>
#include <sstream>

#include "torch/compat.h"
#include "torch/literals.h"

namespace pijit::torch_adapter {
namespace {

using Guard = c10::impl::DeviceGuardImplInterface;

constexpr const char* kCapture = "the current stream of a device is captured";
constexpr const char* kUnknownStream = "a device does not say which of its streams is current";

// By type of device: a tensor of it was seen in this process.
std::atomic<uint64_t> g_seen{0};
static_assert(static_cast<size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES) <= 64);

// Null: devices of this type are not told apart, and have no streams.
const Guard* guard_of(c10::DeviceType type) noexcept {
  return c10::impl::device_guard_impl_registry[static_cast<size_t>(type)].load();
}

bool captures(const Guard& guard, c10::Device device) {
  return is_captured(guard, guard.getStream(device));
}

}  // namespace

const char* AcceleratorModes::touch(c10::Device device) noexcept {
  for (const Row& row : rows_)
    if (row.device == device) return nullptr;
  const Guard* guard = guard_of(device.type());
  if (guard == nullptr) return nullptr;
  try {
    const c10::StreamId stream = guard->getStream(device).id();
    rows_.push_back({device, guard->getDevice().index(), stream, at::autocast::get_autocast_dtype(device.type())});
    g_seen |= uint64_t{1} << static_cast<size_t>(device.type());
    return captures(*guard, device) ? kCapture : nullptr;
  } catch (...) {
    return kUnknownStream;
  }
}

bool AcceleratorModes::check() const noexcept {
  try {
    for (const Row& row : rows_) {
      const Guard& guard = *guard_of(row.device.type());
      if (guard.getDevice().index() != row.current || guard.getStream(row.device).id() != row.stream ||
          at::autocast::get_autocast_dtype(row.device.type()) != row.autocast || captures(guard, row.device))
        return false;
    }
    return true;
  } catch (...) {
    return false;
  }
}

std::string AcceleratorModes::describe() const {
  std::ostringstream text;
  for (const Row& row : rows_) {
    const std::string type = c10::DeviceTypeName(row.device.type(), true);
    text << ", current device of " << type << "=" << static_cast<int>(row.current) << ", current stream of "
         << row.device << "=" << row.stream << ", autocast dtype of " << type << "=" << static_cast<int>(row.autocast);
  }
  return text.str();
}

std::string AcceleratorModes::summary() const {
  std::ostringstream text;
  for (const Row& row : rows_) {
    if (row.current != 0) text << ", device " << c10::Device(row.device.type(), row.current);
    if (row.stream != 0) text << ", stream " << row.stream << " of " << row.device;
  }
  return text.str();
}

std::string AcceleratorModes::explain() const {
  std::ostringstream text;
  try {
    for (const Row& row : rows_) {
      const Guard& guard = *guard_of(row.device.type());
      const std::string type = c10::DeviceTypeName(row.device.type(), true);
      const c10::DeviceIndex device = guard.getDevice().index();
      const c10::StreamId stream = guard.getStream(row.device).id();
      const c10::ScalarType autocast = at::autocast::get_autocast_dtype(row.device.type());
      if (captures(guard, row.device)) return kCapture;
      if (device != row.current)
        text << "current device of " << type << ": " << static_cast<int>(device) << " now, "
             << static_cast<int>(row.current) << " before";
      else if (stream != row.stream)
        text << "current stream of " << row.device << ": " << stream << " now, " << row.stream << " before";
      else if (autocast != row.autocast)
        text << "autocast dtype of " << type << ": " << type_words(autocast) << " now, " << type_words(row.autocast)
             << " before";
      else
        continue;
      return text.str();
    }
  } catch (...) {
    return kUnknownStream;
  }
  return "";
}

const char* capture_under_way() noexcept {
  const uint64_t seen = g_seen.load(std::memory_order_relaxed);
  for (size_t i = 0; seen >> i != 0; ++i) {
    if ((seen >> i & 1) == 0) continue;
    try {
      const Guard& guard = *guard_of(static_cast<c10::DeviceType>(i));
      if (captures(guard, guard.getDevice())) return kCapture;
    } catch (...) {
      return kUnknownStream;
    }
  }
  return nullptr;
}

c10::Stream current_stream(c10::Device device) {
  const Guard* guard = guard_of(device.type());
  TORCH_CHECK(guard != nullptr, "there are no streams of ", device);
  return guard->getStream(device);
}

at::Generator default_generator(c10::Device device) noexcept {
  try {
    if (device.type() == c10::kMeta) return at::Generator();
    return at::globalContext().defaultGenerator(device);
  } catch (...) {
    return at::Generator();
  }
}

}  // namespace pijit::torch_adapter
