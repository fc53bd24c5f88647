// Where a recording leaves a loop to traces of its own.
//
// A short loop is recorded whole: what is known of each turn becomes part of the trace, and compilers see all of it. Of
// a long one only the first turns are. The recording ends at the head of the loop, or, in an inlined function, CPython
// runs the function from there on; a trace that begins at the head (hook/entries.h) takes one turn, or a few.
//
// A trace that begins elsewhere in the loop, where a branch went another way, ends at the head: what the turns have in
// common is recorded once.
//
// The frame comes back at the head (cpython/hand_back.h), so that the rest of the loop is to the gain of the call that
// is recorded, too; in an inlined function the recording of its caller is put aside meanwhile (put_aside.h).
//
// A turn is worth a trace of its own if the next one does the same with the same objects: the layers of a model, each
// of which has weights of its own, stay whole.
//
// A loop of a generator that yields in each turn is left where the loop over the generator is, since the generator is
// part of what that one's frame holds (record/state/suspended.cpp); its own head is where it makes many turns for one item.
//
// Two loops stay whole because nothing could go on in their frames (hook/entries.h):
//
//   in a generator that C code asks for its items, which would have to go on in C
//   in a handler, where the traceback of the exception holds the frame, whose variables a replay takes out of it
#include "record/step/loops.h"

#include <algorithm>
#include <utility>

#include "cpython/hand_back.h"
#include "record/limits.h"
#include "record/recorder.h"
#include "record/recover.h"
#include "record/state/snapshot.h"

namespace pijit {
namespace {

// What turns are made of.
struct Size {
  uint64_t nodes, bytecodes;
};

// What is recorded before a loop is left to its own traces, if it is not known what is still to come; what is to come
// else; what a trace of its own has, which takes more than one turn if they are small, and fewer where compilers have
// to compile each. The bytecodes are what recording takes time for.
constexpr Size kLeast = {300, 6000}, kLeastToCome = {1000, 20000}, kLeastOfOwn = {80, 3000},
               kLeastCompiled = {10, 3000};

bool is_less(Size size, Size than) noexcept {
  return size.nodes < than.nodes && size.bytecodes < than.bytecodes;
}

// Compares two turns of a loop. It is asked in each turn, and most turns have other operations than the one before: the
// tables, without which no operands can be compared, are made after those.
class Turns {
 public:
  Turns(const Trace& trace, const Arrival& arrival)
      : trace_(trace), arrival_(arrival), first_(arrival.before.nodes), second_(arrival.last.nodes) {}
  bool alike() {
    const size_t count = second_ - first_;
    if (count == 0 || trace_.nodes.size() - second_ != count) return false;  // what is constant stays so
    for (size_t i = 0; i < count; ++i)
      if (!do_the_same(trace_.nodes[first_ + i], trace_.nodes[second_ + i])) return false;
    make_tables();
    for (size_t i = 0; i < count; ++i)
      if (!alike(trace_.nodes[first_ + i], trace_.nodes[second_ + i])) return false;
    return true;
  }

