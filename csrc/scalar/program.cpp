// Reads bytecode block by block, with the stack as a list of registers.
//
// Where a block ends each place of the stack is in its own register; in between it is where the value came from: a
// variable, a constant, or the result of a step. A variable that is written while the stack still means what it held is
// copied before.
#include "scalar/program.h"

#include <algorithm>
#include <map>
#include <set>

#include "cpython/operators.h"
#include "scalar/bound.h"

namespace pijit::scalar {
namespace {

using cpython::Instruction;
using cpython::Operation;

constexpr size_t kMostRegisters = 4000, kMostSteps = 20000;

class Translator {
 public:
  Translator(PyCodeObject* code, Program* program) : code_(code), program_(*program) {}
  bool run();

 private:
  // -- registers
  uint16_t home(size_t depth) const { return static_cast<uint16_t>(program_.locals + depth); }
  bool is_home(uint16_t reg) const { return reg >= program_.locals && reg < program_.empty; }
  uint16_t fixed(const Fixed& wanted);
  uint16_t fresh(size_t count = 1) {
    spare_ += count;
    return static_cast<uint16_t>(kSpare + spare_ - count);
  }
  uint16_t result();

  // -- steps
  Step& emit(Code code, uint16_t out = 0, uint16_t a = 0, uint16_t b = 0);
  Step& fallible(Code code, uint16_t out = 0, uint16_t a = 0, uint16_t b = 0) {
    Step& step = emit(code, out, a, b);
    step.place = here();
    return step;
  }
  int32_t here();
  void leave() {
    fallible(Code::kLeave);
    ended_ = true;
  }
  void store(int slot);
  void free_local(uint16_t slot);
  void settle(uint16_t* kept = nullptr);
  void jump(Step step, int target);
  void reach(int target);

  // -- instructions
  void begin(int start);
  void block(int start);
  void ask_for(uint16_t reg);
  bool step(Instruction now);
  bool move(Operation operation, int argument);
  bool branch(Instruction now);
  bool compute(Instruction now);
  bool items(Instruction now);
  bool load_attribute(PyObject* name, bool for_call);
  bool call(int count);
  void jump_if(bool truth, int target);
  void next_item(int target);
  bool load_constant(PyObject* constant);
  void push_callee(uint16_t callee);
  bool finish();

  uint16_t pop() {
    const uint16_t reg = stack_.back();
    stack_.pop_back();
    return reg;
  }

