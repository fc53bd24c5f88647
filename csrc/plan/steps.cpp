// Reads the operations of an adapter, and the few kinds of nodes that compute with numbers.
#include "plan/steps.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "adapter.h"
#include "cpython/lru_cache.h"
#include "ir/call.h"
#include "ir/log.h"
#include "numpy/plan_key.h"
#include "plan/number_functions.h"

namespace pijit {

namespace {

bool starts_with(const std::string& text, const char* start) noexcept {
  return text.rfind(start, 0) == 0;
}

void add_argument(const OperatorArgument& argument, Step* step) {
  if (argument.kind == OperatorArgument::Kind::kRegister) {
    step->reads.push_back(argument.reg);
    if (argument.written) step->written.push_back(argument.reg);
  }
  for (const OperatorArgument& item : argument.items) {
    add_argument(item, step);
    if (argument.written && item.kind == OperatorArgument::Kind::kRegister) step->written.push_back(item.reg);
  }
}

// A number, or one as an object of Python.
bool is_boxed(const RegInfo& reg) noexcept {
  return is_number(reg.rep) || reg.type == &PyLong_Type || reg.type == &PyFloat_Type || reg.type == &PyBool_Type;
}

// A tensor of a number that the key fixes. One that is made of tensors reads their data, and one that gradients are
// asked of is a leaf.
bool is_of_number(const Trace& trace, const OperatorCall& call, const Step& step) {
  if (call.name == "tensor::literal") return true;
  if (call.name != "torch::tensor" || call.arguments.empty()) return false;
  const auto is_plain = [](const OperatorArgument& argument) {
    return argument.name == "dtype" || argument.name == "device" || argument.literal.get() == Py_None ||
           argument.literal.get() == Py_False;
  };
  return call.arguments[0].items.empty() && std::all_of(call.arguments.begin() + 1, call.arguments.end(), is_plain) &&
         std::all_of(step.reads.begin(), step.reads.end(), [&](uint32_t reg) { return is_boxed(trace.regs[reg]); });
}

// A function of numbers alone, computed of numbers: where the key fixes those, it gives the same again.
bool is_arithmetic(const Trace& trace, const Node& node) {
  const auto* type = reinterpret_cast<PyTypeObject*>(node.imm);
  const bool gives_number = type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type;
  if (!gives_number || node.aux != 0 || !node.a.is_const() || !is_number_function(node.a.object())) return false;
  for (uint32_t i = 0; i < node.count; ++i) {
    const Val operand = trace.operands[node.first + i];
    const bool is_literal = operand.is_const() && (PyLong_Check(operand.object()) || PyFloat_Check(operand.object()));
    if (!is_literal && !(operand.is_reg() && is_boxed(trace.regs[operand.index()]))) return false;
  }
  return true;
}

void classify(const Trace& trace, const OperatorCall& call, Step* step) {
  for (const OperatorArgument& argument : call.arguments) add_argument(argument, step);
  for (const OperatorResult& result : call.results) {
    for (uint32_t reg : result.regs) {
      step->writes.push_back(reg);
      if (result.shares < 0) continue;
      Step shared;
      add_argument(call.arguments[static_cast<size_t>(result.shares)], &shared);
      for (uint32_t other : shared.reads) step->shares.emplace_back(reg, other);
    }
  }
  step->level = call.name == kOpensLevel ? 1 : call.name == kClosesLevel ? -1 : 0;
  const bool tensors = std::all_of(step->writes.begin(), step->writes.end(),
                                   [&](uint32_t reg) { return trace.regs[reg].rep == Rep::kTensor; });
  const bool named =
      starts_with(call.name, "aten::") || call.name == "tensor::getitem" || is_of_number(trace, call, *step);
  const bool gives = !step->writes.empty() || !step->written.empty();
  if (named && tensors && gives && !call.random && !is_about_tensors(call.name)) step->kind = Kind::kOperator;
}

}  // namespace

bool is_cache_hit(const Trace& trace, const Node& node) noexcept {
  if (node.op != Op::kCall || node.out != kNone || Py_TYPE(node.a.object()) != cpython::lru_cache_type()) return false;
  const auto first = trace.operands.begin() + node.first;
  return std::all_of(first, first + node.count, [](Val value) { return value.is_const(); });
}

bool is_of_context(const Node& node) noexcept {
  PyObject* called = node.op == Op::kCall ? node.a.object() : nullptr;
  if (called == nullptr || !PyObject_TypeCheck(called, &PyMethodDescr_Type)) return false;
  const auto* method = reinterpret_cast<PyMethodDescrObject*>(called);
  const std::string_view name = method->d_method->ml_name;
  return method->d_common.d_type == &PyContextVar_Type && (name == "set" || name == "reset");
}

bool is_made_of_others(const Trace& trace, const Node& node, const std::function<bool(uint32_t)>& holds) {
  if (node.op != Op::kBuild || node.count != 0 || node.snapshot != kNone) return false;
  const Content content = content_of(trace, trace.virtuals[node.a.index()], node.time);
  const auto is_there = [&](Val value) { return !value.is_virtual() && !(value.is_reg() && holds(value.index())); };
  const auto all = [&](const Vals& values) { return std::all_of(values.begin(), values.end(), is_there); };
  const auto both = [&](const auto& pair) { return is_there(pair.first) && is_there(pair.second); };
  return all(content.fields) && all(content.items) && std::all_of(content.pairs.begin(), content.pairs.end(), both) &&
         std::all_of(content.attributes.begin(), content.attributes.end(), both);
}

bool is_about_tensors(const std::string& name) {
  static constexpr const char* kNames[] = {"retain_grad", "requires_grad_", "set_data",   "_backward", "detach_",
                                           "set_",        "resize_",        "resize_as_", "rename_",   "swap_"};
  const std::string base = name.substr(0, name.find('.'));
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* each) { return base == std::string("aten::") + each; });
}

