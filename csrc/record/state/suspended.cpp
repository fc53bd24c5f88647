// Generators that the frame holds where a recording begins in the middle of a function, such as the one over which its
// loop iterates.
//
// What a generator that stands at a yield will do is known if its frame is: the variables and the stack become inputs
// of the trace like those of the frame itself, and the generator a virtual one, which goes on in the recording. A
// replay takes what the frame holds out of it, and where it is left the same generator object is filled again.
//
// 1. Nothing but slots of the frame holds the generator, nothing its frame, nobody is told of its end, and it handles
// no exception: nobody can look at it, or resume it, while a replay has what it held. Any other is an iterator of which
// the class is known.
// 2. Loads come before what is asked of the loaded: where that is another thing, all of it is there to be looked at.
#include <algorithm>

#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "record/recorder.h"
#include "record/state/inputs.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"

namespace pijit {
namespace {

constexpr ptrdiff_t kMostGenerators = 16;  // of one trace

// The slots of the frame that hold the object; one if it was found in the frame of a generator, or an enumeration.
struct Slots {
  int first = -1, count = 0;
};
Slots places_of(cpython::Frame* frame, PyObject* object, bool elsewhere) {
  Slots found;
  for (int i = 0; !elsewhere && i < cpython::used_slots(frame); ++i) {
    if (cpython::slot(frame, i) != object) continue;
    if (found.count++ == 0) found.first = i;
  }
  return elsewhere ? Slots{-1, 1} : found;
}

// Which slots the generator assigns: what they hold differs from turn to turn.
std::vector<bool> assigned_slots(PyCodeObject* code, int count) {
  std::vector<bool> assigned(static_cast<size_t>(count));
  for (int slot : cpython::assigned_locals(code, 0, cpython::unit_count(code)))
    assigned[static_cast<size_t>(slot)] = true;
  return assigned;
}

// What its frame holds is known, too; else only its class is.
bool is_taken_apart(Recorder& recorder, PyObject* generator, Val source, int holders) {
  const Trace& trace = recorder.trace();
  PyObject* function = cpython::function(cpython::generator_frame(generator));
  const auto before = std::count_if(trace.guards.begin(), trace.guards.end(),
                                    [](const Guard& guard) { return guard.op == GuardOp::kSuspended; });
  return recorder.varying() != nullptr && before < kMostGenerators && cpython::is_at_rest(generator, holders) &&
         PyFunction_Check(function) && cpython::function_version(function) != 0 &&
         !recorder.varying()->is_taken_by_type(way_of(recorder, source));
}

}  // namespace

// `opening_` was about the generator itself.
Val entry_generator(Recorder& recorder, PyObject* object, Val source) {
  recorder.loading.opening = false;
  cpython::Frame* frame = cpython::generator_frame(object);
  const Slots places = places_of(recorder.frames.root, object, source.index() >= recorder.trace().inputs);
  if (places.first >= 0 && static_cast<uint32_t>(places.first) < source.index()) {
    const auto known = recorder.frames.generators.find(frame);
    if (known == recorder.frames.generators.end()) return by_type(recorder, object, source);
    input_guard(recorder, GuardOp::kSame, source).number = static_cast<uint64_t>(places.first);
    return Val::virtual_object(known->second);
  }
  if (!is_taken_apart(recorder, object, source, places.count)) return by_type(recorder, object, source);
  const int used = cpython::used_slots(frame);
  auto shadow = std::make_unique<ShadowFrame>();
  shadow->frame = frame;
  shadow->code = cpython::code(frame);
  shadow->locals = shadow->code->co_nlocalsplus;
  shadow->sp = used - shadow->locals;
  shadow->instruction = shadow->operation = cpython::resume_index(frame) - 1;
  shadow->yielded = true;
  shadow->slots.assign(static_cast<size_t>(shadow->locals + shadow->code->co_stacksize + 1), Val());

  auto* code = reinterpret_cast<PyObject*>(shadow->code);
  Guard& guard = input_guard(recorder, GuardOp::kSuspended, source);
  guard.expected = recorder.reads.owned(code).object();
  guard.number = static_cast<uint64_t>(cpython::resume_index(frame));
  guard.aux = static_cast<uint32_t>(places.count);
  guard.first = static_cast<uint32_t>(recorder.trace().guard_items.size());
  guard.count = static_cast<uint32_t>(used);
  for (int i = 0; i < used; ++i)
    recorder.trace().guard_items.push_back(cpython::slot(frame, i) == nullptr ? nullptr : Py_None);
  PyObject* function = cpython::function(frame);
  shadow->function = Val::constant(function);
  const Val made_by = load_input(recorder, GuardOp::kLoadGeneratorFunction, source, 0, function);
  for (int i = 0; i < used; ++i)
    if (PyObject* held = cpython::slot(frame, i))
      shadow->slots[static_cast<size_t>(i)] = load_input(recorder, GuardOp::kLoadSuspended, source, i, held);
  input_guard(recorder, GuardOp::kIs, made_by).expected = function;
  recorder.reads.guard_function(reinterpret_cast<PyFunctionObject*>(function));

  const std::vector<bool> assigned = assigned_slots(shadow->code, used);
  for (int i = 0; i < used; ++i) {
    Val& slot = shadow->slots[static_cast<size_t>(i)];
    if (slot.is_null()) continue;
    if (assigned[static_cast<size_t>(i)]) recorder.varying()->miss_argument(way_of(recorder, slot));
    recorder.loading.opening = assigned[static_cast<size_t>(i)] || i >= shadow->locals;
    slot = entry_input(recorder, frame, i, slot);
    recorder.loading.opening = false;
    if (!slot.is_null()) continue;
    recorder.varying()->take_by_type(way_of(recorder, source));
    return Val();
  }
  const Val generator = new_virtual(recorder, VirtualKind::kGenerator, &PyGen_Type);
  recorder.heap.model(generator).real = object;
  set_field(recorder, generator, field::kGenerator::kFunction, shadow->function);
  set_field(recorder, generator, field::kGenerator::kObject, source);
  shadow->generator = generator.index();
  shadow->mark = recorder.here();
  recorder.frames.generators[frame] = generator.index();
  suspend(recorder, std::move(shadow));
  return generator;
}

// One over such a generator is made anew where a replay is left: nobody has seen which object it was.
Val entry_enumerate(Recorder& recorder, PyObject* object, Val source) {
  recorder.loading.opening = false;
  by_type(recorder, object, source);
  const cpython::Enumeration now = cpython::enumeration(object);
  const bool known = Py_REFCNT(object) == 1 && now.plain && PyGen_CheckExact(now.iterator);
  if (!known || !is_taken_apart(recorder, now.iterator, source, 1)) return source;
  input_guard(recorder, GuardOp::kUnshared, source);
  const Val inner = entry_generator(
      recorder, now.iterator, load_input(recorder, GuardOp::kLoadSlot, source, cpython::kEnumerated, now.iterator));
  if (!inner.is_virtual()) return inner.is_null() ? Val() : source;
  const Val count = add_reg(recorder, Rep::kInt, &PyLong_Type,
                            recorder.reads.owned(Ref::steal(PyLong_FromSsize_t(now.count)).get()).object());
  input_guard(recorder, GuardOp::kLoadCount, source).out = count.index();
  const Val result = new_virtual(recorder, VirtualKind::kEnumerate, &PyEnum_Type);
  set_field(recorder, result, field::kEnumerate::kIterator, inner);
  set_field(recorder, result, field::kEnumerate::kCount, count);
  return result;
}

}  // namespace pijit
