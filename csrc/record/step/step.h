// The families of instructions that step.cpp hands on to; each begins one instruction (rule 2 of recorder.h).
#pragma once
#include "record/recorder.h"
#include "record/shared.h"

namespace pijit {

// Handles one instruction (before it runs). step.cpp.
void step(Recorder& recorder, ShadowFrame& frame, Instruction now);
// Handles an instruction that only moves values: nothing of the trace changes. False: it is another.
bool step_move(ShadowFrame& frame, Instruction now);

// addresses.cpp: what the instruction does with a number that id() gave.
void follow_addresses(Recorder&, ShadowFrame&, Instruction);

// step_objects.cpp: attributes, calls.
void step_load_attr(Recorder&, ShadowFrame&, PyObject* name, bool for_call);
void step_load_super(Recorder&, ShadowFrame&, PyObject* name, bool for_call);
void step_store_attr(Recorder&, ShadowFrame&, PyObject* name);
void step_delete_attr(Recorder&, ShadowFrame&, PyObject* name);
void step_prepare_call(Recorder&, ShadowFrame&, int count);
void step_call(Recorder&, ShadowFrame&, Instruction);
void step_call_spread(Recorder&, ShadowFrame&, bool keywords);
void step_with(Recorder&, ShadowFrame&);
void step_load_special(Recorder&, ShadowFrame&, int which);
PyObject* read_import(ReadSet&, ShadowFrame&);  // what an import calls; nullptr: not known
void step_import(Recorder&, ShadowFrame&, PyObject* name);
void step_import_from(Recorder&, ShadowFrame&, PyObject* name);

// step_scalars.cpp: arithmetic, comparison, branches.
void step_jump(Recorder&, ShadowFrame&, Instruction);
void step_jump_none(Recorder&, ShadowFrame&);
void step_binary(Recorder&, ShadowFrame&, int op);
void step_truth(Recorder&, ShadowFrame&, bool invert);
void step_unary(Recorder&, ShadowFrame&, int op);  // 0 -x, 1 +x, 2 ~x
void step_compare(Recorder&, ShadowFrame&, int op, bool to_bool);
void step_is(Recorder&, ShadowFrame&, bool invert);

// step_containers.cpp: building, items; step_iteration.cpp: iteration.
void step_build(Recorder&, ShadowFrame&, Instruction);
void step_contains(Recorder&, ShadowFrame&, bool invert);
void step_subscr(Recorder&, ShadowFrame&);
void step_load_slice(Recorder&, ShadowFrame&);
Val slice_of(Recorder&, Val start, Val stop);
// A part or concatenation of known sequences, now in frame.collected; its class is what CPython made of it.
void take_sequence(Recorder&, ShadowFrame&, PyObject* result);
void step_store_subscr(Recorder&, ShadowFrame&);
void step_store_slice(Recorder&, ShadowFrame&);
void step_delete_subscr(Recorder&, ShadowFrame&);
void step_get_iter(Recorder&, ShadowFrame&);
void step_for_iter(Recorder&, ShadowFrame&);
void step_yield_from(Recorder&, ShadowFrame&);
void step_send(Recorder&, ShadowFrame&);
void step_awaitable(Recorder&, ShadowFrame&);
void step_unpack(Recorder&, ShadowFrame&, int count);
void step_unpack_ex(Recorder&, ShadowFrame&, int before, int after);

// step.cpp: variables of a module, and of a closure.
void load_global(Recorder&, ShadowFrame&, PyObject* name, bool for_call);
void write_global(Recorder&, ShadowFrame&, PyObject* name, Val value);  // Null deletes it
void load_deref(Recorder&, ShadowFrame&, int slot);
// step_names.cpp: variables of a class body.
void step_names(Recorder&, ShadowFrame&, Instruction);

// step_match.cpp. False: another instruction.
bool step_match(Recorder&, ShadowFrame&, Instruction);

// step_exceptions.cpp.
void step_exception(Recorder&, ShadowFrame&, Instruction);

void finish_branch(Recorder&, ShadowFrame& frame, Val value);  // a jump was executed: the direction it took
void go_on_binary(Recorder&, ShadowFrame& outer);

}  // namespace pijit
