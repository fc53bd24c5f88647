// The nodes, inputs and frames of a trace as tuples, lists and dicts.
//
// A value is a tuple that begins with its kind:
//   ("reg", n)  ("const", object)  ("none",)  ("unknown", text)  ("slice", start, stop, step)
//   ("tuple", type or None, values)  ("list", values)  ("dict", type or None, pairs of values)
//   ("instance", type, {name: value}, pairs of values)  ("method", function, self)
//   ("vars", value): the dict of the attributes of an instance
//   ("function", code, globals, defaults, closure)  ("cell", content)  ("partial", function, arguments, keywords)
//   ("other", kind of the virtual object)
// Virtual objects are as of the time of the node. One object is one and the same Python tuple wherever a node mentions
// it, so that aliases can be told by identity.
//
// An object is handed out only if it is known to be alive: a trace keeps few of those that it names.
#include "bind/data.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "bind/views.h"
#include "cpython/bytecode.h"
#include "cpython/objects.h"
#include "cpython/places.h"
#include "guard/proven.h"
#include "ir/call.h"
#include "ir/log.h"
#include "ir/print.h"
#include "ir/scalars.h"
#include "plan/segment.h"

namespace py = pybind11;

namespace pijit {
namespace {

constexpr int kDeepest = 100;  // of objects in objects

py::object register_or_none(uint32_t reg) {
  return reg == kNone ? py::object(py::none()) : py::object(py::int_(reg));
}

// The values of one trace.
class Values {
 public:
  Values(const Trace& trace, const Sources& sources, const Printer& printer)
      : trace_(trace), sources_(sources), printer_(printer) {}

  // Another node: objects may hold something else now.
  void restart() { made_.clear(); }

  py::tuple constant(PyObject* object) const {
    if (object == nullptr) return py::make_tuple("none");
    if (sources_.is_known(object)) return py::make_tuple("const", object_of(object));
    return py::make_tuple("unknown", printer_.object(object));
  }

  py::tuple value(Val value, uint32_t time, int depth = 0) {
    if (value.is_null()) return py::make_tuple("none");
    if (value.is_const()) return constant(value.object());
    if (value.is_reg()) return py::make_tuple("reg", value.index());
    const Virtual& object = trace_.virtuals[value.index()];
    if (object.is_real(time)) return py::make_tuple("reg", object.reg);
    if (depth > kDeepest) return py::make_tuple("other", "too deep");
    const auto [at, fresh] = made_.try_emplace({value.index(), time}, py::make_tuple("other", "holds itself"));
    if (fresh) at->second = virtual_object(object, time, depth + 1);
    return at->second;
  }

  // What an object is built of.
  py::tuple built(Val value, uint32_t time) { return virtual_object(trace_.virtuals[value.index()], time, 1); }

  py::tuple argument(const OperatorArgument& argument) {
    using Kind = OperatorArgument::Kind;
    py::list items;
    for (const OperatorArgument& item : argument.items) items.append(this->argument(item));
    switch (argument.kind) {
      case Kind::kRegister:
        return py::make_tuple("reg", argument.reg);
      case Kind::kList:
        return py::make_tuple("list", items);
      case Kind::kTuple:
        return py::make_tuple("tuple", py::none(), items);
      case Kind::kSlice:
        return py::make_tuple("slice", items[0], items[1], items[2]);
      case Kind::kLiteral:
        break;
    }
    if (!argument.literal) return py::make_tuple("unknown", argument.name);
    return py::make_tuple("const", object_of(argument.literal.get()));
  }

  py::list source(Val value) const {
    if (const Source* found = sources_.of(value)) return source(found);
    py::list steps;
    if (value.is_const() && sources_.is_known(value.object()))
      steps.append(py::make_tuple("constant", object_of(value.object())));
    else
      steps.append(py::make_tuple("unknown", printer_.value(value)));
    return steps;
  }

