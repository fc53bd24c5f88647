// The frames that are followed, and what is known of frames that are not running.
//
// Where an instruction is taken back each member is taken back with it, is kept for a reason, or is computed anew.
#pragma once
#include "cpython/frame.h"
#include "record/recording.h"
#include "record/state/shadow.h"

namespace pijit {

class FrameStack {
 public:
  FrameStack(cpython::Frame* of, bool middle, int at) : root(of), in_the_middle(middle), entered_at(at) {}

  // Frames that were entered since are the business of whoever takes the instruction back (unfollow).
  void undo(const TraceMark& mark) {
    for (auto& frame : stack_) frame->repeatable = std::min(frame->repeatable, mark.nodes);
  }

  size_t size() const { return stack_.size(); }
  bool empty() const { return stack_.empty(); }
  std::unique_ptr<ShadowFrame>& operator[](size_t level) { return stack_[level]; }
  const std::unique_ptr<ShadowFrame>& operator[](size_t level) const { return stack_[level]; }
  std::unique_ptr<ShadowFrame>& back() { return stack_.back(); }
  const std::unique_ptr<ShadowFrame>& back() const { return stack_.back(); }
  auto begin() { return stack_.begin(); }
  auto begin() const { return stack_.begin(); }
  auto end() { return stack_.end(); }
  auto end() const { return stack_.end(); }
  void push_back(std::unique_ptr<ShadowFrame> shadow) { stack_.push_back(std::move(shadow)); }
  void pop_back() { stack_.pop_back(); }
  void resize(size_t levels) { stack_.resize(levels); }
  void clear() { stack_.clear(); }

  ShadowFrame& top() const { return *stack_.back(); }
  PyObject* operand(int depth) const { return cpython::peek(top().frame, depth); }  // of the instruction, a real one
  Val handling() const {  // the exception that a followed frame handles, the innermost one; Null: none does
    for (size_t i = size(); i-- > 0;)
      if (!stack_[i]->handled.empty()) return stack_[i]->handled.back();
    return Val();
  }

  // use(value) of all that the frames have.
  template <class Use>
  void each_value(const Use& use) {
    for (auto& frame : stack_) pijit::each_value(*frame, use);
  }

  // The same from the beginning to the end.
  cpython::Frame* const root;
  const bool in_the_middle;  // of the root's frame: the recording begins there
  const int entered_at;      // the instruction
  // Kept: memory for frames to come.
  Vec<std::unique_ptr<ShadowFrame>> spare;
  // Computed anew by each call: the slots of the frame that is expected.
  Vals bound;
  // Computed anew by each instruction that lets something die: what that is.
  Val popped;
  // Kept: virtual generators that were suspended, by their frames. An entry does not end: another generator may get the
  // frame's address, so whoever finds one asks its model whether it is suspended in that very frame (is_suspended).
  Map<cpython::Frame*, uint32_t> generators;
  // Computed anew by each return of the root: its snapshot, and whether it returns since its generator dies.
  uint32_t return_snapshot = kNone;
  bool leaves_generator = false;

 private:
  // Taken back by whoever takes the instruction back.
  Vec<std::unique_ptr<ShadowFrame>> stack_;
};

}  // namespace pijit
