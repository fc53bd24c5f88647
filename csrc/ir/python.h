// The nodes of a trace as lines of Python, for people: objects by the expressions that lead to them, virtual objects
// by what they hold.
//
// 1. Each line is valid Python. Operators of tensors are those of the framework's own namespace, so what consists of
//    them, and of numbers, lists and attributes, can be run.
// 2. An object that stands in a line several times is held by a variable, which its first place assigns.
// 3. A register that only holds another one in another form has that one's name, and no line.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/log.h"
#include "ir/print.h"

namespace pijit {

// A tensor or object that is loaded before the first node.
struct Loaded {
  std::string name;    // as it is called in the lines
  std::string source;  // the expression that leads to it
  std::string facts;   // of a tensor: "float32[*, *] on cpu"
  bool constant;       // the same object at each call
};

class PythonText {
 public:
  PythonText(const Trace& trace, const Printer& printer);

  const std::vector<Loaded>& loaded() const { return loaded_; }
  // Empty: the node has no line.
  std::string node(const Node& node);
  // Of a constant, register or virtual object as it is at that time.
  std::string value(Val value, uint32_t time, int depth = 0) const;

 private:
  void name_inputs();
  std::string name_of(uint32_t reg) const;
  std::string line(const Node& node);
  std::string named(uint32_t index, const Virtual& made, uint32_t time, int depth) const;
  std::string operation(const Node& node, std::string* targets) const;
  std::string expression(const Node& node) const;
  std::string statement(const Node& node) const;
  std::string call(const Node& node) const;
  std::string scalar(const Node& node) const;
  std::string guard(const Node& node) const;
  std::string object(const Virtual& object, uint32_t time, int depth) const;
  std::string container(const Virtual& object, const Content& content, uint32_t time, int depth) const;
  std::string fields(const Virtual& object, const Content& content, uint32_t time, int depth) const;

  const Trace& trace_;
  const Printer& printer_;
  std::vector<std::string> names_;  // of registers
  std::vector<Loaded> loaded_;
  // Of virtual objects in the line that is written: how often they stand there; then the variables that hold those that
  // stand there several times.
  mutable std::map<uint32_t, int> times_;
  mutable std::map<uint32_t, std::string> held_;
  mutable int count_ = 0;  // of such variables
  bool naming_ = false;    // it is known what stands several times
};

}  // namespace pijit
