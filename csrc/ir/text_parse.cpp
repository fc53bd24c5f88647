// The parser of the text form: heading, guards, entry and epochs.
#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "cpython/bytecode.h"
#include "ir/text_operation.h"
#include "ir/text_parser.h"
#include "ir/verify.h"

namespace pijit {

using namespace column;

Val TextParser::value() {
  if (read_.at_indexed('r')) return Val::reg(reg());
  if (read_.at_indexed('v')) return Val::virtual_object(read_.indexed('v', counts_.virtuals));
  return Val::constant(read_.object().object);
}

std::pair<uint32_t, uint32_t> TextParser::registers(Vec<uint32_t>* all) {
  const auto first = static_cast<uint32_t>(all->size());
  read_.list([&] { all->push_back(reg()); });
  return {first, static_cast<uint32_t>(all->size()) - first};
}

std::pair<uint32_t, uint32_t> TextParser::values(Vals* all) {
  const auto first = static_cast<uint32_t>(all->size());
  read_.list([&] { all->push_back(value()); });
  return {first, static_cast<uint32_t>(all->size()) - first};
}

void TextParser::codes() {
  using cpython::Local;
  while (!read_.take_word("trace")) {
    read_.expect_word("code");
    read_.expect('(');
    const size_t start = read_.place();
    if (read_.number("a number", UINT64_MAX) != read_.codes())
      read_.fail_at(start, "'" + std::to_string(read_.codes()) + "'");
    read_.expect(')');
    const Ref name = read_.str_name();
    read_.expect_field("qualname");
    const Ref qualname = read_.str_name();
    read_.expect_field("stack");
    const auto stack = static_cast<int>(read_.number("a number", kMostOnStack));
    read_.expect_field("units");
    const uint64_t units = read_.number("a number", kMostUnits - units_);
    units_ += units;
    const Ref known = Ref::steal(PySet_New(nullptr));  // names may be many
    std::vector<Ref> names;
    std::vector<cpython::LocalName> locals;
    read_.expect_field("locals");
    read_.list([&] {
      Local kind = Local::kPlain;
      for (const auto& [label, of] :
           {std::pair("cell", Local::kCell), std::pair("both", Local::kPlainCell), std::pair("free", Local::kFree)})
        if (read_.prefix(label)) kind = of;
      names.push_back(read_.str_name());
      PyObject* name = names.back().get();
      const bool fresh = name != nullptr && known && PySet_Contains(known.get(), name) == 0;
      if (!fresh || PySet_Add(known.get(), name) < 0) PyErr_Clear(), read_.fail("another name before this");
      locals.push_back({names.back().get(), kind});
    });
    read_.end_line();
    if (!name || !qualname) read_.fail("the name of a code object before");
    Ref code = cpython::stand_in_code(name.get(), qualname.get(), locals, stack, static_cast<int>(units));
    if (!code) PyErr_Clear(), read_.fail("a code object that can be made before this");
    read_.add_code(std::move(code));
  }
}

void TextParser::stop(StopInfo* info) {
  info->code = keep(read_.bytes());
  read_.expect_field("reason");
  info->reason = read_.bytes();
  if (read_.field("function")) info->function = read_.bytes();
  info->line = static_cast<int>(expected_field("line"));
  if (read_.field("inside")) info->inside = read_.bytes();
  read_.end_line();
}

void TextParser::counts() {
  read_.end_line();
  read_.expect_word("counts");
  for (const auto& [label, count] : {std::pair("registers", &counts_.registers), std::pair("guards", &counts_.guards),
                                     std::pair("epochs", &counts_.epochs), std::pair("virtuals", &counts_.virtuals),
                                     std::pair("states", &counts_.states), std::pair("snapshots", &counts_.snapshots),
                                     std::pair("frames", &counts_.frames)}) {
    read_.expect_field(label);
    *count = read_.number("no more than the text has lines for", size_);  // each has a line
  }
  read_.end_line();
  const auto room = [this](size_t count) { return std::min(count, size_ / kShortestLine); };
  trace_.regs.reserve(room(counts_.registers)), trace_.guards.reserve(room(counts_.guards));
  trace_.virtuals.reserve(room(counts_.virtuals)), trace_.frame_states.reserve(room(counts_.states));
  trace_.snapshots.reserve(room(counts_.snapshots)), trace_.followed.reserve(room(counts_.frames));
}

void TextParser::heading() {
  trace_.code = Ref::borrow(reinterpret_cast<PyObject*>(read_.code()));
  trace_.inputs = expected_field("inputs");
  trace_.depth = expected_field("depth");
  trace_.clock = expected_field("clock");
  read_.expect_field("operations");
  trace_.operations = read_.number("a number", UINT64_MAX);
  trace_.exit_points = expected_field("exit_points");
  trace_.coroutines = read_.take_word("coroutines");
  trace_.gives_way = read_.take_word("gives_way");
  trace_.of_this_process = read_.take_word("of_this_process");
  counts();
  if (read_.take_word("stop")) stop(&trace_.stop);
  while (read_.take_word("detour")) stop(&trace_.detours.emplace_back());
  for (; read_.take_word("no_exit"); read_.end_line()) trace_.no_exits.push_back(keep(read_.bytes()));
  for (; read_.take_word("exact"); read_.end_line()) trace_.exact.push_back(read_.object().object);
}

void TextParser::followed() {
  for (uint32_t i = 0; i < counts_.frames; ++i) {
    Followed frame{};
    read_.expect_indexed('c', i);
    frame.code = read_.code();
    frame.caller = index_field("caller", 'c', i);
    frame.instruction = static_cast<int32_t>(expected_field("at"));
    frame.first = value_field("first");
    trace_.followed.push_back(frame);
    read_.end_line();
  }
}

void TextParser::registers() {
  for (uint32_t i = 0; i < counts_.registers; ++i) {
    RegInfo info;
    read_.expect_indexed('r', i);
    const size_t kinds = static_cast<size_t>(Rep::kBool) + 1;
    info.rep =
        static_cast<Rep>(choice("a representation", kinds, [](size_t at) { return rep_name(static_cast<Rep>(at)); }));
    info.type = type_field();
    info.epoch = small_field("epoch");
    trace_.regs.push_back(info);
    read_.end_line();
  }
}

void TextParser::guard_number(const GuardRow& row, Guard* guard) {
  const auto given = [&](const char* label) {
    read_.expect_field(label);
    guard->number = read_.number("a number", UINT64_MAX);
  };
  switch (row.number) {
    case Number::none:
    case Number::version:
      return;
    case Number::dict:
      guard->number = reinterpret_cast<uintptr_t>(object_field("dict"));
      return;
    case Number::size:
      return given("size");
    case Number::index:
      return given("index");
    case Number::offset:
      return given("offset");
    case Number::register_:
      read_.expect_field("register");
      guard->number = reg();
      return;
  }
}

void TextParser::guard(uint32_t index) {
  read_.expect_indexed('g', index);
  const size_t op =
      choice("the name of a guard", std::size(kGuardRows), [](size_t at) { return kGuardRows[at].print; });
  const GuardRow& row = kGuardRows[op];
  Guard guard{};
  guard.op = static_cast<GuardOp>(op);
  guard.subject = value();
  if (row.expected != nullptr && read_.field(row.expected)) {
    const TextReader::Object expected = read_.object();
    guard.expected = expected.object;
    guard.scalar = expected.literal;
  }
  guard_number(row, &guard);
  if (row.aux == GuardAux::index) guard.aux = expected_field("place");
  if (row.aux == GuardAux::holders) guard.aux = expected_field("holders");
  if (row.aux == GuardAux::varies) guard.aux = read_.take_word("varies");
  if (row.aux == GuardAux::whole) guard.aux = read_.take_word("whole");
  guard.first = static_cast<uint32_t>(trace_.guard_items.size());
  if (row.items != nullptr) {
    read_.expect_field(row.items);
    read_.list([&] {
      const TextReader::Object item = read_.object();
      trace_.guard_items.push_back(item.object);
      trace_.item_kinds.push_back(item.literal ? ItemKind::kScalar : ItemKind::kOther);
    });
  }
  guard.count = static_cast<uint32_t>(trace_.guard_items.size()) - guard.first;
  guard.out = index_field("out", 'r', counts_.registers);
  if (parsed_->kept && read_.field("more")) read_.list([&] { parsed_->more[index].push_back(read_.object().object); });
  trace_.guards.push_back(guard);
  read_.end_line();
}

void TextParser::tensor(InputGuards* tensors) {
  const uint32_t out = reg();
  const Val source = value();
  TensorFacts facts;
  facts.type = type_field();
  read_.expect_field("dtype");
  facts.dtype = read_.name();
  read_.expect_field("device");
  facts.device = read_.bytes();
  read_.expect_field("sizes");
  read_.list([&] {
    facts.sizes.push_back(read_.take('*') ? TensorFacts::kAnySize
                                          : static_cast<int64_t>(read_.number("a size", INT64_MAX)));
  });
  read_.expect_field("more");
  facts.more = read_.number("a number", UINT64_MAX);
  static_cast<TextInputs*>(tensors)->add(source, out, std::move(facts));
  read_.end_line();
}

// A line of what a trace or an epoch begins with; false: it is none.
bool TextParser::inputs(std::unique_ptr<StateGuard>* state, std::unique_ptr<InputGuards>* tensors) {
  if (*state == nullptr && read_.take_word("state")) {
    if (parsed_->kept) read_.expect_word("as");
    if (parsed_->kept)
      *state = std::make_unique<TextState>(read_words(read_, counts_.registers));
    else
      *state = std::make_unique<TextState>(read_.bytes());
    return read_.end_line(), true;
  }
  if (*tensors == nullptr && read_.take_word("tensors")) {
    *tensors = std::make_unique<TextInputs>();
    return read_.end_line(), true;
  }
  if (*tensors == nullptr || !read_.take_word("tensor")) return false;
  return tensor(tensors->get()), true;
}

void TextParser::entry() {
  read_.expect_word("entry");
  read_.end_line();
  while (inputs(&trace_.state, &trace_.tensors)) continue;
  for (; read_.take_word("pin"); read_.end_line()) trace_.pins.push_back(read_.object().object);
  for (; read_.take_word("drop"); read_.end_line()) {
    PyObject* object = read_.object().object;
    trace_.dropped.push_back({object, expected_field("epoch")});
  }
  if (!read_.take_word("retained")) return;
  registers(&trace_.retained);
  read_.end_line();
}

void TextParser::epoch(uint32_t index) {
  read_.expect_indexed('e', index);
  Epoch& epoch = trace_.epochs.emplace_back();
  epoch.first = expected_field("first");
  epoch.count = expected_field("count");
  read_.end_line();
  while (inputs(&epoch.state, &epoch.tensors)) continue;
  for (; read_.take_word("pin"); read_.end_line()) {
    PyObject* object = read_.object().object;
    epoch.pins.emplace_back(object, reg());
  }
  if (!read_.take_word("retained")) return;
  registers(&epoch.retained);
  read_.end_line();
}

std::unique_ptr<ParsedTrace> TextParser::run() {
  const auto section = [&](const char* word) {
    read_.expect_word(word);
    read_.end_line();
  };
  const auto each = [&](size_t count, void (TextParser::*parse)(uint32_t)) {
    for (uint32_t i = 0; i < count; ++i) (this->*parse)(i);
  };
  read_.expect_word("pijit");
  read_.expect_word("trace");
  if (read_.number("version 1", UINT64_MAX) != 1) read_.fail("version 1 before this");
  read_.end_line();
  section("codes");
  codes();
  heading();
  section("frames");
  followed();
  section("registers");
  registers();
  section("guards");
  each(counts_.guards, &TextParser::guard);
  entry();
  each(counts_.epochs, &TextParser::epoch);
  section("nodes");
  for (size_t i = 0; !read_.take_word("virtuals"); ++i) node(i);
  read_.end_line();
  each(counts_.virtuals, &TextParser::virtual_object);
  link_log();
  section("states");
  each(counts_.states, &TextParser::frame_state);
  section("snapshots");
  each(counts_.snapshots, &TextParser::snapshot);
  section("end");
  read_.end_text();
  const std::string wrong = verify_trace(trace_);
  if (!wrong.empty()) throw TextError(0, 0, "the trace contradicts itself: " + wrong);
  return std::move(parsed_);
}

// The trace outlives what was read, and there are few such words: codes of reasons.
const char* TextParser::for_good(const std::string& word) {
  static auto* all = new std::unordered_set<std::string>;
  return all->insert(word).first->c_str();
}

void TextParser::kept_step(size_t below, KeptObject* object) {
  object->part =
      static_cast<Lead>(choice("a step", kLeads, [](size_t at) { return row_of(static_cast<Lead>(at)).print; }));
  const LeadRow& row = row_of(object->part);
  if (!row.begins) read_.expect_field("of"), object->of = read_.indexed('o', below);
  if (row.number) read_.expect_field("number"), object->number = read_.number("a number", UINT64_MAX);
  if (row.key == LeadKey::kNone) return;
  if (row.key == LeadKey::kObject) return read_.expect_field("by"), void(object->by = read_.indexed('o', below));
  read_.expect_field("key");
  const size_t start = read_.place();
  const TextReader::Object key = read_.object();
  if (!key.literal || (row.key == LeadKey::kText && !PyUnicode_CheckExact(key.object)))
    read_.fail_at(start, row.key == LeadKey::kText ? "a str" : "a literal");
  object->key = Ref::borrow(key.object);
}

std::vector<KeptObject> TextParser::kept_objects() {
  std::vector<KeptObject> objects;
  objects.reserve(size_ / kUsualObject);
  while (!read_.at_this("pijit")) {
    KeptObject& object = objects.emplace_back();
    read_.expect_indexed('o', objects.size() - 1);
    kept_step(objects.size() - 1, &object);
    read_.expect_field("about");
    object.about = read_.bytes();
    object.owned = read_.take_word("owned");
    while (read_.take_word("also")) kept_step(SIZE_MAX, &object.also.emplace_back());
    read_.end_line();
  }
  for (const KeptObject& object : objects)
    for (const KeptObject& other : object.also)
      if (other.of >= objects.size() || other.by >= objects.size())
        throw TextError(0, 0, "a step leads on from an object that is not there");
  return objects;
}

std::unique_ptr<ParsedTrace> TextParser::run_kept(const FindKept& find) {
  parsed_->kept = true;
  read_.expect_word("pijit");
  read_.expect_word("kept");
  if (read_.number("version 1", UINT64_MAX) != 1) read_.fail("version 1 before this");
  read_.end_line();
  if (!find(kept_objects(), &parsed_->objects)) return nullptr;
  return run();
}

std::unique_ptr<ParsedTrace> parse_kept(const std::string& text, const FindKept& find) {
  return TextParser(text).run_kept(find);
}

std::unique_ptr<ParsedTrace> parse_trace(const std::string& text) {
  return TextParser(text).run();
}

}  // namespace pijit
