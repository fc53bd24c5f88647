// What the program says of floating point errors, and a stricter form of it.
#include "numpy/errors.h"

#include <cfenv>
#include <utility>

#include "common/ref.h"
#include "numpy/library.h"

namespace pijit::numpy {
namespace {

// What the program says at present, and the same with all that it hears of raised.
struct Modes {
  Ref said, strict;
  int told = 0;           // flags
  bool answered = false;  // by more than a warning
};

struct Kind {
  const char* name;
  int flag;
};
constexpr Kind kKinds[] = {
    {"divide", FE_DIVBYZERO}, {"over", FE_OVERFLOW}, {"under", FE_UNDERFLOW}, {"invalid", FE_INVALID}};

bool make_strict(PyObject* said, Modes* out) noexcept {
  const Library& numpy = *library();
  const Ref modes = Ref::steal(PyObject_CallNoArgs(numpy.tell_errors));
  const Ref strict = Ref::steal(modes ? PyDict_New() : nullptr), none = Ref::steal(PyTuple_New(0));
  if (!strict || !none) return false;
  int told = 0;
  bool answered = false;
  for (const Kind& kind : kKinds) {
    PyObject* mode = PyDict_GetItemString(modes.get(), kind.name);
    const bool heard = mode == nullptr || PyUnicode_CompareWithASCIIString(mode, "ignore") != 0;
    told |= heard ? kind.flag : 0;
    answered |= heard && (mode == nullptr || PyUnicode_CompareWithASCIIString(mode, "warn") != 0);
    const Ref word = Ref::steal(PyUnicode_FromString(heard ? "raise" : "ignore"));
    if (!word || PyDict_SetItemString(strict.get(), kind.name, word.get()) != 0) return false;
  }
  Ref made = Ref::steal(PyObject_Call(numpy.make_errors, none.get(), strict.get()));
  if (!made) return false;
  out->said = Ref::borrow(said);
  out->strict = std::move(made);
  out->told = told;
  out->answered = answered;
  return true;
}

// Null: memory is short.
const Modes* modes_now() noexcept {
  static auto& modes = *new Modes;
  PyObject* said = nullptr;
  if (PyContextVar_Get(library()->errors, nullptr, &said) != 0) return nullptr;
  const Ref held = Ref::steal(said);
  if (!modes.strict || modes.said.get() != said)
    if (!make_strict(said, &modes)) return nullptr;
  return &modes;
}

}  // namespace

StrictErrors::StrictErrors() noexcept {
  const Modes* modes = modes_now();
  failed_ = modes == nullptr;
  if (failed_ || modes->told == 0) return;
  token_ = PyContextVar_Set(library()->errors, modes->strict.get());
  failed_ = token_ == nullptr;
}

StrictErrors::~StrictErrors() {
  if (token_ == nullptr) return;
  PyContextVar_Reset(library()->errors, token_);
  drop_reference(token_);
}

NoErrors::NoErrors() noexcept {
  const Ref none = Ref::steal(PyTuple_New(0)), modes = Ref::steal(PyDict_New());
  const Ref word = Ref::steal(PyUnicode_FromString("ignore"));
  bool made = none && modes && word;
  for (const Kind& kind : kKinds) made = made && PyDict_SetItemString(modes.get(), kind.name, word.get()) == 0;
  const Ref ignoring = Ref::steal(made ? PyObject_Call(library()->make_errors, none.get(), modes.get()) : nullptr);
  token_ = ignoring ? PyContextVar_Set(library()->errors, ignoring.get()) : nullptr;
  if (token_ == nullptr) PyErr_Clear();
}

NoErrors::~NoErrors() {
  if (token_ == nullptr) return;
  PyContextVar_Reset(library()->errors, token_);
  drop_reference(token_);
}

bool tells_of(int flags) noexcept {
  const Modes* modes = modes_now();
  if (modes == nullptr) PyErr_Clear();
  return modes == nullptr || (modes->told & flags) != 0;
}

bool answers_errors() noexcept {
  const Modes* modes = modes_now();
  if (modes == nullptr) PyErr_Clear();
  return modes == nullptr || modes->answered;
}

}  // namespace pijit::numpy
