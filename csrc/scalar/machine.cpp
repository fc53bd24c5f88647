// The loop over the steps of a program.
#include "scalar/machine.h"

#include <algorithm>
#include <cmath>

#include "cpython/objects.h"
#include "cpython/operators.h"
#include "scalar/arithmetic.h"

namespace pijit::scalar {
namespace {

// Values of these classes may stay in a register for longer than in a variable: nobody sees them die.
bool dies_unseen(PyObject* object) noexcept {
  return cpython::is_scalar(object) || PyList_CheckExact(object) || PyTuple_CheckExact(object);
}

// An item of a list or tuple, as a value of a register.
bool is_known_item(PyObject* item) noexcept {
  return item != nullptr && dies_unseen(item);
}

// An object stands for it that may be put into others.
bool is_kept_by_objects(const Value& value) noexcept {
  return value.tag != Tag::kEmpty && value.tag != Tag::kRange && value.tag != Tag::kItems;
}

// Where the item is; null: it is none of a list or tuple.
inline PyObject** item_at(const Value& container, const Value& index) noexcept {
  if (container.tag != Tag::kObject || index.tag != Tag::kInt) return nullptr;
  PyObject* object = container.object;
  const bool list = PyList_CheckExact(object) != 0;
  if (!list && !PyTuple_CheckExact(object)) return nullptr;
  const int64_t size = list ? PyList_GET_SIZE(object) : PyTuple_GET_SIZE(object);
  const int64_t at = index.integer < 0 ? index.integer + size : index.integer;
  return at < 0 || at >= size ? nullptr : PySequence_Fast_ITEMS(object) + at;
}

}  // namespace

Machine::Machine(const Program& program, PyThreadState* ts, cpython::Frame* frame, bool may_write)
    : program_(program),
      ts_(ts),
      frame_(frame),
      globals_(cpython::globals(frame)),
      builtins_(cpython::builtins(frame)),
      registers_(program.registers),
      regs_(registers_.data()),
      may_write_(may_write) {
  load_frame();
}

Machine::Machine(const Program& program, PyThreadState* ts, PyObject* function, int level)
    : program_(program),
      ts_(ts),
      frame_(nullptr),
      globals_(PyFunction_GET_GLOBALS(function)),
      builtins_(reinterpret_cast<PyFunctionObject*>(function)->func_builtins),
      level_(level),
      registers_(program.registers),
      regs_(registers_.data()),
      may_write_(false) {
  load_cells(PyFunction_GET_CLOSURE(function));
  look_up();
}

// A frame that has not begun has not got them yet.
void Machine::load_cells(PyObject* closure) {
  const int count = program_.code->co_nfreevars;
  if (count == 0 || closure == nullptr || PyTuple_GET_SIZE(closure) != count) return;
  for (int i = 0; i < count; ++i) regs_[program_.locals - count + i] = value_of(PyTuple_GET_ITEM(closure, i));
}

void Machine::load_frame() {
  const int locals = program_.locals;
  for (int i = 0; i < locals; ++i) regs_[i] = value_of(cpython::slot(frame_, i));
  for (int i = 0; i < program_.depth; ++i) regs_[locals + i] = value_of_iterator(cpython::slot(frame_, locals + i));
  if (cpython::is_fresh(frame_)) load_cells(PyFunction_GET_CLOSURE(cpython::function(frame_)));
}

Value Machine::find(const Fixed& wanted) const noexcept {
  if (wanted.name == nullptr) return value_of(wanted.constant);
  if (!PyDict_CheckExact(globals_) || !PyDict_CheckExact(builtins_)) return {};
  PyObject* found = PyDict_GetItemWithError(globals_, wanted.name);
  if (found == nullptr) found = PyDict_GetItemWithError(builtins_, wanted.name);
  if (found != nullptr && wanted.attribute != nullptr)
    found = PyModule_CheckExact(found) ? PyDict_GetItemWithError(PyModule_GetDict(found), wanted.attribute) : nullptr;
  PyErr_Clear();
  Value value = value_of(found);
  if (value.tag == Tag::kObject) value.left = function_number(value.object);
  return value;
}

// Fills the registers that do not change. False: some held something else before.
bool Machine::look_up() {
  bool same = true;
  for (size_t i = 0; i < program_.fixed.size(); ++i) {
    Value& reg = regs_[program_.first_fixed() + i];
    Value found = find(program_.fixed[i]);
    same = same && found.tag == reg.tag && found.integer == reg.integer;
    std::swap(reg, found);
    Registers::let_go(found);
  }
  return same;
}

// Something may want attention. False: CPython has to attend to it.
bool Machine::attend() {
  left_ = kPatience;
  if (!cpython::eval_breaker_set(ts_)) return true;
  if (!cpython::attention_can_wait(ts_)) return false;
  if (level_ > 0) return true;  // the outermost program has it
  cpython::give_gil();
  inner_.clear();
  return look_up() && cpython::untraced(ts_);
}

// A register may let go of it.
bool Machine::frees(const Value& value) const noexcept {
  return !value.owns() || dies_unseen(value.object) || Py_REFCNT(value.object) > 2;
}

inline bool Machine::put(uint16_t reg, const Value& value) noexcept {
  Value& out = regs_[reg];
  if (!out.owns() && !value.owns()) [[likely]]
    return out = value, true;
  if (!frees(out)) return false;
  if (value.owns()) static_cast<void>(new_reference(value.object));
  const Value copy = value;
  Registers::let_go(out);
  out = copy;
  return true;
}

inline bool Machine::put(uint16_t reg, double value) noexcept {
  Value& out = regs_[reg];
  if (std::isnan(value)) return false;
  if (out.owns()) [[unlikely]]
    return put(reg, Value::of(value));
  out.number = value;
  out.tag = Tag::kFloat;
  return true;
}

inline bool Machine::put(uint16_t reg, int64_t value) noexcept {
  Value& out = regs_[reg];
  if (out.owns()) [[unlikely]]
    return put(reg, Value::of(value));
  out.integer = value;
  out.tag = Tag::kInt;
  return true;
}

// A place of the stack, whose object is somebody else's as well.
bool Machine::force(uint16_t reg, const Value& value) noexcept {
  Value copy = value;
  if (copy.owns()) static_cast<void>(new_reference(copy.object));
  std::swap(regs_[reg], copy);
  Registers::let_go(copy);
  return true;
}

namespace {

constexpr bool both(const Value& a, const Value& b, Tag tag) noexcept {
  return a.tag == tag && b.tag == tag;
}

}  // namespace

// Kinds that differ, and whatever is rare.
bool Machine::arithmetic(const Step& now) {
  const Value &a = regs_[now.a], &b = regs_[now.b];
  Value out;
  bool done = false, answer = false;
  switch (now.code) {
    case Code::kNegative:
      done = negative(a, &out);
      break;
    case Code::kPositive:
      done = positive(a, &out);
      break;
    case Code::kInvert:
      done = invert(a, &out);
      break;
    case Code::kNot:
    case Code::kTruth:
      done = truth(a, &answer);
      out = Value::of(answer == (now.code == Code::kTruth));
      break;
    case Code::kCompare:
      done = compare(now.more, a, b, &answer);
      out = Value::of(answer);
      break;
    default:
      done = binary(now.more, a, b, &out);
  }
  return done && put(now.out, out);
}

bool Machine::is_same(const Step& now) {
  const Value &a = regs_[now.a], &b = regs_[now.b];
  if (a.is_number() && b.is_number()) return false;
  const bool same = both(a, b, Tag::kObject) && a.object == b.object;
  return a.tag != Tag::kEmpty && b.tag != Tag::kEmpty && put(now.out, Value::of(same != now.negated));
}

bool Machine::call_function(const Step& now, bool iterates) {
  const Value& callee = regs_[now.a];
  if (callee.tag != Tag::kObject) return false;
  constexpr size_t kMost = 16;
  const Value* arguments[kMost];
  if (now.more > kMost) return false;
  for (size_t i = 0; i < now.more; ++i) arguments[i] = &regs_[program_.arguments[static_cast<size_t>(now.target) + i]];
  Value out;
  const auto function = static_cast<int>(callee.left);
  if (function == 0) return !iterates && call_program(now);
  if (iterates ? !is_range(function) || !range(arguments, now.more, &out) : !call(function, arguments, now.more, &out))
    return false;
  return put(now.out, out);
}

// Null: the function has no program.
Machine* Machine::machine_of(PyObject* function, size_t arguments) {
  if (!PyFunction_Check(function) || level_ >= kMostLevels) return nullptr;
  const auto found =
      std::find_if(inner_.begin(), inner_.end(), [&](const auto& each) { return each.first == function; });
  if (found != inner_.end()) return found->second.get();
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (code->co_argcount != static_cast<int>(arguments) || cpython::argument_slots(code) != code->co_argcount)
    return nullptr;
  const Program* program = program_of(code);
  if (program == nullptr) return nullptr;
  inner_.emplace_back(function, std::make_unique<Machine>(*program, ts_, function, level_ + 1));
  return inner_.back().second.get();
}

void Machine::empty() {
  const int cells = program_.locals - program_.code->co_nfreevars;
  for (uint16_t i = 0; i < program_.registers; ++i)
    if (i < cells || (i >= program_.locals && i < program_.first_fixed()) ||
        i >= program_.first_fixed() + program_.fixed.size())
      Registers::let_go(regs_[i]);
}

bool Machine::call_program(const Step& now) {
  Machine* const inner = machine_of(regs_[now.a].object, now.more);
  if (inner == nullptr || inner->program_.code->co_argcount != now.more) return false;
  bool done = true;
  for (uint16_t i = 0; i < now.more && done; ++i)
    done = inner->put(i, regs_[program_.arguments[static_cast<size_t>(now.target) + i]]);
  if (done) {
    const Ended ended = inner->run();
    left_ = 1;  // it is asked soon who wants attention
    turns_ += 1;
    done = ended.returned && put(now.out, inner->regs_[ended.result]);
  }
  inner->empty();
  return done;
}

bool Machine::iterate(const Step& now) {
  const Value& a = regs_[now.a];
  if (a.tag == Tag::kRange || a.tag == Tag::kItems) return now.a == now.out;
  if (a.tag != Tag::kObject) return false;
  if (PyList_CheckExact(a.object) || PyTuple_CheckExact(a.object)) {
    Value out = a;
    out.tag = Tag::kItems;
    out.step = 0;
    return put(now.out, out);
  }
  if (!PyRange_Check(a.object)) return false;
  const Ref iterator = Ref::steal(PyObject_GetIter(a.object));
  if (!iterator) return PyErr_Clear(), false;
  const Value out = value_of_iterator(iterator.get());
  if (out.tag == Tag::kRange) return put(now.out, out);
  Value dropped = out;
  Registers::let_go(dropped);
  return false;
}

inline bool Machine::put_item(uint16_t reg, PyObject* item) noexcept {
  Value& out = regs_[reg];
  if (PyFloat_CheckExact(item) && !out.owns()) [[likely]] {  // it may be a NaN
    out.number = PyFloat_AS_DOUBLE(item);
    out.tag = Tag::kFloat;
    return true;
  }
  if (!is_known_item(item)) return false;
  Value value = value_of(item);
  const bool done = put(reg, value);
  Registers::let_go(value);
  return done;
}

inline bool Machine::next(const Step& now, bool* ended) {
  Value& iterator = regs_[now.a];
  if (iterator.tag == Tag::kRange) {
    *ended = iterator.left <= 0;
    if (*ended) return true;
    if (!put(now.out, iterator.integer)) return false;
    iterator.integer =
        static_cast<int64_t>(static_cast<uint64_t>(iterator.integer) + static_cast<uint64_t>(iterator.step));
    iterator.left -= 1;
    return true;
  }
  if (iterator.tag != Tag::kItems) return false;
  PyObject* object = iterator.object;
  *ended = iterator.step >= PySequence_Fast_GET_SIZE(object);
  if (*ended) return true;
  if (!put_item(now.out, PySequence_Fast_GET_ITEM(object, iterator.step))) return false;
  iterator.step += 1;
  return true;
}

inline bool Machine::subscript(const Step& now) {
  PyObject* const* const item = item_at(regs_[now.a], regs_[now.b]);
  return item != nullptr && put_item(now.out, *item);
}

bool Machine::deref(const Step& now) {
  const Value& cell = regs_[now.a];
  if (cell.tag != Tag::kObject || !PyCell_Check(cell.object)) return false;
  PyObject* content = PyCell_GET(cell.object);
  if (content == nullptr) return false;
  Value value = value_of(content);
  if (value.tag == Tag::kObject) value.left = function_number(value.object);
  const bool done = put(now.out, value);
  Registers::let_go(value);
  return done;
}

// What is overwritten is a number, so that nothing dies but that. A float that nobody else has becomes the new one,
// which would have its memory, too.
inline bool Machine::store(const Step& now) {
  const Value &container = regs_[now.a], &value = regs_[now.out];
  PyObject** const place = may_write_ ? item_at(container, regs_[now.b]) : nullptr;
  if (place == nullptr || !PyList_CheckExact(container.object)) return false;
  wrote_ = true;
  PyObject* old = *place;
  if (value.tag == Tag::kFloat && PyFloat_CheckExact(old) && Py_REFCNT(old) == 1) {
    reinterpret_cast<PyFloatObject*>(old)->ob_fval = value.number;
    return true;
  }
  if (!cpython::is_scalar(old) || !is_kept_by_objects(value)) return false;
  PyObject* const made = object_of(value);
  if (made == nullptr) return PyErr_Clear(), false;
  *place = made;
  drop_reference(old);
  return true;
}

bool Machine::append(const Step& now) {
  const Value &list = regs_[now.a], &item = regs_[now.b];
  if (!may_write_ || list.tag != Tag::kObject || !PyList_CheckExact(list.object) || !frees(regs_[now.out]))
    return false;
  if (!is_kept_by_objects(item)) return false;
  const Ref made = Ref::steal(object_of(item));
  if (!made || PyList_Append(list.object, made.get()) != 0) return PyErr_Clear(), false;
  wrote_ = true;
  Value none = value_of(Py_None);
  put(now.out, none);
  Registers::let_go(none);
  return true;
}

bool Machine::unpack(const Step& now) {
  const Value& from = regs_[now.a];
  if (from.tag != Tag::kObject) return false;
  PyObject* object = from.object;
  const bool list = PyList_CheckExact(object) != 0;
  if (!list && !PyTuple_CheckExact(object)) return false;
  if ((list ? PyList_GET_SIZE(object) : PyTuple_GET_SIZE(object)) != now.more) return false;
  const Ref held = Ref::borrow(object);  // one of the registers may be what holds it
  for (Py_ssize_t i = 0; i < now.more; ++i)
    if (!is_known_item(list ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i))) return false;
  for (Py_ssize_t i = 0; i < now.more; ++i) {
    Value value = value_of(list ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i));
    const bool done = put(static_cast<uint16_t>(now.out + i), value);
    Registers::let_go(value);
    if (!done) return false;
  }
  return true;
}

