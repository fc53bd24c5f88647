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
  constexpr long kOwnersAlone = 2;  // the trace, and this replay
  trace_ = &trace;
  tapes_ = trace.tapes;
  next_ = 0;
  going_.clear();
  maker_.reset();
  if (tapes_ != nullptr) {
    try {
      if (tapes_.use_count() == kOwnersAlone) tapes_->widen(trace);
    } catch (const std::exception&) {  // memory is short
      tapes_.reset();
    }
  }
  while (tapes_ != nullptr && next_ < tapes_->all.size() && tapes_->all[next_].first < from) ++next_;
  look_ahead();
}

void Taped::look_ahead() noexcept {
  stop_ = tapes_ != nullptr && next_ < tapes_->all.size() ? tapes_->all[next_].first : SIZE_MAX;
  if (maker_ != nullptr) stop_ = std::min(stop_, watched_.stop);
  for (const Going& each : going_) stop_ = std::min(stop_, each.stop);
}

Taped::Turn Taped::arrive(size_t at) noexcept {
  Turn turn = Turn::kNative;
  try {
    for (; next_ < tapes_->all.size() && tapes_->all[next_].first == at; ++next_) enter(&tapes_->all[next_]);
    for (Going& each : going_) {
      if (each.stop != at) continue;
      const Turn done = turn == Turn::kDone ? (restore(&each) ? Turn::kDone : Turn::kFailed) : step(&each);
      if (done != Turn::kNative) turn = done;
      if (turn == Turn::kFailed) return turn;
    }
    remove_ended();
    if (maker_ != nullptr && watched_.stop == at) {
      const bool is_its_own = watched_.stretch->nodes.nodes[watched_.index].at == at;
      if (turn == Turn::kDone) {
        if (is_its_own) maker_->skip(watched_.index++);
        watched_.stop = at + 1;
      } else {
        begin_watching(at);
        if (maker_ != nullptr) turn = Turn::kWatched;
      }
    }
  } catch (const std::exception&) {  // memory is short
    end_watching();
  }
  look_ahead();
  return turn;
}

// At the first node of a stretch.
void Taped::enter(TapedStretch* stretch) {
  if (stretch->spoils() || current_adapter()->is_profiled()) return;
  if (maker_ == nullptr && trace_->replays >= kWatchedFrom && stretch->may_watch()) {
    stretch->watched += 1;
    stretch->wanted = false;
    maker_ = current_adapter()->make_tape(stretch->nodes);
    watched_ = Going{stretch, stretch->first, 0, nullptr, nullptr};
    return;
  }
  if (!stretch->tapes.empty()) going_.push_back({stretch, stretch->first, 0, nullptr, nullptr});
}

// The tape whose first node the replay has come to; without one it goes on to the next first node.
bool Taped::begin_tape(Going* going) {
  TapedStretch& stretch = *going->stretch;
  const size_t at = going->stop;
  size_t soonest = SIZE_MAX;
  for (const std::shared_ptr<Tape>& tape : stretch.tapes) {
    const size_t first = stretch.nodes.nodes[tape->nodes()[0]].at;
    if (first > at) soonest = std::min(soonest, first);
    if (first != at) continue;
    std::unique_ptr<Tape::Run> run = tape->begin();
    if (run == nullptr || !run->step(tape->nodes()[0], regs_)) continue;
    going->tape = tape;
    going->run = std::move(run);
    going->index = 1;
    going->stop = stretch.nodes.nodes[tape->nodes()[1]].at;
    return true;
  }
  going->stop = soonest;
  if (soonest == SIZE_MAX) {
    stretch.wanted = true;
    tapes_->turns.miss();
  }
  return false;
}

Taped::Turn Taped::step(Going* going) noexcept {
  const size_t at = going->stop;
  if (going->run == nullptr) {
    try {
      return begin_tape(going) ? Turn::kDone : Turn::kNative;
    } catch (const std::exception&) {  // memory is short
      going->stop = SIZE_MAX;
      return Turn::kNative;
    }
  }
  TapedStretch& stretch = *going->stretch;
  const Vec<uint32_t>& places = going->tape->nodes();
  if (!going->run->step(places[going->index], regs_)) {
    if (going->run->is_broken()) return going->run.reset(), Turn::kFailed;
    return restore(going) ? Turn::kNative : Turn::kFailed;
  }
  going->index += 1;
  if (going->index < places.size()) {
    going->stop = stretch.nodes.nodes[places[going->index]].at;
    return Turn::kDone;
  }
  stretch.runs += 1;
  Ref given = going->run->result();
  going->run.reset();
  going->stop = SIZE_MAX;
  if (!given) return Turn::kFailed;
  if (const uint32_t out = trace_->nodes[at].out; out != kNone) set_object(&regs_[out], given.release());
  return Turn::kDone;
}

void Taped::remove_ended() noexcept {
  const auto has_ended = [](const Going& each) { return each.stop == SIZE_MAX; };
  going_.erase(std::remove_if(going_.begin(), going_.end(), has_ended), going_.end());
}

void Taped::begin_watching(size_t at) {
  watched_.stop = at + 1;
  if (watched_.stretch->nodes.nodes[watched_.index].at == at && !maker_->begin(watched_.index, regs_)) end_watching();
}

void Taped::observed(size_t at) noexcept {
  TapedStretch& stretch = *watched_.stretch;
  try {
    if (stretch.nodes.nodes[watched_.index].at == at) {
      if (!maker_->end(watched_.index, regs_)) return end_watching();
      watched_.index += 1;
    }
    if (at != stretch.last) return;
    if (std::shared_ptr<Tape> made = maker_->finish()) stretch.tapes.push_back(std::move(made));
    end_watching();
  } catch (const std::exception&) {  // memory is short
    end_watching();
  }
}

void Taped::end_watching() noexcept {
  if (maker_ != nullptr) {
    try {
      watched_.stretch->why = maker_->why();
    } catch (const std::exception&) {  // memory is short, and no reason is said
    }
    watched_.stretch->too_late |= maker_->began_too_late();
  }
  maker_.reset();
  look_ahead();
}

// What the tape did is done with autograd, and what follows of the stretch is replayed.
bool Taped::restore(Going* going) noexcept {
  const std::unique_ptr<Tape::Run> run = std::move(going->run);
  going->stop = SIZE_MAX;
  if (run == nullptr) return true;
  TapedStretch& stretch = *going->stretch;
  stretch.left += 1;
  stretch.wanted = true;
  bool done = true;
  try {
    std::vector<Reg> regs(regs_, regs_ + trace_->regs.size());
    for (Reg& reg : regs) reg.owned = 0;
    run->rewind(regs.data());
    Vec<uint32_t> made;
    for (size_t i = 0; i < going->index && done; ++i) {
      const uint32_t place = going->tape->nodes()[i];
      done = run->redo(place, regs.data());
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
  return done;
}

bool Taped::restore() noexcept {
  bool done = true;
  for (Going& each : going_) done = restore(&each) && done;
  going_.clear();
  end_watching();
  return done;
}

}  // namespace pijit
