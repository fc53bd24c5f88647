// The parser of the text form: nodes, virtual objects, frames.
#include <algorithm>
#include <tuple>

#include "ir/scalars.h"
#include "ir/text_operation.h"
#include "ir/text_parser.h"

namespace pijit {

using namespace column;

// The number that a guard compares with, or that stands for an operand.
void TextParser::number(Node* node, Rep wanted) {
  const size_t start = read_.place();
  PyObject* object = read_.object().object;
  Reg number{};
  const bool fits = object != nullptr && number_of(object, &number);
  if (!fits || (wanted != Rep::kEmpty && number.rep != wanted)) read_.fail_at(start, "a number that a register holds");
  if (wanted == Rep::kEmpty) node->rep = number.rep;
  node->imm = number_bits(number);
}

void TextParser::imm(Imm kind, Node* node) {
  switch (kind) {
    case Imm::none:
      return;
    case Imm::snapshot:
      read_.expect_field("other");
      node->imm = read_.indexed('s', counts_.snapshots);
      return;
    case Imm::type:
      node->imm = reinterpret_cast<uintptr_t>(object_field("result"));
      return;
    case Imm::number:
      if (read_.field("number")) number(node, Rep::kEmpty);
      return;
    case Imm::truth:
    case Imm::integer:
    case Imm::real:
      read_.expect_field("number");
      return number(node, kind == Imm::truth ? Rep::kBool : kind == Imm::integer ? Rep::kInt : Rep::kFloat);
    case Imm::operators:
    case Imm::point:
      read_.expect_field(kind == Imm::operators ? "operators" : "point");
      node->imm = read_.number("a number", UINT64_MAX);
      return;
  }
}

void TextParser::aux(Aux kind, Node* node) {
  switch (kind) {
    case Aux::none:
      return;
    case Aux::named:
      read_.expect_field("named");
      node->aux = read_.take_word("spread") ? kNone : small();
      return;
    case Aux::item:
      read_.expect_field("item");
      node->aux =
          static_cast<uint32_t>(choice("True or False", 2, [](size_t at) { return at == 0 ? "False" : "True"; }));
      return;
    case Aux::scalar: {
      read_.expect_field("function");
      const size_t count = static_cast<size_t>(ScalarOp::kNot) + 1;
      node->aux = static_cast<uint32_t>(
          choice("a function of arithmetic", count, [](size_t at) { return scalar_name(static_cast<ScalarOp>(at)); }));
      return;
    }
    case Aux::level:
      node->aux = expected_field("level");
      return;
    case Aux::epoch:
      read_.expect_field("epoch");
      node->aux = read_.indexed('e', counts_.epochs);
      return;
  }
}

// Nodes that follow each other share their place.
void TextParser::at(Node* node) {
  node->site = kNone;
  if (!read_.field("at")) return;
  Site site{};
  site.code = read_.code();
  read_.expect(':');
  site.instruction = static_cast<int32_t>(small());
  site.frame = index_field("frame", 'c', counts_.frames);
  const bool known = !trace_.sites.empty() && trace_.sites.back().code == site.code &&
                     trace_.sites.back().instruction == site.instruction && trace_.sites.back().frame == site.frame;
  if (!known) trace_.sites.push_back(site);
  node->site = static_cast<uint32_t>(trace_.sites.size() - 1);
}

void TextParser::node(size_t index) {
  read_.expect_indexed('n', index);
  const size_t op = choice("the name of an operation", std::size(kOpRows), [](size_t at) { return kOpRows[at].print; });
  const OpRow& row = kOpRows[op];
  Node node{};
  node.op = static_cast<Op>(op);
  node.a = value_field(row.a);
  node.b = value_field(row.b);
  node.c = value_field(row.c);
  if (row.operands != nullptr && read_.field(row.operands)) std::tie(node.first, node.count) = values(&trace_.operands);
  imm(row.imm, &node);
  aux(row.aux, &node);
  node.out = index_field("out", 'r', counts_.registers);
  if (read_.field("outs")) std::tie(node.outs_first, node.outs_count) = registers(&trace_.outs);
  node.snapshot = index_field("exit", 's', counts_.snapshots);
  node.time = expected_field("time");
  at(&node);
  if (read_.field("releases")) std::tie(node.release_first, node.release_count) = registers(&trace_.releases);
  if ((node.op == Op::kAdapter || node.op == Op::kCheck) && read_.take_word("do")) {
    if (parsed_->kept) read_.expect_word("as");
    trace_.adapter_ops.push_back(parsed_->kept ? std::make_unique<TextOperation>(read_words(read_, counts_.registers))
                                               : std::make_unique<TextOperation>(read_call(read_, counts_.registers)));
    node.adapter_op = trace_.adapter_ops.back().get();
  }
  trace_.nodes.push_back(node);
  read_.end_line();
}

void TextParser::virtual_object(uint32_t index) {
  read_.expect_indexed('v', index);
  const size_t kind =
      choice("the kind of a virtual object", std::size(kVirtualRows), [](size_t at) { return kVirtualRows[at].print; });
  Virtual object{};
  object.kind = static_cast<VirtualKind>(kind);
  object.type = type_field();
  object.birth = expected_field("birth");
  object.buildable = !read_.take_word("unbuildable");
  object.rewritten = read_.take_word("rewritten");
  object.reg = index_field("register", 'r', counts_.registers);
  if (object.reg != kNone) object.reg_time = expected_field("since");
  trace_.virtuals.push_back(object);
  read_.end_line();
  while (read_.take('@')) log_entry(index, object.kind);
}

void TextParser::log_entry(uint32_t owner, VirtualKind kind) {
  Logged logged{owner, kNone, {}};
  LogEntry& entry = logged.entry;
  entry.time = small();
  const size_t ops = static_cast<size_t>(LogOp::kTraced) + 1;
  entry.op = static_cast<LogOp>(
      choice("what is done to a virtual object", ops, [](size_t at) { return log_name(static_cast<LogOp>(at)); }));
  if (entry.op == LogOp::kFrame) {
    entry.index = read_.take_word("running") ? kNone : read_.indexed('f', counts_.states);
  } else if (entry.op == LogOp::kField && read_.take('-')) {
    entry.index = kNone;
  } else if (entry.op == LogOp::kField && read_.at_digit()) {
    entry.index = small();
  } else if (entry.op == LogOp::kField) {
    size_t count = 0;
    while (!field_name(kind, count).empty()) ++count;
    entry.index =
        static_cast<uint32_t>(choice("the name of a field", count, [&](size_t at) { return field_name(kind, at); }));
  } else if (read_.field("index")) {
    entry.index = read_.take_word("exhausted") ? kExhausted : small();
  }
  entry.key = value_field("key");
  entry.value = value_field("value");
  if (read_.field("until")) logged.until = small();
  logged_.push_back(logged);
  read_.end_line();
}

// The log as a whole is in the order of the times.
void TextParser::link_log() {
  std::stable_sort(logged_.begin(), logged_.end(),
                   [](const Logged& a, const Logged& b) { return a.entry.time < b.entry.time; });
  const bool ends = std::any_of(logged_.begin(), logged_.end(), [](const Logged& row) { return row.until != kNone; });
  for (const Logged& row : logged_) {
    const auto at = static_cast<uint32_t>(trace_.log.size());
    Virtual& object = trace_.virtuals[row.owner];
    trace_.log.push_back(row.entry);
    (object.head == kNone ? object.head : trace_.log[object.tail].next) = at;
    object.tail = at;
    if (ends) trace_.undone.push_back(row.until);
  }
}

void TextParser::frame_state(uint32_t index) {
  read_.expect_indexed('f', index);
  FrameState state{};
  state.code = read_.code();
  state.parent = index_field("parent", 'f', counts_.states);
  if (read_.field("continuation"))
    state.continuation =
        static_cast<Continuation>(choice("a continuation", static_cast<size_t>(Continuation::kAgain) + 1,
                                         [](size_t at) { return continuation_name(static_cast<Continuation>(at)); }));
  state.resume = static_cast<int32_t>(expected_field("resume"));
  state.call = static_cast<int32_t>(expected_field("call"));
  state.function = value_field("function");
  state.extra = value_field("extra");
  state.generator = value_field("generator");
  state.handled = value_field("handled");
  state.self = index_field("self", 'v', counts_.virtuals);
  read_.expect_field("locals");
  std::tie(state.first, state.locals) = values(&trace_.slots);
  read_.expect_field("stack");
  state.stack = values(&trace_.slots).second;
  trace_.frame_states.push_back(state);
  read_.end_line();
}

void TextParser::snapshot(uint32_t index) {
  read_.expect_indexed('s', index);
  Snapshot taken;
  taken.frame = index_field("state", 'f', counts_.states);
  taken.time = expected_field("time");
  trace_.snapshots.push_back(taken);
  read_.end_line();
}

}  // namespace pijit
