// Adds traces of a root, and takes them away.
#include "cache/traces.h"

#include <algorithm>
#include <utility>

namespace pijit {

size_t Traces::likely(uint64_t signature) const noexcept {
  return std::min(dispatch.guess(signature), all_.size() - 1);
}

void Traces::add(std::shared_ptr<Trace> trace) {
  depth_ = std::max(depth_, trace->depth);
  coroutines_ = coroutines_ || trace->coroutines;
  all_.push_back(std::move(trace));
}

void Traces::share_room() noexcept {
  size_t room = 0;
  for (const auto& trace : all_) room = std::max(room, trace->room);
  for (const auto& trace : all_) trace->room = room;
}

void Traces::forget(size_t index) {
  all_[index]->forgotten = true;
  if (wanted.from == all_[index]) wanted = Wanted();
  all_.erase(all_.begin() + static_cast<ptrdiff_t>(index));
}

void Traces::drop_given_way() {
  std::erase_if(all_, [](const std::shared_ptr<Trace>& trace) { return trace->gives_way; });
}

Traces::All Traces::take() noexcept {
  All gone = std::exchange(all_, {});
  dispatch.clear();
  wanted = Wanted();
  return gone;
}

}  // namespace pijit
