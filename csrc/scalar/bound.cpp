// A walk over the bytecode that ends when no way takes a variable away any more.
#include "scalar/bound.h"

#include <vector>

namespace pijit::scalar {
namespace {

using cpython::Instruction;
using cpython::Operation;

uint64_t after(uint64_t bound, Operation operation, int argument) noexcept {
  if (operation == Operation::kStoreLocal) return bound | (uint64_t{1} << argument);
  if (operation == Operation::kDeleteLocal || operation == Operation::kTakeLocal)
    return bound & ~(uint64_t{1} << argument);
  return bound;
}

}  // namespace

Ways ways_of(PyCodeObject* code, int start) noexcept {
  int at = start;
  const Instruction now = cpython::decode(code, &at);
  const int next = cpython::next_index(code, at);
  switch (now.operation) {
    case Operation::kJump:
      return {-1, cpython::jump_target(code, start)};
    case Operation::kJumpIf:
    case Operation::kJumpIfOrPop:
    case Operation::kJumpIfNone:
    case Operation::kForIter:
      return {next, cpython::jump_target(code, start)};
    case Operation::kReturn:
    case Operation::kReturnConst:
    case Operation::kRaise:
    case Operation::kReraise:
    case Operation::kUnknown:
      return {};
    default:
      return {next, -1};
  }
}

std::set<int> jump_targets(PyCodeObject* code) {
  std::set<int> targets;
  for (int start = 0; start < cpython::unit_count(code);) {
    int at = start;
    cpython::decode(code, &at);
    const Ways ways = ways_of(code, start);
    if (ways.jump >= 0) targets.insert(ways.jump);
    start = cpython::next_index(code, at);
  }
  return targets;
}

std::map<int, uint64_t> bound_variables(PyCodeObject* code, int start, uint64_t at_start) {
  const std::set<int> targets = jump_targets(code);
  std::map<int, uint64_t> bound{{start, at_start}};
  std::vector<int> open{start};
  const auto reach = [&](int index, uint64_t variables) {
    const auto [found, is_new] = bound.try_emplace(index, variables);
    if (!is_new && (found->second & variables) == found->second) return;
    found->second &= variables;
    open.push_back(index);
  };
  while (!open.empty()) {
    int index = open.back();
    open.pop_back();
    uint64_t variables = bound[index];
    for (bool first = true; index >= 0 && index < cpython::unit_count(code); first = false) {
      if (!first && targets.count(index) != 0) {
        reach(index, variables);
        break;
      }
      const Instruction now = cpython::instruction_at(code, index);
      variables = after(variables, now.operation, now.argument);
      variables = after(variables, now.then, now.then_argument);
      const Ways ways = ways_of(code, index);
      if (ways.jump >= 0) reach(ways.jump, variables);
      index = ways.next;
    }
  }
  return bound;
}

}  // namespace pijit::scalar
