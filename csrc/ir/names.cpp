// Names of ops, guards, virtual kinds and continuations, from the tables.
#include <iterator>

#include "ir/trace.h"

namespace pijit {

const char* op_name(Op op) noexcept {
  return row_of(op).print;
}

const char* op_effect(Op op) noexcept {
  static constexpr const char* names[] = {"pure", "read", "write", "control"};
  return names[static_cast<size_t>(row_of(op).effect)];
}

const char* scalar_name(ScalarOp op) noexcept {
  static constexpr const char* names[] = {
#define PIJIT_SCALAR(name, print, function, arity) function,
#include "ir/scalars.def"
#undef PIJIT_SCALAR
  };
  return names[static_cast<size_t>(op)];
}

const char* rep_name(Rep rep) noexcept {
  static constexpr const char* names[] = {"empty", "object", "tensor", "int", "float", "bool"};
  return names[static_cast<size_t>(rep)];
}

const char* guard_name(GuardOp op) noexcept {
  return row_of(op).print;
}

const char* step_name(GuardOp op) noexcept {
  static constexpr const char* names[] = {
#define PIJIT_GUARD(name, print, subject, act, found, expected, number, aux, items, step, words, doc) #step,
#include "ir/guards.def"
#undef PIJIT_GUARD
  };
  return names[static_cast<size_t>(op)];
}

const char* virtual_name(VirtualKind kind) noexcept {
  return row_of(kind).print;
}

const char* continuation_name(Continuation continuation) noexcept {
  static constexpr const char* names[] = {
#define PIJIT_CONTINUATION(name, print, doc) print,
#include "ir/continuations.def"
#undef PIJIT_CONTINUATION
  };
  return names[static_cast<size_t>(continuation)];
}

const char* log_name(LogOp op) noexcept {
  static constexpr const char* names[] = {"append",  "set",   "del",   "insert", "clear", "setattr",
                                          "delattr", "field", "index", "frame",  "traced"};
  static_assert(std::size(names) == static_cast<size_t>(LogOp::kTraced) + 1);
  return names[static_cast<size_t>(op)];
}

}  // namespace pijit
