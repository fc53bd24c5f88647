// What an earlier run has learnt of roots, by their code: a root begins with it (pijit/_profile.py has the file).
//
// A profile says what is worth recording and what of it differs from call to call. It is a guess: with a wrong one a
// function runs as in CPython, or its trace is more general than it need be.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/root.h"

namespace pijit {

// A place that varied: in the variables of the root's module, in the attributes of its instance, or in cell `cell`.
struct ProfiledPlace {
  int container = 0;  // -2: the module, -1: the instance, else the number of a cell
  std::string key;    // "": what the cell holds
};
struct Profiled {
  std::string useless;           // why nothing of the root is to be recorded; empty: it is
  bool passes = false;           // what it calls is recorded instead
  std::vector<uint32_t> inputs;  // that varied
  std::vector<ProfiledPlace> places;
};

using Profile = std::unordered_map<std::string, Profiled>;
// In use, by what tells the code of a root apart (kept_name); empty: none is.
Profile& profile() noexcept;
// What the root has learnt of itself.
Profiled learnt_by(const Root& root);
// The root begins with what the profile says of it. True: it is left to CPython.
bool begin_as_profiled(Root& root);

}  // namespace pijit
