// Log channels: lines for people who develop pijit, through the standard logging under "pijit".
#pragma once
#include <cstdint>
#include <string>

namespace pijit {

enum class Channel : uint32_t { kRecord = 1, kGuards = 2, kExits = 4, kRecompiles = 8 };

uint32_t& log_channels() noexcept;
inline bool logs(Channel channel) noexcept {
  return (log_channels() & static_cast<uint32_t>(channel)) != 0;
}
// One line at level DEBUG. Runs Python; an error in a handler of the user's is reported as unraisable.
void log_line(Channel channel, const std::string& text);

}  // namespace pijit
