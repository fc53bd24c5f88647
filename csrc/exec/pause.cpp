// Which registers lean on what others may change, and whether they still do after a pause.
#include "exec/pause.h"

#include <algorithm>

#include "common/ref.h"
#include "exec/registers.h"
#include "guard/check.h"

namespace pijit {
namespace {

// A variable of the thread's own context is set or put back.
bool sets_context(const Node& node) noexcept {
  PyObject* callable = node.a.object();
  return callable != nullptr && Py_TYPE(callable) == &PyMethodDescr_Type &&
         PyDescr_TYPE(callable) == &PyContextVar_Type;
}

// The node has looked at nothing but registers and tensors, and has written to no object of Python that other threads
// see. What tensors hold is nowhere relied on; where the form of one was changed its guard does not hold any more.
bool only_computes(const Node& node) noexcept {
  switch (node.op) {
    case Op::kCall:
      return sets_context(node);
    case Op::kAdapter:
    case Op::kCheck:
    case Op::kScalar:
    case Op::kBuild:
    case Op::kBox:
    case Op::kUnbox:
    case Op::kGuardBool:
    case Op::kGuardInt:
    case Op::kGuardFloat:
    case Op::kGuardIs:
    case Op::kRegion:
      return true;
    default:
      return false;
  }
}

// Inputs that were taken out of the frame are not there to be compared with.
bool may_pause(const Trace& trace, size_t at) noexcept {
  return !trace.takes_inputs &&
         std::all_of(trace.nodes.begin(), trace.nodes.begin() + static_cast<ptrdiff_t>(at), only_computes);
}

// The registers that the arguments and the guards have filled, without those that the replay owned and let go.
Vec<uint32_t> filled(const Trace& trace, const Reg* regs) {
  Vec<uint32_t> found;
  std::vector<bool> was_owned(trace.regs.size());
  for (uint32_t index : trace.retained) was_owned[index] = true;
  const auto add = [&](uint32_t index) {
    if (!was_owned[index] || regs[index].owned != 0) found.push_back(index);
  };
  for (uint32_t i = 0; i < trace.inputs; ++i) add(i);
  for (size_t i = 0; i < trace.entry_guards(); ++i)
    if (trace.guards[i].out != kNone) add(trace.guards[i].out);
  for (size_t i = 0; trace.tensors != nullptr && i < trace.tensors->size(); ++i) add(trace.tensors->register_of(i));
  return found;
}

// No other thread sets variables of this one's context; the trace may have set them itself.
Vec<uint32_t> guards_of_context(const Trace& trace) {
  Vec<uint32_t> found;
  for (uint32_t i = 0; i < trace.entry_guards(); ++i)
    if (trace.guards[i].op == GuardOp::kContextVar) found.push_back(i);
  return found;
}

bool is_same(const Reg& a, const Reg& b) noexcept {
  return a.rep == b.rep && (a.rep == Rep::kBool ? a.boolean == b.boolean : a.integer == b.integer);
}

}  // namespace

Pause::~Pause() {
  if (held_.empty()) return;
  const SavedError error;
  release();
}

void Pause::release() {
  std::vector<Reg> held = std::move(held_);
  held_.clear();
  for (Reg& reg : held) release_register(&reg);
}

bool Pause::take(const Trace& trace, size_t at, Reg* regs, cpython::Frame* root) {
  if (!may_pause(trace, at)) return false;
  const RegisterFile file(trace.room);
  if (file.get() == nullptr) return false;
  const Vec<uint32_t> registers = filled(trace, regs);
  for (uint32_t index : registers) {
    if (regs[index].rep == Rep::kObject && regs[index].object == nullptr) continue;  // an argument slot without value
    Reg reg = regs[index];
    reg.owned = 0;  // the copy owns a reference of its own
    hold_register(&reg);
    held_.push_back(reg);
  }
  cpython::give_gil();
  load_inputs(trace, root, file.get());
  if (!check_guards_but(trace, guards_of_context(trace), file.get())) return false;
  for (uint32_t index : registers)
    if (!is_same(file.get()[index], regs[index])) return false;
  release();
  return true;
}

}  // namespace pijit
