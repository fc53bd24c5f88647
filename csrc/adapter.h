// The face that a tensor framework shows to the core: what a tensor is, how its operators are observed, guarded and
// replayed.
//
// The core routes every instruction that touches a tensor, and every call of a C callable that the adapter claims,
// through begin_call (before CPython executes it) and finish_call (after). In between CPython runs the original; the
// adapter's dispatcher observer notes the operators. The adapter then emits operations through RecordApi. Registers are
// numbered once and for all when they are made, so an AdapterOp keeps the indices it was built with.
//
// 1. An AdapterOp that returns false must have left everything as it was: the core rebuilds the frames at the start of
//    the instruction and CPython runs the original callable again (so errors and warnings are the framework's own).
// 2. begin_call and finish_call run inside a trace function: no Python code, no GC objects, no dropping of last
// references.
// 3. All of it runs with the GIL held, on the recording thread.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/python.h"
#include "common/ref.h"
#include "ir/executable.h"
#include "ir/value.h"

namespace pijit {

// Bumped on every change of this file; the core refuses an adapter built with another number.
inline constexpr int kAdapterVersion = 20;
inline constexpr const char* kAdapterCapsule = "pijit.adapter";

// What the core asks the adapter about: one instruction or one call.
enum class SiteKind : uint8_t {
  kCall,         // callable(*operands); kwnames name the last ones
  kGetAttr,      // operands[0].name; callable is the descriptor found on the type, or null
  kSetAttr,      // operands[0].name = operands[1]
  kBinary,       // operands[0] <oparg> operands[1]; oparg as in BINARY_OP (NB_ADD, ..., in-place forms too)
  kUnary,        // oparg: 0 -x, 1 +x, 2 ~x, 3 not x (kBool then)
  kCompare,      // oparg: Py_LT ... Py_GE
  kSubscr,       // operands[0][operands[1]]
  kStoreSubscr,  // operands[0][operands[1]] = operands[2]
  kBool,         // truth value of operands[0]; result must be a Bool register or a Const
  kLen,
  kIter,          // iter(operands[0]): result may be a virtual tuple of its rows
  kUnpack,        // unpacking into oparg targets: result must be a virtual tuple
  kContains,      // operands[1] in operands[0]; of `not in`, too (oparg 1), whose result the core makes of it
  kCompareTruth,  // the truth value of a comparison, oparg as there; result must be a Bool register or a Const
};

// An operand: its shadow and the object that is really there while recording (borrowed; null for NULL).
struct Operand {
  Val value;
  PyObject* object;
};

struct CallSite {
  SiteKind kind;
  PyObject* callable = nullptr;  // kCall: the C callable (method descriptors unbound, self is operands[0]); borrowed
  PyObject* name = nullptr;      // attribute name; borrowed
  int oparg = 0;
  const Operand* operands = nullptr;
  size_t count = 0;
  PyObject* kwnames = nullptr;  // tuple of str or null
};

enum class CallFate : uint8_t {
  kUnknown,  // not the adapter's, or it cannot say: the core goes on with its own tables, then stops recording
  kDone,     // *result is set; nothing more is needed after execution
  kObserve,  // call finish_call after CPython executed it
  kStop,     // the adapter called RecordApi::stop
};

// A register's static facts.
struct RegFacts {
  Rep rep;
  PyTypeObject* type;  // exact, or null
};

// Which sizes of tensors become constants of a trace, which are checked; the others are numbers that it reads anew.
struct SizePolicy {
  bool fixed = false;                             // those that vary stay numbers all the same
  const std::vector<int64_t>* varying = nullptr;  // those, and multiples of them, are known to vary
  bool fixes(int64_t size) const noexcept {
    if (!fixed) return false;
    return varying == nullptr || std::none_of(varying->begin(), varying->end(), [&](int64_t each) {
             return each > 1 ? size >= each && size % each == 0 : size == each;
           });
  }
};

// What the recorder offers to an adapter. Val parameters are shadows of the recording under way.
class RecordApi {
 public:
  virtual ~RecordApi() = default;
  SizePolicy sizes;  // of the root
  virtual RegFacts facts(Val reg) const = 0;
  // A fresh register of this representation. `type` is the exact Python type that the value has when boxed.
  virtual Val new_reg(Rep rep, PyTypeObject* type) = 0;
  // A fresh kInt register that holds this number now. Null: out of memory.
  virtual Val new_int(int64_t observed) = 0;
  // Makes a constant of a register (guard in place at the start of the current instruction); consts pass through. Null:
  // stopped.
  virtual Val force_const(Val value, PyObject* observed) = 0;
  // A register of representation kInt, kFloat or kBool with the number in an object register of exactly such a type.
  // Null: it is none.
  virtual Val unbox(Val value, PyObject* observed) = 0;
  // The class of a tensor that an operator made is checked again if foreign code has run since; false: stopped.
  virtual bool check_class(Operand tensor) = 0;
  // A constant that the trace keeps alive (immutable objects only).
  virtual Val own_const(PyObject* object) = 0;
  // The items of a tuple or list shadow (virtual, or constant and then guarded); false if they are not known.
  virtual bool sequence_items(Operand sequence, std::vector<Operand>* items) = 0;
  // The fields of a slice shadow.
  virtual bool slice_fields(Operand slice, Operand fields[3]) = 0;
  virtual Val new_tuple(PyTypeObject* type, const Val* items, size_t count) = 0;
  virtual Val new_list(const Val* items, size_t count) = 0;
  // Under keys that own_const() has kept.
  virtual Val new_dict(const Val* keys, const Val* values, size_t count) = 0;
  // The product of integers, constants or registers. Null: recording has stopped.
  virtual Val product(const Val* factors, size_t count) = 0;
  // A register (or constant) with the real object, emitting what builds it. Null: cannot be built; recording has
  // stopped.
  virtual Val materialize(Operand operand) = 0;
  // Appends an operation of the current instruction. inputs: every register or const it reads; outputs: registers it
  // writes. check_only: it only looks (its failure means "not as recorded").
  virtual void emit(std::unique_ptr<AdapterOp> op, const Vals& inputs, const Vals& outputs, bool check_only) = 0;
  // The current instruction cannot be recorded: it becomes an opaque call, or the recording ends at its start.
  virtual void stop(const char* code, std::string reason) = 0;
};

class Adapter {
 public:
  virtual ~Adapter() = default;
  virtual int version() const noexcept { return kAdapterVersion; }
  virtual const char* name() const noexcept = 0;

