// What is known again after foreign code ran: an epoch begins, with guards of its own.
//
// An opaque call may have changed every mutable object that was there before, and every new one that escaped. So all
// facts are forgotten, and what is read from there on leaves guards that a replay checks in one place, right after
// the call (Op::kEpoch); rejected: a guard at every later read, each with a snapshot of its own. Virtual objects that
// never escaped cannot have been seen by anybody and stay as they are.
#include "cpython/keys.h"
#include "cpython/objects.h"
#include "record/recorder.h"

namespace pijit {
namespace {

bool is_mutable(VirtualKind kind) {
  switch (kind) {
    case VirtualKind::kList:
    case VirtualKind::kDict:
    case VirtualKind::kSet:
    case VirtualKind::kInstance:
    case VirtualKind::kCell:
    case VirtualKind::kFunction:  // its defaults and code can be set
    case VirtualKind::kIterator:
    case VirtualKind::kEnumerate:
    case VirtualKind::kZip:
    case VirtualKind::kDeque:
    case VirtualKind::kLazy:
    case VirtualKind::kGenerator:
      return true;
    default:
      return false;
  }
}

bool is_heap_type(PyTypeObject* type) {
  return type != nullptr && (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0;
}

constexpr Py_ssize_t kMaxItems = 256;
constexpr int kMaxDepth = 4;
constexpr size_t kMaxLists = 64;  // of one epoch: each is told apart from all others

}  // namespace

// At the first instruction after an opaque call.
void Recorder::begin_epoch() {
  Trace& trace = *trace_;
  const auto here = static_cast<uint32_t>(trace.guards.size());
  if (!trace.epochs.empty()) trace.epochs.back().count = here - trace.epochs.back().first;
  if (adapter_ != nullptr) {
    adapter_->foreign_code();
    if (const char* why = adapter_->trouble()) return abandon(why);
    if (const char* why = adapter_->must_step_aside()) {
      note_stop(Abort::kAside, why);
      return request_stop(true);
    }
  }
  Epoch epoch;
  epoch.first = here;
  if (adapter_ != nullptr) {
    epoch.state = adapter_->capture_state();
    epoch.tensors = adapter_->new_inputs();
  }
  trace.epochs.push_back(std::move(epoch));
  Node& node = emit_node(Op::kEpoch);
  node.aux = static_cast<uint32_t>(trace.epochs.size() - 1);
  facts_ = Facts();
  reads_.fill(Read());
  epoch_arguments_ = arguments_.size();
  overlay_.clear();
  forget_types();
  go_stale();
  take_tensor_result();
  if (!none_result_.is_null()) {
    Node& none = emit_node(Op::kGuardIs);
    none.a = std::exchange(none_result_, Val());
    none.b = Val::constant(Py_None);
  }
  for (Val taken : std::exchange(taken_, {})) {
    PyObject* object = reg_objects_[taken.index()];
    Node& guard = emit_node(object == Py_None ? Op::kGuardIs : Op::kGuardType);
    guard.a = taken;
    guard.b = object == Py_None ? Val::constant(object) : owned(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (object == Py_None) singletons_[taken.index()] = object;
  }
}

// An instance may have another class now.
void Recorder::forget_types() {
  for (RegInfo& info : trace_->regs)
    if (info.rep == Rep::kObject && is_heap_type(info.type)) info.type = nullptr;
}

// Objects that escaped are what their registers hold: nothing is known of their content any more.
void Recorder::go_stale() {
  Vals by(models_.size());
  bool any = false;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Virtual& object = trace_->virtuals[i];
    if (object.reg == kNone || !is_mutable(object.kind) || models_[i] == nullptr) continue;
    by[i] = Val::reg(object.reg);
    stale_.push_back({static_cast<uint32_t>(trace_->nodes.size()), static_cast<uint32_t>(i), object.reg});
    any = true;
    if (!is_heap_type(models_[i]->type)) trace_->regs[object.reg].type = models_[i]->type;
    if (reg_objects_[object.reg] == nullptr) reg_objects_[object.reg] = models_[i]->real;
  }
  if (any) replace(by);
}

// They are the virtual objects again that they were at that node.
void Recorder::undo_stale(uint32_t nodes) {
  Vals by(trace_->regs.size());
  bool any = false;
  for (; !stale_.empty() && stale_.back().nodes > nodes; stale_.pop_back(), any = true)
    by[stale_.back().reg] = Val::virtual_object(stale_.back().object);
  if (any) replace(by, ValueKind::kReg);
}

namespace {

void replace_one(Val& value, const Vals& by, ValueKind kind) {
  if (value.kind() != kind || value.index() >= by.size() || by[value.index()].is_null()) return;
  value = by[value.index()];
}

}  // namespace

void Recorder::replace_in(ShadowFrame& frame, const Vals& by, ValueKind kind) {
  const auto one = [&](Val& value) { replace_one(value, by, kind); };
  for (Val& value : frame.slots) one(value);
  for (Val& value : frame.saved) one(value);
  for (Val& value : frame.collected) one(value);
  for (Val* value : {&frame.function, &frame.result, &frame.pending.result, &frame.pending.x, &frame.pending.y,
                     &frame.pending.z, &frame.pending.x_function})
    one(*value);
}

// Every mention of a virtual object (or register) becomes by[its index], where that is not empty.
void Recorder::replace(const Vals& by, ValueKind kind) {
  for (auto& frame : frames_) replace_in(*frame, by, kind);
  for (auto& content : models_) {
    for (auto* values : {&content->items, &content->attrs})
      for (Val& value : *values) replace_one(value, by, kind);
    if (content->suspended != nullptr) replace_in(*content->suspended, by, kind);
  }
}

// A tensor that foreign code returned is an input of the epoch.
void Recorder::take_tensor_result() {
  const Val result = std::exchange(epoch_result_, Val());
  if (result.is_null() || adapter_ == nullptr) return;
  PyObject* object = reg_objects_[result.index()];
  if (object == nullptr || !adapter_->is_tensor(object)) return;
  ShadowFrame& frame = top_frame();
  Val tensor = adopted(object, result, 0);
  for (int i = 0; i < frame.locals + frame.sp; ++i)
    if (frame.slots[static_cast<size_t>(i)] == result) frame.slots[static_cast<size_t>(i)] = tensor;
}

// What stands at `source`: a tensor, a container whose items are loaded, or a register of known type.
Val Recorder::adopted(PyObject* object, Val source, int depth) {
  if (adapter_ != nullptr && adapter_->is_tensor(object)) return input(object, source, depth);
  if (object == Py_None || PyBool_Check(object)) {
    input_guard(GuardOp::kIs, source).expected = object;
    return Val::constant(object);
  }
  if (!cpython::is_importable(Py_TYPE(object))) return source;
  input_guard(GuardOp::kType, source).expected = owned(reinterpret_cast<PyObject*>(Py_TYPE(object))).object();
  trace_->regs[source.index()].type = Py_TYPE(object);
  const bool tuple = PyTuple_CheckExact(object);
  if (!tuple && !PyList_CheckExact(object)) return source;
  const Py_ssize_t size = Py_SIZE(object);
  if (size > kMaxItems || depth > kMaxDepth) return source;
  if (const Val first = known_container(object, source); !first.is_null()) return first;
  if (!tuple && arguments_.size() > epoch_arguments_ + kMaxLists) return source;
  for (size_t i = epoch_arguments_; i < arguments_.size() && !tuple; ++i)
    if (type_of(arguments_[i]) == &PyList_Type)
      input_guard(GuardOp::kNotSame, source).number = trace_->virtuals[arguments_[i].index()].reg;
  input_guard(tuple ? GuardOp::kTupleSize : GuardOp::kListSize, source).number = static_cast<uint64_t>(size);
  Vals items;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
    Val loaded = load_input(tuple ? GuardOp::kLoadTupleItem : GuardOp::kLoadListItem, source, i, item);
    trace_->regs[loaded.index()].type = nullptr;
    items.push_back(adopted(item, loaded, depth + 1));
  }
  Val result =
      new_sequence(tuple ? VirtualKind::kTuple : VirtualKind::kList, Py_TYPE(object), items.data(), items.size());
  model(result).real = object;
  return real_container(result, source);
}

namespace {

// A tuple or list within itself, as deep as it would be adopted: it would be there under two names.
bool holds_itself(PyObject* object, Objects* within) {
  const bool tuple = PyTuple_CheckExact(object);
  if ((!tuple && !PyList_CheckExact(object)) || within->size() > kMaxDepth || Py_SIZE(object) > kMaxItems) return false;
  if (std::find(within->begin(), within->end(), object) != within->end()) return true;
  within->push_back(object);
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i)
    if (holds_itself(tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), within)) return true;
  within->pop_back();
  return false;
}

}  // namespace

// The register was there when the epoch began, and nothing has been written to its object since.
bool Recorder::adopt(Val reg, PyObject* object) {
  if (trace_->regs[reg.index()].rep != Rep::kObject) return false;
  if (trace_->regs[reg.index()].epoch >= trace_->epochs.size()) return false;
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  Objects within;
  if (holds_itself(object, &within)) return false;
  Val known = adopted(object, reg, 0);
  if (!known.is_virtual()) return false;
  for (auto& frame : frames_)
    for (Val& value : frame->slots)
      if (value == reg) value = known;
  for (auto& content : models_)
    for (auto* values : {&content->items, &content->attrs})
      for (Val& value : *values)
        if (value == reg) value = known;
  return true;
}

}  // namespace pijit
