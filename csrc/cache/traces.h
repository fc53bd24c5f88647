// The traces of a root.
#pragma once
#include <memory>
#include <vector>

#include "cache/dispatch.h"
#include "ir/trace.h"

namespace pijit {

// A call that the guards of a trace let in is to be recorded, to become the side trace of a node.
struct Wanted {
  std::shared_ptr<Trace> from;  // null: none is
  uint32_t node = 0;
  int wait = 0;  // calls that are let by before: ways may alternate
};

class Traces {
 public:
  using All = std::vector<std::shared_ptr<Trace>>;

  const All& all() const noexcept { return all_; }
  bool empty() const noexcept { return all_.empty(); }
  size_t size() const noexcept { return all_.size(); }
  const std::shared_ptr<Trace>& operator[](size_t index) const noexcept { return all_[index]; }
  const std::shared_ptr<Trace>& back() const noexcept { return all_.back(); }
  All::const_iterator begin() const noexcept { return all_.begin(); }
  All::const_iterator end() const noexcept { return all_.end(); }

  // Which to try first, of those that there are, for calls that look like this one.
  size_t likely(uint64_t signature) const noexcept;
  // The deepest inlined level of all traces that there have been.
  uint32_t depth() const noexcept { return depth_; }
  // Some trace that there has been makes coroutines.
  bool coroutines() const noexcept { return coroutines_; }

  void add(std::shared_ptr<Trace> trace);
  // A replay goes on from one trace in another: each has registers for all.
  void share_room() noexcept;
  void forget(size_t index);
  // Those that gave way to the next one are dropped.
  void drop_given_way();
  // None is left. Who has them drops them when its own state is in order: that may run Python.
  [[nodiscard]] All take() noexcept;
  void clear() noexcept { const All gone = take(); }

  bool unprepared = false;  // some were never prepared for replays
  Dispatch dispatch;
  Wanted wanted;

 private:
  All all_;
  uint32_t depth_ = 1;
  bool coroutines_ = false;
};

}  // namespace pijit
