// Opaque calls: what is not understood is left to CPython.
#pragma once
#include "record/recorder.h"

namespace pijit {

bool is_older(const Kernel&, Val tensor);  // it was made, or found, before foreign code ran
// The type of an operand that is about to be looked into; of a tensor only where the class decides (`tensors`).
void learn(Recorder&, ShadowFrame& frame, int depth, bool tensors, bool inside);
// A function of a module of C, a method of a class: to keep it keeps nothing else alive that would die (computed.cpp).
bool is_lasting(PyObject* callable);

// What an instruction calls, as a call.
struct Request {
  Val callable;
  Vals args;
  PyObject* names = nullptr;
  bool spread = false;  // f(*args[0], **args[1])
  int pops = 0, pushes = 1;
  Val exit{};  // of a context manager: is pushed before the result
};
bool request(Recorder&, ShadowFrame& frame, Instruction now, Request* out);  // false: it is no call

bool go_opaque(Recorder&, ShadowFrame& frame);
bool fix_operands(Recorder&, ShadowFrame& frame);
bool opaque_node(Recorder&, ShadowFrame& frame, Op op, Val callable, Vals args, PyObject* names, bool spread,
                 Val* result);
Pending& await_opaque(Recorder&, ShadowFrame& frame, int pops, int pushes, Val result);
void take_opaque(Recorder&, ShadowFrame& frame, PyObject* object);

}  // namespace pijit
