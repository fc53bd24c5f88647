// Counts what speaks for one more trace, and finds the one that is of the least use.
#include "cache/variants.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cache/root.h"

namespace pijit {
namespace {

constexpr size_t kTimes = 4;       // as many traces as max_traces says, at most
constexpr uint64_t kPrice = 64;    // replays for each trace that comes in the place of another: it saves a part of each
constexpr uint64_t kLooked = 256;  // calls, of which half have to be replayed
constexpr size_t kMostMissed = 256;  // of calls that are remembered

size_t usual() noexcept {
  return static_cast<size_t>(limits().traces);
}

size_t most(const Root& root) noexcept {
  return root.asked.strict ? usual() : kTimes * usual();
}

// So many that were never replayed tell nothing against one more.
size_t open() noexcept {
  return std::max<size_t>(1, usual() / 2);
}

bool came_back(Root& root, cpython::Frame* frame, const Adapter* adapter) {
  if (root.is_entry()) return false;  // its arguments do not tell where the call has come to
  auto& missed = root.variants.missed;
  if (missed.size() >= kMostMissed) missed.clear();
  return !missed.insert(call_signature(frame, root.owner.code, adapter)).second;
}

// Replays that nothing was paid with are kept for as many traces as there may be.
bool pays(Root& root) noexcept {
  uint64_t& paid = root.variants.paid;
  const uint64_t replays = root.counts.replays, kept = kPrice * most(root);
  if (replays > kept) paid = std::max(paid, replays - kept);
  if (replays < paid + kPrice) return false;
  paid += kPrice;
  return true;
}

// Which traces have been replayed since the last look.
void look(Root& root) {
  auto& uses = root.variants.uses;
  if (uses.size() > 2 * most(root)) uses.clear();
  for (const auto& trace : root.traces) {
    const auto [found, is_new] = uses.try_emplace(trace.get());
    Variants::Use& use = found->second;
    if (!is_new && use.replays == trace->replays) continue;
    const uint64_t before = std::min(use.replays, trace->replays);
    use = {trace->replays, root.counts.calls, (trace->replays - before) * (trace->operations + 1)};
  }
}

size_t least_useful(Root& root) {
  auto& uses = root.variants.uses;
  const auto& traces = root.traces;
  const auto found = std::min_element(traces.begin(), traces.end(), [&](const auto& a, const auto& b) {
    const Variants::Use &one = uses[a.get()], &other = uses[b.get()];
    return std::pair(one.at, one.gained) < std::pair(other.at, other.gained);
  });
  return static_cast<size_t>(found - traces.begin());
}

// Those beyond the usual number are dropped.
void shrink(Root& root) {
  std::vector<std::shared_ptr<Trace>> gone;  // to drop one may run Python: at the end
  look(root);
  while (root.traces.size() > usual()) {
    const size_t index = least_useful(root);
    gone.push_back(root.traces[index]);
    root.traces.forget(index);
  }
  root.variants = Variants();
  root.variants.refused = true;
}

void begin_count(Root& root) noexcept {
  root.variants.calls = root.counts.calls;
  root.variants.replays = root.counts.replays;
}

// Replays are many enough for as many traces as there are.
void judge(Root& root) {
  Variants& variants = root.variants;
  const uint64_t calls = root.counts.calls - variants.calls, replays = root.counts.replays - variants.replays;
  const bool many = root.traces.size() > usual();
  if (many && calls < kLooked) return;
  begin_count(root);
  if (many && 2 * replays < calls) shrink(root);
}

}  // namespace

size_t replayed_traces(const Root& root) noexcept {
  return static_cast<size_t>(
      std::count_if(root.traces.begin(), root.traces.end(), [](const auto& trace) { return trace->replays > 0; }));
}

bool may_grow(const Root& root) noexcept {
  const size_t size = root.traces.size();
  return size < usual() || (!root.variants.refused && size < most(root) && size - replayed_traces(root) < open());
}

bool has_room(Root& root, cpython::Frame* frame, const Adapter* adapter) {
  judge(root);
  if (may_grow(root)) return true;
  if (root.asked.strict || root.variants.refused) return false;
  if (root.traces.size() < most(root)) return came_back(root, frame, adapter);
  look(root);
  return pays(root);
}

bool make_place(Root& root) {
  const size_t size = root.traces.size();
  if (size < most(root)) {
    if (size < usual()) return false;
    root.variants.grew = true;
    begin_count(root);  // what was replayed with fewer traces says nothing of so many
    return false;
  }
  const size_t index = least_useful(root);
  const std::shared_ptr<Trace> gone = root.traces[index];  // to drop it may run Python: at the end
  root.variants.uses.erase(gone.get());
  root.traces.forget(index);
  return true;
}

}  // namespace pijit
