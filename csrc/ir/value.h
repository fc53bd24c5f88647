// A shadow value: where the content of one stack or local slot came from, in one word.
//
//        Null          the slot is empty (NULL)
//       /  |  \.
//   Const Reg Virtual
//
// Const    the object itself: the guards of the trace prove that a replay would find the same object there.
// Reg      a register of the trace: an input or the result of a node; it differs from call to call.
// Virtual  an object that was allocated while recording and need not be built unless it escapes.
//
// Worked example: `h = self.lin(x)[0:n]` with n = 3 read from a guarded attribute: `self.lin` is Const, `x` and the
// result of the call are Reg, the slice is Virtual, its bounds are Const.
//
// Objects are 16-byte aligned (checked where a constant is made), so the two low bits carry the kind and a shadow slot
// costs one word and needs no table. A Const borrows: see Trace::owned and Trace::pins for who keeps it alive.
#pragma once
#include <cstdint>
#include <functional>
#include <unordered_set>
#include <vector>

#include "common/pool.h"
#include "common/python.h"

namespace pijit {

// No index: of a register, node, snapshot or the like.
inline constexpr uint32_t kNone = UINT32_MAX;

enum class ValueKind : uint8_t { kNull, kConst, kReg, kVirtual };

class Val {
 public:
  constexpr Val() noexcept = default;
  static Val constant(PyObject* object) noexcept { return Val(reinterpret_cast<uintptr_t>(object)); }
  static Val reg(uint32_t index) noexcept { return Val((static_cast<uintptr_t>(index) << 2) | 1); }
  static Val virtual_object(uint32_t index) noexcept { return Val((static_cast<uintptr_t>(index) << 2) | 2); }

  ValueKind kind() const noexcept {
    if (bits_ == 0) return ValueKind::kNull;
    return (bits_ & 3) == 0 ? ValueKind::kConst : (bits_ & 3) == 1 ? ValueKind::kReg : ValueKind::kVirtual;
  }
  bool is_null() const noexcept { return bits_ == 0; }
  bool is_const() const noexcept { return bits_ != 0 && (bits_ & 3) == 0; }
  bool is_reg() const noexcept { return (bits_ & 3) == 1; }
  bool is_virtual() const noexcept { return (bits_ & 3) == 2; }
  // The object of a Const (borrowed); null for every other kind.
  PyObject* object() const noexcept { return (bits_ & 3) == 0 ? reinterpret_cast<PyObject*>(bits_) : nullptr; }
  // The register or virtual index.
  uint32_t index() const noexcept { return static_cast<uint32_t>(bits_ >> 2); }
  bool operator==(const Val& other) const noexcept { return bits_ == other.bits_; }
  bool operator!=(const Val& other) const noexcept { return bits_ != other.bits_; }

 private:
  explicit constexpr Val(uintptr_t bits) noexcept : bits_(bits) {}
  uintptr_t bits_ = 0;
};
static_assert(sizeof(Val) == sizeof(void*));

using Vals = std::vector<Val, Pooled<Val>>;
using Objects = std::vector<PyObject*, Pooled<PyObject*>>;
using ObjectSet = std::unordered_set<PyObject*, std::hash<PyObject*>, std::equal_to<PyObject*>, Pooled<PyObject*>>;

// What a register holds. Declared once: the tag of a register at replay is this same enum.
enum class Rep : uint32_t { kEmpty, kObject, kTensor, kInt, kFloat, kBool };

inline bool is_number(Rep rep) noexcept {
  return rep == Rep::kInt || rep == Rep::kFloat || rep == Rep::kBool;
}
// The class of such a number in Python.
inline PyTypeObject* type_of_number(Rep rep) noexcept {
  return rep == Rep::kFloat ? &PyFloat_Type : rep == Rep::kBool ? &PyBool_Type : &PyLong_Type;
}

// One register at replay: 16 bytes, a payload and its tag.
struct Reg {
  union {
    PyObject* object;  // kObject: a reference if owned, else borrowed from the caller's frame
    void* tensor;      // kTensor: the adapter's tensor; a reference if owned, else borrowed from an input
    int64_t integer;
    double number;
    bool boolean;
  };
  Rep rep;
  uint32_t owned;  // 1: the register holds a reference that its release drops
};

// The same number of the same representation, bit for bit.
inline bool same_number(const Reg& a, const Reg& b) noexcept {
  return a.rep == b.rep && (a.rep == Rep::kBool ? a.boolean == b.boolean : a.integer == b.integer);
}
static_assert(sizeof(Reg) == 16);

}  // namespace pijit