  static constexpr uint16_t kSpare = 0x8000;  // until it is known how many registers there are
  PyCodeObject* code_;
  Program& program_;
  std::map<int, uint64_t> bound_;
  std::set<int> targets_;
  std::map<int, size_t> depths_;   // of the stack, at blocks that are reached
  std::map<int, int32_t> starts_;  // their first steps
  std::vector<int> open_;          // blocks that are reached and not read
  std::vector<uint16_t> stack_;
  uint64_t variables_ = 0;    // that are bound
  std::set<uint16_t> known_;  // global variables that have been asked for in this block
  int index_ = 0;             // of the instruction under way
  int next_ = 0;              // of the one behind it
  int32_t place_ = -1;        // of the instruction under way, once it is needed
  int last_ = -1;             // the step whose result the stack has, and which may go elsewhere; -1: none
  bool ended_ = false;
  size_t spare_ = 0;
};

uint16_t Translator::fixed(const Fixed& wanted) {
  auto& all = program_.fixed;
  auto found = std::find(all.begin(), all.end(), wanted);
  if (found == all.end()) found = all.insert(all.end(), wanted);
  return static_cast<uint16_t>(program_.first_fixed() + (found - all.begin()));
}

// The register of what is about to be pushed: the home of the place, if the stack means nothing else by it.
uint16_t Translator::result() {
  const uint16_t reg = home(stack_.size());
  return std::count(stack_.begin(), stack_.end(), reg) == 0 && stack_.size() < program_.empty - size_t{program_.locals}
             ? reg
             : fresh();
}

Step& Translator::emit(Code code, uint16_t out, uint16_t a, uint16_t b) {
  Step step{code};
  step.out = out;
  step.a = a;
  step.b = b;
  program_.steps.push_back(step);
  last_ = -1;
  return program_.steps.back();
}

int32_t Translator::here() {
  return place_;
}

void Translator::free_local(uint16_t slot) {
  if (std::count(stack_.begin(), stack_.end(), slot) == 0) return;
  const uint16_t copy = fresh();
  emit(Code::kMove, copy, slot);
  std::replace(stack_.begin(), stack_.end(), slot, copy);
}

void Translator::store(int slot) {
  const auto local = static_cast<uint16_t>(slot);
  const uint16_t value = pop();
  if (value == local) return;
  const int last = last_;
  free_local(local);
  const bool redirects = last >= 0 && last + 1 == static_cast<int>(program_.steps.size()) &&
                         program_.steps.back().out == value && value >= program_.locals &&
                         std::count(stack_.begin(), stack_.end(), value) == 0;
  if (redirects) {
    program_.steps.back().out = local;
    last_ = -1;
  } else {
    // It may fail where what the variable held dies.
    fallible(Code::kMove, local, value);
  }
}

// Each place of the stack is in its home, and so is `kept` in a register that this does not write.
void Translator::settle(uint16_t* kept) {
  const auto is_settled = [&](size_t depth) { return stack_[depth] == home(depth); };
  for (size_t depth = 0; depth < stack_.size(); ++depth) {
    uint16_t* const reg = &stack_[depth];
    if (is_settled(depth) || !is_home(*reg) || *reg >= home(stack_.size())) continue;
    const uint16_t copy = fresh();
    emit(Code::kMove, copy, *reg);
    *reg = copy;
  }
  bool moves = false;
  for (size_t depth = 0; depth < stack_.size(); ++depth) moves = moves || !is_settled(depth);
  if (moves && kept != nullptr && is_home(*kept) && *kept < home(stack_.size())) {
    const uint16_t copy = fresh();
    emit(Code::kMove, copy, *kept);
    *kept = copy;
  }
  for (size_t depth = 0; depth < stack_.size(); ++depth) {
    if (is_settled(depth)) continue;
    emit(Code::kMove, home(depth), stack_[depth]);
    stack_[depth] = home(depth);
  }
}

void Translator::reach(int target) {
  if (depths_.try_emplace(target, stack_.size()).second) open_.push_back(target);
}

// The stack is settled.
void Translator::jump(Step step, int target) {
  step.target = target;  // of an instruction, until all blocks are read
  step.back = target <= index_;
  step.place = here();
  reach(target);
  program_.steps.push_back(step);
  last_ = -1;
}

bool Translator::load_constant(PyObject* constant) {
  stack_.push_back(fixed({constant}));
  return true;
}

// Values that only move. False: another instruction, or a variable that may be unbound was asked for.
bool Translator::move(Operation operation, int argument) {
  const auto local = static_cast<uint16_t>(argument);
  const uint64_t bit = argument < kMostLocals ? uint64_t{1} << argument : 0;
  switch (operation) {
    case Operation::kNothing:
    case Operation::kResume:
    case Operation::kPrepareCall:
      return true;
    case Operation::kLoadLocal:
      if ((variables_ & bit) == 0) fallible(Code::kBound, 0, local);
      variables_ |= bit;
      stack_.push_back(local);
      return true;
    case Operation::kStoreLocal:
      store(argument);
      variables_ |= bit;
      return true;
    case Operation::kLoadConst:
      return load_constant(PyTuple_GET_ITEM(code_->co_consts, argument));
    case Operation::kLoadSmallInt: {
      program_.owned.push_back(Ref::steal(PyLong_FromLong(argument)));
      return program_.owned.back() && load_constant(program_.owned.back().get());
    }
    case Operation::kPushNull:
      stack_.push_back(program_.empty);
      return true;
    case Operation::kPop:
      stack_.pop_back();
      return true;
    case Operation::kCopy:
      stack_.push_back(stack_[stack_.size() - static_cast<size_t>(argument)]);
      return true;
    case Operation::kSwap:
      std::swap(stack_.back(), stack_[stack_.size() - static_cast<size_t>(argument)]);
      return true;
    default:
      return false;
  }
}

void Translator::push_callee(uint16_t callee) {
  stack_.push_back(cpython::kNullBelowCallable ? program_.empty : callee);
  stack_.push_back(cpython::kNullBelowCallable ? callee : program_.empty);
}

bool Translator::load_attribute(PyObject* name, bool for_call) {
  const uint16_t object = stack_.back();
  const size_t at = object - size_t{program_.first_fixed()};
  const bool appends = for_call && PyUnicode_CompareWithASCIIString(name, "append") == 0;
  if (!appends && object >= program_.first_fixed() && at < program_.fixed.size() &&
      program_.fixed[at].name != nullptr && program_.fixed[at].attribute == nullptr) {
    const uint16_t found = fixed({nullptr, program_.fixed[at].name, name});
    ask_for(found);
    pop();
    for_call ? push_callee(found) : stack_.push_back(found);
    return true;
  }
  const bool real = PyUnicode_CompareWithASCIIString(name, "real") == 0;
  if (!for_call && (real || PyUnicode_CompareWithASCIIString(name, "imag") == 0)) {
    pop();
    fallible(Code::kPart, result(), object).negated = !real;
    last_ = static_cast<int>(program_.steps.size()) - 1;
    stack_.push_back(program_.steps.back().out);
    return true;
  }
  static PyObject* const append = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyList_Type), "append");
  if (!appends || append == nullptr) return false;
  fallible(Code::kIsList, 0, object);
  pop();
  stack_.push_back(fixed({append}));
  stack_.push_back(object);
  return true;
}

