// Where in a program something stands, as people are told it: their own file and line.
//
// A file is a library's if it is one of the standard library's or of an installed package's, or lies in a directory
// that was given to set_library(). Everything else is the user's.
#pragma once
#include <string>
#include <vector>

#include "cpython/frame.h"

namespace pijit::cpython {

struct Place {
  std::string file, function;
  int line = 0;
};

// Directories of libraries that do not lie in a site-packages, such as that of the standard library.
void set_library(std::vector<std::string> directories);
// With `packages` false, only those that were given to set_library().
bool is_library(PyCodeObject* code, bool packages = true) noexcept;
Place place_of(PyCodeObject* code, int instruction);
// The innermost place of the user's in a frame or its callers; its line is 0 if there is none.
Place user_place(Frame* frame);
// "torch/nn/modules/linear.py:134": a place in a library, by the name of the package.
std::string library_words(const Place& place);

}  // namespace pijit::cpython
