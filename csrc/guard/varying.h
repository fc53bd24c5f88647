// Places whose scalar differs from call to call: a counter that is an attribute, a global or a variable of a closure; a
// learning rate; an argument. Places that hold another tensor or container in each call: a hidden state, an average, a
// cache. And arguments that are another instance of the same class, or have other objects in their attributes: those
// are loaded one by one then.
//
// A trace reads such a place into a register instead of guarding its content. A place is learned from the first
// recording that leaves another scalar of the same type there, or when a second call misses a trace because another
// number is there (two values may be two ways of using a program, each with its trace); traces that guard the number
// give way then. Where a recording needs the number after all (the rounds of a loop), the guard of its type becomes one
// of its value again. A tensor is taken by kind: it is an input of the trace, with the guards of one; a container is
// loaded item by item. Where a recording cannot load what a place holds, the place is fixed: it is guarded for good.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/ref.h"
#include "ir/trace.h"

namespace pijit {

class Varying {
 public:
  // container is an address only: what is found there later is looked at anew. key: None for the content of a cell, and
  // for the items of a list.
  bool has(const void* container, PyObject* key) const noexcept;
  // As a key: the tensors in a dict that is walked or copied. Its keys stay, so that it is taken item by item.
  static PyObject* all_items() noexcept { return reinterpret_cast<PyObject*>(&PyDict_Type); }
  // As a key: how many items a list has. What is asked of such a list is asked at each call.
  static PyObject* sizes() noexcept { return reinterpret_cast<PyObject*>(&PyList_Type); }
  bool has_any(const void* container) const noexcept;  // of its places
  // False: it was there already, or there are too many.
  bool add(const void* container, PyObject* key);
  // The same of an attribute of a class, by the dict of the class.
  bool add_count(const void* dict, PyObject* name) {
    counts_ = true;
    return add(dict, name);
  }
  // What is known of places there is known here.
  void learn_from(const Varying& other);
  bool counts_in_classes() const noexcept { return counts_; }
  // The way by which the guards reach an argument, or an item of one; see argument_way.
  bool has_argument(uint64_t way) const noexcept { return arguments_.count(way) != 0 || opened_.count(way) != 0; }
  // That input differs from call to call, which is known without a miss.
  void open_input(uint32_t index) { opened_.insert(index + 1); }
  // The inputs that varied, and the keys of places in a container that did.
  std::vector<uint32_t> open_inputs() const;
  std::vector<Ref> keys_in(const void* container) const;
  bool is_open_input(uint32_t index) const noexcept { return has_argument(index + 1); }
  // The traces begin in the middle of a function: what they find there may be new in each call.
  bool in_the_middle = false;
  // Compilers are asked for what they do: of a loop one turn is enough, which is compiled once.
  bool compiled = false;
  // Of that input nothing but the class is the same. True: that is news.
  bool take_by_type(uint64_t way) { return types_.insert(way).second; }
  bool is_taken_by_type(uint64_t way) const noexcept { return types_.count(way) != 0; }
  // Another number is there than a trace has seen. True: it varies, now or before.
  bool miss_argument(uint64_t way);
  // It cannot be left open.
  void fix_argument(uint64_t way) {
    arguments_.erase(way);
    opened_.erase(way);
    fixed_.insert(way);
  }
  // The same of text in the middle of a function. Two texts may be two ways of going on, each with its trace.
  bool miss_text(uint64_t way);
  bool miss(const void* container, PyObject* key);
  // An instruction needs a number, or that many rows of a tensor, and a trace was left there often, since it is another
  // one. True: for the last time, as a trace for each would be too many: the frame, or the instruction, is CPython's.
  bool miss_at(const void* code, int instruction);
  bool has_left_at(const void* code, int instruction) const noexcept;
  // What is there cannot be left open.
  void fix(const void* container, PyObject* key);
  // Misses from here on are of another call.
  void begin_call() noexcept {
    call_ += 1;
    latest_.clear();
  }
  // A recording does worse with what was learned from misses, and that is constant again. In the middle of a function
  // one miss is enough to learn from, so it is what this call has added; else nothing more is learned.
  bool has_missed() const noexcept { return !missed_.empty() || !arguments_.empty(); }
  void refuse_missed();
  // A recording found places that it changes: is another to be made in its place? Not for ever: it may be that every
  // call changes an object of its own.
  bool learns_again() noexcept;
  void clear() { *this = Varying(); }

 private:
  using Places = std::unordered_map<const void*, std::vector<Ref>>;
  bool is_second_miss(uint64_t place);

  std::unordered_map<uint64_t, int> left_at_;  // how often, by instruction
  Places changed_, missed_;
  std::unordered_set<uint64_t> opened_, arguments_, latest_, fixed_, fixed_places_, types_;
  std::unordered_map<uint64_t, uint64_t> misses_;  // the first call that missed because of a place
  uint64_t call_ = 0;
  int learned_ = 0;
  bool refuses_ = false, counts_ = false;
};

// Names what a register of an argument holds, one with what foreign code returned, or one that guards loaded from such.
// 0: it is none.
uint64_t argument_way(const Trace& trace, Val source) noexcept;
// One step of it: through a guard that loads, whose subject, if that is a register, `way` leads to.
uint64_t way_through(const Guard& load, uint64_t way) noexcept;

// The guards of the trace do not let a call in, or those of an epoch do not let a replay go on. What differs by a
// number, or by what an argument is, for the second time varies from now on. True: nothing differs but what varies.
bool learn_from_guards(const Trace& trace, size_t first, size_t count, Reg* regs, Varying* varying);

}  // namespace pijit
