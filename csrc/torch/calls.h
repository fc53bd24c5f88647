// Rules of callables, one function each: begin_* before CPython executes the call, finish_* after.
//
// finish_* sets *result and emits, or returns false having emitted nothing; the caller then stops the recording.
#pragma once
#include "torch/callables.h"
#include "torch/recording.h"

namespace pijit::torch_adapter {

// -- calls.cpp: generated bindings, and Python operators
bool finish_operator(Recording& recording, const CallSite& site, PyObject* object, Val* result);
bool finish_as_seen(Recording& recording, const CallSite& site, PyObject* object, Val* result);
bool finish_view(Recording& recording, const CallSite& site, PyObject* object, Val* result);
bool finish_site(Recording& recording, const CallSite& site, PyObject* object, Val* result);

// -- inner_operators.cpp: those of sum(), map() and the like; Null: it is not known
Val compute_inside(Recording& recording, const CallSite& site);

// -- callable_node.cpp: the callable itself as an operation
bool finish_callable(Recording& recording, const CallSite& site, PyObject* object, Val* result);

// -- literal.cpp: tensors of constants
bool finish_literal(Recording& recording, const CallSite& site, PyObject* object, Val* result);

// -- numbers.cpp: tensors as Python numbers, and bindings that do not dispatch
bool finish_number(Recording& recording, const CallSite& site, PyObject* object, Val* result);
bool finish_truth(Recording& recording, const CallSite& site, Val* result);
// The truth value of a tensor, as a node of its own.
Val emit_truth(Recording& recording, Val tensor);
bool finish_contiguous(Recording& recording, const CallSite& site, PyObject* object, Val* result);
bool finish_data(Recording& recording, const CallSite& site, PyObject* object, Val* result);
CallFate begin_set_requires_grad(Recording& recording, const CallSite& site);
bool finish_set_requires_grad(Recording& recording, const CallSite& site, PyObject* object, Val* result);

// -- gradients.cpp: the attribute grad
CallFate begin_grad(Recording& recording);
bool finish_grad(Recording& recording, PyObject* object, Val* result);
CallFate begin_set_grad(Recording& recording, const CallSite& site);
bool finish_set_grad(Recording& recording);

// -- groups.cpp: lists of tensors by device and dtype
CallFate begin_groups(Recording& recording);
bool finish_groups(Recording& recording, PyObject* object, Val* result);

// -- modes.cpp: modes of thread and process
CallFate begin_mode(Recording& recording, const CallSite& site, Val* result);
bool finish_mode(Recording& recording, const CallSite& site, PyObject* object, Val* result);

// -- indexing.cpp: x[i], x[i] = y
CallFate begin_index(Recording& recording, const CallSite& site);
bool finish_index(Recording& recording, const CallSite& site, PyObject* object, Val* result);

}  // namespace pijit::torch_adapter
