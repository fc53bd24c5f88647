// What an object is, in words that another process compares with what it finds at the same place.
//
// A trace that is kept says of most of its objects nothing but the path that leads to them. What cannot change in them,
// the guards never look at again: that it is this function, of this code, is all that a guard proves. So the words say
// what the object is: the code of a function, what a class defines, the content of what cannot change. What can change
// is for the guards.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/python.h"

namespace pijit {

// Describes objects while nothing runs: what was computed of one is remembered.
class Descriptions {
 public:
  // Empty: it is of a class of which nobody knows what an object holds.
  std::string of(PyObject* object);
  // Of the code and all code within it.
  uint64_t digest(PyCodeObject* code);
  uint64_t class_digest(PyTypeObject* type);

 private:
  uint64_t literal(PyObject* object, int depth = 0);
  uint64_t function(PyObject* object);
  uint64_t descriptor(PyObject* object);
  uint64_t own_members(PyTypeObject* type);
  uint64_t types_in(PyObject* joined);  // in `int | str`
  bool content(PyObject* object, uint64_t* digest);

  const std::string& name_of(PyTypeObject* type);

  std::unordered_map<const void*, uint64_t> known_;
  std::unordered_map<PyTypeObject*, std::string> names_;
};

// In place of the words for a number that id() gives: what it is the number of says what it is.
inline constexpr const char* kAboutAddress = "address";

uint64_t digest_of(std::string_view bytes);
std::string hex(uint64_t number);
// "torch.nn.modules.linear.Linear"
std::string full_name(PyTypeObject* type);

}  // namespace pijit
