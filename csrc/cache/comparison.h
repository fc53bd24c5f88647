// Whether timed calls take longer than plain ones: like is compared with like.
//
// Sizes and ways differ from call to call, and the calls that are timed are never the plain ones. So each call is set
// beside what a plain call of its form takes, as far as plain calls tell.
//
// 1. Calls of one way are compared: the same trace takes them, or would.
// 2. Within a way, time may depend on how much the arguments hold. An amount predicts the time if plain calls bear it
//    out: each is predicted from the others, with it and without. Between two plain calls times are interpolated; far
//    beyond them a call is like none, and is left out.
// 3. What is left is noise. Medians stand for both sides, and the error of their difference comes from the spread.
//    Calls that come at one time share what the machine does then, so the spread is taken to be kFloor at least.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pijit {

// Times that CPython takes, of replays that were not compared yet: what is hoped for, until that is known.
constexpr double kHopedRatio = 0.8;

// What tells how long a call may take: its way (0: no trace takes it), and how much its arguments hold: elements of
// tensors; lengths of containers and numbers.
struct CallForm {
  uint64_t way = 0;
  std::array<double, 2> amounts{};
};

struct Sample {
  Sample(double seconds, const CallForm& form, uint8_t round, bool ended) noexcept;

  double time;  // and sizes: logarithms
  std::array<double, 2> sizes;
  uint64_t way;
  uint8_t round;
  bool ended;  // a replay came to the end of its trace
};

class Comparison {
 public:
  static constexpr double kFloor = 0.05;

  // Of the difference between the logarithms of both sides, or of a ratio: what it is, and its standard error. `count`:
  // timed calls that it is of.
  struct Shift {
    size_t count = 0;
    double value = 0, error = 0;
  };

  // The samples are those from a round on.
  Comparison(const std::vector<Sample>& plain, const std::vector<Sample>& timed, uint8_t first_round);

  // Of all timed calls that are like some plain one.
  Shift all() const;
  Shift of_round(uint8_t round) const;
  // How many times as long a timed call takes that is like some plain one: replays that ended by their median, every
  // other call in full. value 0: not known.
  Shift ratio() const;
  Shift ratio_of_round(uint8_t round) const;
  // The least difference between the logarithms of both sides, of all timed calls that are like some plain one.
  double least() const;
  // The same ratio of replays that ended alone.
  double ended_ratio() const;

 private:
  struct Residual {
    double value;
    uint8_t round;
    bool ended;
    double whole = 0;  // of a plain call: beside what all plain calls predict, itself among them
  };
  using Residuals = std::vector<Residual>;
  static Residuals of(const Residuals& all, uint8_t round);
  static Shift shift(const Residuals& plain, const Residuals& timed, double from);
  Shift mean(const Residuals& timed) const;

  Residuals plain_, like_;  // beside what is predicted
};

// 0: there are none.
double median_of(std::vector<double> values);

}  // namespace pijit
