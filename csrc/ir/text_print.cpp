// The printer of the text form: one line for each thing, the fields in the order of the structs, those that are empty
// left out.
#include <algorithm>
#include <cstring>

#include "cpython/bytecode.h"
#include "ir/call.h"
#include "ir/print.h"
#include "ir/scalars.h"
#include "ir/text_names.h"

namespace pijit {
namespace {

using namespace column;

std::string number_text(Rep rep, uint64_t bits) {
  double real;
  std::memcpy(&real, &bits, sizeof real);
  if (rep == Rep::kFloat) return float_text(real);
  return rep == Rep::kBool ? (bits != 0 ? "True" : "False") : std::to_string(static_cast<int64_t>(bits));
}

std::string name_text(const std::string& name) {
  return is_plain_word(name) ? name : quoted(name);
}

class TextPrinter {
 public:
  TextPrinter(const Trace& trace, ObjectTexts texts, KeptNames* kept = nullptr)
      : trace_(trace), texts_(std::move(texts)), kept_(kept) {}

  std::string all();

 private:
  // " label=text", nothing if there is no text.
  void field(const char* label, const std::string& text) {
    if (!text.empty()) out_ += std::string(" ") + label + "=" + text;
  }
  void field(const char* label, uint64_t number) { field(label, std::to_string(number)); }
  void object(const char* label, PyObject* object, bool alive = false) {
    if (object != nullptr) field(label, texts_.text(object, alive));
  }
  void type(PyTypeObject* type, bool alive = false) { object("type", reinterpret_cast<PyObject*>(type), alive); }
  void operand(const char* label, Val value) {
    if (!value.is_null()) field(label, this->value(value));
  }
  void flag(const char* label, bool set) {
    if (set) out_ += std::string(" ") + label;
  }
  static std::string indexed(const char* letter, uint32_t index) { return letter + std::to_string(index); }
  void index(const char* label, const char* letter, uint32_t index) {
    if (index != kNone) field(label, indexed(letter, index));
  }

  std::string value(Val value) {
    if (value.is_reg()) return indexed("r", value.index());
    return value.is_virtual() ? indexed("v", value.index()) : texts_.text(value.object());
  }
  template <class Items, class Text>
  std::string list(const Items& items, Text text) {
    std::string made;
    for (const auto& item : items) made += (made.empty() ? "" : ", ") + text(item);
    return "(" + made + ")";
  }
  std::string registers(const Vec<uint32_t>& all, uint32_t first, uint32_t count) {
    return list(Vec<uint32_t>(all.begin() + first, all.begin() + first + count),
                [](uint32_t reg) { return indexed("r", reg); });
  }
  std::string values(const Vals& all, uint32_t first, uint32_t count) {
    return list(Vals(all.begin() + first, all.begin() + first + count), [&](Val each) { return value(each); });
  }

  void writes(const char* what, uint32_t number) {
    if (kept_ == nullptr) return;
    kept_->what = what;
    kept_->number = number;
  }
  void name_tensor_types();
  void heading();
  void stop(const char* word, const StopInfo& info);
  void guard(uint32_t index);
  void inputs(const StateGuard* state, const InputGuards* tensors);
  void tensor(const InputGuards& tensors, size_t index);
  void entry();
  void epoch(uint32_t index);
  void node(uint32_t index);
  void imm(const Node& node);
  void aux(const Node& node);
  std::string argument(const OperatorArgument& given);
  std::string result(const OperatorResult& given);
  void call(const OperatorCall& call);
  void virtual_object(uint32_t index);
  void log_entry(VirtualKind kind, uint32_t at);
  void frame_state(uint32_t index);
  std::string codes();

  std::string words(const Words& words);
  void more(const Guard& guard);

