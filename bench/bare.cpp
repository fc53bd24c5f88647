// A flat program of ATen operators, performed boxed over a register file, without guards and without Python in between:
// what a replay that performs these operators costs at least.
#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/extension.h>

namespace {

constexpr int64_t kNowhere = -1;  // the register of None, and of a result that nobody reads
struct Read {
  int64_t from;
  bool last = false;  // the register is released
};

struct Argument {
  size_t reads;
  c10::TypePtr items;  // of the list that is made of what is read; null: one value, as it is
};

struct Step {
  c10::OperatorHandle op;
  std::vector<Argument> arguments;
  std::vector<int64_t> results;
  bool unpacked;  // the one result is a list, and the results are its items
};

// A constant argument. A number in a tensor's place becomes a tensor that takes part as a number does.
c10::IValue value_of(const py::object& constant, const c10::TypePtr& type) {
  if (!type->isSubtypeOf(*c10::TensorType::get()) || constant.is_none() || THPVariable_Check(constant.ptr()))
    return torch::jit::toIValue(constant, type);
  return at::native::wrapped_scalar_tensor(torch::jit::toIValue(constant, c10::NumberType::get()).toScalar());
}

class Program {
 public:
  // A register that a call fills.
  int64_t input() { return inputs_.emplace_back(fill()); }

  // A register with a value that stays.
  int64_t keep(c10::IValue value) {
    registers_.push_back(std::move(value));
    return static_cast<int64_t>(registers_.size()) - 1;
  }

  // Each argument is registers, or a constant where there are none. Gives registers of the results that are `read`.
  std::vector<int64_t> step(const std::string& name, const std::string& overload,
                            const std::vector<std::pair<std::vector<int64_t>, py::object>>& arguments,
                            const std::vector<bool>& read) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
    const auto& returns = op.schema().returns();
    Step step{op, {}, {}, returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType};
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& [from, constant] = arguments[i];
      const c10::TypePtr& type = op.schema().arguments()[i].type();
      const auto* list = from.empty() ? nullptr : type->castRaw<c10::ListType>();
      step.arguments.push_back({std::max<size_t>(from.size(), 1), list ? list->getElementType() : nullptr});
      if (from.empty()) reads_.push_back({keep(value_of(constant, type))});
      for (const int64_t one : from) reads_.push_back({one == kNowhere ? keep({}) : one});
    }
    for (const bool wanted : read) step.results.push_back(wanted ? fill() : kNowhere);
    return steps_.emplace_back(std::move(step)).results;
  }

  // Says what a call gives. After this, what is not kept is released where it is read for the last time.
  void finish(const std::vector<int64_t>& outputs) {
    for (const int64_t output : outputs) reads_.push_back({output});
    for (auto read = reads_.rbegin(); read != reads_.rend(); ++read) read->last = filled_.erase(read->from) != 0;
  }

  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) registers_[inputs_[i]] = std::move(inputs[i]);
    const Read* next = reads_.data();
    for (const Step& step : steps_) perform(step, next);
    std::vector<at::Tensor> outputs;
    while (next != reads_.data() + reads_.size()) outputs.push_back(take(*next++).toTensor());
    return outputs;
  }

 private:
  void perform(const Step& step, const Read*& next) {
    for (const Argument& argument : step.arguments) {
      if (argument.items) {
        c10::impl::GenericList list(argument.items);
        for (size_t i = 0; i < argument.reads; ++i) list.push_back(take(*next++));
        stack_.emplace_back(std::move(list));
      } else {
        stack_.push_back(take(*next++));
      }
    }
    step.op.callBoxed(stack_);
    if (step.unpacked) stack_ = stack_.front().toListRef().vec();
    for (size_t i = 0; i < step.results.size(); ++i)
      if (step.results[i] != kNowhere) registers_[step.results[i]] = std::move(stack_[i]);
    stack_.clear();
  }

  c10::IValue take(Read read) { return read.last ? std::move(registers_[read.from]) : registers_[read.from]; }
  int64_t fill() { return *filled_.insert(keep({})).first; }

  std::vector<c10::IValue> registers_;
  std::set<int64_t> filled_;  // by inputs and steps, and never read so far
  std::vector<int64_t> inputs_;
  std::vector<Step> steps_;
  std::vector<Read> reads_;  // in the order of a call: arguments, outputs
  torch::jit::Stack stack_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::class_<Program>(module, "Program")
      .def(py::init<>())
      .def("input", &Program::input)
      .def("keep", [](Program& program, at::Tensor value) { return program.keep(std::move(value)); })
      .def("step", &Program::step)
      .def("finish", &Program::finish)
      .def("__call__", &Program::run);
}
