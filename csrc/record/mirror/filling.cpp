// Filling a container from an iterator: its model at once, a real one by as few nodes as possible.
#include "record/mirror/filling.h"

#include <algorithm>

#include "cpython/keys.h"
#include "record/state/values.h"
#include "record/state/writes.h"

namespace pijit {

Filling::Filling(Drive& drive, Val container, Val model, const char* method)
    : drive_(drive),
      recorder_(drive.recorder()),
      container_(container),
      model_(model),
      method_(method),
      epoch_(recorder_.trace().epochs.size()) {
  recorder_.heap.fillings.push_back(this);
}

Filling::~Filling() {
  Vec<Filling*>& open = recorder_.heap.fillings;
  open.erase(std::find(open.begin(), open.end(), this));
}

// After foreign code the model is not that of the real container any more.
bool Filling::follows() const {
  return recorder_.live() && recorder_.trace().epochs.size() == epoch_;
}

bool Filling::is_of(Val value) const {
  return !value.is_null() && (value == container_ || value == model_);
}

// The model's last item is new.
void Filling::note_last(Val item, bool real) {
  if (!real) return log(recorder_, model_, LogOp::kItem, Val(), item);
  recorder_.heap.note_lasting();
  recorder_.heap.mention(model_, item, recorder_.heap.model(model_).items.size() - 1);
  waiting_.push_back(item);
}

bool Filling::append(Val item) {
  Model& content = recorder_.heap.model(model_);
  const bool real = is_real(recorder_.heap, model_);
  if (real && !follows()) return false;
  content.items.push_back(item);
  if (content.kind == VirtualKind::kDeque) recorder_.heap.reshape(model_);
  note_last(item, real);
  return recorder_.live();
}

bool Filling::add(PyObject* key) {
  Model& content = recorder_.heap.model(model_);
  const bool real = is_real(recorder_.heap, model_);
  if (real && !follows()) return false;
  if (content.keys().holds(key)) return true;
  const Val item = keep_key(recorder_, key);
  content.keys().push_back(key);
  content.items.push_back(item);
  recorder_.heap.reshape(model_);
  note_last(item, real);
  return recorder_.live();
}

bool Filling::discard(PyObject* key) {
  Model& content = recorder_.heap.model(model_);
  const bool real = is_real(recorder_.heap, model_);
  if (real && !follows()) return false;
  const ptrdiff_t at = content.keys().find(key);
  if (at < 0) return true;
  const Val item = keep_key(recorder_, content.keys()[static_cast<size_t>(at)]);
  content.keys().erase(at);
  content.items.erase(content.items.begin() + at);
  recorder_.heap.reshape(model_);
  if (real) {
    recorder_.heap.note_lasting();
    pin(recorder_, item);
    waiting_.push_back(item);
  } else {
    log(recorder_, model_, LogOp::kDelItem, item, Val());
  }
  return recorder_.live();
}

bool Filling::put(PyObject* key, Val value) {
  if (container_.is_const()) {
    if (!follows() || !put_in_dict(recorder_, container_.object(), key, value)) return false;
  } else if (!is_real(recorder_.heap, container_)) {
    dict_set(recorder_, container_, key, value);
    return recorder_.live();
  } else {
    if (!follows()) return false;
    dict_put(recorder_, container_, key, value);
  }
  recorder_.heap.note_lasting();
  keys_.push_back(key);
  waiting_.push_back(value);
  return true;
}

bool Filling::waits() const {
  const Val of = model_.is_null() ? container_ : model_;
  return !of.is_virtual() || is_real(recorder_.heap, of);
}

bool Filling::hide() {
  hidden_ = recorder_.heap.model(model_).items;
  hides_ = true;
  hides_real_ = is_real(recorder_.heap, model_);
  if (hides_real_) recorder_.heap.note_lasting();
  for (size_t i = hidden_.size(); i-- > 0 && !hides_real_;)
    log(recorder_, model_, LogOp::kDelItem, recorder_.reads.owned(Ref::steal(PyLong_FromSize_t(i)).get()), Val(),
        static_cast<uint32_t>(i));
  recorder_.heap.model(model_).items.clear();
  return recorder_.live();
}

bool Filling::show() {
  if (!hides_) return true;
  hides_ = false;
  return recorder_.heap.model(model_).items.empty() && (!is_real(recorder_.heap, model_) || follows());
}

bool Filling::flush(bool raises) {
  if (hides_) {
    if (!raises && hides_real_) recorder_.stop(Abort::kWrite, "a list that is being sorted");
    if (!raises) return recorder_.live();
    hides_ = false;
    if (hides_real_ != is_real(recorder_.heap, model_)) return false;  // a replay has made it, empty
    if (!hides_real_) return set_items(recorder_, model_, hidden_, method_, Vals());
    recorder_.heap.model(model_).items = hidden_;
    return follows();
  }
  const Vals values = std::exchange(waiting_, {});
  const Objects keys = std::exchange(keys_, {});
  if (values.empty()) return true;
  recorder_.heap.note_lasting();
  Vals args(1);
  if (keys.empty()) {
    args[0] = recorder_.new_tuple(&PyTuple_Type, values.data(), values.size());
  } else {
    args[0] = new_dict(recorder_);
    for (size_t i = 0; i < keys.size(); ++i) dict_set(recorder_, args[0], keys[i], values[i]);
  }
  return call_method(recorder_, model_.is_null() ? container_ : model_, method_, args);
}

// Nodes that follow may read or write what is being filled.
bool flush_fillings(Heap& heap) {
  for (size_t i = 0; i < heap.fillings.size(); ++i)
    if (!heap.fillings[i]->flush()) return false;
  return true;
}

// The C code of that drive raises: what it has written stays written.
bool end_fillings(Recorder& recorder, const Drive& of) {
  for (size_t i = 0; i < recorder.heap.fillings.size(); ++i)
    if (&recorder.heap.fillings[i]->drive() == &of && !recorder.heap.fillings[i]->flush(true))
      return recorder.stop(Abort::kWrite, "a fill"), false;
  return true;
}

bool is_filled(const Heap& heap, Val value) {
  return std::any_of(heap.fillings.begin(), heap.fillings.end(),
                     [&](const Filling* filling) { return filling->is_of(value); });
}

// Whether an attempt since then left everything as it was: then another may follow without going back.
bool is_untouched(const Heap& heap, const TraceMark& mark) {
  const Trace& trace = heap.trace();
  if (heap.lasting != mark.lasting) return false;
  for (size_t i = mark.nodes; i < trace.nodes.size(); ++i)
    if (!pijit::is_repeatable(trace.nodes[i])) return false;
  if (trace.clock == mark.time) return true;
  for (const Virtual& object : trace.virtuals) {
    if (object.birth > mark.time) break;
    if (object.tail != kNone && trace.log[object.tail].time > mark.time) return false;
  }
  return true;
}

}  // namespace pijit
