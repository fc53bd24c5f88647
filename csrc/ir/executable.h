// What a trace carries of its tensor framework: operations that run, and guards that look. Implemented by an adapter.
#pragma once
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/pool.h"
#include "common/ref.h"
#include "ir/value.h"
#include "ir/words.h"

namespace pijit {

// A call that a recording does not follow.
enum class ForeignCall : uint8_t {
  kUnknown,
  kIdle,      // no effect on tensors and guards, and what it gives is of the same kind at each call
  kWrites,    // writes to the tensors that it is given, and to nothing else; one that fails must not be called again
  kBackward,  // computes gradients of what it is given, and keeps them in leaves
  kSides,     // calls functions of the program that it is given, whichever data say and as often: these only compute
};

struct OperatorCall;

// One executable operation of a trace.
class AdapterOp : public FromPool {
 public:
  virtual ~AdapterOp() = default;
  // Reads and writes registers. False: raised or refused, nothing changed (a Python error indicator, if set, is cleared
  // by the op).
  virtual bool run(Reg* regs) noexcept = 0;
  // Running it once more changes nothing but the registers that it writes.
  virtual bool is_repeatable() const noexcept { return false; }
  // What it does depends on the form of its tensors alone, as `PlanKey` knows it.
  virtual bool is_of_form() const noexcept { return false; }
  // The operation as data; see ir/call.h. Makes Python objects.
  virtual OperatorCall call() const = 0;
  // All that it needs to be made again by Adapter::make_operation; false: it cannot be.
  virtual bool keep(Words& words) const = 0;
};

// The modes of thread and process under which the trace was recorded (grad mode, autocast, default dtype, ...).
class StateGuard {
 public:
  virtual ~StateGuard() = default;
  virtual bool check() noexcept = 0;
  virtual std::string describe() const = 0;
  // A few words: those modes that people care for, and any that is not as it is at the start of a program.
  virtual std::string summary() const { return describe(); }
  // After check() failed: which mode, with both values.
  virtual std::string explain() = 0;
  // All that it needs to be made again by Adapter::make_state; false: it cannot be.
  virtual bool keep(Words&) const { return false; }
};

// What is checked of a tensor input.
struct TensorFacts {
  PyTypeObject* type = nullptr;
  std::string dtype, device;   // "float32", "cpu"
  std::vector<int64_t> sizes;  // kAnySize: not checked
  uint64_t more = 0;           // whatever else tells tensors apart in the framework
  static constexpr int64_t kAnySize = -1;
  bool operator==(const TensorFacts&) const = default;
};

// All tensor inputs of a trace: a flat program that checks each and loads it, borrowed, into its register.
class InputGuards {
 public:
  virtual ~InputGuards() = default;
  virtual bool check(Reg* regs) noexcept = 0;
  // The same without those that are loaded into these registers.
  virtual bool check_but(const Vec<uint32_t>& without, Reg* regs) noexcept { return without.empty() && check(regs); }
  size_t size() const noexcept { return size_; }  // asked at every instruction of a recording
  // Only the first `count` inputs remain.
  virtual void truncate(size_t count) = 0;
  // Where the tensor is found: a Const, or the register with the object.
  virtual Val source(size_t index) const = 0;
  // The register that it is loaded into.
  virtual uint32_t register_of(size_t index) const = 0;
  virtual TensorFacts facts(size_t index) const = 0;
  // Why check() failed on these registers: "float64[4] now, float32[*] before", and where that tensor is found.
  virtual std::string explain(Reg* regs, Val* source) = 0;