 private:
  py::tuple virtual_object(const Virtual& object, uint32_t time, int depth) {
    const Content content = content_of(trace_, object, time);
    const auto of = [&](Val part) { return value(part, time, depth); };
    py::list items, pairs;
    for (Val item : content.items) items.append(of(item));
    for (const auto& [key, held] : content.pairs) pairs.append(py::make_tuple(of(key), of(held)));
    PyObject* type = reinterpret_cast<PyObject*>(object.type);
    const bool known = type != nullptr && sources_.is_known(type);
    const auto own = [&](PyTypeObject& plain) {  // None: the built-in class itself
      return object.type == nullptr || object.type == &plain ? py::object(py::none()) : object_of(type);
    };
    switch (object.kind) {
      case VirtualKind::kTuple:
        if (known || object.type == nullptr) return py::make_tuple("tuple", own(PyTuple_Type), items);
        break;
      case VirtualKind::kList:
        return py::make_tuple("list", items);
      case VirtualKind::kDict:
        if (!content.field(0).is_null()) return py::make_tuple("vars", of(content.field(0)));
        if (!content.field(1).is_null()) break;  // a defaultdict: its factory has no place here
        if (known || object.type == nullptr) return py::make_tuple("dict", own(PyDict_Type), pairs);
        break;
      case VirtualKind::kSlice:
        return py::make_tuple("slice", of(content.field(0)), of(content.field(1)), of(content.field(2)));
      case VirtualKind::kInstance: {
        if (!known) break;
        py::dict attributes;
        for (const auto& [key, held] : content.attributes) attributes[object_of(key.object())] = of(held);
        return py::make_tuple("instance", object_of(type), attributes, pairs);
      }
      case VirtualKind::kBuiltinMethod:
      case VirtualKind::kBoundMethod:
        return py::make_tuple("method", of(content.field(0)), of(content.field(1)));
      case VirtualKind::kFunction: {
        namespace at = field::kFunction;
        const auto held = [&](at::Field name) { return of(content.field(name)); };
        if (!content.field(at::kKwDefaults).is_null()) break;
        return py::make_tuple("function", held(at::kCode), held(at::kGlobals), held(at::kDefaults), held(at::kClosure));
      }
      case VirtualKind::kCell:
        return py::make_tuple("cell", of(content.field(0)));
      case VirtualKind::kPartial:
        return py::make_tuple("partial", of(content.field(0)), of(content.field(1)), of(content.field(2)));
      default:
        break;
    }
    return py::make_tuple("other", virtual_name(object.kind));
  }

  py::list source(const Source* source) const {
    py::list steps = source->of != nullptr ? this->source(source->of) : py::list();
    steps.append(step(*source));
    return steps;
  }

  py::tuple step(const Source& source) const {
    using Step = Source::Step;
    constexpr const char* kKinds[] = {"argument", "global", "cell",     "constant", "unknown", "attribute",
                                      "item",     "key_at", "value_at", "slot",     "slot",    "get"};
    const char* kind = kKinds[static_cast<size_t>(source.step)];
    const bool alive = source.object != nullptr && sources_.is_known(source.object);
    switch (source.step) {
      case Step::kArgument:
        return py::make_tuple(kind, source.number, object_of(source.object));
      case Step::kGlobal:
      case Step::kCell:
      case Step::kAttribute:
        return py::make_tuple(kind, object_of(source.object));
      case Step::kConstant:
      case Step::kItem:
        if (alive) return py::make_tuple(kind, object_of(source.object));
        if (source.step == Step::kItem && source.object == nullptr) return py::make_tuple(kind, source.number);
        return py::make_tuple("unknown", sources_.text(source));
      case Step::kRegister:
        return py::make_tuple(kind, sources_.text(source));
      case Step::kGet:
        return py::make_tuple(kind);
      default:
        return py::make_tuple(kind, source.number);
    }
  }

  const Trace& trace_;
  const Sources& sources_;
  const Printer& printer_;
  std::map<std::pair<uint32_t, uint32_t>, py::tuple> made_;  // by object and time
};

// The frames of the calls that nodes come from, each once for each of its lines.
class Frames {
 public:
  Frames(const Trace& trace, const Sources& sources) : trace_(trace), sources_(sources) {}

