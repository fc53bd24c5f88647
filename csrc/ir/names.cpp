// Names of ops, guards, virtual kinds and continuations, from the tables.
#include "ir/trace.h"

namespace pijit {

const char* op_name(Op op) noexcept {
  static constexpr const char* names[] = {
#define PIJIT_OP(name, print, effect, doc) print,
#include "ir/ops.def"
#undef PIJIT_OP
  };
  return names[static_cast<size_t>(op)];
}

const char* op_effect(Op op) noexcept {
  static constexpr const char* effects[] = {
#define PIJIT_OP(name, print, effect, doc) #effect,
#include "ir/ops.def"
#undef PIJIT_OP
  };
  return effects[static_cast<size_t>(op)];
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

bool writes(Op op) noexcept {
  enum class Effect : uint8_t { pure, read, write, control };
  static constexpr Effect effects[] = {
#define PIJIT_OP(name, print, effect, doc) Effect::effect,
#include "ir/ops.def"
#undef PIJIT_OP
  };
  return effects[static_cast<size_t>(op)] == Effect::write;
}

const char* guard_name(GuardOp op) noexcept {
  static constexpr const char* names[] = {
#define PIJIT_GUARD(name, print, doc) print,
#include "ir/guards.def"
#undef PIJIT_GUARD
  };
  return names[static_cast<size_t>(op)];
}

const char* virtual_name(VirtualKind kind) noexcept {
  static constexpr const char* names[] = {
#define PIJIT_VIRTUAL(name, buildable, doc) #name,
#include "ir/virtuals.def"
#undef PIJIT_VIRTUAL
  };
  return names[static_cast<size_t>(kind)] + 1;  // without the k
}

const char* continuation_name(Continuation continuation) noexcept {
  static constexpr const char* names[] = {
#define PIJIT_CONTINUATION(name, print, doc) print,
#include "ir/continuations.def"
#undef PIJIT_CONTINUATION
  };
  return names[static_cast<size_t>(continuation)];
}

bool virtual_buildable(VirtualKind kind) noexcept {
  static constexpr bool buildable[] = {
#define PIJIT_VIRTUAL(name, buildable, doc) buildable,
#include "ir/virtuals.def"
#undef PIJIT_VIRTUAL
  };
  return buildable[static_cast<size_t>(kind)];
}

}  // namespace pijit
