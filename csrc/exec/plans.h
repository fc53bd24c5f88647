// Plans at a replay: where a segment begins, compiled code may answer in the place of its nodes.
//
// 1. A plan that raises, or gives what is not of the recorded form, has changed nothing: it is dropped, and the nodes
// are
//    replayed natively.
// 2. Where the replay is left behind a segment, the registers that only snapshots read are computed natively from the
//    inputs, which are held for that.
// 3. One native replay under each new key is offered to the market, after the call and with copies of all tensors.
#pragma once
#include <memory>
#include <vector>

#include "ir/trace.h"
#include "opt/segment.h"

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

  // The replay goes on in this trace, behind node `from`.
  void begin(const Trace& trace, size_t from) noexcept;
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
    const Segment* segment;
    std::vector<Reg> free;  // owned
  };

  void look_ahead(size_t at) noexcept;
  size_t enter(size_t at);
  bool run(const Trace& trace, const Segment& segment, Keyed& keyed, Plan& plan);
  bool take(const Segment& segment, Keyed& keyed, PyObject* made) noexcept;
  void drop(Keyed& keyed, const Plan& plan);
  // Of a segment with effects: loads what its nodes find, and asks what they ask; false: native replay finds why.
  bool look(const Segment& segment) noexcept;
  bool finish(const Segment& segment, Keyed& keyed, PyObject* made) noexcept;
  Vec<uint32_t> given(const Segment& segment) const;
  void note_native();
  bool restore(Ran& ran) noexcept;

  Reg* regs_;
  Doer doer_;
  const Trace* trace_ = nullptr;
  std::shared_ptr<Segments> segments_;
  size_t next_ = 0;  // in segments_
  size_t stop_ = SIZE_MAX;
  std::vector<Ran> ran_;
  // A segment that is replayed natively, and watched.
  std::shared_ptr<Keyed> watched_;
  const Segment* watched_segment_ = nullptr;
  double started_ = 0;
  Ref inputs_;  // copies; null: it is not to be offered
  std::vector<Offer> offers_;
};

}  // namespace pijit
