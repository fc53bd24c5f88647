// The register files of a thread: a stack of registers that needs no allocation once it has grown, and what a trace
// holds in one.
//
// 1. Outside a replay no register of the stack is owned; so a file is handed out without being cleared.
// 2. Files nest like C scopes (a replay may run Python that replays another trace).
#pragma once
#include <cstddef>

#include "cpython/frame.h"
#include "ir/trace.h"

namespace pijit {

// Registers for one replay.
class RegisterFile {
 public:
  explicit RegisterFile(size_t count) noexcept;
  ~RegisterFile();
  RegisterFile(const RegisterFile&) = delete;
  RegisterFile& operator=(const RegisterFile&) = delete;
  // Null if memory is short.
  Reg* get() const noexcept { return regs_; }

 private:
  Reg* regs_ = nullptr;
  size_t chunk_ = 0, top_ = 0;  // what to go back to
};

// Loads regs[0..inputs) from the argument slots of a fresh frame, borrowed.
inline void load_inputs(const Trace& trace, cpython::Frame* frame, Reg* regs) noexcept {
  for (uint32_t i = 0; i < trace.inputs; ++i) {
    regs[i].object = cpython::slot(frame, static_cast<int>(i));
    regs[i].rep = Rep::kObject;
    regs[i].owned = 0;
  }
}

// Takes a reference to everything that nodes of the trace could otherwise let die: `pins` and `retained`.
void hold(const Trace& trace, Reg* regs) noexcept;
// Once that is held: the registers of the inputs own what the frame's slots have owned, and the frames of generators
// that the trace takes apart hold nothing. May run Python.
void take_inputs(const Trace& trace, cpython::Frame* frame, Reg* regs) noexcept;
// The same for what an epoch relies on, once its guards hold.
void hold(const Epoch& epoch, Reg* regs) noexcept;
// Takes a reference to what one register borrows, if it borrows anything.
void hold_register(Reg* reg) noexcept;
// The register, which holds nothing, gets the reference.
inline void set_object(Reg* reg, PyObject* object) noexcept {
  reg->object = object;
  reg->rep = Rep::kObject;
  reg->owned = 1;
}
// Drops one register's reference, if it has one. May run Python.
void release_register(Reg* reg) noexcept;
// Drops every reference that the replay holds. May run Python.
void release_all(const Trace& trace, Reg* regs) noexcept;

// The object of a register as a new reference (wraps a tensor, boxes a scalar); null with an error set if memory is
// short.
PyObject* box_register(const Reg& reg) noexcept;

}  // namespace pijit
