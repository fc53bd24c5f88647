// The kernel of a recording, which the owners of its state see: the trace, whether it is live, how it stops.
//
// And how far it had come when an instruction began: each owner says that in a part of its own, and takes itself back
// to it. `here()` is asked at each instruction, so a part is a few words.
#pragma once
#include <memory>
#include <string>

#include "adapter.h"
#include "cpython/frame.h"
#include "guard/varying.h"
#include "ir/trace.h"
#include "record/pace.h"

namespace pijit {

enum class Abort : uint8_t {
#define PIJIT_ABORT(name, code, text, advice) name,
#include "record/aborts.def"
};

struct KernelMark {
  uint32_t nodes = 0, time = 0, guards = 0, epochs = 0, tensors = 0;  // time: the clock; tensors: of the last epoch
  uint32_t dropped = 0;
};
struct ReadMark {
  uint32_t facts = 0, overlay = 0;
};
struct HeapMark {
  uint32_t arguments = 0;  // containers that were loaded
  uint32_t lasting = 0;    // changes that a rollback does not take back (note_lasting)
  uint32_t virtuals = 0;
};
// An owner that finds what is new by what others say (a clock, a number of nodes) has no part.
struct TraceMark : KernelMark, ReadMark, HeapMark {};
static_assert(sizeof(TraceMark) == 11 * sizeof(uint32_t), "each instruction notes where the recording is");

class Kernel {
 public:
  bool live() const { return live_; }
  Trace& trace() const { return *trace_; }
  PyThreadState* thread() const { return thread_; }
  Adapter* adapter() const { return adapter_; }
  Pace& pace() const { return pace_; }
  Varying* varying() const { return varying_; }  // of the root; null: nothing is known of it
  // The guards of inputs of the epoch.
  InputGuards& inputs() const { return trace_->epochs.empty() ? *trace_->tensors : *trace_->epochs.back().tensors; }
  void resume() {  // the stop was resolved
    live_ = true;
    stopping = false;
  }
  void halt() {  // until the stop is resolved
    live_ = false;
    stopping = true;
  }
  // Cuts the recording at the start of the current instruction.
  virtual void stop(Abort reason, std::string detail) = 0;
  virtual void fail(const char* what) noexcept = 0;  // a check failed: in checked builds the process stops

  bool stopping = false, stop_final = false;  // stop() was called; what becomes of it is decided at the border
  bool stop_changed = false;                  // stop() was called after the shadow was changed

 protected:
  Kernel(PyThreadState* thread, Adapter* adapter, Varying* varying)
      : thread_(thread),
        adapter_(adapter),
        varying_(varying),
        trace_(std::make_unique<Trace>()),
        pace_(recording_pace()) {}
  ~Kernel() = default;

  KernelMark mark() const {
    const Trace& trace = *trace_;
    const InputGuards* tensors = trace.epochs.empty() ? trace.tensors.get() : trace.epochs.back().tensors.get();
    return {static_cast<uint32_t>(trace.nodes.size()),
            trace.clock,
            static_cast<uint32_t>(trace.guards.size()),
            static_cast<uint32_t>(trace.epochs.size()),
            tensors == nullptr ? 0 : static_cast<uint32_t>(tensors->size()),
            static_cast<uint32_t>(trace.dropped.size())};
  }
  // Registers, virtual objects, the log, snapshots and operands stay: their numbers are never given twice.
  void undo(const TraceMark& mark) {
    trace_->nodes.resize(mark.nodes);
    trace_->guards.resize(mark.guards);
    if (mark.dropped < trace_->dropped.size()) trace_->dropped.resize(mark.dropped);
    trace_->epochs.erase(trace_->epochs.begin() + mark.epochs, trace_->epochs.end());
    if (adapter_ != nullptr) inputs().truncate(mark.tensors);
  }

  PyThreadState* thread_;
  Adapter* adapter_;
  Varying* varying_;
  std::unique_ptr<Trace> trace_;
  Pace& pace_;  // of this thread: it is asked for at each instruction, and looked up once
  bool live_ = false;
};

}  // namespace pijit
