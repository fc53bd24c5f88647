// What is known of virtual generators.
#pragma once
#include "record/recorder.h"

namespace pijit {

bool may_resume(const Heap&, Val generator);  // it is virtual and at a yield
bool has_begun(const Heap&, Val generator);
bool closes_unrun(const Heap&, Val generator);  // see cpython/bytecode.h
void end_generator(Recorder&, uint32_t generator);
bool has_ended(const Heap&, Val generator);
bool is_running(const Heap&, Val generator);
Val delegate_of(const Heap&, Val generator);  // where its `yield from` stands, or Null
bool forgets_coroutine(Recorder&);
bool is_suspended(const Heap&, uint32_t generator, cpython::Frame* frame);
bool is_ours(const Recorder&, cpython::Frame* frame);

}  // namespace pijit