template <class T>
bool compared(int op, T x, T y) noexcept {
  return op == Py_LT   ? x < y
         : op == Py_LE ? x <= y
         : op == Py_GT ? x > y
         : op == Py_GE ? x >= y
         : op == Py_EQ ? x == y
                       : x != y;
}

inline bool Machine::jumps(const Step& now, bool* taken) {
  const Value &a = regs_[now.a], &b = regs_[now.b];
  bool answer = false;
  switch (now.code) {
    case Code::kJumpCompare:
      if (both(a, b, Tag::kFloat)) {
        answer = compared(now.more, a.number, b.number);
      } else if (both(a, b, Tag::kInt)) {
        answer = compared(now.more, a.integer, b.integer);
      } else if (!compare(now.more, a, b, &answer)) {
        return false;
      }
      break;
    case Code::kJumpIf:
      if (!truth(a, &answer)) return false;
      break;
    case Code::kJumpIfNone:
      if (a.tag != Tag::kObject && !a.is_number()) return false;
      answer = a.tag == Tag::kObject && a.object == Py_None;
      break;
    default:
      answer = !now.negated;
  }
  *taken = answer != now.negated;
  return true;
}

// Steps that are not the commonest.
bool Machine::do_step(const Step& now) {
  switch (now.code) {
    case Code::kBound:
      return regs_[now.a].tag != Tag::kEmpty;
    case Code::kDeref:
      return deref(now);
    case Code::kIsList:
      return regs_[now.a].tag == Tag::kObject && PyList_CheckExact(regs_[now.a].object);
    case Code::kIs:
      return is_same(now);
    case Code::kRange:
    case Code::kCall:
      return call_function(now, now.code == Code::kRange);
    case Code::kIterate:
      return iterate(now);
    case Code::kPart:
      return regs_[now.a].tag == Tag::kComplex &&
             put(now.out, Value::of(now.negated ? regs_[now.a].imaginary : regs_[now.a].number));
    case Code::kAppend:
      return append(now);
    case Code::kUnpack:
      return unpack(now);
    case Code::kLeave:
      return false;
    default:
      return arithmetic(now);
  }
}

