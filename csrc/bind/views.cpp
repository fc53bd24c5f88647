// Traces, counters and tables as plain Python dicts.
#include "bind/views.h"

#include <algorithm>
#include <cctype>

#include "bind/plans.h"
#include "cache/entry_points.h"
#include "cache/memory.h"
#include "cpython/bytecode.h"
#include "cpython/places.h"
#include "guard/proven.h"
#include "guard/written.h"
#include "hook/automatic.h"
#include "hook/beside.h"
#include "hook/events.h"
#include "ir/print.h"
#include "ir/python.h"
#include "ir/source.h"
#include "plan/segment.h"
#include "plan/tapes.h"
#include "record/reasons.h"

namespace py = pybind11;

namespace pijit {
namespace {

py::object stop_view(const StopInfo& stop) {
  if (stop.code == nullptr) return py::none();
  py::dict view;
  view["code"] = stop.code;
  view["reason"] = stop.reason;
  view["file"] = stop.file;
  view["line"] = stop.line;
  view["function"] = stop.function;
  view["inside"] = stop.inside;
  return view;
}

// The innermost frame whose code is no framework's and not of the standard library, else the innermost.
Site written_site(const Trace& trace, const Node& node) {
  Site innermost{nullptr, 0};
  if (node.op == Op::kReturn) return innermost;
  if (node.site < trace.sites.size()) innermost = trace.sites[node.site];
  if (innermost.code != nullptr && !cpython::is_library(innermost.code, false)) return innermost;
  if (node.snapshot == kNone) return innermost;
  for (uint32_t at = trace.snapshots[node.snapshot].frame; at != kNone; at = trace.frame_states[at].parent) {
    const FrameState& state = trace.frame_states[at];
    if (!cpython::is_library(state.code, false)) return {state.code, state.call};
  }
  return innermost;
}

// The node runs code that the trace does not know. What a tape does in place of the engine it knows.
bool is_opaque_call(const Trace& trace, const Node& node) {
  if (!is_opaque(node.op)) return false;
  return trace.tapes == nullptr || !trace.tapes->replace(static_cast<uint32_t>(&node - trace.nodes.data()));
}

py::dict node_view(const Trace& trace, const Printer& printer, PythonText* python, const Node& node) {
  py::dict view;
  view["text"] = python->node(node);
  view["op"] = op_name(node.op);
  const Site site = written_site(trace, node);
  view["file"] = site.code != nullptr ? text_of(site.code->co_filename) : "";
  view["line"] = site.code != nullptr ? cpython::line_of(site.code, site.instruction) : 0;
  py::list inputs, outputs;
  for (uint32_t i = 0; i < node.count; ++i) inputs.append(printer.value(trace.operands[node.first + i]));
  for (uint32_t i = 0; i < node.outs_count; ++i)
    outputs.append(printer.value(Val::reg(trace.outs[node.outs_first + i])));
  if (node.out != kNone) outputs.append(printer.value(Val::reg(node.out)));
  view["inputs"] = inputs;
  view["outputs"] = outputs;
  view["opaque"] = is_opaque_call(trace, node);
  return view;
}

py::list snapshots_view(const Trace& trace) {
  py::list views;
  for (const Snapshot& snapshot : trace.snapshots) {
    py::list frames;
    for (uint32_t at = snapshot.frame; at != kNone; at = trace.frame_states[at].parent) {
      const FrameState& state = trace.frame_states[at];
      py::dict frame;
      frame["name"] = text_of(state.code->co_qualname);
      frame["file"] = text_of(state.code->co_filename);
      frame["line"] = cpython::line_of(state.code, state.call);
      frame["offset"] = state.resume * 2;
      frames.append(frame);
    }
    py::dict view;
    view["frames"] = frames;
    views.append(view);
  }
  return views;
}

// Of each exit point its number, and the continuations of the frames, from the innermost outwards.
py::list exit_points_view(const Trace& trace) {
  py::list views;
  for (const Node& node : trace.nodes) {
    if (node.op != Op::kExitPoint) continue;
    py::list continuations;
    for (uint32_t at = trace.snapshots[node.snapshot].frame; at != kNone; at = trace.frame_states[at].parent)
      continuations.append(continuation_name(trace.frame_states[at].continuation));
    views.append(py::make_tuple(node.imm, continuations));
  }
  return views;
}

// "self, *args, **kwargs"
std::string signature_of(PyCodeObject* code) {
  std::string text;
  int at = 0;
  const auto add = [&](const char* before, int index) {
    text += text.empty() ? "" : ", ";
    text += before;
    if (index >= 0) text += text_of(PyTuple_GET_ITEM(code->co_localsplusnames, index));
  };
  const int keywords = code->co_argcount + code->co_kwonlyargcount;
  for (; at < code->co_argcount; ++at) {
    add("", at);
    if (at + 1 == code->co_posonlyargcount) add("/", -1);
  }
  if ((code->co_flags & CO_VARARGS) != 0)
    add("*", keywords);
  else if (code->co_kwonlyargcount > 0)
    add("*", -1);
  for (; at < keywords; ++at) add("", at);
  if ((code->co_flags & CO_VARKEYWORDS) != 0) add("**", keywords + ((code->co_flags & CO_VARARGS) != 0));
  return text;
}

// What sort of place its traces begin at; "": they begin with the function.
const char* entry_word(const Root& root) noexcept {
  return !root.is_entry() ? "" : root.entry.is_loop ? "loop" : "rest";
}

// "x, total, stack_0": what the frame holds where the trace begins, but for the variables around the function.
std::string entry_signature(const Trace& trace) {
  auto* code = reinterpret_cast<PyCodeObject*>(trace.code.get());
  const auto locals = static_cast<uint32_t>(code->co_nlocalsplus), free = static_cast<uint32_t>(code->co_nfreevars);
  const FrameState& state = trace.frame_states[trace.snapshots[0].frame];
  std::string text;
  for (uint32_t i = 0; i < trace.inputs; ++i) {
    const bool around = i >= locals - free && i < locals;
    if (around || trace.slots[state.first + i].is_null()) continue;
    text += (text.empty() ? "" : ", ") + text_of(input_name(code, i));
  }
  return text;
}

// "self, x, *, mask": what a module was called with, by the names that its `forward` has for that. Empty: the guards do
// not say how many there are.
std::string written_signature(const Trace& trace, PyCodeObject* written, const ObjectSet& proven) {
  const auto* called = reinterpret_cast<PyCodeObject*>(trace.code.get());
  const auto packed = static_cast<uint32_t>(called->co_argcount + called->co_kwonlyargcount);
  const auto about = [&](GuardOp op, uint32_t slot) -> const Guard* {
    for (const Guard& guard : trace.guards)
      if (guard.op == op && guard.subject.is_reg() && guard.subject.index() == slot) return &guard;
    return nullptr;
  };
  const Guard *positional = about(GuardOp::kTupleSize, packed), *keywords = about(GuardOp::kDictSize, packed + 1);
  if (positional == nullptr || keywords == nullptr) return "";
  const auto given = static_cast<int>(positional->number) + 1;
  const auto name = [&](int at) { return std::string(text_of(PyTuple_GET_ITEM(written->co_localsplusnames, at))); };
  std::string text = name(0);
  for (int i = 1; i < std::min(given, written->co_argcount); ++i) text += ", " + name(i);
  const bool more = given > written->co_argcount;
  if (more && (written->co_flags & CO_VARARGS) == 0) return "";  // something stands between that takes more
  if (more) text += ", *" + name(written->co_argcount + written->co_kwonlyargcount);
  for (uint32_t i = 0; i < keywords->count; ++i) {
    if (proven.count(trace.guard_items[keywords->first + i]) == 0) return "";
    text +=
        std::string(i == 0 && !more ? ", *, " : ", ") + std::string(text_of(trace.guard_items[keywords->first + i]));
  }
  return text;
}

// A text has this word of Python.
bool has_word(const std::string& text, const std::string& word) {
  const auto is_part = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
  };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

// The signature with the names of `forward`; empty: the text needs what `__call__` has, such as `args` as a whole.
std::string signature_by(PyCodeObject* written, const Trace& trace, const ObjectSet& proven) {
  const std::string signature = written == nullptr ? "" : written_signature(trace, written, proven);
  if (signature.empty()) return "";
  const auto* called = reinterpret_cast<PyCodeObject*>(trace.code.get());
  const int packed = called->co_argcount + called->co_kwonlyargcount;
  const Printer printer(trace, false, &proven, written);
  PythonText python(trace, printer);
  std::string all;
  for (const Loaded& each : python.loaded()) all += each.source + " ";
  for (const Node& node : trace.nodes) all += python.node(node) + " ";
  for (int slot = packed; slot < called->co_nlocalsplus && slot < packed + 2; ++slot) {
    const std::string word = text_of(PyTuple_GET_ITEM(called->co_localsplusnames, slot));
    if (has_word(all, word) && !has_word(signature, word)) return "";
  }
  return signature;
}

py::dict tape_view(const TapedStretch& stretch) {
  py::dict view;
  view["first"] = stretch.first;
  view["last"] = stretch.last;
  view["tapes"] = stretch.tapes.size();
  view["runs"] = stretch.runs;
  view["left"] = stretch.left;
  view["why"] = stretch.tapes.empty() ? stretch.why : "";
  return view;
}

// The calls of the engine: what became of the stretches that end with them. A call that ends none keeps its graph.
py::list tapes_view(const Trace& trace) {
  py::list views;
  for (uint32_t at = 0; at < trace.nodes.size() && records_tapes(); ++at) {
    if (trace.nodes[at].op != Op::kOpaque || trace.nodes[at].foreign != ForeignCall::kBackward) continue;
    TapedStretch kept;
    kept.first = kept.last = at;
    kept.why = "its graph is kept, or what it is called with is not known";
    const TapedStretch* found = &kept;
    if (trace.tapes != nullptr)
      for (const TapedStretch& stretch : trace.tapes->all)
        if (stretch.last == at) found = &stretch;
    views.append(tape_view(*found));
  }
  return views;
}

py::dict trace_view(const Root& root, const Trace& trace) {
  auto* code = reinterpret_cast<PyCodeObject*>(trace.code.get());
  const ObjectSet proven = proven_objects(trace, root.owner.living());
  PyCodeObject* written = root.owner.instance != nullptr ? written_code(trace, root.owner.living()) : nullptr;
  const std::string signature = signature_by(written, trace, proven);
  if (signature.empty()) written = nullptr;
  const Printer printer(trace, false, &proven, written);
  PythonText python(trace, printer);
  py::dict view;
  view["name"] = root.written.name;
  view["code"] = text_of(code->co_qualname);
  add_end(root, trace, &view);
  view["signature"] = trace.takes_inputs ? entry_signature(trace) : signature.empty() ? signature_of(code) : signature;
  view["entry"] = entry_word(root);
  view["modes"] = trace.state != nullptr ? trace.state->summary() : "";
  py::list loaded;
  for (const Loaded& each : python.loaded())
    loaded.append(py::make_tuple(each.name, each.source, each.facts, each.constant));
  view["loaded"] = loaded;
  py::list guards, nodes;
  auto add_guard = [&](const std::string& text, const std::string& source, const char* kind) {
    py::dict row;
    row["text"] = text;
    row["source"] = source;
    row["kind"] = kind;
    guards.append(row);
  };
  if (trace.state != nullptr) add_guard(trace.state->describe(), "", "state");
  for (const Guard& guard : trace.guards)
    add_guard(printer.guard(guard), printer.source(guard.subject), guard_name(guard.op));
  if (trace.tensors != nullptr)
    for (size_t i = 0; i < trace.tensors->size(); ++i)
      add_guard(printer.source(trace.tensors->source(i)) + ": " + words(trace.tensors->facts(i)),
                printer.source(trace.tensors->source(i)), "tensor");
  for (const Node& node : trace.nodes) nodes.append(node_view(trace, printer, &python, node));
  view["guards"] = guards;
  view["nodes"] = nodes;
  view["snapshots"] = snapshots_view(trace);
  view["exit_points"] = exit_points_view(trace);
  py::list no_exits;
  for (const char* reason : trace.no_exits) no_exits.append(reason);
  view["no_exits"] = no_exits;
  view["segments"] = segments_view(trace);
  view["tapes"] = tapes_view(trace);
  view["constants"] = trace.owned.size();
  view["bytes"] = bytes_of(trace);
  view["operations"] = trace.operations;
  view["record_seconds"] = trace.record_seconds;
  view["replays"] = trace.replays;
  view["exits"] = trace.exits;
  py::dict left;
  for (const Leaving& leaving : trace.leavings) left[py::int_(leaving.node)] = leaving.all;
  view["left"] = left;
  return view;
}

// What is known of a root's seconds: by kind, seconds and how many calls took them.
py::dict spent_view(const Root& root) {
  py::dict view;
  const auto add = [&](const char* kind, const Spent& spent) {
    view[kind] = py::make_tuple(spent.seconds, spent.times);
  };
  add("plain", root.savings.plain);
  add("first", root.savings.first);
  add("compared_early", root.savings.compared_early);
  add("compared", root.savings.compared);
  add("recorded", root.savings.recorded);
  add("replayed", root.savings.replayed);
  add("left", root.savings.left);
  add("after", {root.savings.after, root.counts.stopped + root.counts.exits});
  return view;
}

size_t segments_of(const Root& root) noexcept {
  size_t count = 0;
  for (const auto& trace : root.traces) count += trace->segments == nullptr ? 0 : trace->segments->all->size();
  return count;
}

// By Happened.
constexpr const char* kHappened[] = {"recorded",  "nothing kept", "first replay",  "left",
                                     "passed on", "taken up",     "compiled code", "replay"};

bool is_paused(const Root& root) noexcept {
  return root.counts.calls < root.recordings.again && !root.counts.pays();
}

// Why the next calls are not recorded.
StopInfo paused(const Root& root) {
  StopInfo stop;
  stop.code = kRecordedOften.code;
  stop.reason = std::string(kRecordedOften.text) + " (" + std::to_string(root.counts.records) + " recordings in " +
                std::to_string(root.counts.calls) + " calls; the next one after " +
                std::to_string(root.recordings.again - root.counts.calls) + " more)";
  if (!root.last.miss.empty()) stop.reason += ": " + root.last.miss;
  return root.written.placed(std::move(stop));
}

}  // namespace

void add_end(const Root& root, const Trace& trace, py::dict* view) {
  auto* code = reinterpret_cast<PyCodeObject*>(trace.code.get());
  const bool written = root.owner.instance != nullptr || root.is_entry();
  (*view)["file"] = written ? root.written.file : text_of(code->co_filename);
  (*view)["line"] = written ? root.written.line : code->co_firstlineno;
  size_t opaque = 0;
  for (const Node& node : trace.nodes) opaque += is_opaque_call(trace, node);
  (*view)["opaque_calls"] = opaque;
  (*view)["ends"] = !trace.nodes.empty() && trace.nodes.back().op == Op::kExit ? "exit" : "return";
  (*view)["stop"] = stop_view(trace.stop);
}

py::tuple root_status(const Root& root) {
  if (root.numbers.state == NumberLoops::State::kOn && root.aside.why.code == nullptr)
    return py::make_tuple("replaying", "its loops over numbers run in registers; traces are for what they do not take");
  std::string reason = root.standing.is_disabled()      ? root.standing.disabled
                       : root.aside.why.code != nullptr ? "the last call was left to CPython: " + root.aside.why.reason
                       : is_paused(root)                ? paused(root).reason
                                                        : root.last.stop.reason;
  const bool replays = root.counts.replays > 0 && root.aside.why.code == nullptr;
  const char* state = root.standing.is_disabled() ? "disabled"
                      : root.traces.empty()       ? "cold"
                      : replays                   ? "replaying"
                                                  : "recorded";
  return py::make_tuple(state, reason);
}

py::dict root_report(const Root& root) {
  py::dict view;
  view["root"] = root.id;
  view["name"] = root.written.name;
  view["file"] = root.written.file;
  view["line"] = root.written.line;
  view["calls"] = root.counts.calls;
  view["records"] = root.counts.records;
  view["aborts"] = root.counts.aborts;
  view["replays"] = root.counts.replays;
  view["exits"] = root.counts.exits;
  view["guard_failures"] = root.counts.misses;
  view["stopped"] = root.counts.stopped;
  view["opaque_calls"] = root.counts.opaque_calls;
  view["last_stop"] = stop_view(root.aside.why.code != nullptr ? root.aside.why
                                : is_paused(root)              ? paused(root)
                                                               : root.last.stop);
  view["aside"] = root.aside.why.code != nullptr;
  const py::tuple status = root_status(root);
  view["state"] = status[0];
  view["reason"] = status[1];
  view["disabled"] = root.standing.disabled;
  view["given_up"] = !root.standing.is_disabled() ? py::object(py::none()) : stop_view(root.standing.given_up);
  view["automatic"] = root.asked.automatic;
  view["alive"] = !root.owner.dead;
  view["seconds_lost"] = root.savings.lost();
  view["seconds_recording"] = root.savings.recording;
  view["seconds_saved"] = root.saved().seconds;
  view["seconds_error"] = root.saved().error;
  view["compared"] = root.is_entry() ? root.entry.rounds.known().count
                                     : root.savings.compared_early.times + root.savings.compared.times;
  view["spent"] = spent_view(root);
  view["traces"] = root.traces.size();
  view["segments"] = segments_of(root);
  view["entry"] = entry_word(root);
  view["entered"] = root.entry.rounds.began();
  py::list entries;
  for (const auto& entry : entries_of(root)) entries.append(entry->id);
  view["entries"] = entries;
  view["last_miss"] = root.last.miss.empty() ? py::object(py::none()) : py::object(py::str(root.last.miss));
  return view;
}

// Objects of Python are made here, so garbage may be collected, and with it roots: each list is a copy.
py::list roots_view() {
  py::list views;
  std::vector<std::shared_ptr<Root>> roots = dead_roots();
  roots.insert(roots.end(), all_roots().begin(), all_roots().end());
  for (const auto& root : roots) views.append(root_report(*root));
  return views;
}

py::list entries_view() {
  py::list views;
  for (const auto& entry : all_entries()) {
    py::dict view = root_report(*entry);
    view["instruction"] = entry->entry.at;
    views.append(view);
  }
  return views;
}

py::list root_traces(const Root& root) {
  py::list views;
  const Traces::All traces = root.traces.all();
  for (const auto& trace : traces) views.append(trace_view(root, *trace));
  return views;
}

py::dict outermost_view() {
  py::list functions;
  const std::vector<Outermost> all = outermost();
  for (const Outermost& seen : all) {
    py::dict view;
    view["name"] = seen.name;
    view["file"] = seen.file;
    view["line"] = seen.line;
    view["calls"] = seen.calls;
    view["seconds"] = seen.seconds;
    functions.append(view);
  }
  py::dict view;
  view["functions"] = functions;
  view["traced"] = traced_calls();
  return view;
}

py::dict events_view() {
  py::list rows;
  const std::vector<Event> all = events();
  for (const Event& each : all)
    rows.append(py::make_tuple(each.time, each.seconds, kHappened[static_cast<size_t>(each.what)], each.root));
  py::dict view;
  view["rows"] = rows;
  view["left_out"] = events_left_out();
  return view;
}

py::dict stats_view() {
  const Stats& counters = stats();
  size_t traces = 0, bytes = 0, segments = 0;
  double saved = 0;
  for (auto& root : dead_roots()) saved += root->saved().seconds;
  const auto add = [&](const Root& root) {
    traces += root.traces.size();
    bytes += bytes_of(root);
    for (const auto& trace : root.traces) segments += planned_segments(*trace);
  };
  for (auto& root : all_roots()) {
    saved += root->saved().seconds;
    add(*root);
  }
  for (const auto& entry : all_entries()) {
    saved += entry->saved().seconds;
    add(*entry);
  }
  py::dict view;
  view["codes"] = counters.codes;
  view["replayed_codes"] = counters.replayed_codes;
  view["records"] = counters.records;
  view["aborts"] = counters.aborts;
  view["replays"] = counters.replays;
  view["exits"] = counters.exits;
  view["guard_failures"] = counters.guard_failures;
  view["opaque_calls"] = counters.opaque_calls;
  view["traces"] = traces;
  view["segments"] = segments;
  view["bytes"] = bytes;
  view["seconds_saved"] = saved;
  view["seconds_waited"] = waited_for_compilers();
  return view;
}

py::dict tables_view() {
  py::list aborts, left, options, ops, guards, continuations, opcodes;
#define PIJIT_ABORT(name, code, text, advice) aborts.append(py::make_tuple(code, #name + 1, text, advice));
#define PIJIT_LEFT(name, code, text, advice) left.append(py::make_tuple(code, #name + 1, text, advice));
#include "record/aborts.def"
#define PIJIT_OPTION(name, kind, place, least, doc) options.append(py::make_tuple(#name, #kind, #least, doc));
#include "bind/options.def"
#undef PIJIT_OPTION
#define PIJIT_OP(name, print, effect, exit, frees, a, b, c, operands, imm, aux, doc) \
  ops.append(py::make_tuple(print, #effect, doc));
#include "ir/ops.def"
#undef PIJIT_OP
#define PIJIT_GUARD(name, print, subject, act, found, expected, number, aux, items, step, words, doc) \
  guards.append(py::make_tuple(print, doc));
#include "ir/guards.def"
#undef PIJIT_GUARD
#define PIJIT_CONTINUATION(name, print, doc) continuations.append(py::make_tuple(print, doc));
#include "ir/continuations.def"
#undef PIJIT_CONTINUATION
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (cpython::kOpcodes[opcode].base != opcode) continue;
    std::string name = cpython::opcode_name(opcode);
    if (name[0] != '<') opcodes.append(py::make_tuple(opcode, name));
  }
  py::dict view;
  view["aborts"] = aborts;
  view["left"] = left;
  view["options"] = options;
  view["ops"] = ops;
  view["guards"] = guards;
  view["continuations"] = continuations;
  view["opcodes"] = opcodes;
  return view;
}

}  // namespace pijit
