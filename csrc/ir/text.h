// A trace as text that can be read again: all that the recorder and the passes have put into it, each field by the
// word that its row has for it.
//
//   pijit trace 1
//   codes
//   code(0) "f" qualname="f" stack=2 units=9 locals=(x, n)
//   trace code(0) inputs=2 depth=1 clock=3 operations=4
//   counts registers=4 guards=2 virtuals=0 states=1 snapshots=1
//   ...
//   nodes
//   n0 outs=(r3) inputs=(r2) exit=s0 time=1 at=code(0):3 do aten::add.Tensor(self=r2, other=1, alpha?*=1) -> (r3)
//   n1 a=r3 ...
//   end
//
// 1. Print, parse, print gives the same text.
// 2. Nothing in the text means something in one process only: no addresses, no tags, no directories. Objects are
//    literals, or the path that leads to them, or what they are called; two objects never have one text (a number
//    is put behind the second). What is left out is taken anew where a trace is put to use.
// 3. What is read is no trace that can be replayed: its objects are stand-ins, its operations are data (see
//    TextOperation), its code objects do nothing.
// 4. Any text may be read: what is no trace gives a TextError. What is read satisfies verify_trace.
#pragma once
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/origin.h"
#include "ir/source.h"
#include "ir/trace.h"

namespace pijit {

// Where a text is no trace: line and column from 1, or 0 if the text as a whole contradicts itself.
class TextError : public std::exception {
 public:
  TextError(int line, int column, std::string what) : line(line), column(column), what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }
  const int line, column;

 private:
  std::string what_;
};

// What was read, with the texts of its stand-ins.
struct ParsedTrace {
  Trace trace;
  std::unordered_map<PyObject*, std::string> names;
  std::deque<std::string> words;  // that the trace points to

  // Of a trace that another process has kept:
  bool kept = false;
  std::vector<PyObject*> objects;                             // that stand in place of "known(0)", "known(1)", ...
  std::unordered_map<uint32_t, std::vector<PyObject*>> more;  // by guard: what KeptNames::more() said
};

// Names the objects of a trace such that another process finds them.
class KeptNames {
 public:
  virtual ~KeptNames() = default;
  // "known(3)"; empty: the object says itself what it is, as a literal. `alive`: it is known to be.
  virtual std::string name(PyObject* object, bool alive) = 0;
  // What the guard relies on and does not say: the names that instances of its class share; what the dict holds.
  virtual std::vector<PyObject*> more(const Guard& guard) = 0;
  // The trace cannot be kept, and why.
  virtual void fail(std::string why) = 0;

  // What is being written: "guard" and its number.
  const char* what = "";
  uint32_t number = 0;
};

// One object of a kept trace, as its line says how to find it.
struct KeptObject {
  Lead part = Lead::kNowhere;
  uint32_t of = 0;  // index of an earlier one
  uint64_t number = 0;
  uint32_t by = 0;    // index of an earlier one, where the key is an object
  Ref key;            // a str, or a literal
  std::string about;  // as Descriptions::of() has it
  bool owned = false;
  std::vector<KeptObject> also;  // other steps that lead to it
};
// Finds the objects, borrowed; false: one is not there, or is another.
using FindKept = std::function<bool(const std::vector<KeptObject>&, std::vector<PyObject*>*)>;

std::string trace_text(const Trace& trace, const Sources& sources);
std::string trace_text(const ParsedTrace& parsed);
// A trace for another process, without the lines of its objects.
std::string kept_trace_text(const Trace& trace, KeptNames& names);
// One of these lines.
std::string kept_object_text(size_t index, const KeptObject& object);
// Makes Python objects. Throws a TextError, or std::bad_alloc.
std::unique_ptr<ParsedTrace> parse_trace(const std::string& text);
// "pijit kept 1", the lines of its objects, and the trace. Null: `find` has not found them. What is read are the
// objects themselves; operations and modes are words (TextOperation, TextState).
std::unique_ptr<ParsedTrace> parse_kept(const std::string& text, const FindKept& find);

}  // namespace pijit
