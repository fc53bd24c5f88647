// Traces as text: values, guards, nodes, snapshots, with the user's own names where the trace still knows them.
//
// A trace keeps most of the objects that it names alive by nothing but its guards. So `alive` says whether the caller
// knows that they are (right after recording, or after the guards held); otherwise only what the trace owns is looked
// into.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/trace.h"

namespace pijit {

// An object that is alive: a scalar's repr, the name of a type, function or module, or the type's name.
std::string describe(PyObject* object);
// A scalar that is written as its repr.
bool prints_itself(PyObject* object);
// As repr() of a float, and as Python where that is none.
std::string python_number(double number);

class Printer {
 public:
  // `proven`: objects that are known to be alive besides those that the trace owns; see guard/proven.h.
  Printer(const Trace& trace, bool alive, const ObjectSet* proven = nullptr);

  std::string value(Val value) const;
  // describe(), or the address of an object that may be dead.
  std::string object(PyObject* object) const;
  // As Python: the expression that leads to the object, else a scalar or a name, else a name made of its address.
  std::string python(PyObject* object) const;
  // A text as a word of Python.
  std::string word(PyObject* name) const;
  // Where a value is found, as source text ("self.layers[0].weight"), or its value() when unknown.
  std::string source(Val value) const;
  std::string guard(const Guard& guard) const;
  std::string node(const Node& node) const;
  std::string scalar(const Node& node) const;
  std::string frame(const FrameState& state) const;
  std::string snapshot(uint32_t index) const;
  std::string virtual_object(uint32_t index) const;
  // "file.py:12 in f" or "".
  std::string site(uint32_t index) const;
  std::string all() const;

 private:
  void find_sources();
  void name_cells(PyObject* function);
  void name_all(PyObject* dict, const std::string& subject, const std::string* owner);
  bool is_known(PyObject* object) const;
  void name_item(PyObject* object, std::string text);
  std::string items(const Guard& guard) const;

  const Trace& trace_;
  bool alive_;
  const ObjectSet* proven_;
  std::unordered_set<PyObject*> owned_;
  std::unordered_map<PyObject*, std::string> cells_;     // of functions: the variable that each is
  std::unordered_map<PyObject*, std::string> names_;     // of constants
  std::unordered_map<uint32_t, std::string> registers_;  // of registers that guards load
};

std::string print_trace(const Trace& trace, bool alive);

}  // namespace pijit
