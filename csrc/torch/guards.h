// The tensor inputs of a trace: one flat array, checked and loaded in one loop.
//
// Checked are those properties on which rules relied or that decide which kernels are meant at all: class, dispatch
// keys (backend, layout, conjugate and negative bits, inference tensors), dtype, device, number of dimensions. Sizes,
// strides, requires_grad are checked where something looked at them (metadata.h): operators themselves read them anew
// at every replay. Under a policy of fixed sizes (SizePolicy) those of inputs are checked here.
#pragma once
#include "adapter.h"
#include "torch/tensor.h"

namespace pijit::torch_adapter {

// A hash of what is checked.
uint64_t kind_of(PyObject* tensor) noexcept;
// 0: it has symbolic sizes.
int64_t elements_of(PyObject* tensor) noexcept;

class TensorInputs final : public InputGuards {
 public:
  void add(Val source, PyObject* tensor, uint32_t out);
  // What another process has kept; false: there is no such tensor here.
  bool add(Val source, uint32_t out, const TensorFacts& facts);
  void fix_size(int64_t dim, int64_t size);  // of the input that was added last

  bool check(Reg* regs) noexcept override;
  bool check_but(const Vec<uint32_t>& without, Reg* regs) noexcept override;
  void truncate(size_t count) override {
    entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(count), entries_.end());
    while (!fixed_.empty() && fixed_.back().entry >= count) fixed_.pop_back();
    size_ = count;
  }
  Val source(size_t index) const override {
    const Entry& entry = entries_[index];
    return entry.constant != nullptr ? Val::constant(entry.constant) : Val::reg(entry.source);
  }
  uint32_t register_of(size_t index) const override { return entries_[index].out; }
  TensorFacts facts(size_t index) const override;
  std::string explain(Reg* regs, Val* source) override;

 private:
  struct Entry {
    PyObject* constant;  // borrowed: proven alive by the guards before; null: register `source`
    PyTypeObject* type;
    uint64_t keys;
    uint32_t source, out;
    c10::ScalarType dtype;
    c10::Device device;
    int32_t dim;
  };
  static bool matches(const Entry& entry, PyObject* object) noexcept;
  static PyObject* object(const Entry& entry, const Reg* regs) noexcept {
    return entry.constant != nullptr ? entry.constant : regs[entry.source].object;
  }

  struct FixedSize {
    size_t entry;
    int64_t dim, size;
  };
  static bool matches(const FixedSize& fixed, const Impl* tensor) noexcept {
    return tensor->sizes()[static_cast<size_t>(fixed.dim)] == fixed.size;
  }

  std::vector<Entry> entries_;
  std::vector<FixedSize> fixed_;  // in the order of their entries
};

}  // namespace pijit::torch_adapter
