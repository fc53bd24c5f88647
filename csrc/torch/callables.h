// The callables and attributes of torch that the adapter knows, each with its rule; found by identity.
//
// A builtin function or method is known by its PyMethodDef, an attribute by its PyGetSetDef: both live as long as the
// process, and two objects made of one definition are one row. Everything else is known by the object, which the table
// keeps alive.
#pragma once
#include <string>

#include "adapter.h"

namespace pijit::torch_adapter {

enum class Rule : uint8_t {
#define PIJIT_RULE(name, doc) name,
#include "torch/rules.def"
#undef PIJIT_RULE
};

enum class Family : uint8_t {
  kMethod,     // methods and slots of torch.Tensor; operand 0 is self
  kFunction,   // torch.*, torch.nn.functional's builtins, torch.linalg, ...
  kAttribute,  // attributes of torch.Tensor
  kCore,       // functions of torch._C about modes
  kType,       // types of small immutable objects
};

struct Callable {
  Family family;
  Rule rule;
  std::string name;
  // The operator's base name for kOperator, kView and packets of kNamedOperator ("add"); the full name for other
  // kNamedOperator ("aten::add.Tensor").
  std::string op;
  PyObject* object;  // kept alive by the table
};

// Fills the table; false with a Python error set.
bool build_callables();

// The row of a function of torch._C, or null.
const Callable* find_core(const char* name) noexcept;

// The row of a callable or descriptor, or null.
const Callable* find_callable(PyObject* object) noexcept;

// Puts the function behind torch.ops.aten.NAME into the table, with `op` as the row keeps it.
const Callable* add_named_operator(PyObject* function, const std::string& op);

// The base name of the operator that a row dispatches.
std::string base_of(const Callable& row);

// Operators that a binary, unary or comparison operator may dispatch, one after the other ("reciprocal mul"),
// alternatives by '|'.
const char* site_operators(const CallSite& site) noexcept;

}  // namespace pijit::torch_adapter
