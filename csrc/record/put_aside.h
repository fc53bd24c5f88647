// A recording is put aside, so that another one may be made on this thread.
#pragma once
#include <memory>

#include "adapter.h"
#include "cpython/events.h"
#include "record/pace.h"

namespace pijit {

class Recorder;

// While it lives no recorder is active. The one that was, if any, has stepped aside before (Recorder::step_aside), and
// comes back after. Must nest like C scopes.
class PutAside {
 public:
  PutAside();
  ~PutAside();
  PutAside(const PutAside&) = delete;
  PutAside& operator=(const PutAside&) = delete;

 private:
  Recorder* recorder_;
  std::unique_ptr<Adapter::Aside> adapter_;
  cpython::EventsAside events_;
  Pace pace_;
};

}  // namespace pijit
