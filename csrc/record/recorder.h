// The recorder: watches one call instruction by instruction and keeps, for every slot, a shadow of where its content
// came from.
//
//   cold --start()--> recording --root returns--> finished (trace ends in Return)
//                         | stop(reason)          cut (trace ends in Exit at the start of an instruction)
//                         ` abandon()             nothing is kept
//
// 1. It observes and never executes: CPython runs every instruction itself. No Python code, no GC object, no last
// reference dropped.
// 2. An instruction has two halves. begin (before CPython executes it) reads operands; complete (at the frame's next
// event) takes the result. A handler that may still fail leaves the shadow as it was, so that a cut at the start of the
// instruction is possible.
// 3. Whatever is not understood stops the recording; it never guesses. What a replay may rely on without looking is a
// Const, and every Const is backed by guards.
// 4. A mutable object that existed before is read under a guard on its container; one that was allocated while
// recording is virtual and its content model is here.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "adapter.h"
#include "cpython/frame.h"
#include "guard/varying.h"
#include "ir/trace.h"
#include "record/limits.h"
#include "record/owners.h"
#include "record/state/names.h"

namespace pijit {

enum class Invoke : uint8_t { kStarted, kUnknown, kStopped };

class Heads;

class Recorder final : public RecordApi, public Kernel, public Owners {
 public:
  Recorder(PyThreadState* thread, cpython::Frame* root, Adapter* adapter, Varying* varying);
  ~Recorder() override;

  // -- life (recorder.cpp)
  bool (*has_entry)(cpython::Frame*, int) = nullptr;  // traces begin at the instruction (hook/entries.h)
  void unroll_loops() { loops_ = Loops::kUnrolled; }
  void mark_loops();                                    // step/heads.h
  void set_exit_points(bool on) { exit_points_ = on; }  // under stress: one at each instruction
  void set_faults(bool on) { faults_ = on; }            // under stress: the shadow is made wrong
  bool start() noexcept;                                // false: cannot record this call now
  std::unique_ptr<Trace> finish() noexcept;             // after the root returned; null: abandoned
  // Borders: nothing is thrown out of them. What cannot be ends the recording (fail).
  void on_instruction(cpython::Frame* frame) noexcept;
  void on_exception(cpython::Frame* frame, PyObject* exc_value) noexcept;
  bool enter_frame(cpython::Frame* frame, int throwflag) noexcept;  // true: followed
  void leave_frame(cpython::Frame* frame, PyObject* result) noexcept;
  // CPython runs frames that are not followed: until it comes back the recorder has no events, and follows nothing.
  // Calls nest.
  void step_aside() noexcept;
  void come_back() noexcept;

  // -- while it records
  TraceMark here() const;
  void push_frame(std::unique_ptr<ShadowFrame> shadow);
  Loops way_of_loops() const { return loops_; }
  Heads* loop_heads() const { return heads_.get(); }  // null: the beginnings of turns are not marked
  uint64_t bytecodes_left() const { return limit_; }
  // Collections would run code that is not the program's: they wait, but for foreign code.
  void pause_gc() { gc_ = std::make_unique<cpython::GcPause>(); }
  void allow_gc() { gc_.reset(); }

  // -- outcome
  void stop(Abort reason, std::string detail) override;     // cut at the start of the current instruction
  void abandon(const char* why);                            // keep nothing
  void give_up(Abort reason, const char* detail) noexcept;  // keep nothing, whatever state the recording is in
  void fail(const char* what) noexcept override;
  StopInfo stop_info_or_none() const { return trace_ ? trace_->stop : StopInfo(); }
  // What is under way ends, as soon as the event does (recover.cpp); `final`: no opaque call takes its place.
  void request_stop(bool final);
  void rollback(ShadowFrame& frame);  // to the start of the instruction of the frame
  void end_with_exit(uint32_t snapshot);
  void cut_at_last_snapshot();

  // -- RecordApi
  RegFacts facts(Val reg) const override;
  Val new_reg(Rep rep, PyTypeObject* type) override;
  Val new_int(int64_t observed) override;
  Val force_const(Val value, PyObject* observed) override;
  Val own_const(PyObject* object) override { return reads.owned(object); }
  bool check_class(Operand tensor) override;
  Val unbox(Val value, PyObject* observed) override;
  bool sequence_items(Operand sequence, std::vector<Operand>* items) override;
  bool slice_fields(Operand slice, Operand fields[3]) override;
  Val new_tuple(PyTypeObject* type, const Val* items, size_t count) override;
  Val new_list(const Val* items, size_t count) override;
  Val new_dict(const Val* keys, const Val* values, size_t count) override;
  Val product(const Val* factors, size_t count) override;
  Val materialize(Operand operand) override;
  void emit(std::unique_ptr<AdapterOp> op, const Vals& inputs, const Vals& outputs, bool check_only) override;
  void stop(const char* code, std::string reason) override;

  Arguments scratch;           // reused by call instructions
  PyObject* called = nullptr;  // the C callable whose handler runs
  bool called_bound = false;   // its self was put before the arguments

 private:
  template <class Body>
  auto guarded(bool keeps_error, Body body) noexcept -> decltype(body());
  bool begin_recording();
  std::unique_ptr<Trace> end_recording();
  void observe_exception(cpython::Frame* frame, PyObject* exc_value);
  void observe_instruction(ShadowFrame& frame);
  bool finish_instruction(ShadowFrame& frame);
  void observe_left(cpython::Frame* frame);
  void notice_exception(cpython::Frame* frame);
  void end_events();
  bool resolve_stop();  // true: the recording goes on
  void leave_root(ShadowFrame& shadow, PyObject* result);
  bool try_follow(cpython::Frame* frame, int throwflag);
  void left_frame(cpython::Frame* frame, PyObject* result);
  bool lost_events();
  void check_snapshots();  // cuts the trace where a snapshot cannot be rebuilt

  Loops loops_ = loops();
  std::unique_ptr<Heads> heads_;  // null: the beginnings of turns are not marked
  bool observing_ = false, adapter_on_ = false, abandoned_ = false, finished_ = false;
  bool exit_points_ = false, faults_ = false;
  uint32_t aside_ = 0;                    // times that it stepped aside and has not come back
  std::unique_ptr<cpython::GcPause> gc_;  // collections would run code that is not the program's
  uint64_t limit_;
  double started_ = 0;
};

// The recorder of this thread that is watching now, or null.
extern constinit thread_local Recorder* t_active;
inline Recorder* active_recorder() noexcept {
  return t_active;
}

// Cells and free variables, which CPython sets up without events.
void run_prologue(Recorder& recorder, ShadowFrame& shadow);
// A cell that holds what the slot holds takes its place.
void make_cell(Recorder& recorder, ShadowFrame& shadow, int slot);

// In a checked build: the shadow against the real frame; a difference is a bug and stops the process.
void check_shadow(Recorder& recorder, ShadowFrame& frame);

// The loop, or `yield from`, that the frame has just executed is not at its end.
bool goes_on_after(const ShadowFrame& frame) noexcept;

}  // namespace pijit
