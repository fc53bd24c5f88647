// Operations as words, and words as operations: see ir/words.h. Each class names its fields once.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "ir/executable.h"
#include "ir/words.h"
#include "torch/callables.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

using OpMaker = std::unique_ptr<AdapterOp> (*)(Reading&);
// By the first word of an operation.
std::unordered_map<std::string, OpMaker>& op_makers();

// As Adapter::make_operation.
std::unique_ptr<AdapterOp> make_operation(const Words& words, const std::vector<Rep>& reps);

// The base of operations that have a name `kName` and a template `fields`.
template <class Op>
class KeptOp : public AdapterOp {
 public:
  bool keep(Words& words) const final {
    Writing each(words);
    each.text(Op::kName);
    const_cast<Op&>(static_cast<const Op&>(*this)).fields(each);
    return each.ok();
  }
  static std::unique_ptr<AdapterOp> make(Reading& each) {
    auto made = std::make_unique<Op>();
    made->fields(each);
    return made;
  }
};

template <class Op>
bool add_maker() {
  return op_makers().emplace(Op::kName, &Op::make).second;
}

template <class Fields>
void device_field(Fields& each, c10::Device& device) {
  auto type = static_cast<int64_t>(device.type()), index = static_cast<int64_t>(device.index());
  each.number(type);
  each.number(index);
  if constexpr (Fields::kReads) {
    const bool is_one = type >= 0 && type < static_cast<int64_t>(c10::COMPILE_TIME_MAX_DEVICE_TYPES) && index >= -1 &&
                        index <= INT8_MAX && each.ok();
    if (!is_one) return each.fail();
    device = c10::Device(static_cast<c10::DeviceType>(type), static_cast<c10::DeviceIndex>(index));
  }
}

// One of `count` values of an enumeration.
template <class Fields, class Enum>
void choice_field(Fields& each, Enum& value, size_t count) {
  auto number = static_cast<uint64_t>(value);
  each.number(number);
  if constexpr (Fields::kReads) {
    if (number >= count) return each.fail();
    value = static_cast<Enum>(number);
  }
}

template <class Fields>
void devices_field(Fields& each, std::vector<c10::Device>& devices) {
  size_t count = devices.size();
  choice_field(each, count, 1 << 8);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (Fields::kReads) devices.emplace_back(c10::kCPU);
    device_field(each, devices[i]);
  }
}

template <class Fields>
void callable_field(Fields& each, const Callable*& row) {
  PyObject* object = row == nullptr ? nullptr : row->object;
  each.object(object);
  if constexpr (Fields::kReads) {
    row = object == nullptr ? nullptr : find_callable(object);
    if (row == nullptr) each.fail();
  }
}

}  // namespace pijit::torch_adapter
