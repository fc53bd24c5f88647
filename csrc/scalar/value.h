// What a register of a program over numbers holds: a number without an object, a loop's iterator, or an object.
//
// 1. Numbers and ranges own nothing. An object is owned by its register: whoever overwrites one lets go of it.
// 2. An int is one of 64 bits. A larger one is an object, on which nothing is computed.
#pragma once
#include <cstdint>
#include <vector>

#include "common/ref.h"

namespace pijit::scalar {

enum class Tag : uint32_t {
  kEmpty,  // an empty slot
  kInt,
  kFloat,
  kBool,
  kComplex,  // `number` and `imaginary`
  kRange,    // the iterator of a range: `integer` comes next, `left` more after `step` each
  kItems,    // the iterator of the list or tuple `object`, at the index `step`
  kObject,   // anything else; `left` says which callable it is (functions.h)
};

struct Value {
  union {
    int64_t integer;
    double number;
    PyObject* object;
  };
  union {
    int64_t step;
    double imaginary;
  };
  int64_t left = 0;
  Tag tag = Tag::kEmpty;

  Value() noexcept : integer(0), step(0) {}
  // But no complex one.
  bool is_number() const noexcept { return tag >= Tag::kInt && tag <= Tag::kBool; }
  bool owns() const noexcept { return tag >= Tag::kItems; }
  static Value of(int64_t integer) noexcept {
    Value value;
    value.integer = integer;
    value.tag = Tag::kInt;
    return value;
  }
  static Value of(double number) noexcept {
    Value value;
    value.number = number;
    value.tag = Tag::kFloat;
    return value;
  }
  static Value of(double number, double imaginary) noexcept {
    Value value = of(number);
    value.imaginary = imaginary;
    value.tag = Tag::kComplex;
    return value;
  }
  static Value of(bool truth) noexcept {
    Value value = of(static_cast<int64_t>(truth));
    value.tag = Tag::kBool;
    return value;
  }
};

// What stands for the object (null: an empty slot), with a reference of its own if it is no number.
Value value_of(PyObject* object) noexcept;
// As value_of, but the iterator of a range, list or tuple that nobody else holds is one without an object.
Value value_of_iterator(PyObject* object) noexcept;
// A new reference; null with an error set, or, of an empty slot, without.
PyObject* object_of(const Value& value) noexcept;

// The registers of one run.
class Registers {
 public:
  explicit Registers(size_t count) : values_(count) {}
  ~Registers() {
    for (Value& value : values_) let_go(value);
  }
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;
  Value* data() noexcept { return values_.data(); }
  Value& operator[](size_t index) noexcept { return values_[index]; }
  static void let_go(Value& value) noexcept {
    const bool owns = value.owns();
    value.tag = Tag::kEmpty;
    if (owns) drop_reference(value.object);
  }

 private:
  std::vector<Value> values_;
};

}  // namespace pijit::scalar
