// Side exits: the real frames are rebuilt as a snapshot describes them, and CPython goes on.
//
// 1. Everything is materialised before any frame is touched; if that runs out of memory the exit raises MemoryError in
//    the root's caller.
// 2. The root frame is the one the hook was called with. An inner frame is made by CPython itself: its function is
//    called with placeholder arguments and the new frame is taken over before its first instruction
//    (cpython::call_into_new_frame).
// 3. The innermost frame is evaluated first; the outer ones are the thread's current frames meanwhile, standing at
//    their calls. Then each takes the result (or the exception) of the one inside and is evaluated itself.
// 4. The GIL is held from the exit to the first instruction, and garbage collection is paused while frames are
// incomplete.
#pragma once
#include "cpython/frame.h"
#include "ir/trace.h"

namespace pijit {

// Goes on in a frame that an exit has rebuilt from that state of the trace, and which stands at an instruction; what
// the frame returns.
using Resume = PyObject* (*)(const Trace&, const FrameState&, PyThreadState*, cpython::Frame*);
// Who does that instead of CPython's evaluator.
void set_resume(Resume resume) noexcept;

// Calls `perform` while every frame of the snapshot stands in the thread's chain of frames at its instruction. Their
// locals are not filled in: what looks at those is not called this way.
PyObject* call_in_frames(const Trace& trace, uint32_t snapshot, const Reg* regs, cpython::Frame* root,
                         PyThreadState* ts, PyObject* (*perform)(void*), void* context);
// CPython runs the frames of the node's snapshot from its level (the root is 0) inwards while the outer ones stand in;
// what the frame of that level returns. Registers that only these frames needed are released when they begin: what the
// frames delete is to die there.
PyObject* run_frames(const Trace& trace, const Node& node, Reg* regs, cpython::Frame* root, PyThreadState* ts);

// Makes the virtual object of a kBuild, an exception that was raised, while the frames of its snapshot stand.
PyObject* build_in_frames(const Trace& trace, const Node& node, const Reg* regs, cpython::Frame* root,
                          PyThreadState* ts);
// The exception that the innermost `levels` (0: all) frames of the snapshot handle, seen from the root; Null: none.
Val handled_in(const Trace& trace, uint32_t snapshot, size_t levels = 0);

// Releases all registers, goes on in CPython at the snapshot, and returns what the root frame returns.
PyObject* leave(const Trace& trace, uint32_t snapshot, Reg* regs, cpython::Frame* root, PyThreadState* ts);
// The same, but the innermost frame's instruction raises the exception that is set.
PyObject* leave_raising(const Trace& trace, uint32_t snapshot, Reg* regs, cpython::Frame* root, PyThreadState* ts);

}  // namespace pijit
