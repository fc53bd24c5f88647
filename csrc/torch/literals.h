// Constants of operations as Python objects and as arguments of OperatorCall.
#pragma once
#include <string>

#include "ir/call.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

// Null: it has no form in Python. `type` tells numbers from what torch encodes as such (dtypes, layouts, formats).
Ref python_object(const c10::IValue& value, const c10::Type* type = nullptr);
Ref python_object(at::ScalarType dtype);
Ref python_object(at::MemoryFormat format);
Ref python_object(c10::Device device);

// "float32"
std::string type_words(c10::ScalarType dtype);

// Lists become lists of arguments.
OperatorArgument literal_argument(std::string name, const c10::IValue& value, const c10::Type* type = nullptr);
inline OperatorArgument literal_argument(std::string name, PyObject* object) {
  return OperatorArgument::of_literal(std::move(name), Ref::borrow(object));
}
inline OperatorArgument self_argument(uint32_t reg, bool written = false) {
  OperatorArgument made = OperatorArgument::of_register("self", reg);
  made.written = written;
  return made;
}

// The argument whose memory a result may share, by the schema; -1: none.
int shared_argument(const c10::FunctionSchema& schema, size_t result);

}  // namespace pijit::torch_adapter
