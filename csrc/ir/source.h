// Where a value is found: a path of steps from an argument, a global, a cell or a constant.
//
// The guards of a trace lead from its arguments to all that it names. So each guard that is looked at in order gives
// the values that it speaks of their paths: `self.layers[0].weight` is the attribute `weight` of item 0 of the
// attribute `layers` of argument 0. Text, data and files are made from this form.
//
// A trace keeps most of the objects that it names alive by nothing but its guards. So `alive` says whether the caller
// knows that they are (right after recording, or after the guards held); otherwise only what the trace owns, and what
// `proven` names (guard/proven.h), is looked into.
#pragma once
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/trace.h"

namespace pijit {

struct Source {
  enum class Step : uint8_t {
    kArgument,   // number: the slot; object: its name
    kGlobal,     // object: the name
    kCell,       // object: the variable
    kConstant,   // object
    kRegister,   // number: what a node of the trace gave
    kAttribute,  // object: the name
    kItem,       // object: the key; null: the index `number`
    kKeyAt,      // number: of the keys of a dict, in order
    kValueAt,    // number: of its values
    kInline,     // number: of the inline values of an instance, of a class that is not known to be alive
    kOffset,     // number: of the bytes of an object, of such a class
    kGet,        // a context variable's value
  };
  Step step;
  const Source* of = nullptr;  // null: the path begins here
  PyObject* object = nullptr;  // borrowed; may be dead
  uint64_t number = 0;
  const Source* key = nullptr;  // kItem: where the key is found, if the guards lead to it
};

// What a register that the caller fills is called: a local variable, or a place on the stack.
PyObject* input_name(PyCodeObject* code, uint32_t index);

// The paths of all that the guards of a trace lead to.
class Sources {
 public:
  // `written`: the code of the function to which the root hands what it was called with; null: it is called itself.
  Sources(const Trace& trace, bool alive, const ObjectSet* proven, PyCodeObject* written = nullptr);
  Sources(const Sources&) = delete;

  // Null: the guards do not lead to it.
  const Source* of(Val value) const;
  const Source* of(PyObject* object) const;
  // The object may be looked into.
  bool is_known(PyObject* object) const;
  // "self.layers[0].weight"
  std::string text(const Source& source) const;
  // Where the guard looks, with the name of the attribute: "self.lr"; that of its subject where there is none.
  std::string place(const Guard& guard) const;
  // Where a dict that is guarded has its item: an attribute, a global or an item.
  std::string item_place(const Guard& guard, PyObject* key) const;
  // The class that an object had when the trace was recorded, alive; null: it is not known.
  PyTypeObject* class_of(PyObject* object) const;
  const Trace& trace() const { return trace_; }

 private:
  using Step = Source::Step;
  const Source* make(Step step, const Source* of, PyObject* object, uint64_t number = 0) const;
  const Source* subject(const Guard& guard) const;
  const Source* inline_value(const Guard& guard, const Source* subject) const;
  const Source* at_offset(const Guard& guard, const Source* subject) const;
  const Source* value_at(const Guard& guard, const Source* subject) const;
  const Source* variable(const Guard& guard, const Source* subject) const;
  const Source* item(const Guard& guard, const Source* subject, PyObject* key) const;
  const Source* entry(const Guard& guard, const Source* subject) const;
  const Source* content(const Guard& guard, const Source* subject) const;
  const Source* found(const Guard& guard, const Source* subject) const;
  void name(PyObject* object, const Source* source);
  void follow(const Guard& guard);
  void follow_dict(const Guard& guard, const Source* subject);
  void follow_parts(const Guard& guard, const Source* subject);
  void note_class(const Guard& guard);
  void name_cells(PyObject* function);
  void name_all(PyObject* dict, const Source* subject, const Source* owner);
  std::string object_text(PyObject* object) const;
  std::string argument_name(const Source& source) const;
  bool is_alive(PyTypeObject* type) const;

  const Trace& trace_;
  bool alive_;
  const ObjectSet* proven_;
  std::unordered_set<PyObject*> owned_;
  PyCodeObject* written_;
  mutable std::deque<Source> made_;
  mutable std::unordered_map<PyTypeObject*, bool> living_;  // classes that were looked for
  std::unordered_map<PyObject*, const Source*> cells_;      // of functions: the variable that each is
  std::unordered_map<PyObject*, const Source*> owners_;     // of a dict: the object whose attributes it holds
  std::unordered_map<PyObject*, const Source*> constants_;
  std::unordered_map<uint32_t, const Source*> registers_;   // paths of arguments, and of what guards load
  std::unordered_map<uint32_t, PyTypeObject*> types_;       // classes of what registers hold
  std::unordered_map<PyObject*, PyTypeObject*> classes_;    // classes of constants
  std::unordered_map<uint32_t, PyObject*> same_;            // the constant that a register is, as a guard says
  std::unordered_map<uint32_t, PyCodeObject*> generators_;  // codes of generators in registers
  std::unordered_map<uint32_t, const Guard*> keys_;         // of dicts in registers: the guard that lists them
};

}  // namespace pijit
