// How one object leads to another: a path of such steps names an object in a way that holds in another process, too.
//
// Nothing here runs Python of the program, imports, or makes what is not there yet.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "common/python.h"
#include "ir/value.h"

namespace pijit {

enum class Lead : uint8_t {
#define PIJIT_LEAD(name, ...) name,
#include "ir/origins.def"
#undef PIJIT_LEAD
};

enum class LeadKey : uint8_t { kNone, kText, kLiteral, kObject };

struct LeadRow {
  const char* print;
  bool begins, number;
  LeadKey key;
};
const LeadRow& row_of(Lead part) noexcept;
inline constexpr size_t kLeads = static_cast<size_t>(Lead::kWrapped) + 1;

// The last step of the path to an object.
struct Origin {
  PyObject* of = nullptr;  // null: the path begins here
  Lead part = Lead::kNowhere;
  uint64_t number = 0;
  PyObject* key = nullptr;  // borrowed
};
using Origins = std::unordered_map<PyObject*, Origin>;

// It is a class of C that never dies. The object itself is not looked into.
bool is_static_class(PyObject* object);
// What the step leads to, borrowed; null: nothing. Not of kOwner and kArgument, which only the caller knows, and not of
// kMade and kAddress, which are made anew.
PyObject* part_of(const Origin& origin) noexcept;
// Of these objects the one whose address, as id() gives it, the number is; null: none, or it is no number.
PyObject* addressed(const Objects& objects, PyObject* number) noexcept;

}  // namespace pijit