 private:
  void make_tables() {
    // What the first of the two turns looks at may have been loaded in the one before it.
    for (size_t i = arrival_.earlier.guards; i < trace_.guards.size(); ++i)
      if (is_load(trace_.guards[i].op)) loads_.emplace(trace_.guards[i].out, &trace_.guards[i]);
    if (arrival_.earlier.epochs == 0) note(trace_.tensors.get());
    for (size_t i = std::max(arrival_.earlier.epochs, 1u) - 1; i < trace_.epochs.size(); ++i)  // one is under way there
      note(trace_.epochs[i].tensors.get());
    for (size_t i = first_; i < trace_.nodes.size(); ++i) note(trace_.nodes[i]);
  }
  void note(const InputGuards* tensors) {
    for (size_t i = 0; tensors != nullptr && i < tensors->size(); ++i)
      tensors_.emplace(tensors->register_of(i), tensors->source(i));
  }
  void note(const Node& node) {
    if (node.out != kNone) made_.emplace(node.out, true);
    for (uint32_t i = 0; i < node.outs_count; ++i) made_.emplace(trace_.outs[node.outs_first + i], true);
  }
  // Numbers and text may differ from turn to turn, and what a turn has made itself.
  bool alike(Val a, Val b) {
    if (a == b || (a.is_virtual() && b.is_virtual())) return true;
    if (a.is_const() && b.is_const()) return cpython::is_scalar(a.object()) && cpython::is_scalar(b.object());
    if (!b.is_reg() || made_.count(b.index()) != 0) return b.is_reg();
    const auto x = a.is_reg() ? tensors_.find(a.index()) : tensors_.end(), y = tensors_.find(b.index());
    if (x != tensors_.end() && y != tensors_.end()) return alike(x->second, y->second);
    const Guard *from = load_of(a), *to = load_of(b);
    if (from == nullptr || to == nullptr) return a.is_reg() && are_parts(a.index(), b.index());
    return from->op == to->op && from->number == to->number && from->aux == to->aux && from->expected == to->expected &&
           alike(from->subject, to->subject);
  }
  // One operator gave both, before the loop: a loop over the parts of a tensor.
  bool are_parts(uint32_t a, uint32_t b) {
    if (!std::exchange(has_parts_, true))
      for (size_t i = 0; i < first_; ++i)
        for (uint32_t k = 0; k < trace_.nodes[i].outs_count; ++k)
          parts_.emplace(trace_.outs[trace_.nodes[i].outs_first + k], static_cast<uint32_t>(i));
    const auto x = parts_.find(a), y = parts_.find(b);
    return x != parts_.end() && y != parts_.end() && x->second == y->second;
  }
  const Guard* load_of(Val value) const {
    const auto found = value.is_reg() ? loads_.find(value.index()) : loads_.end();
    return found == loads_.end() ? nullptr : found->second;
  }
  bool do_the_same(const Node& a, const Node& b) const {
    const Site &s = trace_.sites[a.site], &t = trace_.sites[b.site];
    return a.op == b.op && a.count == b.count && s.code == t.code && s.instruction == t.instruction;
  }
  bool alike(const Node& a, const Node& b) {
    if (!alike(a.a, b.a) || !alike(a.b, b.b) || !alike(a.c, b.c)) return false;
    for (uint32_t i = 0; i < a.count; ++i)
      if (!alike(trace_.operands[a.first + i], trace_.operands[b.first + i])) return false;
    return true;
  }

