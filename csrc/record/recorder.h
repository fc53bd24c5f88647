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
  Loops way_of_loops() const { return loops_; }
  void mark_loops();                                  // step/heads.h
  Heads* loop_heads() const { return heads_.get(); }  // null: the beginnings of turns are not marked
  Val as_register(Val number);  // a register that holds the constant; any other value stays as it is
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

  // -- outcome
  void stop(Abort reason, std::string detail) override;     // cut at the start of the current instruction
  void abandon(const char* why);                            // keep nothing
  void give_up(Abort reason, const char* detail) noexcept;  // keep nothing, whatever state the recording is in
  void fail(const char* what) noexcept override;
  uint64_t bytecodes_left() const { return limit_; }
  // Collections would run code that is not the program's: they wait, but for foreign code.
  void pause_gc() { gc_ = std::make_unique<cpython::GcPause>(); }
  void allow_gc() { gc_.reset(); }
  StopInfo stop_info_or_none() const { return trace_ ? trace_->stop : StopInfo(); }

  // -- values (values.cpp)
  Val constant(PyObject* object);  // borrowed: proven by a guard already taken; tensors become inputs
  void take_tensor(Val source, PyObject* tensor, Val reg);  // an input from here on
  Val tensor_source(Val tensor) const;                      // where an input tensor's object is; Null for a result
  bool is_older(Val tensor) const;                          // it was made, or found, before foreign code ran
  PyObject* real(Val value) const { return heap_.real(value); }
  PyTypeObject* type_of(Val value) const { return heap_.type_of(value); }
  Model& model(Val value) { return *heap_.models[value.index()]; }
  Model& model(uint32_t index) { return *heap_.models[index]; }
  bool is_virtual(Val value, VirtualKind kind) const {
    return value.is_virtual() && heap_.models[value.index()]->kind == kind;
  }
  Val new_virtual(VirtualKind kind, PyTypeObject* type);
  Val own(Val container);  // nothing but the trace reaches it, until foreign code is given it
  bool is_fresh(Val object) const { return trace_->virtuals[object.index()].reg_time != 0; }  // no argument
  void log(Val object, LogOp op, Val key, Val value, uint32_t index = 0);
  void mention(Val holder, Val part, size_t place) { heap_.mention(holder, part, place); }
  Val new_sequence(VirtualKind kind, PyTypeObject* type, const Val* items, size_t count);
  Val new_dict();
  Val new_iterator(Val iterable);
  void reshape(Val source) { heap_.reshape(source); }
  void note_begun(Val iterator) { heap_.note_begun(iterator); }
  bool is_stale(uint32_t iterator, uint32_t time) { return heap_.is_stale(iterator, time); }
  Val virtual_field(Val object, size_t field) { return model(object).items[field]; }
  void set_field(Val object, uint32_t field, Val value);
  void dict_set(Val dict, PyObject* key, Val value);  // virtual dict (or __dict__ of a virtual instance)
  void dict_put(Val dict, PyObject* key, Val value);  // its model alone
  PyObject* key_of(Val value);  // the key as a dict compares it without running Python; null: not such a key
  void note_key(PyObject* key, Val value) { heap_.virtual_keys[key] = value; }
  void meet_key(PyObject* key);
  Val keep_key(PyObject* key);                                             // the shadow of a key
  Val address_of(Val value);                                               // id() of a fresh object, or of a scalar
  void note_address(PyObject* object) { heap_.addresses.insert(object); }  // id() was asked for it, it is no scalar
  bool are_other_addresses(Val container, Val object);
  bool may_be_address(Val container, PyObject* number);
  PyObject* key_in(Val container, Val key);  // key_of() where such a number may be the key
  bool dict_delete(Val dict, PyObject* key);
  bool dict_find(Val dict, PyObject* key, Val* value);  // virtual dict
  void attr_set(Val object, PyObject* name, Val value);
  bool attr_delete(Val object, PyObject* name);  // false: it is not there
  bool attr_find(Val object, PyObject* name, Val* value);
  Val dict_of(Val instance);  // its __dict__
  void share_dict(Val instance);
  bool dict_content(Val dict, Objects* keys, Vals* values);
  bool merge_content(Val mapping, Objects* keys, Vals* values);
  bool try_items(Val iterable, Vals* out);
  Py_ssize_t count_items(Val sequence);
  Py_ssize_t iterated_size(Val source);  // which an iterator over a dict, set or deque compares; -1: it does not
  bool has_first_size(const Model& iterator);
  int item_at(Val source, size_t position, bool reversed, Val* item);
  int entry_at(Val dict, size_t position, bool reversed, PyObject** key, Val* value);
  int dict_item_at(Val source, size_t position, bool reversed, Val* item);
  bool truth(Val value, bool* out);  // decides a branch, guarding if needed; false: a frame or the adapter must
  bool scalar_truth(Val value, bool* out);
  // -- numbers in registers (scalars.cpp)
  bool is_number_reg(Val value) const;
  bool scalar_operand(Val value, Reg* now, Val* place);
  Val scalar_node(ScalarOp op, Val left, Val right);  // Null: CPython's own functions do it
  Val compute_number(SiteKind kind, int oparg, Val left, Val right = Val());
  bool fix_numbers(Vals* values, int depth = 0);  // constants from now on, guarded; false: there are none
  bool number_truth(Val value, bool* out);
  Val force(Val value);        // a Const: guards a scalar register in place; Null: stopped
  Val materialize(Val value);  // a Reg or Const holding the real object; Null: stopped

  // -- reads under guard (read_set.h)
  ReadSet& reads() { return reads_; }
  Val owned(PyObject* object) { return reads_.owned(object); }
  void guard_type_version(PyTypeObject* type, PyObject* instance = nullptr) {
    reads_.guard_type_version(type, instance);
  }
  PyObject* lookup_type(PyTypeObject* type, PyObject* name, PyObject* instance = nullptr) {
    return reads_.lookup_type(type, name, instance);
  }
  bool read_dict(PyObject* dict, PyObject* key, PyObject** value) { return reads_.read_dict(dict, key, value); }
  bool guard_slot(PyObject* object, Py_ssize_t offset, PyObject** value) {
    return reads_.guard_slot(object, offset, value);
  }
  // -- and of instances and written places (instances.cpp)
  // Class and dict pointer; *dict null: there is none, or inline values, or it was made here.
  bool guard_instance(PyObject* object, PyObject** dict);
  void guard_no_dict_yet(PyObject* object);
  bool guard_no_dict(PyObject* object);
  bool overlay_find(PyObject* container, PyObject* key, Val* value);
  void overlay_set(PyObject* container, PyObject* key, Val value);

  // -- places that vary (varying.cpp)
  int find_item(PyObject* dict, PyObject* key, Val* value);  // 1: *value, 0: absent, -1: not known
  bool varies(PyObject* container, PyObject* key, PyObject* value);
  Val load_varying(PyObject* container, PyObject* key, PyObject* value, Guard guard);
  Val vary(Val reg, PyObject* value);
  bool is_varying(Val reg) const;  // a register that was loaded so
  bool fix(Val reg, PyObject* value);
  bool has_moved(PyObject* container, PyObject* key, Val loaded) const;
  void note_write(PyObject* container, PyObject* key, PyObject* old, Val value);
  Val list_by_kind(PyObject* list);  // one whose items differ from call to call; Null: it is none

  // -- foreign code (opaque.cpp, epoch.cpp, recover.cpp)
  bool foreign_code_ran() const { return foreign_.epoch_due; }  // just now: what objects are is not known again yet
  bool is_scalar_reg(Val value) const;                          // a register with an immutable scalar of known type
  // callable(*args) on scalars, which only computes: a node instead of a constant.
  Invoke compute(ShadowFrame& frame, PyObject* callable, const Vals& args, int pops, PyObject* names = nullptr);
  // The type of an operand that is about to be looked into; of a tensor only where the class decides (`tensors`).
  void learn(ShadowFrame& frame, int depth, bool tensors, bool inside);
  bool adopt(Val reg, PyObject* object);  // the content of a container in a register becomes known

  // -- writes to containers (writes.cpp)
  Val writable(Val container);    // the model of a list, set or deque that is about to be written; Null: not one
  Val content_of(Val container);  // the model of a container that existed before and was written, else itself
  bool is_unread(Val container);
  bool has_changed(Val container);  // other threads wrote it (other_threads.cpp); true: stopped
  Val content_to_drop(
      Val container);  // as content_of; it is cleared at once, and items are looked at only if they must be
  void note_argument(PyObject* object, Val container);
  Val argument(PyObject* object);  // the argument that it is, or Null
  bool is_same_object(uint32_t reg, PyObject* real, PyObject* object);
  bool is_argument(Val container, PyObject* object);  // it is that object, guarded either way
  bool is_real(Val container);                        // it is written by nodes
  Val home(Val container);                            // the object of a real one
  bool set_items(Val list, Vals items, const char* method, const Vals& args);
  bool splice(Val list, size_t at, size_t removed, const Vals& added, const char* method, const Vals& args);
  bool add_items(Val list, const Vals& more, const char* method, const Vals& args);
  bool replace_keys(Val set, const KeyList& keys, const char* method, const Vals& args);
  bool add_keys(Val set, const Objects& keys, const char* method, const Vals& args);
  bool remove_key(Val set, size_t at, const char* method, const Vals& args);
  bool call_known(PyObject* callable, Vals args);                  // the node of a call for its effect
  bool call_method(Val container, const char* method, Vals args);  // the node of a write
  bool write_dict(PyObject* dict, PyObject* key, Val value);       // Null deletes
  bool put_in_dict(PyObject* dict, PyObject* key, Val value);      // all but the node
  Vec<Filling*>& fillings() { return heap_.fillings; }             // that are open (filling.h)
  bool flush_fillings();                                           // false: stopped
  bool end_fillings(const Drive& of);                              // fillings of C code that raises
  bool are_scalars(const Vals& values) const;
  bool is_filled(Val value) const;  // a filling of `fillings()` fills it
  // The model of what existed before changes, or becomes known: only an epoch makes good what a rollback leaves.
  void note_lasting() { heap_.lasting += 1; }
  bool is_untouched(const TraceMark& mark) const;
  TraceMark here() const;
  void pin(Val value);
  void pin_item(PyObject* dict, PyObject* key);
  Val call_for(PyTypeObject* type, PyObject* callable, Vals args);  // what it makes, of this class; Null: stopped
  Val new_by_call(VirtualKind kind, PyTypeObject* type, PyObject* callable, Vals args);  // real from the start

  // -- nodes
  Node& emit_node(Op op);  // with a snapshot at the start of the current instruction when the op may leave
  size_t level_to_leave();
  bool is_repeatable(ShadowFrame& frame);
  uint32_t snapshot() { return snapshot_of(frames_.size() - 1); }
  uint32_t exit_snapshot() { return snapshot_of(level_to_leave()); }  // where an exit goes, not who is running
  bool may_leave() { return snapshot_usable(exit_snapshot()); }
  uint32_t snapshot_of(size_t level);
  Val add_reg(Rep rep, PyTypeObject* type, PyObject* observed);
  void set_type(Val reg, PyTypeObject* type);  // it is known now, until foreign code runs

  // -- calls (calls.cpp); the operands are still on the shadow stack, `pops` says how many
  Invoke invoke(ShadowFrame& frame, Val callable, Arguments& args, int pops);
  Invoke invoke_function(ShadowFrame& frame, Val function, Arguments& args, Then then, int pops);
  Invoke invoke_body(ShadowFrame& frame, Val function, Val names);  // of a class statement
  Invoke invoke_type(ShadowFrame& frame, Val callable, Arguments& args, int pops);
  Invoke invoke_instance(ShadowFrame& frame, Val callable, Arguments& args, int pops);
  Invoke invoke_builtin_exception(ShadowFrame& frame, PyTypeObject* type, Arguments& args, int pops);
  Invoke after_new(ShadowFrame& frame, Val instance, Arguments& args, int pops);  // type.__call__ goes on: __init__
  Invoke get_attribute(ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result, bool* missing);
  Invoke find_attribute(ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result, bool* missing);
  Invoke get_generic_attribute(ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result, bool* missing);
  Invoke method_attribute(ShadowFrame& frame, Val object, PyObject* name, int pops, Val* result, bool* missing);
  bool is_raised(PyObject* type) const { return raise_.is_of(type); }
  bool is_raising() const { return raise_.foreseen && raise_.type != nullptr; }
  void caught() { raise_.foreseen = raise_.event = false; }  // C code clears the exception of the inner frame
  // -- generators (generators.cpp)
  bool may_resume(Val generator) const;  // it is virtual and at a yield
  bool has_begun(Val generator) const;
  bool closes_unrun(Val generator) const;  // see cpython/bytecode.h
  void end_generator(uint32_t generator);
  void note_popped(Val value) { frames_.popped = value; }  // what POP_TOP may let die
  bool has_ended(Val generator) const;
  bool is_running(Val generator) const;
  Val delegate_of(Val generator) const;  // where its `yield from` stands, or Null
  Val stop_value() const;                // of the StopIteration under way; Null: not known
  Val stop_value(Val exception) const;   // of one that is virtual
  // It is to be resumed: `sent` (Null: None) is sent to it. The pending result may be changed to throw.
  bool go_advance(ShadowFrame& frame);  // a loop takes a number out of the iterator of a range
  Pending& expect_generator(ShadowFrame& frame, Val generator, Then then, int pops, Val sent = Val());

  // -- completion
  void done(ShadowFrame& frame, int pops, Val result);   // the result is known and the instruction cannot fail any more
  void known(ShadowFrame& frame, int pops, Val result);  // the result is known, if the instruction does not raise
  Pending& await(ShadowFrame& frame, int pops, int pushes);
  bool ask_about(ShadowFrame& frame, SiteKind kind, std::initializer_list<Val> operands, int pops, int pushes,
                 int oparg = 0, PyObject* name = nullptr,
                 PyObject* callable = nullptr);  // true: the adapter handles it (or recording stopped)
  void observe(ShadowFrame& frame, int pops, Finish finish);
  // Guarded facts say that it raises: `exception`, or (Null) a new one.
  void will_raise(ShadowFrame& frame, int pops, Val exception = Val(), bool again = false);
  void finish_branch(ShadowFrame& frame, Val value);  // a jump was executed: the direction it took
  ShadowFrame& top_frame() { return *frames_.back(); }
  Adapter* adapter() { return adapter_; }
  bool ask_adapter(ShadowFrame& frame, const CallSite& site, int pops, int pushes);  // true: handled (or stopped)
  bool touches_tensor(Val value) const;
  Val handling() const {  // the exception that a followed frame handles, the innermost one; Null: none does
    for (size_t i = frames_.size(); i-- > 0;)
      if (!frames_[i]->handled.empty()) return frames_[i]->handled.back();
    return Val();
  }
  PyObject* stack_real(int depth) const { return frames_.operand(depth); }

  // -- exceptions (exceptions.cpp)
  Val saved_exception();                                 // what PUSH_EXC_INFO puts away
  void raised_from(Val cause) { raise_.cause = cause; }  // the one that will be raised
  Val make_exception(PyTypeObject* type, const Vals& args);
  void init_exception(Val exception, const Vals& args);
  void note_return() {  // of a frame: see end_at_return
    if (frames_.size() != 1) return;
    frames_.leaves_generator = leaves_generator();
    if (raise_.any_traced || frames_.leaves_generator) frames_.return_snapshot = snapshot();
  }
  Val as_exception(Val value, PyObject* object);
  Val traceback_of(Val exception);  // as it is now
  bool exc_info(Vals* out);         // type, value and traceback of what is handled; false: not known
  bool nothing_handled_at_entry();  // guarded; false: something was (or stopped)
  bool is_built(Val object) const { return trace_->virtuals[object.index()].reg != kNone; }
  bool is_taken(Val exception) const;  // foreign code raised it
  bool is_foreign(Val exception) const { return is_built(exception) || is_taken(exception); }

  // -- RecordApi
  RegFacts facts(Val reg) const override;
  Val new_reg(Rep rep, PyTypeObject* type) override { return add_reg(rep, type, nullptr); }
  Val new_int(int64_t observed) override;
  Val force_const(Val value, PyObject* observed) override;
  Val own_const(PyObject* object) override { return owned(object); }
  bool check_class(Operand tensor) override;
  Val unbox(Val value, PyObject* observed) override;
  bool sequence_items(Operand sequence, std::vector<Operand>* items) override;
  bool slice_fields(Operand slice, Operand fields[3]) override;
  bool slice_bounds(const Operand fields[3], Py_ssize_t bounds[3]);  // start, stop and step, as PySlice_Unpack gives
  Val new_tuple(PyTypeObject* type, const Val* items, size_t count) override;
  Val new_list(const Val* items, size_t count) override;
  Val materialize(Operand operand) override;
  void emit(std::unique_ptr<AdapterOp> op, const Vals& inputs, const Vals& outputs, bool check_only) override;
  void stop(const char* code, std::string reason) override;

  Vec<Operand>& operands() { return question_.operands; }
  Vec<std::pair<Val, std::pair<Val, Val>>>& tokens() {
    return heap_.tokens;
  }  // ContextVar tokens: variable and value before

  Arguments scratch;           // reused by call instructions
  PyObject* called = nullptr;  // the C callable whose handler runs
  bool called_bound = false;   // its self was put before the arguments

 private:
  bool bind_root();
  bool bind_entry();
  Val entry_input(cpython::Frame* frame, int slot, Val source);
  Val entry_generator(PyObject* generator, Val source);
  Val entry_enumerate(PyObject* enumerate, Val source);
  Val entry_cell(PyObject* cell, Val source);
  Val entry_value(PyObject* object, Val source);
  Val entry_method(PyObject* method, Val source);
  Val by_type(PyObject* object, Val source);
  Py_ssize_t items_left(Val iterator);
  bool leaves_loop(ShadowFrame& frame);
  void begin_turns(ShadowFrame& frame, int before);
  void count_decisions();
  void leave_loop();
  bool can_build(uint32_t index, uint32_t time);
  void materialize_suspended(uint32_t generator);
  Val input(PyObject* object, Val source, int depth);  // classifies an argument (inputs.cpp)
  Val input_sequence(PyObject* object, Val source, int depth, bool fresh);
  using Take = Val (Recorder::*)(PyObject*, Val, int);  // what becomes of what was loaded
  void input_key(PyObject* key, Val source);
  Val input_dict(PyObject* object, Val source, int depth, bool fresh, Take take = &Recorder::input);
  Val input_instance(PyObject* object, Val source, int depth, Take take = &Recorder::input);
  bool guard_keys(PyObject* dict, Val source);
  bool may_load(Py_ssize_t items) const;
  Val load_input(GuardOp op, Val source, Py_ssize_t index, PyObject* object);
  Val load_input(Guard guard, PyObject* object);
  Val real_container(Val object, Val source);
  Val known_container(PyObject* object, Val source);
  Guard& input_guard(GuardOp op, Val source);
  template <class Body>
  auto guarded(bool keeps_error, Body body) noexcept -> decltype(body());
  bool begin_recording();
  std::unique_ptr<Trace> end_recording();
  void inject_fault(ShadowFrame& frame);
  void observe_exception(cpython::Frame* frame, PyObject* exc_value);
  void observe_instruction(ShadowFrame& frame);
  bool finish_instruction(ShadowFrame& frame);
  bool drop_result(ShadowFrame& frame);
  void notice_exception(cpython::Frame* frame);
  void observe_left(cpython::Frame* frame);
  void learn_operands(ShadowFrame& frame, Instruction now);
  void complete(ShadowFrame& frame);
  void complete_next(ShadowFrame& frame);
  bool unwind(ShadowFrame& frame);  // the previous instruction raised
  void begin_raise(ShadowFrame& frame, int pops, Val exception, bool again);
  void note_raise(ShadowFrame& frame, int pops, Val exception, bool again);
  void raise_at_yield(ShadowFrame& frame, Val exception);
  void begin_taken(PyObject* object, Val taken);
  bool is_handled() const;
  bool take_raised(PyObject* object);
  bool take_opaque_raise(PyObject* object);
  void take_split_group(ShadowFrame& frame);
  void pass_frame();
  Val raised_exception(PyObject* object);
  Val new_exception(PyObject* object);
  bool raised_arguments(PyObject* object, Vals* out);
  bool note_name(Val exception, PyObject* object);
  bool is_as_raised(Val exception);
  Val handled_at_entry();
  Val frame_self(size_t level);
  void end_frame(ShadowFrame& frame);
  void materialize_frame(Val frame);
  bool holds_raised(Val value);
  bool can_rebuild(const ShadowFrame& frame);
  uint32_t frame_state(size_t level, bool innermost);
  uint32_t add_state(const ShadowFrame& frame, FrameState state, const char* unusable);
  void suspend(std::unique_ptr<ShadowFrame> shadow);
  bool forgets_coroutine();
  bool is_suspended(uint32_t generator, cpython::Frame* frame) const;
  bool is_ours(cpython::Frame* frame) const;
  void cut(size_t level);  // ends the trace at the instruction of that frame
  void end_events();
  void push_frame(std::unique_ptr<ShadowFrame> shadow);
  void note_followed(ShadowFrame& shadow);
  void own_class(PyTypeObject* type);
  Val tensor_input(PyObject* tensor);
  uint32_t site();
  bool learn_places();
  bool is_read(PyObject* container, PyObject* key);
  bool has_other_items(const Model& list) const;
  bool changes_kind(PyObject* old, Val value) const;
  bool may_load(PyObject* object, int depth, Py_ssize_t* room);
  bool is_untouched(PyObject* container);
  Val take_by_kind(PyObject* object, const Guard& load);
  void write_through(Val object, LogOp op, Val key, Val value);
  bool set_items_in_order(const Model& set, Vals* out);
  bool view_items(const Model& view, Vals* out);
  void note_stop(Abort reason, const std::string& detail);
  void request_stop(bool final);
  bool resolve_stop();  // true: the recording goes on
  void rollback(ShadowFrame& frame);
  bool go_opaque(ShadowFrame& frame);
  bool fix_operands(ShadowFrame& frame);
  bool fix_number(Val* value, int depth);
  void make_real();
  bool opaque_node(ShadowFrame& frame, Op op, Val callable, Vals args, PyObject* names, bool spread, Val* result);
  Pending& await_opaque(ShadowFrame& frame, int pops, int pushes, Val result);
  void take_addresses(ShadowFrame& frame);
  bool go_opaque_next(ShadowFrame& frame);
  void finish_next(ShadowFrame& frame);
  bool run_in_cpython(size_t level, size_t top);
  bool call_opaquely(size_t level);
  void unfollow(size_t level);
  void return_to_raise(ShadowFrame& frame);
  bool may_run(size_t level, size_t top);
  void finish_run(ShadowFrame& outer, PyObject* result);
  void raised_unforeseen();
  bool locals_were_seen();
  void begin_epoch();
  void note_suspended(uint32_t generator);
  void take_tensor_result();
  void take_opaque(ShadowFrame& frame, PyObject* object);
  // -- what foreign code returned or held (found.cpp)
  void begin_finding();
  bool has_met(PyObject* object);
  bool is_fixed(Val reg, PyObject* object);
  void becomes(Val reg, Val found);
  void look_for_writes();
  void guard_found();
  Val adopted(PyObject* object, Val source, int depth);
  bool is_new_here(PyObject* object);
  void note_container(PyObject* object, Val source);
  Val found_part(PyObject* object, Val source, int depth);
  Val found_container(PyObject* object, Val source);
  void note_real(Val value, PyObject* object);  // registers of a result learn their objects
  void note_item(Val item, PyObject* object);
  void note_foreign(cpython::Frame* frame);
  void drop_generator(cpython::Frame* frame);
  bool finalize_popped(cpython::Frame* frame);
  bool closes_alone(Val generator);
  bool leaves_generator();
  void leave_root(ShadowFrame& shadow, PyObject* result);
  bool try_follow(cpython::Frame* frame, int throwflag);
  void left_frame(cpython::Frame* frame, PyObject* result);
  void inner_returned(ShadowFrame& outer, Val value);
  void inner_raised(ShadowFrame& outer);
  bool lost_events();
  void note_sought(const Pending& pending);
  void add_sought(Val exception, PyObject* object);
  void go_on(ShadowFrame& outer);
  void go_on_binary(ShadowFrame& outer);
  void refresh_written();
  void end_with_exit(uint32_t snapshot);
  void end_at_return();
  void cut_at_last_snapshot();
  void end_here();
  bool snapshot_usable(uint32_t index);
  void emit_exit_point();
  bool virtual_usable(uint32_t index, uint32_t time);
  uint32_t walk_object(uint32_t index, uint32_t time, bool known);
  void follow_log(uint32_t time);
  static constexpr uint32_t kTransient = UINT32_MAX;
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
Recorder* active_recorder() noexcept;

// Cells and free variables, which CPython sets up without events.
void run_prologue(Recorder& recorder, ShadowFrame& shadow);
// A cell that holds what the slot holds takes its place.
void make_cell(Recorder& recorder, ShadowFrame& shadow, int slot);

// In a checked build: the shadow against the real frame; a difference is a bug and stops the process.
void check_shadow(Recorder& recorder, ShadowFrame& frame);

// The loop, or `yield from`, that the frame has just executed is not at its end.
bool goes_on_after(const ShadowFrame& frame) noexcept;

}  // namespace pijit
