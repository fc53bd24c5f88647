// Decides which calls run as programs, and goes on where a run has left one.
#include "hook/numbers.h"

#include <utility>

#include "exec/replay.h"
#include "hook/entries.h"
#include "hook/log.h"
#include "hook/serve.h"
#include "hook/stress.h"
#include "record/pace.h"
#include "scalar/machine.h"

namespace pijit {
namespace {

// Turns that a recording may as well take; of a run that is left, those that are worth going on in its middle; runs in
// vain, one after the other, after which there are no more.
constexpr uint64_t kMany = 200, kSome = 32;
constexpr uint32_t kInVain = 3, kLevels = 10;

bool may_run(const Root& root, PyThreadState* ts) noexcept {
  return runs_number_loops() && stance() == Stance::kOn && stress_words() == 0 && root.verification.every == 0 &&
         !keeps_inputs() && !root.is_entry() && may_replay(kLevels, false, ts);
}

// The program of the root's code; null: there is none.
const scalar::Program* program_of(Root& root, cpython::Frame* frame) {
  NumberLoops& numbers = root.numbers;
  if (numbers.state == NumberLoops::State::kUnknown) {
    PyCodeObject* code = cpython::code(frame);
    if (cpython::is_function_body(code)) numbers.program = scalar::translate(code, cpython::first_traceable(code), 0);
    numbers.state =
        numbers.program != nullptr && numbers.program->loops ? NumberLoops::State::kKnown : NumberLoops::State::kNone;
  }
  return numbers.state == NumberLoops::State::kOff ? nullptr : numbers.program.get();
}

// `gains`: later calls are to run so, too.
void note_run(Root& root, bool gains) {
  if (gains && root.numbers.state != NumberLoops::State::kOn) {
    log_line(Channel::kRecord, "record " + root.written.name + ": its loops over numbers run in registers");
    root.numbers.state = NumberLoops::State::kOn;
  }
  if (gains) root.numbers.in_vain = 0;
  root.counts.replays += 1;
  root.counts.ended += 1;
  root.in_a_row = InARow();
  stats().replays += 1;
}

void note_in_vain(Root& root) noexcept {
  if (++root.numbers.in_vain >= kInVain) root.numbers.state = NumberLoops::State::kOff;
}

}  // namespace

bool& runs_number_loops() noexcept {
  static bool value = true;
  return value;
}

bool runs_as_numbers_first(const Root& root) noexcept {
  if (root.numbers.state == NumberLoops::State::kOn) return true;
  return root.numbers.state == NumberLoops::State::kKnown && (root.standing.is_disabled() || root.counts.aborts > 0);
}

bool run_as_numbers(Root& root, PyThreadState* ts, cpython::Frame* frame, bool wanted, PyObject** result) {
  if (root.numbers.state == NumberLoops::State::kNone || !may_run(root, ts) || !cpython::is_fresh(frame)) return false;
  const scalar::Program* program = program_of(root, frame);
  if (program == nullptr || program->code != cpython::code(frame)) return false;
  if (cpython::eval_breaker_set(ts)) cpython::give_gil();
  scalar::Machine machine(*program, ts, frame, wanted || program->whole);
  const scalar::Ended ended = machine.run();
  const bool many = wanted || machine.turns() >= kMany;
  if (!machine.has_written() && !(ended.returned ? many : many && machine.turns() >= kSome)) {
    if (!ended.returned) note_in_vain(root);
    return false;
  }
  if (ended.returned) {
    *result = machine.result(ended);
    note_run(root, many);
    return true;
  }
  if (!machine.write_back(ended.place)) return PyErr_NoMemory(), *result = nullptr, true;
  note_run(root, machine.turns() >= kSome);
  if (machine.turns() < kSome) note_in_vain(root);
  const Serves serves(root);
  *result = go_on_from_here(ts, frame);
  return true;
}

}  // namespace pijit
