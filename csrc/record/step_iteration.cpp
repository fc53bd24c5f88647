// Iteration on shadows: iterators over known containers, generators, zip and enumerate, unpacking.
#include "cpython/keys.h"
#include "record/step.h"

namespace pijit {
namespace {

void take_iterator(Recorder& recorder, ShadowFrame& frame, PyObject* result) {
  Val iterator = frame.pending.y;
  recorder.model(iterator).type = Py_TYPE(result);
  recorder.model(iterator).real = result;
  recorder.trace().virtuals[iterator.index()].type = Py_TYPE(result);
  frame.pending.result = iterator;
}

}  // namespace

bool make_iterator(Recorder& recorder, ShadowFrame& frame, Val iterable, int pops) {
  PyTypeObject* type = recorder.type_of(iterable);
  if (type == nullptr || iterable.is_reg()) return false;
  VirtualKind kind = iterable.is_virtual() ? recorder.model(iterable).kind : VirtualKind::kUnmodelled;
  bool is_iterator = kind == VirtualKind::kIterator || kind == VirtualKind::kGenerator ||
                     kind == VirtualKind::kEnumerate || kind == VirtualKind::kZip;
  if (is_iterator) return recorder.known(frame, pops, iterable), true;
  if (type->tp_iter == cpython::slot_functions().iter)
    return invoke_special(recorder, frame, iterable, names().iter, {}, Then::kCheckIter, pops) == Invoke::kStarted;
  std::vector<Val> items;
  if (!recorder.try_items(iterable, &items)) return false;
  Val iterator = recorder.new_iterator(iterable);
  recorder.observe(frame, pops, take_iterator);
  frame.pending.y = iterator;
  return true;
}

int next_item(Recorder& recorder, Val iterator, Val* item) {
  if (!iterator.is_virtual()) return -1;
  Model& content = recorder.model(iterator);
  if (content.kind == VirtualKind::kIterator) {
    std::vector<Val> items;
    Val source = content.items[0];
    if (content.position == kExhausted) return 0;
    if (recorder.is_stale(iterator.index(), recorder.trace().clock) || !recorder.try_items(source, &items)) return -1;
    const bool more = content.position < items.size();
    if (more) *item = items[content.position];
    content.position = more ? content.position + 1 : kExhausted;
    recorder.log(iterator, LogOp::kIndex, Val(), Val(), content.position);
    return more ? 1 : 0;
  }
  if (content.kind == VirtualKind::kEnumerate) {
    Val inner;
    int more = next_item(recorder, content.items[0], &inner);
    if (more <= 0) return more;
    Val count = content.items[1];
    Ref next = Ref::steal(PyNumber_Add(count.object(), Ref::steal(PyLong_FromLong(1)).get()));
    recorder.set_field(iterator, 1, recorder.owned(next.get()));
    Val pair[2] = {count, inner};
    *item = recorder.new_tuple(&PyTuple_Type, pair, 2);
    return 1;
  }
  if (content.kind == VirtualKind::kZip) {
    std::vector<Val> row, sources = content.items;
    for (Val source : sources) {
      Val value;
      int more = next_item(recorder, source, &value);
      if (more <= 0) return more;
      row.push_back(value);
    }
    *item = recorder.new_tuple(&PyTuple_Type, row.data(), row.size());
    return row.empty() ? 0 : 1;
  }
  return -1;
}

// FOR_ITER over zip: draws from each source in turn; a generator's frame interrupts that.
void Recorder::go_on_zip_next(ShadowFrame& frame, Val zip) {
  std::vector<Val> sources = model(zip).items;
  for (size_t i = frame.collected.size(); i < sources.size(); ++i) {
    if (is_virtual(sources[i], VirtualKind::kGenerator) && model(sources[i]).suspended != nullptr) {
      std::vector<Val> drawn = frame.collected;
      expect_generator(frame, sources[i], Then::kZipNext, 0);
      frame.pending.x = zip;
      return;
    }
    Val item;
    int more = is_virtual(sources[i], VirtualKind::kGenerator) ? 0 : next_item(*this, sources[i], &item);
    if (!live_) return;
    if (more < 0) return stop(Abort::kUnknownOperand, "iteration over an unknown iterator");
    if (more == 0) {
      await(frame, 0, 1).then = Then::kNext;
      return;
    }
    frame.collected.push_back(item);
  }
  Val row = new_tuple(&PyTuple_Type, frame.collected.data(), frame.collected.size());
  Pending& pending = await(frame, 0, 1);
  pending.then = Then::kNext;
  pending.has_result = true;
  pending.result = row;
}

void step_get_iter(Recorder& recorder, ShadowFrame& frame) {
  Val iterable = frame.top();
  if (recorder.ask_about(frame, SiteKind::kIter, {iterable}, 1, 1)) return;
  if (!make_iterator(recorder, frame, iterable, 1) && recorder.live()) {
    PyTypeObject* type = recorder.type_of(iterable);
    recorder.stop(Abort::kUnknownOperand, std::string("iteration over ") + (type == nullptr ? "?" : type->tp_name));
  }
}

void step_for_iter(Recorder& recorder, ShadowFrame& frame) {
  Val iterator = frame.top();
  if (recorder.is_virtual(iterator, VirtualKind::kGenerator)) {
    if (recorder.model(iterator).suspended == nullptr) {
      // Exhausted: the loop ends without a frame.
      recorder.await(frame, 0, 0).then = Then::kNext;
      return;
    }
    return recorder.expect_generator(frame, iterator, Then::kNext, 0);
  }
  if (recorder.is_virtual(iterator, VirtualKind::kZip)) {
    frame.collected.clear();
    return recorder.go_on_zip_next(frame, iterator);
  }
  Val item;
  int more = next_item(recorder, iterator, &item);
  if (!recorder.live()) return;
  if (more < 0) return recorder.stop(Abort::kUnknownOperand, "iteration over an unknown iterator");
  Pending& pending = recorder.await(frame, 0, 1);
  pending.then = Then::kNext;
  pending.has_result = more > 0;
  pending.result = item;
}

void step_unpack(Recorder& recorder, ShadowFrame& frame, int oparg) {
  Val value = frame.top();
  if (recorder.ask_about(frame, SiteKind::kUnpack, {value}, 1, 1, oparg)) {
    if (recorder.live() && !frame.pending.adapter) {
      value = frame.pending.result;
      frame.pending.active = false;
    } else {
      return recorder.live() ? recorder.stop(Abort::kAdapter, "unpacking") : void();
    }
  }
  std::vector<Val> items;
  if (!recorder.try_items(value, &items) || items.size() != static_cast<size_t>(oparg)) {
    if (recorder.live()) recorder.stop(Abort::kUnknownOperand, "unpacking");
    return;
  }
  frame.sp -= 1;
  for (size_t i = items.size(); i-- > 0;) frame.push(items[i]);
}

}  // namespace pijit
