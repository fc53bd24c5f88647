// Seconds that calls of a root took, and seconds that were saved.
#pragma once
#include "cache/comparison.h"
#include "common/clock.h"

namespace pijit {

// `error`: standard. Both are 0 if no call was compared.
struct Saved {
  double seconds = 0, error = 0;
};

struct Savings {
  Spent plain;       // calls that CPython ran, the first ones of them
  Spent recorded;    // with the calls that were watched, and with what replays need
  double after = 0;  // seconds that CPython took where replays stopped or were left
  // While savings are measured (hook/savings.h):
  Spent replayed;        // calls that were replayed, from their beginning, without what was recorded in them
  double recording = 0;  // seconds that recordings took in these calls
  Spent compared;        // calls of the ledger's rounds that CPython ran
  Spent compared_early;  // the same, in the first round
  Spent first;           // the first call under enable()
  Spent left;            // calls that were left to CPython

  // Seconds that CPython took for what was left to it, of all calls.
  double lost() const noexcept { return after + left.seconds; }
  // Seconds that all calls took less than they would have in CPython, recordings counted. `known`: the shift that the
  // ledger knows.
  Saved saved(const Comparison::Shift& known) const noexcept;
};

}  // namespace pijit