Step step_of(const Trace& trace, const Node& node) {
  Step step;
  const auto read = [&](Val value) {
    if (value.is_reg()) step.reads.push_back(value.index());
  };
  switch (node.op) {
    case Op::kAdapter:
      classify(trace, node.adapter_op->call(), &step);
      break;
    case Op::kCheck:
      classify(trace, node.adapter_op->call(), &step);
      step.kind = node.adapter_op->is_of_form() ? Kind::kForm : Kind::kOther;
      break;
    case Op::kBox:
      if (node.b.is_reg() && is_number(trace.regs[node.b.index()].rep)) {
        read(node.b);
        step.kind = Kind::kForm;
      }
      step.writes.push_back(node.out);
      break;
    case Op::kUnbox:
      if (node.a.is_reg() && is_boxed(trace.regs[node.a.index()])) {
        read(node.a);
        step.kind = Kind::kForm;
      }
      step.writes.push_back(node.out);
      break;
    case Op::kPure:
      step.arrays = numpy::computes_anew(trace, node);
      if (step.arrays) {
        for (uint32_t i = 0; i < node.count; ++i) read(trace.operands[node.first + i]);
      } else if (is_arithmetic(trace, node)) {
        for (uint32_t i = 0; i < node.count; ++i) read(trace.operands[node.first + i]);
        step.kind = Kind::kForm;
      }
      step.writes.push_back(node.out);
      break;
    case Op::kGuardType:
      if (node.a.is_reg() && trace.regs[node.a.index()].rep == Rep::kTensor) {  // an operator may hand its operand back
        read(node.a);
        step.kind = Kind::kForm;
      }
      break;
    case Op::kScalar:
    case Op::kGuardBool:
    case Op::kGuardInt:
    case Op::kGuardFloat:
      read(node.a);
      read(node.b);
      if (node.out != kNone) step.writes.push_back(node.out);
      step.kind = Kind::kForm;
      break;
    default:
      if (node.out != kNone) step.writes.push_back(node.out);
      for (uint32_t i = 0; i < node.outs_count; ++i) step.writes.push_back(trace.outs[node.outs_first + i]);
  }
  return step;
}

Vec<bool> in_levels(const std::vector<Step>& steps) {
  Vec<bool> found(steps.size());
  int depth = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    depth += steps[i].level == 1;
    found[i] = depth > 0;
    depth -= steps[i].level == -1;
  }
  return found;
}

}  // namespace pijit