bool Translator::call(int count) {
  if (stack_.size() < static_cast<size_t>(count) + 2) return false;
  const size_t first = stack_.size() - static_cast<size_t>(count);
  const uint16_t upper = stack_[first - 1], lower = stack_[first - 2];
  const bool is_method = upper != program_.empty && lower != program_.empty;
  const uint16_t callee = lower == program_.empty ? upper : lower;
  if (is_method && count != 1) return false;
  const std::vector<uint16_t> arguments(stack_.begin() + static_cast<ptrdiff_t>(first), stack_.end());
  stack_.resize(first - 2);
  const bool iterates =
      !is_method && targets_.count(next_) == 0 && cpython::instruction_at(code_, next_).is(Operation::kGetIter);
  if (is_method) {
    fallible(Code::kAppend, result(), upper, arguments[0]);
  } else {
    Step& step = fallible(iterates ? Code::kRange : Code::kCall, result(), callee);
    step.more = static_cast<uint8_t>(count);
    step.target = static_cast<int32_t>(program_.arguments.size());
    program_.arguments.insert(program_.arguments.end(), arguments.begin(), arguments.end());
  }
  last_ = static_cast<int>(program_.steps.size()) - 1;
  stack_.push_back(program_.steps.back().out);
  if (iterates) next_ = cpython::next_index(code_, next_);
  return true;
}

// Operators of one or two operands.
bool Translator::compute(Instruction now) {
  Code code = Code::kBinary;
  switch (now.operation) {
    case Operation::kBinary: {
      const int plain = now.argument >= nb::kInPlaceAdd ? now.argument - nb::kInPlaceAdd : now.argument;
      if (plain == nb::kAdd) code = Code::kAdd;
      if (plain == nb::kSubtract) code = Code::kSubtract;
      if (plain == nb::kMultiply) code = Code::kMultiply;
      if (plain == nb::kTrueDivide) code = Code::kTrueDivide;
      now.argument = plain;
      break;
    }
    case Operation::kCompare:
      if (now.flag != 0) now.flag = 0;  // the truth of a comparison of numbers is its result
      code = Code::kCompare;
      break;
    case Operation::kIs:
      code = Code::kIs;
      break;
    case Operation::kSubscript:
      code = Code::kSubscript;
      break;
    case Operation::kNegative:
      code = Code::kNegative;
      break;
    case Operation::kPositive:
      code = Code::kPositive;
      break;
    case Operation::kInvert:
      code = Code::kInvert;
      break;
    case Operation::kNot:
      code = Code::kNot;
      break;
    case Operation::kToBool:
      code = Code::kTruth;
      break;
    case Operation::kGetIter:
      code = Code::kIterate;
      break;
    default:
      return false;
  }
  const uint16_t b = code >= Code::kNegative && code != Code::kSubscript ? program_.empty : pop(), a = pop();
  Step& step = fallible(code, result(), a, b);
  step.more = static_cast<uint8_t>(now.argument);
  step.negated = now.is(Operation::kIs) && now.flag != 0;
  last_ = static_cast<int>(program_.steps.size()) - 1;
  stack_.push_back(step.out);
  return true;
}

