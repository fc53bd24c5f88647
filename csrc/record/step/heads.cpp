// Marks the turns of loops; see heads.h.
#include "record/step/heads.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cpython/source_place.h"
#include "ir/call.h"
#include "ir/scalars.h"
#include "record/known_loops.h"
#include "record/recorder.h"
#include "record/state/snapshot.h"
#include "record/state/values.h"
#include "record/step/loops.h"

namespace pijit {
namespace {

using Place = std::array<int, 4>;

bool is_jump(Operation now) noexcept {
  return now == Operation::kJump || now == Operation::kJumpIf || now == Operation::kJumpIfNone;
}

// The loops of a code object: by the head, its last jump back.
std::vector<Heads::Head> find(PyCodeObject* code) {
  std::vector<int> starts;
  std::vector<std::pair<int, int>> loops;  // target, last jump to it
  std::vector<int> meetings;
  for (int start = 0, at = 0; start < cpython::unit_count(code); start = at = cpython::next_index(code, at)) {
    starts.push_back(start);
    const Operation now = cpython::decode(code, &at).operation;
    const bool ends = now == Operation::kForIter || now == Operation::kJumpIfOrPop;
    if (!is_jump(now) && !ends) continue;
    const int target = cpython::jump_target(code, start);
    if (target > start) meetings.push_back(target);
    if (target > start || ends) continue;
    const auto known = std::find_if(loops.begin(), loops.end(), [&](const auto& each) { return each.first == target; });
    if (known == loops.end())
      loops.emplace_back(target, start);
    else
      known->second = start;
  }
  std::vector<Heads::Head> heads;
  const auto index_of = [&](int start) {
    return std::lower_bound(starts.begin(), starts.end(), start) - starts.begin();
  };
  for (const auto& [target, last] : loops) {
    // The test before the body and its copy at the end, instruction by instruction.
    ptrdiff_t before = index_of(target) - 1, end = index_of(last);
    const ptrdiff_t body = before;
    const bool tests = cpython::instruction_at(code, last).operation != Operation::kJump;
    Place one, other;
    while (tests && before >= 0 && end > body + 1 &&
           cpython::source_place(code, starts[static_cast<size_t>(before)], &one) &&
           cpython::source_place(code, starts[static_cast<size_t>(end)], &other) && one == other) {
      before -= 1;
      end -= 1;
    }
    const int first = starts[static_cast<size_t>(before + 1)];
    if (before == body) {
      heads.push_back({target, target, last, false});
    } else {
      heads.push_back({first, first, last, false});
      heads.push_back({starts[static_cast<size_t>(end + 1)], first, last, true});
    }
  }
  for (int target : meetings)
    if (std::none_of(heads.begin(), heads.end(), [&](const Heads::Head& head) { return head.at == target; }))
      heads.push_back({target, target, -1, false});
  // `continue` jumps to the first copy of a test: one loop with two last jumps.
  for (Heads::Head& head : heads)
    for (const Heads::Head& other : heads)
      if (head.first == other.first && head.last >= 0 && !head.again && other.last > head.last && other.again)
        head.last = other.last;
  std::sort(heads.begin(), heads.end(), [](const Heads::Head& a, const Heads::Head& b) { return a.last > b.last; });
  heads.erase(std::unique(heads.begin(), heads.end(),
                          [](const Heads::Head& a, const Heads::Head& b) { return a.last == b.last && a.at == b.at; }),
              heads.end());
  return heads;
}

// The number is one that the data of a tensor decides.
bool is_of_data(const Node& node) {
  constexpr std::string_view kNames[] = {"tensor::item", "tensor::int", "tensor::float", "tensor::bool", "tensor::not"};
  if (node.op != Op::kAdapter) return false;
  const OperatorCall call = node.adapter_op->call();
  const std::string_view name = call.name;
  if (name.substr(0, 6) == "aten::") return true;
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// The number is a size of a tensor, which may be another one in the next turn.
bool is_size(const Node& node) {
  if (node.adapter_op == nullptr) return false;
  const OperatorCall call = node.adapter_op->call();
  const std::string_view name = call.name;
  return name == "tensor::size" || name == "tensor::numel";
}

}  // namespace

const std::vector<Heads::Head>& Heads::of(PyCodeObject* code) {
  const auto [at, fresh] = heads_.try_emplace(code);
  if (fresh) at->second = find(code);
  return at->second;
}

bool Heads::any_at(PyCodeObject* code, int instruction) {
  const std::vector<Head>& heads = of(code);
  return std::any_of(heads.begin(), heads.end(), [&](const Head& head) { return head.at == instruction; });
}

Val as_register(Recorder& recorder, Val number) {
  Reg now{};
  if (!number.is_const() || !number_of(number.object(), &now)) return number;
  const Val out = add_reg(recorder, now.rep, type_of_number(now.rep), recorder.reads.owned(number.object()).object());
  Node& node = emit_node(recorder, Op::kScalar);
  node.aux = static_cast<uint32_t>(ScalarOp::kSame);
  node.out = out.index();
  node.rep = now.rep;
  node.imm = number_bits(now);
  return out;
}

namespace {

// Looks at the nodes that came since it was last called: which numbers data or sizes decide, and how often something
// was decided on one. A size that the program takes as it is, as for the length of a range, decides nothing in a turn.
void count_decisions(Recorder& recorder) {
  recorder.loop_heads()->seen =
      std::min(recorder.loop_heads()->seen, static_cast<uint32_t>(recorder.trace().nodes.size()));
  recorder.loop_heads()->of_data.resize(recorder.trace().regs.size(), false);
  recorder.loop_heads()->of_size.resize(recorder.trace().regs.size(), false);
  const auto flagged = [&](Val value) { return value.is_reg() && recorder.loop_heads()->of_data[value.index()]; };
  const auto sized = [&](Val value) { return value.is_reg() && recorder.loop_heads()->of_size[value.index()]; };
  for (; recorder.loop_heads()->seen < recorder.trace().nodes.size(); ++recorder.loop_heads()->seen) {
    const Node& node = recorder.trace().nodes[recorder.loop_heads()->seen];
    const bool guards =
        node.op == Op::kGuardBool || node.op == Op::kGuardInt || node.op == Op::kGuardFloat || node.op == Op::kGuardIs;
    const bool chooses = node.op == Op::kGuardBool && sized(node.a);
    if (guards) recorder.loop_heads()->decisions += flagged(node.a) || chooses;
    bool of_data = flagged(node.a) || flagged(node.b);
    for (uint32_t i = 0; i < node.count && node.op == Op::kPure; ++i)
      of_data = of_data || flagged(recorder.trace().operands[node.first + i]);
    if (node.op == Op::kScalar && node.aux == static_cast<uint32_t>(ScalarOp::kSame)) of_data = true;
    if (node.out != kNone) {
      recorder.loop_heads()->of_data[node.out] = of_data;
      recorder.loop_heads()->of_size[node.out] = sized(node.a) || sized(node.b);
    }
    for (uint32_t i = 0; i < node.outs_count; ++i) {
      const uint32_t out = recorder.trace().outs[node.outs_first + i];
      if (!is_number(recorder.trace().regs[out].rep)) continue;
      recorder.loop_heads()->of_data[out] = is_of_data(node);
      recorder.loop_heads()->of_size[out] = is_size(node);
    }
  }
}

}  // namespace

// Turns begin at the instruction under way; `before` is the one before it.
void begin_turns(Recorder& recorder, ShadowFrame& frame, int before) {
  frame.taken_at = -1;
  count_decisions(recorder);
  const std::vector<Heads::Head> heads = recorder.loop_heads()->of(frame.code);
  for (const Heads::Head& head : heads) {
    if (head.at != frame.instruction) continue;
    if (head.last < 0) {
      if (recorder.loop_heads()->decisions == frame.decisions) continue;
      recorder.trace().heads.push_back(
          {frame_state(recorder, recorder.frames.size() - 1, true), -1, head.at, false, false});
      emit_node(recorder, Op::kLoopHead).imm = recorder.trace().heads.size() - 1;
      continue;
    }
    const bool back = head.again || (before >= head.first && before <= head.last && before > frame.instruction);
    Heads::Turn& turn = recorder.loop_heads()->turns[{frame.followed, head.last}];
    const bool decided = recorder.loop_heads()->decisions != turn.decisions;
    const bool promotes = (back && (decided || turn.in_registers)) || is_known_loop(frame.code, head.last);
    if (promotes) note_loop(frame.code, head.last);
    turn = {recorder.loop_heads()->decisions, promotes};
    if (promotes) {
      for (int slot : cpython::assigned_locals(frame.code, head.first, head.last))
        frame.local(slot) = as_register(recorder, frame.local(slot));
      if (frame.does(Operation::kForIter) && frame.instruction == head.at &&
          items_left(recorder.heap, frame.top()) >= 0)
        frame.taken_at = frame.instruction;
    }
    recorder.trace().heads.push_back(
        {frame_state(recorder, recorder.frames.size() - 1, true), head.last, head.at, back, promotes});
    emit_node(recorder, Op::kLoopHead).imm = recorder.trace().heads.size() - 1;
  }
  frame.mark = recorder.here();
}

}  // namespace pijit