  const Trace& trace_;
  ObjectTexts texts_;
  KeptNames* kept_;  // null: the text is to be read by people
  std::string out_;
};

std::string TextPrinter::words(const Words& words) {
  return "as" + list(words, [&](const Word& word) {
           switch (word.kind) {
             case Word::Kind::kText:
               return quoted(word.text);
             case Word::Kind::kRegister:
               return indexed("r", static_cast<uint32_t>(word.number));
             case Word::Kind::kObject:
               return "=" + texts_.text(word.object, true);
             case Word::Kind::kNumber:
               break;
           }
           return std::to_string(word.number);
         });
}

void TextPrinter::more(const Guard& guard) {
  const std::vector<PyObject*> more = kept_->more(guard);
  if (!more.empty()) field("more", list(more, [&](PyObject* item) { return texts_.text(item); }));
}

void TextPrinter::stop(const char* word, const StopInfo& info) {
  if (info.code == nullptr) return;
  out_ += std::string(word) + " " + quoted(info.code);
  field("reason", quoted(info.reason));
  if (!info.function.empty()) field("function", quoted(info.function));
  field("line", static_cast<uint64_t>(std::max(info.line, 0)));
  if (!info.inside.empty()) field("inside", quoted(info.inside));
  out_ += "\n";
}

// Classes of tensor inputs are alive, which no guard says.
void TextPrinter::name_tensor_types() {
  const auto name = [&](const InputGuards* tensors) {
    for (size_t i = 0; tensors != nullptr && i < tensors->size(); ++i)
      texts_.text(reinterpret_cast<PyObject*>(tensors->facts(i).type), true);
  };
  name(trace_.tensors.get());
  for (const Epoch& epoch : trace_.epochs) name(epoch.tensors.get());
}

void TextPrinter::heading() {
  const Trace& trace = trace_;
  out_ += "trace " + texts_.text(trace.code.get(), true);
  field("inputs", trace.inputs);
  field("depth", trace.depth);
  field("clock", trace.clock);
  field("operations", trace.operations);
  field("exit_points", trace.exit_points);
  flag("coroutines", trace.coroutines);
  flag("gives_way", trace.gives_way);
  flag("of_this_process", trace.of_this_process);
  out_ += "\ncounts";
  field("registers", trace.regs.size());
  field("guards", trace.guards.size());
  field("epochs", trace.epochs.size());
  field("virtuals", trace.virtuals.size());
  field("states", trace.frame_states.size());
  field("snapshots", trace.snapshots.size());
  field("frames", trace.followed.size());
  out_ += "\n";
  stop("stop", trace.stop);
  for (const StopInfo& detour : trace.detours) stop("detour", detour);
  for (const char* why : trace.no_exits) out_ += "no_exit " + quoted(std::string(why)) + "\n";
  for (PyObject* object : trace.exact) out_ += "exact " + texts_.text(object) + "\n";
  out_ += "frames\n";
  for (uint32_t i = 0; i < trace.followed.size(); ++i) {
    const Followed& frame = trace.followed[i];
    out_ += indexed("c", i) + " " + texts_.text(reinterpret_cast<PyObject*>(frame.code), true);
    index("caller", "c", frame.caller);
    field("at", static_cast<uint64_t>(frame.instruction));
    operand("first", frame.first);
    out_ += "\n";
  }
  out_ += "registers\n";
  for (uint32_t i = 0; i < trace.regs.size(); ++i) {
    writes("register", i);
    out_ += indexed("r", i) + " " + rep_name(trace.regs[i].rep);
    type(trace.regs[i].type);
    if (trace.regs[i].epoch != 0) field("epoch", trace.regs[i].epoch);
    out_ += "\n";
  }
}

void TextPrinter::guard(uint32_t at) {
  writes("guard", at);
  const Guard& guard = trace_.guards[at];
  const GuardRow& row = row_of(guard.op);
  out_ += indexed("g", at) + " " + row.print + " " + value(guard.subject);
  if (row.expected != nullptr) object(row.expected, guard.expected);
  switch (row.number) {
    case Number::none:
    case Number::version:
      break;
    case Number::dict:
      object("dict", reinterpret_cast<PyObject*>(guard.number));
      break;
    case Number::size:
      field("size", guard.number);
      break;
    case Number::index:
      field("index", guard.number);
      break;
    case Number::offset:
      field("offset", guard.number);
      break;
    case Number::register_:
      index("register", "r", static_cast<uint32_t>(guard.number));
      break;
  }
  if (row.aux == GuardAux::index) field("place", guard.aux);
  if (row.aux == GuardAux::holders) field("holders", guard.aux);
  if (row.aux == GuardAux::varies || row.aux == GuardAux::whole)
    flag(row.aux == GuardAux::varies ? "varies" : "whole", guard.aux != 0);
  if (row.items != nullptr) {
    const auto first = trace_.guard_items.begin() + guard.first;
    field(row.items, list(Objects(first, first + guard.count), [&](PyObject* item) { return texts_.text(item); }));
  }
  index("out", "r", guard.out);
  if (kept_ != nullptr) more(guard);
  out_ += "\n";
}

void TextPrinter::tensor(const InputGuards& tensors, size_t at) {
  const TensorFacts facts = tensors.facts(at);
  out_ += "tensor " + indexed("r", tensors.register_of(at)) + " " + value(tensors.source(at));
  type(facts.type, true);
  field("dtype", name_text(facts.dtype));
  field("device", quoted(facts.device));
  field("sizes", list(facts.sizes, [](int64_t size) {
          return size == TensorFacts::kAnySize ? std::string("*") : std::to_string(size);
        }));
  field("more", facts.more);
  out_ += "\n";
}

void TextPrinter::inputs(const StateGuard* state, const InputGuards* tensors) {
  Words kept;
  if (kept_ != nullptr && state != nullptr && !state->keep(kept)) kept_->fail("modes of a device");
  if (state != nullptr) out_ += "state " + (kept_ == nullptr ? quoted(state->summary()) : words(kept)) + "\n";
  if (tensors != nullptr) out_ += "tensors\n";
  for (size_t i = 0; tensors != nullptr && i < tensors->size(); ++i) tensor(*tensors, i);
}

void TextPrinter::entry() {
  out_ += "entry\n";
  inputs(trace_.state.get(), trace_.tensors.get());
  for (PyObject* object : trace_.pins) out_ += "pin " + texts_.text(object) + "\n";
  for (const Dropped& dropped : trace_.dropped)
    out_ += "drop " + texts_.text(dropped.object) + " epoch=" + std::to_string(dropped.epoch) + "\n";
  if (!trace_.retained.empty())
    out_ += "retained " + registers(trace_.retained, 0, static_cast<uint32_t>(trace_.retained.size())) + "\n";
}

void TextPrinter::epoch(uint32_t at) {
  const Epoch& epoch = trace_.epochs[at];
  out_ += indexed("e", at);
  field("first", epoch.first);
  field("count", epoch.count);
  out_ += "\n";
  inputs(epoch.state.get(), epoch.tensors.get());
  for (const auto& [object, reg] : epoch.pins) out_ += "pin " + texts_.text(object) + " " + indexed("r", reg) + "\n";
  if (!epoch.retained.empty())
    out_ += "retained " + registers(epoch.retained, 0, static_cast<uint32_t>(epoch.retained.size())) + "\n";
}

void TextPrinter::imm(const Node& node) {
  switch (row_of(node.op).imm) {
    case Imm::none:
      return;
    case Imm::snapshot:
      return index("other", "s", static_cast<uint32_t>(node.imm));
    case Imm::type:
      return object("result", reinterpret_cast<PyObject*>(node.imm));
    case Imm::number:
      return field("number", node.rep == Rep::kEmpty ? "" : number_text(node.rep, node.imm));
    case Imm::truth:
      return field("number", number_text(Rep::kBool, node.imm));
    case Imm::integer:
      return field("number", number_text(Rep::kInt, node.imm));
    case Imm::real:
      return field("number", number_text(Rep::kFloat, node.imm));
    case Imm::operators:
      return field("operators", node.imm);
    case Imm::point:
      return field("point", node.imm);
  }
}

void TextPrinter::aux(const Node& node) {
  switch (row_of(node.op).aux) {
    case Aux::none:
      return;
    case Aux::named:
      return field("named", node.aux == kNone ? "spread" : std::to_string(node.aux));
    case Aux::item:
      return field("item", node.aux != 0 ? "True" : "False");
    case Aux::scalar:
      return field("function", scalar_name(static_cast<ScalarOp>(node.aux)));
    case Aux::level:
      return field("level", node.aux);
    case Aux::epoch:
      return index("epoch", "e", node.aux);
  }
}

std::string TextPrinter::argument(const OperatorArgument& given) {
  using Kind = OperatorArgument::Kind;
  std::string text = given.name.empty() ? "" : name_text(given.name);
  text += std::string(given.written ? "!" : "") + (given.usual ? "?" : "") + (given.keyword ? "*" : "");
  if (!text.empty()) text += "=";
  if (given.kind == Kind::kRegister) return text + indexed("r", given.reg);
  if (given.kind == Kind::kLiteral) {
    const std::string literal = texts_.text(given.literal.get(), true);
    return text + (given.content.empty() ? literal : "content(" + quoted(given.content) + ", " + literal + ")");
  }
  text += given.kind == Kind::kList ? "list" : given.kind == Kind::kTuple ? "items" : "slice";
  return text + list(given.items, [&](const OperatorArgument& item) { return argument(item); });
}

std::string TextPrinter::result(const OperatorResult& given) {
  const auto name = [](uint32_t reg) { return indexed("r", reg); };
  std::string text = "_";
  if (given.kind == OperatorResult::Kind::kRegister) text = name(given.regs[0]);
  if (given.kind == OperatorResult::Kind::kList) text = "list" + list(given.regs, name);
  return given.shares < 0 ? text : text + "~" + std::to_string(given.shares);
}

void TextPrinter::call(const OperatorCall& call) {
  const bool plain = !call.name.empty() &&
                     call.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:") ==
                         std::string::npos;
  out_ += " do " + (plain ? call.name : quoted(call.name));
  out_ += list(call.arguments, [&](const OperatorArgument& each) { return argument(each); });
  out_ += " -> " + list(call.results, [&](const OperatorResult& each) { return result(each); });
  flag("random", call.random);
  flag("repeatable", call.repeatable);
  object("callable", call.callable.get(), true);
}

void TextPrinter::node(uint32_t at) {
  writes("node", at);
  const Node& node = trace_.nodes[at];
  const OpRow& row = row_of(node.op);
  out_ += indexed("n", at) + " " + row.print;
  for (const auto& [label, given] : {std::pair(row.a, node.a), std::pair(row.b, node.b), std::pair(row.c, node.c)})
    if (label != nullptr) operand(label, given);
  if (row.operands != nullptr && node.count != 0) field(row.operands, values(trace_.operands, node.first, node.count));
  imm(node);
  aux(node);
  index("out", "r", node.out);
  if (node.outs_count != 0) field("outs", registers(trace_.outs, node.outs_first, node.outs_count));
  index("exit", "s", node.snapshot);
  field("time", node.time);
  if (node.site < trace_.sites.size()) {
    const Site& site = trace_.sites[node.site];
    field("at", texts_.text(reinterpret_cast<PyObject*>(site.code), true) + ":" + std::to_string(site.instruction));
    index("frame", "c", site.frame);
  }
  if (node.release_count != 0) field("releases", registers(trace_.releases, node.release_first, node.release_count));
  Words kept;
  if (is_operation(node) && kept_ == nullptr) call(node.adapter_op->call());
  if (is_operation(node) && kept_ != nullptr) {
    if (!node.adapter_op->keep(kept)) kept_->fail("the operation " + node.adapter_op->call().name);
    out_ += " do " + words(kept);
  }
  out_ += "\n";
}

void TextPrinter::log_entry(VirtualKind kind, uint32_t at) {
  const LogEntry& entry = trace_.log[at];
  out_ += "  @" + std::to_string(entry.time) + " " + log_name(entry.op);
  if (entry.op == LogOp::kField) {
    // An entry that was taken back while recording has no index.
    const std::string_view name = entry.index == kNone ? "-" : field_name(kind, entry.index);
    out_ += " " + (name.empty() ? std::to_string(entry.index) : std::string(name));
  } else if (entry.op == LogOp::kFrame) {
    out_ += " " + (entry.index == kNone ? "running" : indexed("f", entry.index));
  } else if (entry.index != 0) {
    field("index", entry.index == kExhausted ? "exhausted" : std::to_string(entry.index));
  }
  operand("key", entry.key);
  operand("value", entry.value);
  if (!trace_.undone.empty() && trace_.undone[at] != kNone) field("until", trace_.undone[at]);
  out_ += "\n";
}

void TextPrinter::virtual_object(uint32_t at) {
  const Virtual& object = trace_.virtuals[at];
  out_ += indexed("v", at) + " " + virtual_name(object.kind);
  type(object.type);
  field("birth", object.birth);
  flag("unbuildable", !object.buildable);
  flag("rewritten", object.rewritten);
  if (object.reg != kNone) {
    index("register", "r", object.reg);
    field("since", object.reg_time);
  }
  out_ += "\n";
  for (uint32_t entry = object.head; entry != kNone; entry = trace_.log[entry].next) log_entry(object.kind, entry);
}

void TextPrinter::frame_state(uint32_t at) {
  const FrameState& state = trace_.frame_states[at];
  out_ += indexed("f", at) + " " + texts_.text(reinterpret_cast<PyObject*>(state.code), true);
  index("parent", "f", state.parent);
  if (state.continuation != Continuation::kNone) field("continuation", continuation_name(state.continuation));
  field("resume", static_cast<uint64_t>(state.resume));
  field("call", static_cast<uint64_t>(state.call));
  operand("function", state.function);
  operand("extra", state.extra);
  operand("generator", state.generator);
  operand("handled", state.handled);
  index("self", "v", state.self);
  field("locals", values(trace_.slots, state.first, state.locals));
  field("stack", values(trace_.slots, state.first + state.locals, state.stack));
  out_ += "\n";
}

// Those that the rest of the text speaks of.
std::string TextPrinter::codes() {
  static constexpr const char* kKinds[] = {"", "cell:", "both:", "free:"};
  std::string text = "pijit trace 1\ncodes\n";
  for (size_t i = 0; i < texts_.codes().size(); ++i) {
    PyCodeObject* code = texts_.codes()[i];
    text += "code(" + std::to_string(i) + ") " + word_text(code->co_name);
    text += " qualname=" + word_text(code->co_qualname) + " stack=" + std::to_string(code->co_stacksize);
    text += " units=" + std::to_string(cpython::unit_count(code)) + " locals=(";
    for (int at = 0; at < code->co_nlocalsplus; ++at) {
      const cpython::LocalName local = cpython::local_name(code, at);
      text += (at == 0 ? "" : ", ") + std::string(kKinds[static_cast<size_t>(local.kind)]) + word_text(local.name);
    }
    text += ")\n";
  }
  return text;
}

std::string TextPrinter::all() {
  const auto each = [&](size_t count, void (TextPrinter::*print)(uint32_t)) {
    for (uint32_t i = 0; i < count; ++i) (this->*print)(i);
  };
  name_tensor_types();
  heading();
  out_ += "guards\n";
  each(trace_.guards.size(), &TextPrinter::guard);
  entry();
  each(trace_.epochs.size(), &TextPrinter::epoch);
  out_ += "nodes\n";
  each(trace_.nodes.size(), &TextPrinter::node);
  out_ += "virtuals\n";
  each(trace_.virtuals.size(), &TextPrinter::virtual_object);
  out_ += "states\n";
  each(trace_.frame_states.size(), &TextPrinter::frame_state);
  out_ += "snapshots\n";
  for (uint32_t i = 0; i < trace_.snapshots.size(); ++i) {
    out_ += indexed("s", i);
    index("state", "f", trace_.snapshots[i].frame);
    field("time", trace_.snapshots[i].time);
    out_ += "\n";
  }
  return codes() + out_ + "end\n";
}

}  // namespace

std::string trace_text(const Trace& trace, const Sources& sources) {
  return TextPrinter(trace, ObjectTexts(sources)).all();
}

std::string kept_trace_text(const Trace& trace, KeptNames& names) {
  return TextPrinter(trace, ObjectTexts(names), &names).all();
}

std::string kept_object_text(size_t index, const KeptObject& object) {
  const auto step = [](const KeptObject& one) {
    const LeadRow& row = row_of(one.part);
    std::string text = row.print;
    if (!row.begins) text += " of=o" + std::to_string(one.of);
    if (row.number) text += " number=" + std::to_string(one.number);
    if (row.key == LeadKey::kObject) return text + " by=o" + std::to_string(one.by);
    std::string key;
    if (row.key != LeadKey::kNone && ObjectTexts::literal(one.key.get(), &key)) text += " key=" + key;
    return text;
  };
  std::string text = "o" + std::to_string(index) + " " + step(object) + " about=" + quoted(object.about);
  if (object.owned) text += " owned";
  for (const KeptObject& other : object.also) text += " also " + step(other);
  return text + "\n";
}

std::string trace_text(const ParsedTrace& parsed) {
  return TextPrinter(parsed.trace, ObjectTexts(parsed.names)).all();
}

}  // namespace pijit
