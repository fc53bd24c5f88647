// Checks and loads tensor inputs.
#include "torch/guards.h"

#include <algorithm>
#include <sstream>

#include "torch/literals.h"

namespace pijit::torch_adapter {
uint64_t kind_of(PyObject* tensor) noexcept {
  const Impl* impl = impl_of(tensor);
  const auto dtype = static_cast<uint64_t>(c10::typeMetaToScalarType(impl->dtype()));
  return ((impl->key_set().raw_repr() * 31 + dtype) * 31 + static_cast<uint64_t>(impl->dim())) * 31 +
         (reinterpret_cast<uintptr_t>(Py_TYPE(tensor)) >> 4);
}

int64_t elements_of(PyObject* tensor) noexcept {
  const Impl* impl = impl_of(tensor);
  int64_t count = 1;
  if (impl->has_symbolic_sizes_strides() || impl->key_set().has(c10::DispatchKey::NestedTensor)) return 0;
  for (int64_t size : impl->sizes()) count *= size;
  return count;
}

void TensorInputs::add(Val source, PyObject* tensor, uint32_t out) {
  const Impl* impl = impl_of(tensor);
  entries_.push_back({source.object(), Py_TYPE(tensor), impl->key_set().raw_repr(),
                      source.is_reg() ? source.index() : 0, out, c10::typeMetaToScalarType(impl->dtype()),
                      impl->device(), static_cast<int32_t>(impl->dim())});
  size_ = entries_.size();
}

bool TensorInputs::add(Val source, uint32_t out, const TensorFacts& facts) {
  if (facts.type == nullptr || !is_tensor_type(facts.type)) return false;
  for (size_t i = 0; i < static_cast<size_t>(c10::ScalarType::NumOptions); ++i) {
    const auto dtype = static_cast<c10::ScalarType>(i);
    if (facts.dtype != type_words(dtype)) continue;
    try {
      entries_.push_back({source.object(), facts.type, facts.more, source.is_reg() ? source.index() : 0, out, dtype,
                          c10::Device(facts.device), static_cast<int32_t>(facts.sizes.size())});
    } catch (const c10::Error&) {  // no such device
      return false;
    }
    size_ = entries_.size();
    for (size_t dim = 0; dim < facts.sizes.size(); ++dim)
      if (facts.sizes[dim] != TensorFacts::kAnySize) fix_size(static_cast<int64_t>(dim), facts.sizes[dim]);
    return true;
  }
  return false;
}

void TensorInputs::fix_size(int64_t dim, int64_t size) {
  fixed_.push_back({entries_.size() - 1, dim, size});
}

bool TensorInputs::matches(const Entry& entry, PyObject* object) noexcept {
  if (Py_TYPE(object) != entry.type) return false;
  const Impl* impl = impl_of(object);
  return (impl->key_set().raw_repr() == entry.keys) & (c10::typeMetaToScalarType(impl->dtype()) == entry.dtype) &&
         impl->dim() == entry.dim && impl->device() == entry.device;
}

bool TensorInputs::check(Reg* regs) noexcept {
  // A forward has driven them out of the nearest caches: the objects are asked for first, then what they point to.
  constexpr size_t kFar = 16, kNear = 8, kLine = 64;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (i + kFar < entries_.size()) __builtin_prefetch(entries_[i + kFar].constant);
    if (i + kNear < entries_.size() && entries_[i + kNear].constant != nullptr) {
      const auto* impl = reinterpret_cast<const char*>(impl_of(entries_[i + kNear].constant));
      for (size_t at = kLine; at < sizeof(Impl); at += kLine) __builtin_prefetch(impl + at);
    }
    PyObject* tensor = object(entry, regs);
    if (!matches(entry, tensor)) return false;
    Reg& reg = regs[entry.out];
    reg.tensor = impl_of(tensor);
    reg.rep = Rep::kTensor;
    reg.owned = 0;
  }
  for (const FixedSize& fixed : fixed_)
    if (!matches(fixed, static_cast<const Impl*>(regs[entries_[fixed.entry].out].tensor))) return false;
  return true;
}

bool TensorInputs::check_but(const Vec<uint32_t>& without, Reg* regs) noexcept {
  const auto is_left = [&](uint32_t out) { return std::find(without.begin(), without.end(), out) != without.end(); };
  for (const Entry& entry : entries_) {
    if (is_left(entry.out)) continue;
    PyObject* tensor = object(entry, regs);
    if (!matches(entry, tensor)) return false;
    regs[entry.out].tensor = impl_of(tensor);
    regs[entry.out].rep = Rep::kTensor;
    regs[entry.out].owned = 0;
  }
  return std::all_of(fixed_.begin(), fixed_.end(), [&](const FixedSize& fixed) {
    const uint32_t out = entries_[fixed.entry].out;
    return is_left(out) || matches(fixed, static_cast<const Impl*>(regs[out].tensor));
  });
}

TensorFacts TensorInputs::facts(size_t index) const {
  const Entry& entry = entries_[index];
  TensorFacts facts;
  facts.type = entry.type;
  facts.dtype = type_words(entry.dtype);
  facts.device = entry.device.str();
  facts.sizes.assign(static_cast<size_t>(entry.dim), TensorFacts::kAnySize);
  for (const FixedSize& fixed : fixed_)
    if (fixed.entry == index) facts.sizes[static_cast<size_t>(fixed.dim)] = fixed.size;
  facts.more = entry.keys;
  return facts;
}

std::string TensorInputs::explain(Reg* regs, Val* source) {
  for (size_t at = 0; at < entries_.size(); ++at) {
    const Entry& entry = entries_[at];
    PyObject* tensor = object(entry, regs);
    const bool alike = matches(entry, tensor);
    if (alike && std::all_of(fixed_.begin(), fixed_.end(), [&](const FixedSize& fixed) {
          return fixed.entry != at || matches(fixed, impl_of(tensor));
        }))
      continue;
    *source = entry.constant != nullptr ? Val::constant(entry.constant) : Val::reg(entry.source);
    std::ostringstream text;
    if (Py_TYPE(tensor) != entry.type) {
      text << Py_TYPE(tensor)->tp_name << " now, " << entry.type->tp_name << " before";
      return text.str();
    }
    const Impl* impl = impl_of(tensor);
    text << type_words(c10::typeMetaToScalarType(impl->dtype())) << impl->sizes();
    bool other_device = impl->device() != entry.device;
    if (other_device) text << " on " << impl->device();
    text << " now, " << type_words(entry.dtype) << "[";
    const std::vector<int64_t> sizes = facts(at).sizes;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (dim != 0) text << ", ";
      if (sizes[dim] == TensorFacts::kAnySize)
        text << "*";
      else
        text << sizes[dim];
    }
    text << "]";
    if (other_device) text << " on " << entry.device;
    text << " before";
    if (impl->key_set().raw_repr() != entry.keys)
      text << " (dispatch keys " << c10::toString(impl->key_set()) << " now, "
           << c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, entry.keys)) << " before)";
    return text.str();
  }
  return "";
}

}  // namespace pijit::torch_adapter
