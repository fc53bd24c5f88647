// Who answers for the stretches of a trace where both tapes and plans may: turns of whole replays, timed.
//
// 1. Tapes answer until a plan is there. The first replays are left to segments: these offer their forms to the market.
//    So are some after each that had a form which no tape has.
// 2. While plans and native replay take turns in a segment (plan/keyed.h), the replays are theirs: the times of tapes
//    would come between. A plan that answers without turns was named by the user, and goes before tapes, too.
// 3. Then tapes and plans take turns. Several replays in a row are of one side, since the first of them finds the
//    caches of the other. The side with the lower median answers, until the plans are others, or after ever more
//    replays.
// 4. Forms that have not come for a while have no say.
// 5. All members are guarded by the GIL.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace pijit {

struct Segment;
struct Segments;
struct Tapes;

class TapeTurns {
 public:
  enum class Side : uint8_t { kTapes, kPlans };

  // Whose the next replay is.
  Side next(const Segments& segments, const Tapes& tapes) noexcept;
  // It has come to its end.
  void note(Side side, double seconds) noexcept;
  // A replay had a form that no tape has.
  void miss() noexcept;

 private:
  enum class Plans : uint8_t { kNone, kFirst, kSettled };
  Plans look(const Segments& segments, const Tapes& tapes) noexcept;
  double median(Side side) const noexcept;
  void begin() noexcept;

  uint32_t offering_ = 3;  // replays that are left to segments
  uint32_t misses_ = 0;
  Plans plans_ = Plans::kNone;
  uint64_t known_ = 0;  // which plans there are
  uint32_t looked_ = 0;
  bool in_turns_ = false;
  uint64_t turn_ = 0, settled_ = 0, next_turns_ = 1000;
  Side winner_ = Side::kTapes;
  // By side, seconds of the replays that have come to their end.
  static constexpr size_t kInARow = 4, kRows = 3;
  std::array<double, kInARow * kRows> times_[2];
  size_t counts_[2] = {};
};

}  // namespace pijit
