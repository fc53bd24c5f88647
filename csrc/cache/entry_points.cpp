// Keeps the places and the entries, and forgets them.
#include "cache/entry_points.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace pijit {
namespace {

// Immortal, like what follows; those that are gone are taken off when the next one is made.
std::vector<std::weak_ptr<Root>>& entries() {
  static auto* all = new std::vector<std::weak_ptr<Root>>();
  return *all;
}

// The states of code objects that have places.
std::unordered_set<CodeState*>& states() {
  static auto* all = new std::unordered_set<CodeState*>();
  return *all;
}

void forget_expired(std::vector<std::weak_ptr<Root>>* roots) {
  std::erase_if(*roots, [](const auto& each) { return each.expired(); });
}

// Places that are taken out are dropped at the end: code objects that die with it take their states off the list.
template <class Predicate>
void forget_if(Predicate is_forgotten) {
  std::vector<EntryPoint> gone;
  for (CodeState* state : states()) {
    std::vector<EntryPoint> kept;
    for (EntryPoint& point : state->entries) (is_forgotten(point) ? gone : kept).push_back(std::move(point));
    state->entries = std::move(kept);
  }
}

}  // namespace

EntryPoint& add_point(CodeState& state, EntryPoint point) {
  states().insert(&state);
  state.entries.push_back(std::move(point));
  return state.entries.back();
}

void forget_points(CodeState* state) noexcept {
  states().erase(state);
}

std::vector<std::shared_ptr<Root>> all_entries() {
  std::vector<std::shared_ptr<Root>> living;
  for (const auto& each : entries())
    if (std::shared_ptr<Root> entry = each.lock()) living.push_back(std::move(entry));
  return living;
}

std::vector<std::shared_ptr<Root>> entries_of(const Root& root) {
  std::vector<std::shared_ptr<Root>> living;
  for (const auto& each : root.entries)
    if (std::shared_ptr<Root> entry = each.lock()) living.push_back(std::move(entry));
  std::sort(living.begin(), living.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  return living;
}

void note_entry(const std::shared_ptr<Root>& entry) {
  forget_expired(&entries());
  entries().push_back(entry);
}

void note_entered(Root& root, const std::shared_ptr<Root>& entry) {
  if (std::exchange(entry->entry.entered_for, root.id) == root.id) return;
  const auto is_it = [&](const std::weak_ptr<Root>& each) { return each.lock() == entry; };
  if (std::any_of(root.entries.begin(), root.entries.end(), is_it)) return;
  forget_expired(&root.entries);
  root.entries.push_back(entry);
}

void forget_entries() {
  forget_if([](const EntryPoint&) { return true; });
}

void forget_entry(const Root& entry) {
  forget_if([&](const EntryPoint& point) { return point.root.get() == &entry; });
}

void forget_entries_of(const Root& root) {
  const std::vector<std::shared_ptr<Root>> its = entries_of(root);
  forget_if([&](const EntryPoint& point) {
    if (point.root == nullptr) return point.counted_for == root.id;
    return std::find(its.begin(), its.end(), point.root) != its.end();
  });
}

}  // namespace pijit
