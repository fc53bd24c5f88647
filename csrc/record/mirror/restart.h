// An instruction that CPython may execute again while its C code draws from an iterator.
//
// A replay that is left in a generator that C code resumes finds no C code to go back to. CPython executes the
// instruction from its start then, with another operand in place of the iterable: an itertools.chain of what the C code
// has taken so far and of the iterator. The first thing that this does is to resume the generator where it stands.
//
// 1. The instruction has done nothing before it asks for the iterator that could be noticed the second time.
// 2. Nor has it done so with an item that it is given again. Where what it did stays, as in a list that it extends, the
// item is not given again; but a list that existed before has it late (filling.h), so there is no way back.
// 3. Between two items it may do anything. A replay is left there if the last item was kept, so that it is given again.
// 4. Foreign code may run in such a generator. What the C code has taken before is what Heap::now() says afterwards.
#pragma once
#include "record/mirror/drive.h"

namespace pijit {

class Restart {
 public:
  // `iterable` is an operand of the instruction; with any other value there is no way back.
  Restart(Drive& drive, Val iterable);
  ~Restart();
  Restart(const Restart&) = delete;
  Restart& operator=(const Restart&) = delete;

  void draws_from(Val iterator);
  Val ask();  // for the next item, which this iterator gives
  void answered() noexcept { asks_ = false; }
  void keep(Val item);       // it is given again, behind those that were kept before
  void keep_only(Val item);  // it is given again, and none of the others
  void forget();             // none is given again
  void give_up() noexcept { operand_ = -1; }

  // CPython may execute the instruction again: a generator is resumed, and nothing has happened since it was asked for.
  bool is_possible() const;
  int operand() const noexcept { return operand_; }  // the slot of the iterable
  Val instead() const noexcept { return instead_; }  // what stands there then

 private:
  Drive& drive_;
  Recorder& recorder_;
  Restart* outer_;
  int operand_ = -1;
  bool asks_ = false;
  uint32_t time_ = 0, lasting_ = 0;
  size_t nodes_ = 0;
  Val iterator_, items_, instead_;
};

}  // namespace pijit
