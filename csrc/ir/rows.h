// The kinds of operations, guards, virtual objects and continuations, and what their tables say of each.
//
// An enumeration and its table are made of the same rows, so an enumerator is the index of its row. Whatever treats
// kinds differently asks the row; a switch over kinds is for what they do, not for what they are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pijit {

enum class Op : uint8_t {
#define PIJIT_OP(name, ...) name,
#include "ir/ops.def"
#undef PIJIT_OP
};
enum class ScalarOp : uint8_t {
#define PIJIT_SCALAR(name, print, function, arity) name,
#include "ir/scalars.def"
#undef PIJIT_SCALAR
};
enum class GuardOp : uint8_t {
#define PIJIT_GUARD(name, ...) name,
#include "ir/guards.def"
#undef PIJIT_GUARD
};
enum class VirtualKind : uint8_t {
#define PIJIT_VIRTUAL(name, ...) name,
#include "ir/virtuals.def"
#undef PIJIT_VIRTUAL
};
enum class Continuation : uint8_t {
#define PIJIT_CONTINUATION(name, print, doc) name,
#include "ir/continuations.def"
#undef PIJIT_CONTINUATION
};

// What stands in the columns of the tables.
namespace column {

// Of ops.def.
enum class Effect : uint8_t { pure, read, write, control };
enum class Exit : uint8_t { stays, leaves };
enum class Frees : uint8_t { nothing, references, anything };
enum class Imm : uint8_t {
  none,
  snapshot,   // the second one, where the node goes on if it does something else than was seen
  type,       // address of the type of the result
  number,     // of representation `rep`: stands for an operand that is Null
  truth,      // 0 or 1
  integer,    // 64 bits
  real,       // the bits of a float
  operators,  // how many of the adapter ran when it was recorded
  point,      // of an exit under stress
};
enum class Aux : uint8_t {
  none,
  named,   // how many of the operands are keyword arguments; kNone: operands are a tuple and a dict to spread
  item,    // 1: an item is expected; 0: the end
  scalar,  // a ScalarOp
  level,   // of the snapshot's frames
  epoch,   // index in Trace::epochs
};

// Of guards.def.
enum class Layout : uint8_t { any, dict, list, tuple, set, list_or_set, function, cell, type };
enum class Act : uint8_t { looks, loads };
enum class Found : uint8_t { lasting, changing };
enum class Number : uint8_t {
  none,
  version,    // a tag, a counter or an address that means something in this process only
  dict,       // address of the dict of an instance; 0: it has none, or it does not matter
  size,       // how many, or how much
  index,      // position
  offset,     // in bytes
  register_,  // index of another register
};
enum class GuardAux : uint8_t { none, varies, index, whole, holders };  // holders: how many references
enum class Step : uint8_t {
  none,
  itself,     // no step: it is the subject
  at,         // index `number` of a sequence, or that of an item
  content,    // of a cell
  slot,       // the object at byte offset `number`
  inline_,    // the inline value at index `aux`
  attribute,  // called `expected`
  entry,      // of a dict, under `expected` or under the key of an item
  key_at,     // key `number` of a dict, in order
  value_at,   // value `number` of a dict, in order
  get,        // the value of a context variable
  variable,   // slot `number` of the frame of a generator
  count,      // the next number of an enumerate object
  function,   // of a generator
};

// Of virtuals.def.
enum class Change : uint8_t { lasts, changes };

}  // namespace column

// The word for a field, null: it is not used.
constexpr const char* role(const char* word) noexcept {
  return std::string_view(word) == "none" ? nullptr : word;
}

// The fields of virtual objects: field::kSlice::kStart, ..., field::kSlice::kFields is their number.
#define PIJIT_FIELDS(...) __VA_OPT__(__VA_ARGS__, ) kFields
#define PIJIT_VIRTUAL(name, buildable, change, fields, doc) \
  namespace field::name {                                   \
  enum Field : uint32_t { PIJIT_FIELDS fields };            \
  }
#include "ir/virtuals.def"
#undef PIJIT_VIRTUAL
#undef PIJIT_FIELDS