  // Types whose objects, if they are equal, are told apart by nothing but their identity; null at the end.
  virtual PyTypeObject* const* value_types() const noexcept {
    static constexpr PyTypeObject* kNone[] = {nullptr};
    return kNone;
  }
  // Types of C derived from tuple whose objects do as tuples do, but for what a slice or a sum of them is; null at the end.
  virtual PyTypeObject* const* tuple_types() const noexcept {
    static constexpr PyTypeObject* kNone[] = {nullptr};
    return kNone;
  }
  // A tensor whose behaviour the adapter knows (exact framework classes, no overriding subclass).
  virtual bool is_tensor(PyObject* object) const noexcept = 0;
  // A number that is the same for tensors which the guards of an input do not tell apart, and mostly only for those.
  virtual uint64_t tensor_kind(PyObject* tensor) const noexcept = 0;
  virtual int64_t tensor_elements(PyObject* tensor) const noexcept = 0;
  // The adapter may know C callables (functions, methods, types, getset descriptors) and C attributes; a fast yes/no.
  virtual bool claims(PyObject* callable) const noexcept = 0;

  // A replay cannot call it in the place of CPython: it asks who else holds a tensor.
  virtual bool counts_holders(PyObject* callable) const noexcept = 0;

  virtual void retain(void* tensor) noexcept = 0;
  virtual void release(void* tensor) noexcept = 0;
  virtual PyObject* wrap(void* tensor) noexcept = 0;    // new reference; null with an error set
  virtual void* unwrap(PyObject* object) noexcept = 0;  // borrowed
  // What Python code has seen of the tensor, borrowed; null: none has.
  virtual PyObject* object_of(void* tensor) const noexcept = 0;

  // The method that users of the framework write for a class of callable objects, or null.
  virtual const char* written_method() const noexcept { return nullptr; }
  // Why the framework is in a state in which pijit steps aside (unknown modes, FakeTensor, tracing, ...), or null.
  virtual const char* must_step_aside() noexcept = 0;
  virtual std::unique_ptr<StateGuard> capture_state() = 0;
  virtual std::unique_ptr<InputGuards> new_inputs() = 0;
  // Adds a tensor input. source: a Const tensor object, or a register holding the object; tensor: the object itself
  // now.
  virtual void add_input(InputGuards& inputs, Val source, PyObject* tensor, uint32_t out) = 0;

