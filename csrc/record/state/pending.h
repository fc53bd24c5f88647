// What an instruction waits for.
#pragma once
#include <type_traits>
#include <variant>

#include "cpython/frame.h"
#include "ir/trace.h"

namespace pijit {

class Recorder;
struct ShadowFrame;

using Finish = void (*)(Recorder&, ShadowFrame&, PyObject* result);

// What the C code of an instruction does with the result of the frame that it entered: as a snapshot tells it (`extra`
// is Pending::x, of kEnter y), or in a way that no snapshot tells.
enum class Then : uint8_t {
#define PIJIT_CONTINUATION(name, print, doc) name,
#include "ir/continuations.def"
#undef PIJIT_CONTINUATION
  kGetAttribute,  // __getattribute__: pushes; on AttributeError calls __getattr__ with (x, y)
  kNext,          // kForIter over a generator: pushes what is yielded above the iterator; its end ends the loop
  kSend,          // kSend: pushes what is yielded above the receiver; what is returned replaces it, and jumps
  kUnpack,        // kUnpack: the items are pushed, the first on top
};

// What an instruction waits for, if CPython alone cannot tell its result: one of these.
//
// The frame of a function is to be entered.
struct Entering {
  PyFunctionObject* function;
  Val shadow;  // of the function
  Val names;   // where its variables are, if it is the body of a class
};
// A virtual generator is to be resumed.
struct Resuming {
  uint32_t generator;
  bool throws = false;    // by an exception, x or (Null) a new one; else x is sent
  bool again = false;     // the instruction has done nothing else
  bool restarts = false;  // the same with `instead` in the slot `operand`; an outer frame is left while that will do
  int operand = 0;
  Val instead = {};
};
// The adapter's finish_call decides.
struct Asking {
  bool branch = false;  // a conditional jump on a tensor: the direction taken tells its truth
};
// Foreign code runs: what it may have changed is checked anew afterwards.
struct Opaque {
  uint32_t out;                   // the register that takes what it returns
  cpython::Frame* run = nullptr;  // the frame that CPython runs to its end without being followed
};
// A number is taken out of the iterator of a range.
struct Advancing {
  uint32_t out;
};
// A node computes the result, and is to learn its class.
struct Computing {
  uint32_t node;
};
using Awaited = std::variant<std::monostate, Entering, Resuming, Asking, Opaque, Advancing, Computing>;

// What the current instruction of a frame is waiting for.
struct Pending {
  bool active = false;
  // How the instruction ends. It pushes 0: nothing; 1: the result; 2: what kLoadAttribute does for a call; 3: y and the
  // result, as kEnterWith; 4: the items of the result, as kUnpack.
  Then then = Then::kPush;
  uint8_t pushes = 1;
  bool has_result = false;      // `result` is the shadow of what the instruction produced
  bool raises = false;          // it will raise, as a consequence of guarded facts
  bool folds = false;           // it only looks at constants: if it raises, it always does
  bool entered = false;         // the frame that is awaited was
  bool ignores_frames = false;  // frames under it read only (import of a loaded module)
  int pops = 0;                 // operands it takes
  Val result, x, y;             // y: what the generator returned
  Val sought;                   // the frame gets an attribute: (object, name)
  Finish finish = nullptr;      // computes the result from the real one
  Awaited awaited;

  template <class T>
  bool is() const noexcept {
    return std::holds_alternative<T>(awaited);
  }
  bool expects_frame() const noexcept { return !entered && (is<Entering>() || is<Resuming>()); }
  const Resuming* resuming() const noexcept { return std::get_if<Resuming>(&awaited); }
  bool runs_again() const noexcept { return resuming() != nullptr && resuming()->again; }
  bool restarts() const noexcept { return resuming() != nullptr && resuming()->restarts; }
  void decides_branch() noexcept {  // if the adapter is asked at all
    if (auto* asking = std::get_if<Asking>(&awaited)) asking->branch = true;
  }
  // Operands that are off the stack while the inner frame runs.
  int popped() const { return then == Then::kBinary ? 0 : pops; }
};
// Copied as a whole, at each instruction: to set the members one by one takes several times as long.
inline constexpr Pending kNothingPending{};
static_assert(std::is_trivially_copyable_v<Pending>);

// The result is known and the instruction cannot fail any more.
void done(ShadowFrame& frame, int pops, Val result);
// The result is known, if the instruction does not raise.
void known(ShadowFrame& frame, int pops, Val result);
Pending& await(ShadowFrame& frame, int pops, int pushes);
void observe(ShadowFrame& frame, int pops, Finish finish);
// Guarded facts say that it raises: `exception`, or (Null) a new one.
void will_raise(Recorder&, ShadowFrame& frame, int pops, Val exception = Val(), bool again = false);

}  // namespace pijit