  int of(const Node& node) {
    if (node.op == Op::kReturn || node.op == Op::kExit || node.site >= trace_.sites.size()) return -1;
    const Site& site = trace_.sites[node.site];
    return site.frame == kNone ? -1 : at(site.frame, site.instruction);
  }
  const py::list& all() const { return all_; }

  // Some frame on the way to the node is within a `try` or `with`: what the node raises may not leave the call.
  bool is_handled(const Node& node) const {
    if (node.site >= trace_.sites.size()) return false;
    const Site& site = trace_.sites[node.site];
    cpython::Handler handler;
    int instruction = site.instruction;
    for (uint32_t at = site.frame; at != kNone; at = trace_.followed[at].caller) {
      if (cpython::find_own_handler(trace_.followed[at].code, instruction, &handler)) return true;
      instruction = trace_.followed[at].instruction;
    }
    return false;
  }

 private:
  int at(uint32_t followed, int instruction) {
    const Followed& frame = trace_.followed[followed];
    const int line = cpython::line_of(frame.code, instruction);
    if (const auto known = known_.find({followed, line}); known != known_.end()) return known->second;
    const int parent = frame.caller == kNone ? -1 : at(frame.caller, frame.instruction);
    PyObject* self = frame.first.object();
    py::dict row;
    row["qualname"] = object_of(frame.code->co_qualname);
    row["file"] = object_of(frame.code->co_filename);
    row["line"] = line;
    row["library"] = cpython::is_library(frame.code);
    row["parent"] = parent;
    row["self"] = self != nullptr && sources_.is_known(self) ? object_of(self) : py::object(py::none());
    row["call"] = followed;
    const int index = static_cast<int>(all_.size());
    all_.append(row);
    known_.emplace(std::pair(followed, line), index);
    return index;
  }

  const Trace& trace_;
  const Sources& sources_;
  std::map<std::pair<uint32_t, int>, int> known_;
  py::list all_;
};

class TraceData {
 public:
  TraceData(const Trace& trace, const Printer& printer)
      : trace_(trace), sources_(printer.sources()), values_(trace, sources_, printer), frames_(trace, sources_) {
    for (const Guard& guard : trace.guards)
      if (guard.out != kNone) loaded_from_.emplace(guard.out, guard.subject);
  }

  py::list arguments() const {
    py::list names;
    auto* code = reinterpret_cast<PyCodeObject*>(trace_.code.get());
    for (uint32_t i = 0; i < trace_.inputs; ++i) names.append(object_of(input_name(code, i)));
    return names;
  }

  py::list inputs() const {
    py::list rows;
    const auto add = [&](const InputGuards* inputs) {
      for (size_t i = 0; inputs != nullptr && i < inputs->size(); ++i) rows.append(input(*inputs, i));
    };
    add(trace_.tensors.get());
    for (const Epoch& epoch : trace_.epochs) add(epoch.tensors.get());
    return rows;
  }

  py::list loads() const {
    py::list rows;
    for (const Guard& guard : trace_.guards)
      if (guard.out != kNone) rows.append(py::make_tuple(guard.out, values_.source(Val::reg(guard.out))));
    return rows;
  }

  py::list registers() const {
    py::list names;
    for (const RegInfo& info : trace_.regs) names.append(rep_name(info.rep));
    return names;
  }

  py::list nodes() {
    py::list rows;
    for (const Node& node : trace_.nodes) rows.append(this->node(node));
    return rows;
  }

  py::tuple result() {
    values_.restart();
    if (trace_.nodes.empty() || trace_.nodes.back().op != Op::kReturn) return py::make_tuple("none");
    return values_.value(trace_.nodes.back().a, trace_.nodes.back().time);
  }
  const py::list& frames() const { return frames_.all(); }

 private:
  py::dict input(const InputGuards& inputs, size_t index) const {
    const TensorFacts facts = inputs.facts(index);
    const Val from = inputs.source(index);
    py::list sizes;
    for (int64_t size : facts.sizes)
      sizes.append(size == TensorFacts::kAnySize ? py::object(py::none()) : py::object(py::int_(size)));
    py::dict row;
    row["register"] = inputs.register_of(index);
    row["source"] = values_.source(from);
    row["dtype"] = facts.dtype;
    row["sizes"] = sizes;
    row["device"] = facts.device;
    row["requires_grad"] = py::none();  // operators read it anew, and nodes check it where something relies on it
    row["object"] = object(inputs.register_of(index), from);
    row["made"] = is_made(from);
    return row;
  }

