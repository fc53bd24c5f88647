// Counts the bytes of traces, and finds those that give way.
#include "cache/memory.h"

#include <algorithm>

#include "cache/entry_points.h"

namespace pijit {
namespace {

// An eighth more is freed than is needed: else each new trace would look at all roots.
constexpr uint64_t kSpare = 8;

size_t g_counted = 0;  // bytes of all traces at the last count
size_t g_added = 0;    // bytes of the traces that came after it

uint64_t replays_of(const Root& root) noexcept {
  uint64_t replays = 0;
  for (const auto& trace : root.traces) replays += trace->replays;
  return replays;
}

// Replays for each byte since the last time that somebody had to give way.
double usefulness(const Root& root) noexcept {
  const uint64_t replays = replays_of(root), before = std::min(replays, root.evictions.replays_before);
  return static_cast<double>(replays - before) / static_cast<double>(bytes_of(root));
}

std::vector<std::shared_ptr<Root>> roots_with_traces() {
  std::vector<std::shared_ptr<Root>> roots = all_roots();
  for (const auto& entry : all_entries()) roots.push_back(entry);
  std::erase_if(roots, [](const auto& root) { return root->traces.empty(); });
  return roots;
}

void give_way(Root& root) {
  for (const auto& trace : root.traces) trace->forgotten = true;
  root.evictions.note(root.counts.calls);
  root.traces.clear();  // a replay that is under way holds its own
}

}  // namespace

uint64_t& memory_limit() noexcept {
  static uint64_t value = uint64_t{1} << 30;
  return value;
}

size_t bytes_of(const Trace& trace) noexcept {
  size_t bytes = sizeof(Trace);
  Trace::each_vector(trace, [&](const auto& items) { bytes += items.capacity() * sizeof(items[0]); });
  return bytes;
}

size_t bytes_of(const Root& root) noexcept {
  size_t bytes = 0;
  for (const auto& trace : root.traces) bytes += bytes_of(*trace);
  return bytes;
}

bool exceeds_memory(const Trace& trace) noexcept {
  return memory_limit() != 0 && bytes_of(trace) > memory_limit();
}

size_t make_room(Root& root, const Trace& added) {
  const uint64_t limit = memory_limit();
  g_added += bytes_of(added);
  if (limit == 0 || g_counted + g_added <= limit) return 0;
  std::vector<std::shared_ptr<Root>> roots = roots_with_traces();
  size_t bytes = 0, gone = 0;
  for (const auto& each : roots) bytes += bytes_of(*each);
  if (bytes > limit) {
    std::stable_sort(roots.begin(), roots.end(),
                     [](const auto& a, const auto& b) { return usefulness(*a) < usefulness(*b); });
    for (const auto& each : roots) {
      if (each.get() == &root) continue;
      if (bytes <= limit - limit / kSpare) break;
      bytes -= bytes_of(*each);
      give_way(*each);
      gone += 1;
    }
    if (bytes > limit) {  // those that the root itself has are too many
      bytes -= bytes_of(root);
      give_way(root);
      gone += 1;
    }
    for (const auto& each : roots) each->evictions.replays_before = replays_of(*each);
  }
  g_counted = bytes;
  g_added = 0;
  return gone;
}

}  // namespace pijit