Ended Machine::run() {
  if (level_ == 0) look_up();
  const Step* const steps = program_.steps.data();
  for (size_t at = 0;;) {
    const Step& now = steps[at];
    const Value &a = regs_[now.a], &b = regs_[now.b];
    bool done = false, taken = false;
    switch (now.code) {
      case Code::kMove:
        done = put(now.out, a) || (now.place < 0 && force(now.out, a));
        break;
      case Code::kAdd: {
        int64_t sum = 0;
        if (both(a, b, Tag::kFloat)) {
          done = put(now.out, a.number + b.number);
        } else if (both(a, b, Tag::kInt)) {
          done = !__builtin_add_overflow(a.integer, b.integer, &sum) && put(now.out, sum);
        } else {
          done = arithmetic(now);
        }
        break;
      }
      case Code::kSubtract: {
        int64_t difference = 0;
        if (both(a, b, Tag::kFloat)) {
          done = put(now.out, a.number - b.number);
        } else if (both(a, b, Tag::kInt)) {
          done = !__builtin_sub_overflow(a.integer, b.integer, &difference) && put(now.out, difference);
        } else {
          done = arithmetic(now);
        }
        break;
      }
      case Code::kMultiply:
        if (both(a, b, Tag::kFloat)) {
          done = put(now.out, a.number * b.number);
        } else {
          int64_t product = 0;
          done = both(a, b, Tag::kInt)
                     ? !__builtin_mul_overflow(a.integer, b.integer, &product) && put(now.out, product)
                     : arithmetic(now);
        }
        break;
      case Code::kTrueDivide:
        done = both(a, b, Tag::kFloat) && b.number != 0 ? put(now.out, a.number / b.number) : arithmetic(now);
        break;
      case Code::kJump:
      case Code::kJumpIf:
      case Code::kJumpCompare:
      case Code::kJumpIfNone:
        done = jumps(now, &taken);
        break;
      case Code::kNext:
        done = next(now, &taken);
        break;
      case Code::kSubscript:
        done = subscript(now);
        break;
      case Code::kStore:
        done = store(now);
        break;
      case Code::kReturn:
        if (a.tag != Tag::kRange && a.tag != Tag::kItems) return {true, now.a, -1};
        break;
      default:
        done = do_step(now);
    }
    if (!done) [[unlikely]]
      return {false, 0, now.place};
    if (!taken) {
      at += 1;
      continue;
    }
    at = static_cast<size_t>(now.target);
    if (!now.back) continue;
    turns_ += 1;
    if (--left_ == 0 && !attend()) return {false, 0, program_.heads[at]};
  }
}