  // It is found in what a node has given.
  bool is_made(Val from) const {
    while (from.is_reg() && from.index() >= trace_.inputs) {
      const auto loaded = loaded_from_.find(from.index());
      if (loaded == loaded_from_.end()) return true;
      from = loaded->second;
    }
    return false;
  }

  py::object object(uint32_t reg, Val from) const {
    const auto kept =
        std::find_if(trace_.kept.rbegin(), trace_.kept.rend(), [&](const auto& input) { return input.first == reg; });
    if (kept != trace_.kept.rend()) return object_of(kept->second.get());
    const bool alive = from.is_const() && sources_.is_known(from.object());
    return alive ? object_of(from.object()) : py::object(py::none());
  }

  py::dict call(const Node& node) {
    const OperatorCall made = node.adapter_op->call();
    py::list arguments, results, aliases, keywords;
    for (const OperatorArgument& argument : made.arguments) {
      arguments.append(py::make_tuple(argument.name, values_.argument(argument), argument.written));
      if (argument.keyword) keywords.append(argument.name);
    }
    for (const OperatorResult& result : made.results) {
      if (result.kind == OperatorResult::Kind::kDropped) {
        results.append(py::none());
      } else if (result.kind == OperatorResult::Kind::kRegister) {
        results.append(result.regs[0]);
      } else {
        py::list regs;
        for (uint32_t reg : result.regs) regs.append(reg);
        results.append(regs);
      }
      aliases.append(result.shares);
    }
    py::dict row;
    row["name"] = made.name;
    row["arguments"] = arguments;
    row["keywords"] = keywords;
    row["results"] = results;
    row["aliases"] = aliases;
    row["random"] = made.random;
    row["repeatable"] = made.repeatable || is_repeatable(node);
    row["callable"] = made.callable ? object_of(made.callable.get()) : py::object(py::none());
    return row;
  }

  // Of kScalar a Null operand is the number that the node holds.
  py::tuple operand(const Node& node, Val value) {
    if (node.op != Op::kScalar || !value.is_null()) return values_.value(value, node.time);
    Reg number{};
    number.rep = node.rep;
    std::memcpy(&number.integer, &node.imm, sizeof node.imm);
    return py::make_tuple("const", py::reinterpret_steal<py::object>(number_object(number)));
  }

  py::object number(const Node& node) const {
    double real = 0;
    std::memcpy(&real, &node.imm, sizeof real);
    if (node.op == Op::kGuardFloat) return py::float_(real);
    if (node.op == Op::kGuardInt) return py::int_(static_cast<int64_t>(node.imm));
    return py::int_(node.imm);
  }

  py::dict node(const Node& node) {
    values_.restart();
    py::dict row;
    row["op"] = op_name(node.op);
    row["effect"] = op_effect(node.op);
    if (is_operation(node)) row["call"] = call(node);
    const auto given = [&](Val value) {
      return value.is_null() ? py::object(py::none()) : values_.value(value, node.time);
    };
    row["a"] = node.op == Op::kScalar ? py::object(operand(node, node.a)) : given(node.a);
    row["b"] = given(node.b);
    if (node.op == Op::kScalar && node.b.is_null() && scalar_arity(static_cast<ScalarOp>(node.aux)) == 2)
      row["b"] = operand(node, node.b);
    row["c"] = given(node.c);
    py::list operands, outs;
    for (uint32_t i = 0; i < node.count; ++i)
      operands.append(values_.value(trace_.operands[node.first + i], node.time));
    for (uint32_t i = 0; i < node.outs_count; ++i) outs.append(trace_.outs[node.outs_first + i]);
    row["operands"] = operands;
    if (node.op == Op::kScalar) row["scalar"] = scalar_name(static_cast<ScalarOp>(node.aux));
    row["out"] = register_or_none(node.out);
    row["outs"] = outs;
    if (node.op == Op::kBuild && node.a.is_virtual()) row["built"] = values_.built(node.a, node.time);
    if (node.op == Op::kOpaque) row["operators"] = node.imm;
    if (node.op == Op::kPure) row["type"] = values_.constant(reinterpret_cast<PyObject*>(node.imm));
    row["imm"] = number(node);
    row["aux"] = node.aux;
    row["frame"] = frames_.of(node);
    row["handled"] = frames_.is_handled(node);
    if ((node.op == Op::kGuardBool || node.op == Op::kGuardIs) && node.site < trace_.sites.size()) {
      const Site& site = trace_.sites[node.site];
      row["code"] = object_of(reinterpret_cast<PyObject*>(site.code));
      row["instruction"] = site.instruction;
    }
    if (node.op == Op::kLoopHead) row["head"] = head(trace_.heads[node.imm], node);
    return row;
  }

