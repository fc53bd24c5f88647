// Tracebacks of exceptions that were built: each entry names a frame that stands, or one that is made anew as it was
// when it ended.
//
// 1. The Materialiser collects entries and ended frames, with everything that they hold; attach() completes the entries
// once the frames that stand are in place. No Python runs in between.
// 2. A frame that has ended is made by CPython: its function is called, the new frame is taken over, given its
// variables and left again without having run.
#pragma once
#include <unordered_map>
#include <vector>

#include "common/ref.h"
#include "cpython/frame.h"
#include "ir/trace.h"

namespace pijit {

// A frame in the thread's chain, by the virtual object that stands for it.
struct StandingFrame {
  uint32_t self;
  cpython::Frame* frame;
};

// A frame that has ended. Its variables may be empty.
struct EndedFrame {
  uint32_t self, caller;  // kNone: a generator's, which has no caller any more
  Ref function;
  int instruction = 0;
  Objects variables;  // owned
  EndedFrame() = default;
  EndedFrame(EndedFrame&&) noexcept = default;
  ~EndedFrame() {
    for (PyObject* variable : variables) drop_reference(variable);
  }
};

// As raising `exception` while `handled` (may be null or None) is handled does: a chain never comes back to where it
// began.
void chain_exception(PyObject* exception, PyObject* handled) noexcept;

class Tracebacks {
 public:
  Tracebacks() = default;
  Tracebacks(Tracebacks&&) = default;
  Tracebacks& operator=(Tracebacks&&) = default;
  ~Tracebacks();  // takes back what was not attached

  bool empty() const noexcept { return entries_.empty(); }
  // One more entry, in front of those that the exception has; its frame is missing until attach(). False with an error
  // set.
  bool add_entry(PyObject* exception, uint32_t frame, int instruction) noexcept;
  void add_frame(EndedFrame frame) { ended_.push_back(std::move(frame)); }
  // The frame of a generator that has not ended.
  void add_generator(uint32_t self, Ref generator) { generators_.emplace_back(self, std::move(generator)); }
  // Makes the frames and the tracebacks. False with an error set.
  bool attach(PyThreadState* ts, const std::vector<StandingFrame>& standing) noexcept;

 private:
  struct Entry {
    Ref exception, traceback;
    uint32_t frame;
  };
  struct Call {
    Tracebacks* tracebacks;
    EndedFrame* frame;
  };
  static PyObject* enter(PyThreadState* ts, cpython::Frame* frame, void* call);
  bool make_frames_under(PyThreadState* ts, uint32_t caller) noexcept;
  bool find_frames_under(PyThreadState* ts, StandingFrame frame) noexcept;
  bool complete(const Entry& entry) noexcept;

  std::vector<Entry> entries_;
  std::vector<EndedFrame> ended_;
  std::vector<std::pair<uint32_t, Ref>> generators_;
  std::unordered_map<uint32_t, Ref> objects_;  // frame objects
};

}  // namespace pijit
