// Reductions of what a chain of elementwise functions gives, without writing that to memory.
#pragma once

#include "core/kernels/cpu/element_program.h"
#include "core/kernels/cpu/reduce.h"

namespace mge::cpu {

// Fewer elements than this lie in the caches between the two, and running them together saves
// nothing.
inline constexpr std::int64_t kReduceProgramPays = 1 << 20;

// As run_program() into a tensor of shape and strides `whole`, then reduce() of it into `out`. The
// program has one output. `mean` divides, of floats.
void reduce_program(const ElementProgram& program, ReduceMode mode, bool mean, Views in,
                    const Shape& whole, const Strides& strides, const MutView& out);

}  // namespace mge::cpu
