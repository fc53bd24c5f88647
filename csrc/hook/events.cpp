// The list of events.
#include "hook/events.h"

#include "common/clock.h"

namespace pijit {
namespace {

constexpr size_t kMost = size_t{1} << 14, kMostWithReplays = size_t{1} << 18;

uint64_t g_left_out = 0;
bool g_replays = false;

// Immortal: threads may note something while the process ends.
std::vector<Event>& list() noexcept {
  static auto* all = new std::vector<Event>();
  return *all;
}

}  // namespace

void note_events(bool replays) {
  list().reserve(replays ? kMostWithReplays : kMost);
  g_replays = replays;
}

bool notes_replays() noexcept {
  return g_replays;
}

void note_event(const Root& root, Happened what, double seconds) noexcept {
  std::vector<Event>& all = list();
  if (all.capacity() == 0 || root.is_entry()) return;  // nobody asked
  const size_t room = what == Happened::kEachReplay ? all.capacity() / 2 : all.capacity();
  if (all.size() >= room) {
    g_left_out += 1;
    return;
  }
  all.push_back({now(), seconds, root.id, what});
}

const std::vector<Event>& events() noexcept {
  return list();
}

uint64_t events_left_out() noexcept {
  return g_left_out;
}

}  // namespace pijit
