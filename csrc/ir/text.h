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
#include <memory>
#include <string>
#include <unordered_map>

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
};

std::string trace_text(const Trace& trace, const Sources& sources);
std::string trace_text(const ParsedTrace& parsed);
// Makes Python objects. Throws a TextError, or std::bad_alloc.
std::unique_ptr<ParsedTrace> parse_trace(const std::string& text);

}  // namespace pijit
