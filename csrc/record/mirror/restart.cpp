// What stands in place of the iterable that C code draws from, where CPython executes the instruction again.
#include "record/mirror/restart.h"

#include "record/mirror/abstract.h"
#include "record/mirror/builtins.h"
#include "record/mirror/filling.h"
#include "record/state/values.h"

namespace pijit {
namespace {

// The only operand that is this value; -1: none, or several.
int operand_of(ShadowFrame& frame, int pops, Val value) {
  int found = -1;
  for (int depth = 1; depth <= pops; ++depth) {
    if (frame.top(depth) != value) continue;
    if (found >= 0) return -1;
    found = frame.locals + frame.sp - depth;
  }
  return found;
}

PyTypeObject* chain_type() {
  static PyTypeObject* const type = find_type("itertools", "chain");
  return type;
}

}  // namespace

Restart::Restart(Drive& drive, Val iterable)
    : drive_(drive), recorder_(drive.recorder()), outer_(std::exchange(drive.restart(), this)) {
  ShadowFrame& frame = drive.frame();
  if (!is_drawn(recorder_.heap, iterable) || !is_untouched(recorder_.heap, frame.mark)) return;
  operand_ = operand_of(frame, drive.pops(), iterable);
}

Restart::~Restart() {
  drive_.restart() = outer_;
  drive_.frame().drawn = Drawn();
}

void Restart::draws_from(Val iterator) {
  iterator_ = instead_ = iterator;
}

void Restart::forget() {
  items_ = Val();
  instead_ = iterator_;
  drive_.frame().drawn = Drawn();
}

Val Restart::ask() {
  drive_.frame().drawn = Drawn();
  asks_ = true;
  time_ = recorder_.trace().clock;
  nodes_ = recorder_.trace().nodes.size();
  lasting_ = recorder_.heap.lasting;
  return recorder_.heap.now(iterator_);
}

void Restart::keep(Val item) {
  answered();
  if (operand_ < 0) return;
  if (items_.is_null()) return keep_only(item);
  recorder_.heap.model(items_).items.push_back(item);
  log(recorder_, items_, LogOp::kItem, Val(), item);
  drive_.frame().drawn = {operand_, instead_, recorder_.trace().clock};
}

void Restart::keep_only(Val item) {
  answered();
  if (operand_ < 0) return;
  items_ = recorder_.new_list(&item, 1);
  instead_ = new_virtual(recorder_, VirtualKind::kLazy, chain_type());
  set_field(recorder_, instead_, 0, items_);
  set_field(recorder_, instead_, 1, iterator_);
  drive_.frame().drawn = {operand_, instead_, recorder_.trace().clock};
}

bool Restart::is_possible() const {
  const Trace& trace = recorder_.trace();
  const Drive* const outermost = outermost_drive(recorder_);
  if (outermost != nullptr && outermost->has_put_off()) return false;
  if (operand_ < 0 || !asks_ || trace.clock != time_ || recorder_.heap.lasting != lasting_) return false;
  for (size_t i = nodes_; i < trace.nodes.size(); ++i)
    if (!is_repeatable(trace.nodes[i])) return false;
  return true;
}

}  // namespace pijit