bool Translator::items(Instruction now) {
  const auto count = static_cast<size_t>(now.argument);
  switch (now.operation) {
    case Operation::kStoreSubscript: {
      const uint16_t key = pop(), container = pop(), value = pop();
      fallible(Code::kStore, value, container, key);
      return true;
    }
    case Operation::kBuildTuple: {
      // The tuple is taken apart at once: `a, b, c, d = w, x, y, z`.
      const Instruction next = cpython::instruction_at(code_, next_);
      if (!next.is(Operation::kUnpack) || next.argument != now.argument || targets_.count(next_) != 0) return false;
      std::reverse(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
      next_ = cpython::next_index(code_, next_);
      return true;
    }
    case Operation::kUnpack: {
      if (count >= UINT8_MAX) return false;
      const uint16_t first = fresh(count), from = stack_.back();
      fallible(Code::kUnpack, first, from).more = static_cast<uint8_t>(count);
      pop();
      for (size_t i = count; i-- > 0;) stack_.push_back(static_cast<uint16_t>(first + i));
      return true;
    }
    case Operation::kLoadGlobal: {
      const uint16_t found = fixed({nullptr, PyTuple_GET_ITEM(code_->co_names, now.argument)});
      ask_for(found);
      now.flag != 0 ? push_callee(found) : stack_.push_back(found);
      return true;
    }
    case Operation::kLoadDeref:
      fallible(Code::kDeref, result(), static_cast<uint16_t>(now.argument));
      last_ = static_cast<int>(program_.steps.size()) - 1;
      stack_.push_back(program_.steps.back().out);
      return true;
    case Operation::kLoadAttribute:
      return load_attribute(PyTuple_GET_ITEM(code_->co_names, now.argument), now.flag != 0);
    case Operation::kCall:
      return call(now.argument);
    default:
      return false;
  }
}

// What was compared just now is compared where it is jumped.
void Translator::jump_if(bool truth, int target) {
  uint16_t condition = pop();
  Step step{Code::kJumpIf};
  const int last = last_;
  settle(&condition);
  const bool fuses = last >= 0 && last + 1 == static_cast<int>(program_.steps.size()) &&
                     program_.steps.back().code == Code::kCompare && program_.steps.back().out == condition;
  if (fuses) {
    // It fails, if it does, where the comparison stands.
    const Step compared = program_.steps.back();
    program_.steps.pop_back();
    step = compared;
    step.code = Code::kJumpCompare;
  } else {
    step.a = condition;
  }
  step.negated = !truth;
  const int32_t place = fuses ? step.place : here();
  jump(step, target);
  program_.steps.back().place = place;
}

void Translator::next_item(int target) {
  settle();
  const uint16_t iterator = stack_.back();
  const uint16_t item = result();
  if (!cpython::kEndedIteratorStays) stack_.pop_back();
  Step step{Code::kNext};
  step.out = item;
  step.a = iterator;
  jump(step, target);
  if (!cpython::kEndedIteratorStays) stack_.push_back(iterator);
  stack_.push_back(item);
  last_ = static_cast<int>(program_.steps.size()) - 1;
}

bool Translator::branch(Instruction now) {
  const Ways ways = ways_of(code_, index_);
  switch (now.operation) {
    case Operation::kJump:
      settle();
      jump(Step{Code::kJump}, ways.jump);
      ended_ = true;
      return true;
    case Operation::kJumpIf:
      jump_if(now.flag != 0, ways.jump);
      return true;
    case Operation::kJumpIfOrPop: {
      settle();
      Step step{Code::kJumpIf};
      step.a = stack_.back();
      step.negated = now.flag == 0;
      jump(step, ways.jump);
      pop();
      return true;
    }
    case Operation::kJumpIfNone: {
      uint16_t value = pop();
      settle(&value);
      Step step{Code::kJumpIfNone};
      step.a = value;
      step.negated = now.flag == 0;
      jump(step, ways.jump);
      return true;
    }
    case Operation::kForIter:
      next_item(ways.jump);
      return true;
    case Operation::kReturnConst:
      load_constant(PyTuple_GET_ITEM(code_->co_consts, now.argument));
      [[fallthrough]];
    case Operation::kReturn:
      fallible(Code::kReturn, 0, stack_.back());
      ended_ = true;
      return true;
    default:
      return false;
  }
}

// False: it is not known, and nothing has changed.
bool Translator::step(Instruction now) {
  const bool moved = move(now.operation, now.argument);
  if (moved && now.then != Operation::kNothing) return move(now.then, now.then_argument);
  return moved || compute(now) || branch(now) || items(now);
}

void Translator::begin(int start) {
  starts_[start] = static_cast<int32_t>(program_.steps.size());
  variables_ = bound_.count(start) != 0 ? bound_[start] : 0;
  known_.clear();
  last_ = -1;
}

// What is loaded is there: a name may be missing, or its attribute.
void Translator::ask_for(uint16_t reg) {
  if (known_.insert(reg).second) fallible(Code::kBound, 0, reg);
}

void Translator::block(int start) {
  begin(start);
  stack_.clear();
  for (size_t depth = 0; depth < depths_[start]; ++depth) stack_.push_back(home(depth));
  ended_ = false;
  for (index_ = start; !ended_; index_ = next_) {
    if (index_ >= cpython::unit_count(code_)) return leave();
    if (index_ != start && targets_.count(index_) != 0) {
      settle();
      if (starts_.count(index_) != 0) {
        jump(Step{Code::kJump}, index_);
        program_.steps.back().back = false;  // it is the next instruction
        return;
      }
      depths_.try_emplace(index_, stack_.size());
      begin(start = index_);
    }
    int at = index_;
    const Instruction now = cpython::decode(code_, &at);
    next_ = cpython::next_index(code_, at);
    place_ = static_cast<int32_t>(program_.places.size());
    program_.places.push_back({index_, stack_});
    if (!step(now)) leave();
  }
}

// Jumps go to steps, and spare registers come after all others.
bool Translator::finish() {
  const size_t first_spare = size_t{program_.first_fixed()} + program_.fixed.size();
  if (first_spare + spare_ > kMostRegisters || program_.steps.size() > kMostSteps) return false;
  program_.registers = static_cast<uint16_t>(first_spare + spare_);
  const auto settle_register = [&](uint16_t* reg) {
    if (*reg >= kSpare) *reg = static_cast<uint16_t>(*reg - kSpare + first_spare);
  };
  for (Step& step : program_.steps) {
    for (uint16_t* reg : {&step.out, &step.a, &step.b}) settle_register(reg);
    const bool jumps = step.code >= Code::kJump && step.code <= Code::kJumpIfNone;
    if (jumps || step.code == Code::kNext) step.target = starts_.at(step.target);
  }
  int last_turn = -1, first_way_out = cpython::unit_count(code_);
  for (const Step& step : program_.steps) {
    const int at = program_.places[static_cast<size_t>(std::max(step.place, 0))].instruction;
    if (step.back) last_turn = std::max(last_turn, at);
    if (step.code == Code::kLeave) first_way_out = std::min(first_way_out, at);
  }
  program_.loops = last_turn >= 0;
  program_.whole = first_way_out > last_turn;
  for (uint16_t& reg : program_.arguments) settle_register(&reg);
  for (Place& place : program_.places)
    for (uint16_t& reg : place.stack) settle_register(&reg);
  program_.heads.assign(program_.steps.size() + 1, -1);
  for (const auto& [start, first] : starts_) {
    Place place{start, {}};
    for (size_t depth = 0; depth < depths_[start]; ++depth) place.stack.push_back(home(depth));
    program_.heads[static_cast<size_t>(first)] = static_cast<int32_t>(program_.places.size());
    program_.places.push_back(std::move(place));
  }
  return true;
}

bool Translator::run() {
  const int locals = code_->co_nlocalsplus;
  if (locals >= kMostLocals || code_->co_ncellvars != 0) return false;
  program_.code = code_;
  program_.locals = static_cast<uint16_t>(locals);
  program_.empty = static_cast<uint16_t>(locals + code_->co_stacksize + 1);
  const bool fresh_frame = program_.start == cpython::first_traceable(code_);
  const int given = fresh_frame ? cpython::argument_slots(code_) : 0;
  targets_ = jump_targets(code_);
  bound_ = bound_variables(code_, program_.start, (uint64_t{1} << given) - 1);
  depths_[program_.start] = static_cast<size_t>(program_.depth);
  open_.push_back(program_.start);
  while (!open_.empty() && program_.steps.size() < kMostSteps) {
    const int start = open_.back();
    open_.pop_back();
    if (starts_.count(start) == 0) block(start);
  }
  return open_.empty() && finish();
}

}  // namespace

std::unique_ptr<Program> translate(PyCodeObject* code, int start, int depth) {
  auto program = std::make_unique<Program>();
  program->start = start;
  program->depth = depth;
  return Translator(code, program.get()).run() ? std::move(program) : nullptr;
}

const Program* program_of(PyCodeObject* code) {
  struct Kept {
    Ref code;
    std::unique_ptr<Program> program;
  };
  constexpr size_t kMost = 256;
  static auto& all = *new std::map<PyCodeObject*, Kept>;
  const auto found = all.find(code);
  if (found != all.end()) return found->second.program.get();
  if (all.size() >= kMost || !cpython::is_function_body(code)) return nullptr;
  Kept made{Ref::borrow(reinterpret_cast<PyObject*>(code)), translate(code, cpython::first_traceable(code), 0)};
  return all.emplace(code, std::move(made)).first->second.program.get();
}

}  // namespace pijit::scalar