// An object of the register's value: that which a variable of the frame or a constant has, if it is one.
PyObject* Machine::object_in(uint16_t reg) noexcept {
  const Value& value = regs_[reg];
  PyObject* known = nullptr;
  if (frame_ != nullptr && reg < program_.locals) known = cpython::slot(frame_, reg);
  const size_t at = reg - size_t{program_.first_fixed()};
  if (reg >= program_.first_fixed() && at < program_.fixed.size()) known = program_.fixed[at].constant;
  if (known != nullptr && (value.tag == Tag::kInt || value.tag == Tag::kFloat)) {
    const Value kept = value_of(known);
    if (kept.tag == value.tag && kept.integer == value.integer) return new_reference(known);
    Value dropped = kept;
    Registers::let_go(dropped);
  }
  return object_of(value);
}

bool Machine::write_back(int32_t place) {
  const Place& where = program_.places[static_cast<size_t>(place)];
  std::vector<Ref> objects;
  std::vector<PyObject*> slots;
  const auto add = [&](uint16_t reg) {
    objects.push_back(Ref::steal(object_in(reg)));
    return static_cast<bool>(objects.back()) || regs_[reg].tag == Tag::kEmpty;
  };
  for (uint16_t i = 0; i < program_.locals; ++i)
    if (!add(i)) return false;
  for (uint16_t reg : where.stack)
    if (!add(reg)) return false;
  for (Ref& object : objects) slots.push_back(object.release());
  const std::vector<Ref> stack = cpython::take_stack(frame_);
  cpython::swap_slots(frame_, slots.data(), static_cast<int>(slots.size()));
  cpython::resume_at(frame_, where.instruction);
  for (PyObject* object : slots) drop_reference(object);
  return true;
}

}  // namespace pijit::scalar
