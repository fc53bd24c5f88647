// The border of an event: what is thrown inside does not get out, and the work has a limit.
#pragma once
#include <exception>

#include "common/work.h"
#include "record/recorder.h"

namespace pijit {

// Runs what happens at a border. An exception that comes out of it is a bug, or memory is short: the recording ends and
// CPython goes on. `keeps_error`: a Python exception was under way before, and is the program's.
template <class Body>
auto Recorder::guarded(bool keeps_error, Body body) noexcept -> decltype(body()) {
  try {
    const WorkLimit limit(most_work_of_event);
    return body();
  } catch (const TooMuchWork&) {
    give_up(Abort::kTooLong, "one instruction");
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("an unknown exception");
  }
  if (!keeps_error) PyErr_Clear();
  return decltype(body())();
}

}  // namespace pijit