  // What another process has kept (AdapterOp::keep, StateGuard::keep, InputGuards::facts) is made again; null, false: it
  // cannot be here. `reps`: what each register of the trace holds.
  virtual std::unique_ptr<AdapterOp> make_operation(const Words&, const std::vector<Rep>&) { return nullptr; }
  virtual std::unique_ptr<StateGuard> make_state(const Words&) { return nullptr; }
  virtual bool add_facts(InputGuards&, Val, uint32_t, const TensorFacts&) { return false; }

  // What functions of the framework make when they are first called, and keep, is made before a call is recorded: the
  // call would be recorded again for it. Runs Python code.
  virtual void make_what_first_calls_make() noexcept {}
  virtual bool begin_recording(RecordApi& api) = 0;  // switches the operator eye on for this thread
  virtual void end_recording() noexcept = 0;         // always called, also after a stop
  virtual void forget_recording() noexcept = 0;      // nothing of the call looks at it any more
  // The recording is put aside while the object lives: another may begin and end meanwhile.
  struct Aside {
    virtual ~Aside() = default;
  };
  virtual std::unique_ptr<Aside> put_aside() { return nullptr; }
  virtual CallFate begin_call(const CallSite& site, Val* result) = 0;
  // result_object: what CPython returned (borrowed; null for stores). Sets *result; false: stopped.
  virtual bool finish_call(const CallSite& site, PyObject* result_object, Val* result) = 0;
  // A call, a binary operator or an index (kSubscr) of which an operand is a tensor: C code is about to do it in the
  // middle of an instruction that is not the adapter's. It emits the operation, and gives its result. Null: it cannot.
  virtual Val compute(const CallSite&) { return Val(); }
  virtual void forget_computed() noexcept {}  // the instruction is taken back
  // The instruction raised: forget the operators that were seen.
  virtual void cancel_call() noexcept = 0;

  // An operation that has run in a replay warned. The core asks for the warnings while the frames that called it stand.
  bool warned = false;
  virtual bool issue_warnings() { return true; }  // false: one became an exception
  virtual void forget_warnings() noexcept {}

  // An operation of a replay failed where it may have written already. It is not to run again: the error is set, and the
  // instruction raises it.
  bool raised = false;

  // Code that the recording does not follow may have run (an opaque call): what was known of tensors is checked anew.
  virtual void foreign_code() noexcept {}
  // Why the recording must not be kept: operators were dispatched that no observed call explains. Null: nothing. Asked
  // before a recording is finished.
  virtual const char* trouble() noexcept { return nullptr; }

  // An idle call begins, and has ended: the operators that it dispatches need no explanation.
  virtual void begin_idle_call() noexcept {}
  virtual void end_idle_call() noexcept {}

  // What a call that a trace leaves to CPython is for tensors.
  virtual ForeignCall foreign_call(PyObject*) noexcept { return ForeignCall::kUnknown; }
  // A key for what the registers hold; null: no compiled code may answer there, such as for tensors without memory.
  virtual std::unique_ptr<PlanKey> make_key(const PlanRegisters&, const Reg*) { return nullptr; }
  // Watches a native replay of the stretch, which outlives it; null: no tape may stand for it.
  virtual std::unique_ptr<TapeMaker> make_tape(const TapeStretch&) { return nullptr; }
  // A copy that nothing else holds, as an object of Python; null: there is none of the same layout.
  virtual Ref copy_of(void*) noexcept { return Ref(); }

  // A profiler of the framework is on.
  virtual bool is_profiled() const noexcept { return false; }
  // A profiler shows what happens while the object lives under this name. Null: there is no profiler, or no memory.
  struct Range {
    virtual ~Range() = default;
  };
  virtual std::unique_ptr<Range> open_range(const std::string&) noexcept { return nullptr; }

  // The code of the function of Python in which the engine that computes gradients runs; borrowed, null: there is none.
  virtual PyObject* engine_code() noexcept { return nullptr; }
  // The code of the function of Python that gives the address of a tensor for its hash; borrowed, null: there is none.
  virtual PyObject* hash_code() noexcept { return nullptr; }
  // Number of operators dispatched on this thread while counting is on (to find roots under enable()).
  virtual void count_operators(bool on) noexcept = 0;
  virtual uint64_t operators_counted() const noexcept = 0;
  // Calls `wake` at operators of any thread, from now on; null: no more. It may be called without the GIL.
  enum class Waking : uint8_t { kNext, kSome };  // at each operator; at one of some dozens, which costs next to nothing
  virtual void wake_on_operator(void (*wake)() noexcept, Waking waking) noexcept = 0;
  // Python code that the recording does not follow begins in the middle of an instruction, or has ended.
  virtual void pause_call(bool) noexcept {}
};

}  // namespace pijit
