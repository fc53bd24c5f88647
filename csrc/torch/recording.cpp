// Converts operands of a call, and keeps what is known of registers.
#include "torch/recording.h"

#include <algorithm>
#include <cstring>

#include "torch/metadata.h"

namespace pijit::torch_adapter {

bool Recording::take(const CallSite& site) {
  args.clear();
  args.resize(site.count);
  operands = site.count;
  keywords = site.kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(site.kwnames)) : 0;
  for (size_t i = 0; i < site.count; ++i)
    if (!convert(site.operands[i], i, 0)) return false;
  return true;
}

// Scalars and the small immutable objects of torch; anything else is kOther.
bool Recording::convert_constant(PyObject* object, Arg& arg) {
  PyTypeObject* type = Py_TYPE(object);
  arg.object = object;
  if (object == Py_None) {
    arg.kind = ArgKind::kNone;
  } else if (type == &PyBool_Type) {
    arg.kind = ArgKind::kBool;
    arg.integer = object == Py_True;
  } else if (type == &PyLong_Type) {
    int overflow = 0;
    int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    arg.kind = overflow == 0 ? ArgKind::kInt : ArgKind::kOther;
    if (overflow == 0) arg.integer = value;
  } else if (type == &PyFloat_Type) {
    arg.kind = ArgKind::kFloat;
    arg.number = PyFloat_AS_DOUBLE(object);
  } else if (type == &PyUnicode_Type) {
    arg.kind = ArgKind::kString;
  } else if (type == &THPDtypeType) {
    arg.kind = ArgKind::kDtype;
    arg.integer = static_cast<int64_t>(reinterpret_cast<THPDtype*>(object)->scalar_type);
  } else if (type == &THPLayoutType) {
    arg.kind = ArgKind::kLayout;
    arg.integer = static_cast<int64_t>(reinterpret_cast<THPLayout*>(object)->layout);
  } else if (type == &THPMemoryFormatType) {
    arg.kind = ArgKind::kMemoryFormat;
    arg.integer = static_cast<int64_t>(reinterpret_cast<THPMemoryFormat*>(object)->memory_format);
  } else if (type == &THPDeviceType) {
    arg.kind = ArgKind::kDevice;
  } else if (object == Py_Ellipsis) {
    arg.kind = ArgKind::kEllipsis;
  } else if (type == &PyComplex_Type) {
    arg.kind = ArgKind::kComplex;
  } else if (THPGeneratorClass != nullptr && type == reinterpret_cast<PyTypeObject*>(THPGeneratorClass)) {
    arg.kind = ArgKind::kGenerator;
  } else {
    arg.kind = ArgKind::kOther;
  }
  return arg.kind != ArgKind::kOther;
}

bool Recording::convert(const Operand& operand, size_t slot, int depth) {
  Arg arg;
  arg.value = operand.value;
  PyObject* object = operand.object;
  if (object == nullptr) {
    args[slot] = arg;
    return true;
  }
  PyTypeObject* type = Py_TYPE(object);
  arg.type = operand.value.is_reg() ? api.facts(operand.value).type : type;
  if (is_tensor_type(type)) {
    bool usable = operand.value.is_reg() && api.facts(operand.value).rep == Rep::kTensor && is_plain_tensor(object);
    arg.kind = usable ? ArgKind::kTensor : ArgKind::kOther;
    if (usable) {
      if (!api.check_class(operand)) return stopped = true, false;
      arg.tensor = impl_of(object);
      arg.dtype = read_fact(arg.tensor, Fact::kDtype);
      arg.device = read_fact(arg.tensor, Fact::kDevice);
    }
    args[slot] = arg;
    return true;
  }
  if (type == &PyTuple_Type || type == &PyList_Type || type == &THPSizeType || type == &PySlice_Type) {
    std::vector<Operand> items;
    bool slice = type == &PySlice_Type, known = false;
    if (depth < 8 && slice) {
      items.resize(3);
      known = api.slice_fields(operand, items.data());
    } else if (depth < 8) {
      known = api.sequence_items(operand, &items);
    }
    arg.kind = !known ? ArgKind::kOther : slice ? ArgKind::kSlice : ArgKind::kSequence;
    if (known) {
      arg.first = static_cast<uint32_t>(args.size());
      arg.count = static_cast<uint32_t>(items.size());
      args.resize(args.size() + items.size());
      for (size_t i = 0; i < items.size(); ++i)
        if (!convert(items[i], arg.first + i, depth + 1)) return false;
    }
    args[slot] = arg;
    return true;
  }
  if (operand.value.is_virtual()) {
    arg.kind = ArgKind::kOther;
    args[slot] = arg;
    return true;
  }
  bool simple = convert_constant(object, arg);
  if (operand.value.is_reg() && simple) {
    Rep rep = api.facts(operand.value).rep;
    if (is_number(rep)) {
      arg.dynamic = true;
    } else if (Val number = api.unbox(operand.value, object); !number.is_null()) {
      arg.value = number;
      arg.dynamic = true;
    } else {
      arg.value = api.force_const(operand.value, object);
      if (arg.value.is_null()) {
        stopped = true;
        return false;
      }
    }
  }
  args[slot] = arg;
  return true;
}

Known& Recording::known(Val reg) {
  if (known_.size() <= reg.index()) known_.resize(reg.index() + 64);
  return known_[reg.index()];
}

void Recording::forget_layouts() {
  forgot_layouts_ = true;
  for (Known& known : known_) {
    known.dim = known.strides = known.contiguous = known.offset = false;
    known.sizes.clear();
  }
  forget_autograd();
}

void Recording::forget_autograd() {
  for (Known& known : known_) known.requires_grad = known.leaf = known.nodeless = false;
}

const at::Tensor& Recording::shared_number(const at::Tensor& number) {
  const auto same = [&](const at::Tensor& other) {
    return other.scalar_type() == number.scalar_type() && other.is_inference() == number.is_inference() &&
           std::memcmp(other.const_data_ptr(), number.const_data_ptr(), number.itemsize()) == 0;
  };
  const auto found = std::find_if(numbers_.begin(), numbers_.end(), same);
  return found != numbers_.end() ? *found : numbers_.emplace_back(number);
}

const c10::IValue& Recording::shared_list(const c10::IValue& list) {
  if (!list.isIntList()) return list;
  const c10::ArrayRef<c10::IValue> items = list.toListRef();
  const auto same = [&](const c10::IValue& other) {
    return std::equal(items.begin(), items.end(), other.toListRef().begin(), other.toListRef().end(),
                      [](const c10::IValue& a, const c10::IValue& b) { return a.toInt() == b.toInt(); });
  };
  const auto found = std::find_if(lists_.begin(), lists_.end(), same);
  return found != lists_.end() ? *found : lists_.emplace_back(list);
}

}  // namespace pijit::torch_adapter