 protected:
  size_t size_ = 0;
};

// States of generators at some moment.
class DrawStates {
 public:
  virtual ~DrawStates() = default;
  // The generators are in them again.
  virtual void put_back() const noexcept = 0;
  virtual bool same_as(const DrawStates& other) const noexcept = 0;
};

// The form of tensors and the numbers for which code was compiled, and those tensors of which it knows the content.
class PlanKey {
 public:
  enum class Match : uint8_t {
    kNo,
    kYes,
    kWritten,  // but bound tensors were written since
    kMoved,    // but the data of bound tensors lie elsewhere
  };
  virtual ~PlanKey() = default;
  virtual Match match(const Reg* regs) noexcept = 0;
  // The part of it that is about the content of bound tensors: not kNo.
  virtual Match match_bound(const Reg* regs) noexcept = 0;
  // Native replay has given the outputs: later ones have their form.
  virtual void note_outputs(const Reg* regs) = 0;
  // The code has been told of what was written.
  virtual void refresh(const Reg* regs) noexcept = 0;
  // Moves an output of the code into its register, those before it being in theirs; false: it has not the form that
  // native replay gave.
  virtual bool take(size_t output, PyObject* made, Reg* regs) noexcept = 0;
  // Of a segment with effects: copies of what native replay has left in the tensors written to, then of the gradients
  // of leaves (None: there is none); to be asked after hold() and note_outputs(). Null: memory is short, or no code may
  // stand for it.
  virtual Ref effects() noexcept { return Ref(); }
  // Keeps these tensors, which native replay may let go, until effects().
  virtual void hold(const Reg*) {}
  // Writes the tensors, then sets the gradients of the leaves, all or none of it; false: they have not the form that
  // native replay gave.
  virtual bool write(PyObject* const*, const Reg*) noexcept { return false; }
  virtual bool gradients_on() const noexcept { return false; }
  // Of the generators, as they are now, from which the segment draws; null: they cannot be kept.
  virtual std::unique_ptr<DrawStates> draw_states() const noexcept { return nullptr; }
  // Where gradients are recorded: which free tensors require them, then which bound ones, then which outputs. Empty:
  // they are not recorded.
  virtual std::vector<bool> trained() const { return {}; }
  virtual std::string describe() const = 0;
};

// What a segment does besides giving its outputs; see plan/effects.h.
struct Effects {
  Vec<uint32_t> written;        // registers of bound tensors that it writes to, one for each tensor
  Vec<uint32_t> leaves;         // registers of all bound tensors, one for each: those that may get gradients
  std::set<PyObject*> cleared;  // tensors of which a gradient is set, whatever it is
  Vec<uint32_t> epochs;         // whose guards are asked before
  Vec<uint32_t> within;         // guards of these that are about what the segment makes: not asked
  Vec<uint32_t> questions;      // nodes that are asked before
  Vec<uint32_t> stores;         // nodes that are done behind the plan
  bool draws = false;           // random numbers, on a device other than the CPU
  std::vector<bool> spent;      // by output: a backward pass has gone through it
};

// A node of a stretch that a tape may stand for: an operation, or the call of the engine that computes gradients.
struct TapeNode {
  uint32_t at = 0;              // in the trace
  AdapterOp* op = nullptr;      // null: the engine
  Vec<uint32_t> reads, writes;  // registers; the engine reads its roots
  Vec<uint32_t> written;        // registers whose tensors it changes
  bool gives_numbers = false;   // not only tensors
  Vec<uint32_t> gradients;      // of the engine: what each root is given, kNone: nothing
  Vec<uint32_t> inputs;         // of the engine: whose gradients it gives; none: leaves get theirs
  // Of the engine: registers with the tuple of its arguments, or with those of roots, gradients and inputs; kNone: none
  // was built, and the registers of the tensors hold them still.
  uint32_t arguments = kNone, given_roots = kNone, given_gradients = kNone, given_inputs = kNone;
  uint32_t out = kNone;  // of the engine
};

// Nodes of a trace from the first that a gradient may flow through to the call of the engine.
struct TapeStretch {
  std::vector<TapeNode> nodes;
  Vec<bool> shown;   // by register: somebody may see what it holds behind the stretch
  Vec<bool> stored;  // by register: a node of the stretch hands on what it holds
};

// What the framework calls beneath autograd in such a stretch, under one form of its tensors; see exec/taped.h.
class Tape {
 public:
  // One replay.
  class Run {
   public:
    virtual ~Run() = default;
    // Does one of nodes(). False: its operands are of another form, or it has failed. It has changed nothing then.
    virtual bool step(size_t index, Reg* regs) noexcept = 0;
    // But where memory was short when gradients were added to those that leaves have: nothing can be done once more.
    virtual bool is_broken() const noexcept = 0;
    // Behind the last step: what the call of the engine gives. Null: memory is short.
    virtual Ref result() noexcept = 0;
    // Before operations run with autograd in place of what ran without: random numbers are drawn once more, and
    // `regs` gets, borrowed, what came from outside.
    virtual void rewind(Reg* regs) noexcept = 0;
    // Such an operation, on these registers; it writes no statistics a second time. A tensor of the tape that an object
    // of Python stands for gets the graph of the result.
    virtual bool redo(size_t index, Reg* regs) noexcept = 0;
  };
  virtual ~Tape() = default;
  // Those in whose place a tape does something, as indices of TapeStretch::nodes; the engine comes last.
  virtual const Vec<uint32_t>& nodes() const noexcept = 0;
  // Null: memory is short.
  virtual std::unique_ptr<Run> begin() noexcept = 0;
};

// Watches one native replay of a stretch. Its first member that gives false ends it.
class TapeMaker {
 public:
  virtual ~TapeMaker() = default;
  // Around a node of the stretch.
  virtual bool begin(size_t index, const Reg* regs) noexcept = 0;
  virtual bool end(size_t index, const Reg* regs) noexcept = 0;
  // A tape of another stretch has done the node.
  virtual void skip(size_t index) noexcept = 0;
  // Behind the last one. Null: there cannot be a tape.
  virtual std::shared_ptr<Tape> finish() noexcept = 0;
  // Why there is none.
  virtual const std::string& why() const noexcept = 0;
  // There may be one of a stretch that begins sooner.
  virtual bool began_too_late() const noexcept = 0;
};

// The registers that a key speaks of; `effects`: of a segment that has some.
struct PlanRegisters {
  const Vec<uint32_t>&bound, &free, &numbers, &outputs;
  const Effects* effects = nullptr;
};

}  // namespace pijit
