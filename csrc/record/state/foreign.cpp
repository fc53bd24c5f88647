// Notes about what foreign code returned and had, and about what the trace writes since it ran.
#include "record/state/foreign.h"

#include <algorithm>

#include "cpython/classes.h"

namespace pijit {

void Foreign::undo(const TraceMark& mark) {
  if (heap.arguments.size() > mark.arguments)
    std::erase_if(found, [&](const Found& each) { return each.argument >= mark.arguments; });
  for (Found& each : found) {
    if (each.seen != kNone) each.seen = std::min(each.seen, mark.guards);
    each.told = 0;
  }
  looked_nodes = std::min(looked_nodes, mark.nodes);
  while (!learned.empty() && learned.back().second >= mark.nodes) {
    recording.trace().regs[learned.back().first].type = nullptr;
    singletons.erase(learned.back().first);
    learned.pop_back();
  }
  taken.clear();
}

// The register is loaded by a guard of this epoch.
bool Foreign::is_loaded(Val reg) const {
  return !recording.trace().epochs.empty() &&
         recording.trace().regs[reg.index()].epoch == recording.trace().epochs.size() && reg.index() < loaded.size() &&
         loaded[reg.index()];
}

// Foreign code returned an object that something else holds, too: the next call may get the same one.
void Foreign::note_holders(uint32_t reg, PyObject* object) {
  held.resize(recording.trace().regs.size());
  held[reg] = Py_REFCNT(object) > 1;
}

bool Foreign::is_held(Val reg) const {
  return reg.index() < held.size() && held[reg.index()];
}

void Foreign::note_write_here(PyObject* object) {
  if (are_written_here.insert(object).second) written_here.emplace_back(object, Py_TYPE(object));
}

bool Foreign::is_written_here(PyObject* object) const {
  return are_written_here.count(object) != 0;
}

// It is to be told apart from all objects of its class that this epoch reads.
void Foreign::note_written(Found& it) {
  any_written = true;
  const auto& epochs = recording.trace().epochs;
  if (it.seen == kNone) it.seen = epochs.empty() ? 0 : epochs.back().first;
  if (it.dict != kNone) note_written(found[it.dict]);
}

bool Foreign::is_found(PyObject* object) const {
  return std::any_of(found.begin(), found.end(), [&](const Found& found) { return found.object == object; });
}

// An instance may have another class now.
void Foreign::forget_types() {
  for (uint32_t reg : typed) {
    RegInfo& info = recording.trace().regs[reg];
    if (cpython::may_change(info.type)) info.type = nullptr;
  }
  typed.clear();
}

void Foreign::begin_finding() {
  looked_nodes = static_cast<uint32_t>(recording.trace().nodes.size());
  written_here.clear();
  are_written_here.clear();
  found.clear();
  any_written = false;
}

// Which objects the nodes since the last look write.
void Foreign::look_for_writes() {
  for (; looked_nodes < recording.trace().nodes.size(); ++looked_nodes) {
    const Node& node = recording.trace().nodes[looked_nodes];
    if (!may_let_die(node.op) || is_opaque(node.op)) continue;
    const bool attribute = node.op == Op::kStoreAttr || node.op == Op::kDelAttr;
    const auto note = [&](Val value) {
      if (PyObject* object = value.object()) {
        note_write_here(object);
        if (PyObject* dict = attribute ? cpython::instance_dict(object) : nullptr) note_write_here(dict);
      }
      if (value.is_virtual()) value = Val::reg(recording.trace().virtuals[value.index()].reg);
      for (size_t i = 0; i < found.size() && value.is_reg(); ++i)
        if (found[i].reg == value.index()) note_written(found[i]);
    };
    if (node.op != Op::kCall) note(node.a);
    for (uint32_t i = 0; node.op == Op::kCall && i < node.count; ++i) note(recording.trace().operands[node.first + i]);
  }
}

// It is none of the containers that this epoch found, and none that was written.
bool Foreign::is_new_here(PyObject* object) {
  look_for_writes();
  return !is_written_here(object) && found.size() < kMaxFound && !is_found(object);
}

}  // namespace pijit
