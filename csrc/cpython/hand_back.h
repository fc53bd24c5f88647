// CPython hands a frame back that it evaluates for us: at the head of a loop, where something better goes on in it.
//
// The frame is moved to an instruction that returns, and returns None; what it held is kept. On 3.11 the trace function
// moves it at the event at which that is asked for. From 3.12 on only a LINE event may move a frame, so that CPython
// still runs one turn. Frames die there when they return: what they held goes on in a new one, which takes C stack, so
// that only so many of them stand within one another.
//
// A frame that nobody records may be asked for from within a call that it makes. On 3.11 it has a trace function of its
// own then, until it comes back; frames that it calls meanwhile have none (TurnEventsAside).
#pragma once
#include "cpython/frame.h"

namespace pijit::cpython {

// What goes on is the frame that came back, not a new one, which may stand at the same address.
inline constexpr bool kSameFrameGoesOn = PY_VERSION_HEX < 0x030c0000;

// While it lives, the frame may be asked for; null: none may. Must nest like C scopes.
class HandBack {
 public:
  explicit HandBack(Frame* frame) noexcept : frame_(frame), outer_(std::exchange(innermost_, this)) {}
  ~HandBack();
  HandBack(const HandBack&) = delete;
  HandBack& operator=(const HandBack&) = delete;

  // At an event at the head of a loop, where the frame handles no exception: it is to come back, there or at the head
  // of a loop around that one. Null: nobody awaits it, or it is a generator's.
  static HandBack* ask(Frame* frame) noexcept;
  // The same from within a call that the frame makes: it is to come back at the head of a loop around that call. False:
  // it cannot be.
  bool ask_at(PyThreadState* ts, int head) noexcept;
  // By slot of the frame, if the asker knows: it holds what it holds in each call.
  std::vector<bool> same;
  // An event of the frame, which ask() may have been called at; what moves it.
  static void note_event(Frame* frame) noexcept;
  Frame* frame() const noexcept { return frame_; }  // compared only, once it came back
  // The frame came back; what it has returned means nothing.
  bool is_done() const noexcept { return done_; }
  // Hands the frame that goes on to `enter`, whose result is returned.
  PyObject* go_on(PyThreadState* ts, EnterFrame enter, void* context);

 private:
  bool moves(int index) noexcept;

  static constexpr int kMostNested = 32;
  static constinit thread_local HandBack* innermost_;
  static constinit thread_local int nested_;  // go_on() that made a frame and have not returned
  Frame* frame_;
  HandBack* outer_;
  int asked_ = -1;  // the head at which it was asked for
  int only_ = -1;   // the one head at which it may come back; -1: any around that
  int head_ = -1;   // where it goes on
  bool done_ = false;
  Ref code_, function_;           // from 3.12 on
  std::vector<PyObject*> slots_;  // from 3.12 on
};

// Around each call in the hook: a frame that was asked for from within a call has no events while this lives.
#if PY_VERSION_HEX < 0x030c0000
class TurnEventsAside {
 public:
  explicit TurnEventsAside(PyThreadState* ts) noexcept : ts_(ts) {
    if (asked_frames > 0) detach();
  }
  ~TurnEventsAside() {
    if (asked_frames > 0) attach();
  }
  TurnEventsAside(const TurnEventsAside&) = delete;
  TurnEventsAside& operator=(const TurnEventsAside&) = delete;

  static inline int asked_frames = 0;  // of all threads

 private:
  void detach() noexcept;
  void attach() noexcept;

  PyThreadState* ts_;
};
#else
class TurnEventsAside {
 public:
  explicit TurnEventsAside(PyThreadState*) noexcept {}
};
#endif

}  // namespace pijit::cpython
