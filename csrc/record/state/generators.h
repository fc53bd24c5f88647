// What is known of virtual generators.
#pragma once
#include "record/recorder.h"

namespace pijit {

bool may_resume(const Recorder&, Val generator);  // it is virtual and at a yield
bool has_begun(const Recorder&, Val generator);
bool closes_unrun(const Recorder&, Val generator);  // see cpython/bytecode.h
void end_generator(Recorder&, uint32_t generator);
bool has_ended(const Recorder&, Val generator);
bool is_running(const Recorder&, Val generator);
Val delegate_of(const Recorder&, Val generator);  // where its `yield from` stands, or Null
bool forgets_coroutine(Recorder&);
bool is_suspended(const Recorder&, uint32_t generator, cpython::Frame* frame);
bool is_ours(const Recorder&, cpython::Frame* frame);

}  // namespace pijit
