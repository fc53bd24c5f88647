// Tensors as keys of dicts and members of sets. The hash of one is its address, so it is equal to itself alone.
//
// CPython calls a function of Python for the hash, which gives id(self): nothing of it is recorded (try_follow).
// 1. Which of several tensors are one object is a fact of the trace: of two whose objects are known before the trace runs
//    it holds; of others a node says so where the later one becomes a key.
// 2. A tuple that holds a tensor is no key: its items are compared one by one.
#include "cpython/objects.h"
#include "record/shared.h"
#include "record/state/names.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"

namespace pijit {
namespace {

constexpr size_t kMostOther = 16;  // keys whose objects differ from call to call

// A node makes sure that both are one object, or that they are two.
void guard_identity(Recorder& recorder, Val left, Val right, bool same) {
  const Val out = add_reg(recorder, Rep::kObject, &PyBool_Type, same ? Py_True : Py_False);
  Node& asks = emit_node(recorder, Op::kPure);
  asks.a = recorder.reads.owned(identity_function(false));
  asks.imm = reinterpret_cast<uintptr_t>(&PyBool_Type);
  asks.aux = 0;
  asks.out = out.index();
  asks.first = static_cast<uint32_t>(recorder.trace().operands.size());
  asks.count = 2;
  recorder.trace().operands.push_back(left);
  recorder.trace().operands.push_back(right);
  Node& guard = emit_node(recorder, Op::kGuardIs);
  guard.a = out;
  guard.b = Val::constant(same ? Py_True : Py_False);
}

// Its class hashes a tensor by its address.
bool hashes_address(Recorder& recorder, PyObject* tensor) {
  PyObject* method = python_method(recorder.reads, Py_TYPE(tensor), names().hash);
  return method != nullptr && recorder.live() && PyFunction_GET_CODE(method) == recorder.adapter()->hash_code();
}

}  // namespace

PyObject* tensor_key(Recorder& recorder, Val tensor) {
  if (!tensor.is_reg() || recorder.adapter() == nullptr) return nullptr;
  PyObject* object = tensor_source(recorder.loading, tensor).object();
  const bool fixed = object != nullptr;
  if (!fixed) object = recorder.heap.real(tensor);
  if (object == nullptr || !hashes_address(recorder, object) || !recorder.check_class({tensor, object})) return nullptr;
  auto& known = recorder.loading.tensor_keys;
  size_t others = 0;
  for (const Loading::TensorKey& key : known) {
    if (key.tensor == tensor) return object;
    others += !key.fixed || !fixed;
  }
  if (others > kMostOther) return nullptr;
  const Vec<Loading::TensorKey> before = known;
  for (const Loading::TensorKey& key : before) {
    if (key.fixed && fixed) continue;
    guard_identity(recorder, tensor, key.tensor, key.object == object);
    if (!recorder.live()) return nullptr;
  }
  // Of two at one address the earlier is dead, or it is the same.
  known.push_back({static_cast<uint32_t>(recorder.trace().nodes.size()), fixed, tensor, object});
  recorder.heap.note_key(object, tensor);
  return object;
}

}  // namespace pijit