  const Trace& trace_;
  const Arrival arrival_;
  const size_t first_, second_;
  bool has_parts_ = false;
  Map<uint32_t, bool> made_;
  Map<uint32_t, uint32_t> parts_;  // the nodes that gave several registers, by register
  Map<uint32_t, const Guard*> loads_;
  Map<uint32_t, Val> tensors_;  // where those come from
};

}  // namespace

uint64_t& loops_option() noexcept {
  static auto value = static_cast<uint64_t>(Loops::kAuto);
  return value;
}

// Items that are still to come; -1: not known.
Py_ssize_t items_left(Heap& heap, Val iterator) {
  if (!heap.is_virtual(iterator, VirtualKind::kIterator)) return -1;
  const Val source = heap.virtual_field(iterator, 0);
  Py_ssize_t size = 0;
  if (source.is_const() && PyRange_Check(source.object())) size = PyObject_Size(source.object());
  if (heap.is_virtual(source, VirtualKind::kList) || heap.is_virtual(source, VirtualKind::kTuple))
    size = static_cast<Py_ssize_t>(heap.model(source).items.size());
  return std::max<Py_ssize_t>(size - static_cast<Py_ssize_t>(heap.model(iterator).get<family::Iterator>().position), 0);
}

// The loop makes another number of turns in each call: over a range (open_range), or over the rows of a tensor, which
// an opaque call has given (is_open_tensor).
static bool is_open(const Heap& heap, Val iterator) {
  if (!iterator.is_reg()) return false;
  PyObject* now = heap.reg_objects[iterator.index()];
  return heap.type_of(iterator) == &PyRangeIter_Type || (now != nullptr && Py_IS_TYPE(now, &PyTupleIter_Type));
}

// C code asks for what the innermost frame, or one outside of it, gives.
static bool is_driven(const FrameStack& frames) {
  for (size_t level = 0; level < frames.size(); ++level)
    if (frames[level]->pending.restarts()) return true;
  return false;
}

// The frame has jumped back to the instruction where it stands. True: its loop is to have traces of its own.
bool leaves_loop(Recorder& recorder, ShadowFrame& frame) {
  if (recorder.way_of_loops() == Loops::kUnrolled || frame.drive || !frame.handled.empty()) return false;
  const auto nodes = static_cast<uint32_t>(recorder.trace().nodes.size());
  const uint64_t bytecodes = record_limits().operations - recorder.bytecodes_left();
  if (recorder.frames.in_the_middle && recorder.frames.size() == 1 && frame.instruction == recorder.frames.entered_at) {
    recorder.trace().turns += 1;
    const bool compiled = recorder.varying() != nullptr && recorder.varying()->compiled;
    return !is_less({nodes, bytecodes}, compiled ? kLeastCompiled : kLeastOfOwn);
  }
  if (recorder.frames.in_the_middle && recorder.frames.size() == 1 && recorder.has_entry != nullptr &&
      recorder.has_entry(frame.frame, frame.instruction))
    return true;
  const Arrival::Place now{nodes, static_cast<uint32_t>(recorder.trace().guards.size()),
                           static_cast<uint32_t>(recorder.trace().epochs.size()), bytecodes};
  const auto found = std::find_if(frame.arrivals.begin(), frame.arrivals.end(),
                                  [&](const Arrival& each) { return each.instruction == frame.instruction; });
  if (found == frame.arrivals.end()) return frame.arrivals.push_back({frame.instruction, now, now, now, now}), false;
  const Arrival arrival = *found;
  found->earlier = std::exchange(found->before, std::exchange(found->last, now));
  if (arrival.before.bytecodes == arrival.last.bytecodes) return false;
  const bool open = frame.does(Operation::kForIter) && is_open(recorder.heap, frame.top());
  const bool chosen = open || recorder.way_of_loops() == Loops::kBody;
  const auto since = [&](const Arrival::Place& place) {
    return Size{nodes - place.nodes, bytecodes - place.bytecodes};
  };
  if (!chosen) {
    const Py_ssize_t left = frame.does(Operation::kForIter) ? items_left(recorder.heap, frame.top()) : -1;
    const auto turns = static_cast<uint64_t>(left);
    const Size turn = since(arrival.last);
    if (left < 0 ? is_less(since(arrival.first), kLeast)
                 : is_less({turns * turn.nodes, turns * turn.bytecodes}, kLeastToCome))
      return false;
  }
  const auto may_end_in = [&] {
    return !is_driven(recorder.frames) && level_to_leave(recorder) + 1 == recorder.frames.size() &&
           snapshot_usable(recorder, snapshot(recorder));
  };
  return Turns(recorder.trace(), arrival).alike() && (frame.generator == kNone || may_end_in());
}

// The rest of the loop is not recorded.
void leave_loop(Recorder& recorder) {
  const size_t top = recorder.frames.size() - 1;
  if (cpython::HandBack* back = cpython::HandBack::ask(recorder.frames.top().frame)) {
    const ShadowFrame& frame = recorder.frames.top();
    for (int i = 0; i < frame.locals + frame.sp; ++i)
      back->same.push_back(frame.slots[static_cast<size_t>(i)].is_const());
  }
  if (top > 0) {
    if (run_in_cpython(recorder, top, top)) return;
    recorder.resume();
    recorder.rollback(recorder.frames.top());
  }
  recorder.trace().stop = StopInfo();
  end_here(recorder);
}

}  // namespace pijit
