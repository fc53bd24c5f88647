// Traces as text: values, guards, nodes, snapshots, with the user's own names where the trace still knows them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/call.h"
#include "ir/source.h"

namespace pijit {

// The characters of a str; "?" where there is none.
std::string text_of(PyObject* str);
// With commas between them.
std::string joined(const std::vector<std::string>& parts);
// An object that is alive: a scalar's repr, the name of a type, function or module, or the type's name.
std::string describe(PyObject* object);
// A scalar that is written as its repr.
bool prints_itself(PyObject* object);
// As repr() of a float, and as Python where that is none.
std::string python_number(double number);
// An object that is alive, as Python: a scalar, a name, or a name made of its address.
std::string python_object(PyObject* object);
// What is checked of a tensor input: "float32[*, *] on cpu".
std::string words(const TensorFacts& facts);

// The node is an operation of an adapter; what only computes may have one for its speed.
inline bool is_operation(const Node& node) noexcept {
  return node.adapter_op != nullptr && node.op != Op::kPure;
}
// An operation as Python: an expression, or a statement if it gives nothing. `name` is what registers are called.
using RegisterName = std::function<std::string(uint32_t)>;
std::string python_call(const OperatorCall& call, const RegisterName& name);
// What its results are assigned to: "r5, _"; empty: it gives nothing.
std::string python_targets(const OperatorCall& call, const RegisterName& name);

class Printer {
 public:
  // For `alive`, `proven` and `written` see ir/source.h.
  Printer(const Trace& trace, bool alive, const ObjectSet* proven = nullptr, PyCodeObject* written = nullptr);

  std::string value(Val value) const;
  // describe(), or the class that an object had which may be dead.
  std::string object(PyObject* object) const;
  // As Python: the expression that leads to the object, else a scalar or a name, else a name made of its address.
  std::string python(PyObject* object) const;
  // A text as a word of Python.
  std::string word(PyObject* name) const;
  // Where a value is found, as source text ("self.layers[0].weight"), or its value() when unknown.
  std::string source(Val value) const;
  const Sources& sources() const { return sources_; }
  std::string guard(const Guard& guard) const;
  std::string node(const Node& node) const;
  std::string scalar(const Node& node) const;
  std::string frame(const FrameState& state) const;
  std::string snapshot(uint32_t index) const;
  std::string virtual_object(uint32_t index) const;
  // "file.py:12 in f" or "".
  std::string site(uint32_t index) const;
  std::string tensor_input(const InputGuards& inputs, size_t index) const;
  std::string all() const;

 private:
  std::string items(const Guard& guard) const;

  const Trace& trace_;
  const ObjectSet* proven_;
  Sources sources_;
};

std::string print_trace(const Trace& trace, bool alive);

}  // namespace pijit
