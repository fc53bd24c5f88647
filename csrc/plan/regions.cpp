// Finds the region of each node.
#include "plan/regions.h"

#include <algorithm>

namespace pijit {

namespace {

struct Block {
  PyObject* region;
  uint32_t frame;  // in Trace::followed
};

uint32_t frame_of(const Trace& trace, const Node& node) noexcept {
  return node.site < trace.sites.size() ? trace.sites[node.site].frame : kNone;
}

// The node's frame is this one, or was called from it.
bool runs_in(const Trace& trace, uint32_t frame, uint32_t outer) noexcept {
  while (frame != kNone && frame != outer) frame = trace.followed[frame].caller;
  return frame == outer;
}

}  // namespace

bool has_regions(const Trace& trace) noexcept {
  return std::any_of(trace.nodes.begin(), trace.nodes.end(), [](const Node& node) { return node.op == Op::kRegion; });
}

Ref market_of_region(PyObject* region) noexcept {
  Ref market = Ref::steal(PyObject_GetAttrString(region, "market"));
  if (!market) PyErr_Clear();
  return market.get() == Py_None ? Ref() : std::move(market);
}

Regions::Regions(const Trace& trace, bool has_market) : has_market_(has_market) {
  if (!has_regions(trace)) return;
  std::vector<Block> open;
  for (const Node& node : trace.nodes) {
    const uint32_t frame = frame_of(trace, node);
    PyObject* region = nullptr;
    for (auto block = open.rbegin(); block != open.rend() && region == nullptr; ++block)
      if (runs_in(trace, frame, block->frame)) region = block->region;
    of_.push_back(region);
    if (node.op != Op::kRegion) continue;
    PyObject* named = node.a.is_const() ? node.a.object() : Py_None;  // not known: nobody is asked
    if (node.imm != 0) {
      open.push_back({named, frame});
      continue;
    }
    const auto last = std::find_if(open.rbegin(), open.rend(),
                                   [&](const Block& block) { return block.region == named && block.frame == frame; });
    if (last != open.rend()) open.erase(std::next(last).base(), open.end());
  }
}

bool Regions::asks(uint32_t node) const noexcept {
  PyObject* region = at(node);
  return region == nullptr ? has_market_ : static_cast<bool>(market_of_region(region));
}

}  // namespace pijit
