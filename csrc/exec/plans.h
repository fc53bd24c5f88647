// Plans at a replay: where a segment begins, compiled code may answer in the place of its nodes.
//
// 1. A plan that raises, or gives what is not of the recorded form, has changed nothing: the nodes are replayed
//    natively. It is dropped where it gives another form, and where native replay does not fail as well: an error of
//    the program's own is no reason. One that gives None declines what it was given, and is asked at the next call.
// 2. Where the replay is left behind a segment, the registers that only snapshots read are computed natively from the
//    inputs, which are held for that.
// 3. One native replay under a new key is offered to the market, after the call and with copies of all tensors.
// 4. Under another new form the replay is surveyed, node by node, where the segment may be cut (plan/pieces.h).
// 5. What a segment stores into objects of Python is stored behind the plan. Where a store fails, native replay does all
//    of it anew: it stores the same.
// 6. Every n-th turn of a plan, and the first one where it is on trial, native replay answers. The plan then runs on
//    copies of the inputs, and the market compares, after the call.
// 7. Where a segment draws random numbers, the generators are put back before native replay takes over from a plan, and
//    around a plan that is compared. One that leaves them in another state than native replay is dropped.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "ir/trace.h"
#include "plan/segment.h"

namespace pijit {

// Takes offers (bind/); null: nobody does.
using OfferTaker = void (*)(Offer);
OfferTaker& offer_taker() noexcept;

// Does a node (exec/replay.cpp); false: it could not.
using Doer = bool (*)(const Trace&, const Node&, Reg*);

class Plans {
 public:
  Plans(Reg* regs, Doer doer) noexcept : regs_(regs), doer_(doer) {}
  ~Plans();
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  // Of so many turns of a plan one is compared with native replay; 0: none.
  void compare_every(uint64_t turns) noexcept { compare_every_ = turns; }
  // The replay goes on in this trace, behind node `from`. Segments that overlap stretches of `tapes` are left to these;
  // null: none is.
  void begin(const Trace& trace, size_t from, std::shared_ptr<Tapes> tapes = nullptr) noexcept;
  // The next node at which arrive() is to be called.
  size_t stop() const noexcept { return stop_; }
  // The replay has come to the node; gives the one to go on with.
  size_t arrive(size_t at) noexcept;
  // Before frames are rebuilt: computes what only snapshots read. False: memory is short.
  bool restore() noexcept;
  bool any_ran() const noexcept { return !ran_.empty(); }
  // After the call: hands on what is to be offered.
  void deliver() noexcept;

 private:
  // A segment that a plan answered for.
  struct Ran {
    const Trace* trace;
    std::shared_ptr<const Segment> segment;
    std::vector<std::pair<uint32_t, Reg>> inputs;  // registers and what they held, owned
    void hold(uint32_t index, Reg reg);
  };

  void look_ahead(size_t at) noexcept;
  size_t enter(size_t at);
  std::shared_ptr<Keyed> remember(const Segment& segment);
  bool tell_writes(const Segment& segment, Plan& plan);
  bool run(const std::shared_ptr<Segment>& entered, Keyed& keyed, const std::shared_ptr<Plan>& plan);
  bool answer(const std::shared_ptr<Segment>& entered, Keyed& keyed, const std::shared_ptr<Plan>& plan,
              const DrawStates* before);
  bool take(const Segment& segment, Keyed& keyed, PyObject* made) noexcept;
  bool store(const Segment& segment) noexcept;
  // Asks and loads what is guarded behind calls that the segment spans.
  bool foresee(const Sides& sides) noexcept;
  // The registers that hold what was loaded so.
  template <class F>
  void each_foreseen(const Sides& sides, const F& take) const;
  void hold_foreseen(const Sides& sides) noexcept;
  bool take_output(const Segment& segment, Keyed& keyed, size_t output, PyObject* made) noexcept;
  void note_passed(const Segment& segment, Keyed* keyed) const;
  void drop(Keyed& keyed, const Plan& plan) { keyed.remove(plan, reason()); }
  void suspect(const std::shared_ptr<Plan>& plan);
  static std::string reason();
  // Of a segment with effects: loads what its nodes find, and asks what they ask; false: native replay finds why.
  bool look(const Segment& segment) noexcept;
  bool finish(const Segment& segment, Keyed& keyed, PyObject* made) noexcept;
  bool copy_inputs(const Segment& segment, Keyed& keyed);
  void note_native();
  void offer(const std::shared_ptr<Segment>& segment, const std::shared_ptr<Keyed>& keyed);
  void begin_survey();
  bool watch(size_t at);
  void keep_stored(size_t at);
  void drop_kept() noexcept;
  bool cut(Segment& segment);
  bool restore(Ran& ran) noexcept;

  Reg* regs_;
  Doer doer_;
  const Trace* trace_ = nullptr;
  std::shared_ptr<const Segments::List> segments_;
  std::shared_ptr<Tapes> tapes_;
  size_t next_ = 0;  // in segments_
  size_t stop_ = SIZE_MAX;
  std::vector<Ran> ran_;
  // A segment that is replayed natively, and watched.
  std::shared_ptr<Keyed> watched_;
  std::shared_ptr<Segment> watched_segment_;
  bool surveyed_ = false;  // node by node
  // What nodes of the watched segment store, which may be let go before its end: registers and what they held, owned.
  std::vector<std::pair<uint32_t, Reg>> kept_;
  double started_ = 0;
  bool fresh_ = false;                 // under a key that is not among those of the segment yet
  Ref inputs_;                         // copies; null: nothing is to be offered
  std::unique_ptr<DrawStates> drawn_;  // before native replay, if the segment draws random numbers
  std::shared_ptr<Plan> compared_;     // the plan that is to be compared; null: plans are asked for
  uint64_t compare_every_ = 0;
  std::shared_ptr<Plan> suspect_;  // the plan that raised where native replay is at work; null: none did
  std::string suspicion_;          // what it raised
  std::vector<Offer> offers_;
};

}  // namespace pijit