struct OpRow {
  const char* print;
  column::Effect effect;
  column::Exit exit;
  column::Frees frees;
  const char *a, *b, *c, *operands;
  column::Imm imm;
  column::Aux aux;
};
inline constexpr OpRow kOpRows[] = {
#define PIJIT_OP(name, print, effect, exit, frees, a, b, c, operands, imm, aux, doc)               \
  {print,    column::Effect::effect, column::Exit::exit, column::Frees::frees, role(#a), role(#b), \
   role(#c), role(#operands),        column::Imm::imm,   column::Aux::aux},
#include "ir/ops.def"
#undef PIJIT_OP
};

struct GuardRow {
  const char* print;
  column::Layout subject;
  column::Act act;
  column::Found found;
  const char* expected;
  column::Number number;
  column::GuardAux aux;
  const char* items;
  column::Step step;
  std::string_view words;
};
inline constexpr GuardRow kGuardRows[] = {
#define PIJIT_GUARD(name, print, subject, act, found, expected, number, aux, items, step, words, doc) \
  {print,                                                                                             \
   column::Layout::subject,                                                                           \
   column::Act::act,                                                                                  \
   column::Found::found,                                                                              \
   role(#expected),                                                                                   \
   column::Number::number,                                                                            \
   column::GuardAux::aux,                                                                             \
   role(#items),                                                                                      \
   column::Step::step,                                                                                \
   words},
#include "ir/guards.def"
#undef PIJIT_GUARD
};

struct VirtualRow {
  const char* print;
  bool buildable;
  column::Change change;
  std::string_view fields;  // "(kFunction, kSelf)"
};
inline constexpr VirtualRow kVirtualRows[] = {
#define PIJIT_VIRTUAL(name, buildable, change, fields, doc) {#name + 1, buildable, column::Change::change, #fields},
#include "ir/virtuals.def"
#undef PIJIT_VIRTUAL
};

constexpr const OpRow& row_of(Op op) noexcept {
  return kOpRows[static_cast<size_t>(op)];
}
constexpr const GuardRow& row_of(GuardOp op) noexcept {
  return kGuardRows[static_cast<size_t>(op)];
}
constexpr const VirtualRow& row_of(VirtualKind kind) noexcept {
  return kVirtualRows[static_cast<size_t>(kind)];
}

// A guard that writes a register.
constexpr bool is_load(GuardOp op) noexcept {
  return row_of(op).act == column::Act::loads;
}
// Foreign code runs.
constexpr bool is_opaque(Op op) noexcept {
  return row_of(op).frees == column::Frees::anything;
}
// The node has a second snapshot, at imm.
constexpr bool has_second_snapshot(Op op) noexcept {
  return row_of(op).imm == column::Imm::snapshot;
}
// CPython runs frames of the snapshot.
constexpr bool runs_frames(Op op) noexcept {
  return op == Op::kRun || op == Op::kRunRaise;
}
// Drops references that the trace does not own, so objects that nothing else proves may die.
constexpr bool may_let_die(Op op) noexcept {
  return row_of(op).frees != column::Frees::nothing;
}
// Other objects change.
constexpr bool writes(Op op) noexcept {
  return row_of(op).effect == column::Effect::write;
}
// Needs a snapshot, from which CPython goes on if the node fails.
constexpr bool leaves(Op op) noexcept {
  return row_of(op).exit == column::Exit::leaves;
}
// Others can write to such an object once they have it.
constexpr bool is_mutable(VirtualKind kind) noexcept {
  return row_of(kind).change == column::Change::changes;
}

// The name of a kField entry, without the k; empty: it has none.
constexpr std::string_view field_name(VirtualKind kind, size_t index) noexcept {
  std::string_view names = row_of(kind).fields;
  names = names.substr(1, names.size() - 2);
  for (; index > 0 && !names.empty(); --index) {
    const size_t end = names.find(", ");
    names = end == std::string_view::npos ? std::string_view() : names.substr(end + 2);
  }
  return names.empty() ? names : names.substr(1, names.find(',') - 1);
}
static_assert(field_name(VirtualKind::kFunction, field::kFunction::kClosure) == "Closure" &&
              field_name(VirtualKind::kFunction, field::kFunction::kFields).empty() &&
              field_name(VirtualKind::kTuple, 0).empty());

// What the columns promise each other.
constexpr bool ops_agree() noexcept {
  for (size_t i = 0; i < sizeof kOpRows / sizeof kOpRows[0]; ++i) {
    const OpRow& row = kOpRows[i];
    const bool other_way = row.imm == column::Imm::snapshot;
    if (row.frees == column::Frees::anything && row.effect != column::Effect::write) return false;
    if (other_way && row.effect != column::Effect::write) return false;  // what only looks can be done again
    if (row.frees == column::Frees::anything && !other_way && static_cast<Op>(i) != Op::kOpaque) return false;
    if (row.exit == column::Exit::stays && row.frees != column::Frees::nothing) return false;
    if ((row.aux == column::Aux::named) != (row.b != nullptr && std::string_view(row.b) == "keywords")) return false;
  }
  return true;
}
static_assert(ops_agree());

constexpr bool guards_agree() noexcept {
  for (const GuardRow& row : kGuardRows) {
    if (row.act == column::Act::loads && row.items != nullptr) return false;  // a load names one object
    if (row.act == column::Act::loads && row.step == column::Step::none) return false;
    if (row.words.empty()) return false;
    if (row.aux == column::GuardAux::whole && row.items == nullptr) return false;
    if (row.aux == column::GuardAux::index && row.number != column::Number::version)
      return false;  // an index means shared keys
  }
  return true;
}
static_assert(guards_agree());

}  // namespace pijit
