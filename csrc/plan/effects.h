// Stretches with effects: a training step, or a part of one, that a plan takes over as a whole.
//
// 1. Such a stretch computes gradients and keeps them in leaves, or writes to tensors that existed before. Nothing in
//    it lets anybody look in between: its calls of Python are those of which the adapter says that they have no effect
//    on tensors and give nothing that differs.
// 2. A plan computes what all outputs, the tensors written to and the gradients are in the end. Then the stores into
//    objects of Python are done in order, and all tensors are written. So nothing is written by halves.
// 3. Nothing in it is computed once more where a replay is left behind it: what a snapshot behind it may read is an
//    output.
// 4. It may draw random numbers on another device than the CPU. A plan leaves the generator as native replay does, and
//    whoever runs it beside native replay puts the generator back.
#pragma once
#include <vector>

#include "plan/segment.h"
#include "plan/steps.h"

namespace pijit {

// In order, and apart from each other. `seen`: by register, the last node that reads it or whose snapshot may.
std::vector<Segment> find_stretches(const Trace& trace, const std::vector<Step>& steps, const Vec<uint32_t>& seen);

}  // namespace pijit
