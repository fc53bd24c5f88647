// Runs tapes, leaves them, and watches the replays of which they are made.
#include "exec/taped.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "adapter.h"
#include "exec/registers.h"
#include "ir/adapter_slot.h"

namespace pijit {

namespace {

constexpr uint64_t kWatchedFrom = 2;  // replays of a trace

}  // namespace

void Taped::begin(const Trace& trace, size_t from) noexcept {
  trace_ = &trace;
  tapes_ = trace.tapes;
  next_ = 0;
  look_ahead(from);
}

void Taped::look_ahead(size_t from) noexcept {
  stop_ = SIZE_MAX;
  if (tapes_ == nullptr) return;
  while (next_ < tapes_->all.size() && tapes_->all[next_].first < from) ++next_;
  if (next_ < tapes_->all.size()) stop_ = tapes_->all[next_].first;
}

Taped::Turn Taped::arrive(size_t at) noexcept {
  if (run_ != nullptr) return step(at);
  try {
    return maker_ == nullptr ? enter(at) : start(at);
  } catch (const std::exception&) {  // memory is short
    leave();
    return Turn::kNative;
  }
}

// At the first node of a stretch, or at the first one that its tapes have.
Taped::Turn Taped::enter(size_t at) {
  TapedStretch& stretch = tapes_->all[next_];
  if (stretch.spoils() || current_adapter()->is_profiled()) return look_ahead(at + 1), Turn::kNative;
  if (at == stretch.first && trace_->replays >= kWatchedFrom && stretch.may_watch()) {
    stretch.watched += 1;
    stretch.wanted = false;
    maker_ = current_adapter()->make_tape(stretch.nodes);
    if (maker_ == nullptr) return look_ahead(at + 1), Turn::kNative;
    index_ = 0;
    stop_ = at;
    return start(at);
  }
  if (stretch.tapes.empty()) return look_ahead(at + 1), Turn::kNative;
  const auto first_of = [&](const Tape& tape) { return stretch.nodes.nodes[tape.nodes()[0]].at; };
  size_t soonest = SIZE_MAX;
  for (const std::shared_ptr<Tape>& tape : stretch.tapes) {
    const size_t first = first_of(*tape);
    if (first > at) soonest = std::min<size_t>(soonest, first);
    if (first != at) continue;
    run_ = tape->begin();
    tape_ = tape;
    index_ = 0;
    if (run_ != nullptr && run_->step(tape->nodes()[0], regs_)) {
      index_ = 1;
      stop_ = stretch.nodes.nodes[tape->nodes()[1]].at;
      return Turn::kDone;
    }
    run_.reset();
  }
  stop_ = soonest;
  if (soonest != SIZE_MAX) return Turn::kNative;
  stretch.wanted = true;
  tapes_->turns.miss();
  look_ahead(at + 1);
  return Turn::kNative;
}

// Of a replay that is watched.
Taped::Turn Taped::start(size_t at) {
  const TapeStretch& nodes = tapes_->all[next_].nodes;
  stop_ = at + 1;
  if (nodes.nodes[index_].at == at && !maker_->begin(index_, regs_)) {
    tapes_->all[next_].why = maker_->why();
    leave();
    return Turn::kNative;
  }
  return Turn::kWatched;
}

void Taped::observed(size_t at) noexcept {
  TapedStretch& stretch = tapes_->all[next_];
  try {
    const std::vector<TapeNode>& nodes = stretch.nodes.nodes;
    if (nodes[index_].at == at) {
      if (!maker_->end(index_, regs_)) {
        stretch.why = maker_->why();
        return leave();
      }
      index_ += 1;
    }
    if (at != stretch.last) return;
    if (std::shared_ptr<Tape> made = maker_->finish()) {
      stretch.tapes.push_back(std::move(made));
    } else {
      stretch.why = maker_->why();
    }
    leave();
  } catch (const std::exception&) {  // memory is short
    leave();
  }
}

Taped::Turn Taped::step(size_t at) noexcept {
  TapedStretch& stretch = tapes_->all[next_];
  const Vec<uint32_t>& places = tape_->nodes();
  if (run_->step(places[index_], regs_)) {
    index_ += 1;
    if (index_ < places.size()) {
      stop_ = stretch.nodes.nodes[places[index_]].at;
      return Turn::kDone;
    }
    stretch.runs += 1;
    Ref given = run_->result();
    if (!given) return leave(), Turn::kFailed;
    if (const uint32_t out = trace_->nodes[at].out; out != kNone) set_object(&regs_[out], given.release());
    run_.reset();
    tape_.reset();
    look_ahead(at + 1);
    return Turn::kDone;
  }
  if (run_->is_broken()) return leave(), Turn::kFailed;
  return restore() ? Turn::kNative : Turn::kFailed;
}

// What follows of the stretch is replayed.
void Taped::leave() noexcept {
  run_.reset();
  tape_.reset();
  maker_.reset();
  look_ahead(tapes_->all[next_].last + 1);
}

bool Taped::restore() noexcept {
  if (run_ == nullptr) return leave(), true;
  TapedStretch& stretch = tapes_->all[next_];
  stretch.left += 1;
  stretch.wanted = true;
  bool done = true;
  try {
    std::vector<Reg> regs(regs_, regs_ + trace_->regs.size());
    for (Reg& reg : regs) reg.owned = 0;
    run_->rewind(regs.data());
    Vec<uint32_t> made;
    for (size_t i = 0; i < index_ && done; ++i) {
      const uint32_t place = tape_->nodes()[i];
      done = run_->redo(place, regs.data());
      for (uint32_t reg : stretch.nodes.nodes[place].writes)
        if (done) made.push_back(reg);
    }
    for (uint32_t index : made) {
      if (regs[index].owned == 0) continue;
      // Else it was let go behind its last use, or its object has the graph.
      if (regs_[index].owned != 0 && current_adapter()->object_of(regs_[index].tensor) == nullptr) {
        release_register(&regs_[index]);
        regs_[index] = regs[index];
      } else {
        release_register(&regs[index]);
      }
    }
    current_adapter()->forget_warnings();
    current_adapter()->warned = false;
  } catch (const std::exception&) {
    done = false;
  }
  leave();
  return done;
}

}  // namespace pijit
