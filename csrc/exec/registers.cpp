// Register files, their references, and boxing.
#include "exec/registers.h"

#include <cstdlib>
#include <vector>

#include "adapter.h"
#include "ir/adapter_slot.h"
#include "ir/scalars.h"

namespace pijit {

namespace {

constexpr size_t kChunkRegisters = 16384;

struct Chunk {
  Reg* regs;
  size_t size;
};

// Chunks stay until the thread ends; only the innermost one is in use above `top`.
struct RegisterStack {
  std::vector<Chunk> chunks;
  size_t chunk = 0, top = 0;
  ~RegisterStack() {
    for (Chunk& chunk : chunks) std::free(chunk.regs);
  }
};
thread_local RegisterStack stack;

bool fits(const RegisterStack& s, size_t count) noexcept {
  return s.chunk < s.chunks.size() && s.chunks[s.chunk].size - s.top >= count;
}

// Goes to the first later chunk that is large enough, made if need be.
bool grow(RegisterStack* s, size_t count) noexcept {
  size_t next = s->chunks.empty() ? 0 : s->chunk + 1;
  while (next < s->chunks.size() && s->chunks[next].size < count) ++next;
  if (next == s->chunks.size()) {
    const size_t size = count > kChunkRegisters ? count : kChunkRegisters;
    auto* regs = static_cast<Reg*>(std::calloc(size, sizeof(Reg)));
    if (regs == nullptr) return false;
    s->chunks.push_back({regs, size});
  }
  s->chunk = next;
  s->top = 0;
  return true;
}

}  // namespace

RegisterFile::RegisterFile(size_t count) noexcept : chunk_(stack.chunk), top_(stack.top) {
  if (!fits(stack, count) && !grow(&stack, count)) return;
  regs_ = stack.chunks[stack.chunk].regs + stack.top;
  stack.top += count;
}

RegisterFile::~RegisterFile() {
  if (regs_ == nullptr) return;
  stack.chunk = chunk_;
  stack.top = top_;
}

void hold_register(Reg* reg) noexcept {
  if (reg->owned != 0 || (reg->rep != Rep::kObject && reg->rep != Rep::kTensor)) return;
  if (reg->rep == Rep::kTensor) {
    current_adapter()->retain(reg->tensor);
  } else {
    (void)new_reference(reg->object);
  }
  reg->owned = 1;
}

namespace {

void retain(const Vec<uint32_t>& registers, Reg* regs) noexcept {
  for (uint32_t index : registers) hold_register(&regs[index]);
}

}  // namespace

void hold(const Trace& trace, Reg* regs) noexcept {
  for (PyObject* object : trace.pins) (void)new_reference(object);
  retain(trace.retained, regs);
}

// A generator in another one's frame comes after that one, whose frame may hold its last reference.
void take_inputs(const Trace& trace, cpython::Frame* frame, Reg* regs) noexcept {
  for (size_t i = trace.emptied.size(); i-- > 0;) cpython::empty_generator(regs[trace.emptied[i]].object);
  for (uint32_t i = 0; i < trace.inputs; ++i) {
    regs[i].object = cpython::take_slot(frame, static_cast<int>(i));
    regs[i].owned = regs[i].object != nullptr;
  }
  for (uint32_t index : trace.unread) release_register(&regs[index]);
}

void hold(const Epoch& epoch, Reg* regs) noexcept {
  for (auto [object, index] : epoch.pins) {
    regs[index].object = new_reference(object);
    regs[index].rep = Rep::kObject;
    regs[index].owned = 1;
  }
  retain(epoch.retained, regs);
}

void release_register(Reg* reg) noexcept {
  if (reg->owned == 0) return;
  reg->owned = 0;
  if (reg->rep == Rep::kTensor) {
    current_adapter()->release(reg->tensor);
    reg->rep = Rep::kObject;  // no guard is to look at what may be dead
    reg->object = nullptr;
  } else {
    drop_reference(reg->object);
  }
}

void release_all(const Trace& trace, Reg* regs) noexcept {
  for (size_t i = trace.takes_inputs ? 0 : trace.inputs, count = trace.regs.size(); i < count; ++i)
    release_register(&regs[i]);
  for (PyObject* object : trace.pins) drop_reference(object);
}

PyObject* box_register(const Reg& reg) noexcept {
  switch (reg.rep) {
    case Rep::kObject:
      return new_reference(reg.object);
    case Rep::kTensor:
      return current_adapter()->wrap(reg.tensor);
    case Rep::kInt:
    case Rep::kFloat:
    case Rep::kBool:
      return number_object(reg);
    case Rep::kEmpty:
      break;
  }
  PyErr_SetString(PyExc_SystemError, "pijit: empty register");
  return nullptr;
}

}  // namespace pijit
