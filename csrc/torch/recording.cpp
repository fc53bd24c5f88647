// Converts operands of a call, and keeps what is known of registers.
#include "torch/recording.h"

#include <utility>

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
    bool usable = operand.value.is_reg() && api.facts(operand.value).rep == Rep::kTensor && follows(object);
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
  Known& known = known_[reg.index()];
  if (known.all != all_) {
    known = Known();
    known.all = all_;
    known.layouts = layouts_;
    known.autograd = autograd_;
  }
  if (std::exchange(known.layouts, layouts_) != layouts_) {
    known.dim = known.strides = known.contiguous = known.offset = false;
    known.sizes.clear();
  }
  if (std::exchange(known.autograd, autograd_) != autograd_) known.requires_grad = known.leaf = known.nodeless = false;
  return known;
}

void Recording::forget_layouts() {
  forgot_layouts_ = true;
  layouts_ += 1;
  forget_autograd();
}

void Recording::forget_autograd() {
  autograd_ += 1;
}

const at::Tensor& Recording::shared_number(const at::Tensor& number) {
  std::string key(static_cast<const char*>(number.const_data_ptr()), number.itemsize());
  key += static_cast<char>(number.scalar_type());
  key += number.is_inference() ? 'i' : ' ';
  return numbers_.try_emplace(std::move(key), number).first->second;
}

const c10::IValue& Recording::shared_list(const c10::IValue& list) {
  return list.isIntList() ? lists_.try_emplace(list.toIntVector(), list).first->second : list;
}

}  // namespace pijit::torch_adapter
