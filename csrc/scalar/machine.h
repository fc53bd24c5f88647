// Runs a program over numbers.
//
// 1. A run holds the GIL. A thread that asks for it has it at the end of some turn of a loop. Variables of the module
//    are looked up anew then, and the run is left where one has changed. A signal leaves the run there.
// 2. A call of another function of Python runs as its program does, if that comes to its end and writes nothing. Else
//    CPython makes the call once more.
// 3. Nothing that a run does calls Python, and nothing dies in it that somebody could see die.
#pragma once
#include "cpython/frame.h"
#include "scalar/program.h"
#include "scalar/value.h"

namespace pijit::scalar {

// How a run ended.
struct Ended {
  bool returned = false;
  uint16_t result = 0;  // the register that is returned
  int32_t place = -1;   // else where CPython goes on
};

class Machine {
 public:
  // `may_write`: to lists, so that the run cannot be forgotten; else it is left there.
  Machine(const Program& program, PyThreadState* ts, cpython::Frame* frame, bool may_write);

  // For calls of the function in other programs.
  Machine(const Program& program, PyThreadState* ts, PyObject* function, int level);

  Ended run();
  uint64_t turns() const noexcept { return turns_; }
  bool has_written() const noexcept { return wrote_; }
  // The frame gets what the program has made of it, and stands at that place. False with an error set: memory is short,
  // and nothing has changed.
  bool write_back(int32_t place);
  // A new reference; null with an error set.
  PyObject* result(const Ended& ended) noexcept { return object_in(ended.result); }

 private:
  void load_frame();
  void load_cells(PyObject* closure);
  bool look_up();
  Value find(const Fixed& wanted) const noexcept;
  bool attend();
  PyObject* object_in(uint16_t reg) noexcept;
  Machine* machine_of(PyObject* function, size_t arguments);
  bool call_program(const Step& now);
  void empty();
  bool frees(const Value& value) const noexcept;
  bool put(uint16_t reg, const Value& value) noexcept;
  bool put(uint16_t reg, double value) noexcept;
  bool put(uint16_t reg, int64_t value) noexcept;
  bool force(uint16_t reg, const Value& value) noexcept;
  bool put_item(uint16_t reg, PyObject* item) noexcept;
  bool do_step(const Step& now);
  bool arithmetic(const Step& now);
  bool jumps(const Step& now, bool* taken);
  bool call_function(const Step& now, bool iterates);
  bool iterate(const Step& now);
  bool next(const Step& now, bool* ended);
  bool deref(const Step& now);
  bool subscript(const Step& now);
  bool store(const Step& now);
  bool append(const Step& now);
  bool unpack(const Step& now);
  bool is_same(const Step& now);

  static constexpr int kMostLevels = 8;
  static constexpr uint32_t kPatience = 512;  // turns after which it is asked who wants attention
  const Program& program_;
  PyThreadState* ts_;
  cpython::Frame* frame_;  // null: the call of another program
  PyObject *globals_, *builtins_;
  int level_ = 0;
  std::vector<std::pair<PyObject*, std::unique_ptr<Machine>>> inner_;  // by function, which a register holds
  Registers registers_;
  Value* regs_;
  bool may_write_;
  bool wrote_ = false;
  uint32_t left_ = kPatience;
  uint64_t turns_ = 0;
};

}  // namespace pijit::scalar