  // What the frames hold where a turn of a loop begins, the innermost one first.
  py::dict head(const LoopHead& head, const Node& node) {
    py::list frames;
    for (uint32_t at = head.state; at != kNone; at = trace_.frame_states[at].parent) {
      const FrameState& state = trace_.frame_states[at];
      py::list slots;
      for (uint32_t i = 0; i < state.locals + state.stack; ++i)
        slots.append(slot(trace_.slots[state.first + i], node.time));
      py::dict row;
      row["code"] = object_of(reinterpret_cast<PyObject*>(state.code));
      row["locals"] = state.locals;
      row["slots"] = slots;
      frames.append(row);
    }
    py::dict row;
    row["loop"] = head.loop;
    row["at"] = head.head;
    row["back"] = head.back;
    row["in_registers"] = head.in_registers;
    row["frames"] = frames;
    row["frame"] = trace_.sites[node.site].frame;
    return row;
  }

  // (value, object, entries): of a virtual object its number and how often it was changed until then, else None.
  py::tuple slot(Val value, uint32_t time) {
    if (!value.is_virtual()) return py::make_tuple(values_.value(value, time), py::none(), py::none());
    const Virtual& object = trace_.virtuals[value.index()];
    uint32_t entries = 0;
    for (uint32_t at = object.head; at != kNone && trace_.log[at].time <= time; at = trace_.log[at].next) ++entries;
    py::object told = values_.value(value, time);
    if (object.kind == VirtualKind::kIterator && !object.is_real(time)) told = iterator(object, time);
    return py::make_tuple(told, value.index(), entries);
  }

  // ("iterator", what it goes over, its position); -1: it has ended.
  py::tuple iterator(const Virtual& object, uint32_t time) {
    int64_t position = 0;
    for (uint32_t at = object.head; at != kNone && trace_.log[at].time <= time; at = trace_.log[at].next)
      if (trace_.log[at].op == LogOp::kIndex) position = trace_.log[at].index;
    const Content content = content_of(trace_, object, time);
    return py::make_tuple("iterator", values_.value(content.field(0), time), position == kExhausted ? -1 : position);
  }

  const Trace& trace_;
  const Sources& sources_;
  Values values_;
  Frames frames_;
  std::map<uint32_t, Val> loaded_from_;
};

}  // namespace

py::dict trace_data(const Root& root, const Trace& trace) {
  const cpython::GcPause pause;  // what is known to be alive stays so
  const Segments* segments = trace.segments.get();
  const ObjectSet proven =
      proven_objects(trace, root.owner.living(), segments == nullptr ? nullptr : segments->arguments.get());
  const Printer printer(trace, false, &proven);
  TraceData data(trace, printer);
  py::dict view;
  view["name"] = root.written.name;
  view["arguments"] = data.arguments();
  view["inputs"] = data.inputs();
  view["loads"] = data.loads();
  view["registers"] = data.registers();
  view["nodes"] = data.nodes();
  view["result"] = data.result();
  view["frames"] = data.frames();
  add_end(root, trace, &view);
  return view;
}

}  // namespace pijit
