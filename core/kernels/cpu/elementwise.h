// Runs one elementwise function over operands of any layout. The loops themselves see neighbouring
// elements only: operands that lie so are passed straight through, others go block by block through
// buffers that fit L1.
#pragma once

#include "core/kernels/cpu/elementwise_kernels.h"
#include "core/tensor/view.h"

namespace mge::cpu {

inline constexpr int kMaxOperands = 4;

// The loop for operands of this dtype, or nullptr where the mode does not take it. 16-bit floats
// run in float32. For WHERE, the dtype of what is chosen.
ElementRun find_element_run(ElementMode mode, DType dtype);

// The run of POW for an exponent that is one number, as a function of the base alone; nullptr where
// there is none.
ElementRun find_power_run(const View& exponent);
// Fewer elements than this are not worth a thread: it costs some 5 us to wake one.
std::int64_t element_grain(ElementMode mode);
inline constexpr std::int64_t kCheapGrain = 32768;  // of the cheapest modes
// Whether an operand lies exactly as the output does; `row_major` says that the output is so.
bool lies_as(const View& in, const MutView& out, bool row_major);

// out = mode(in...). All inputs have one dtype (but WHERE's bool mask) and broadcast to out.shape;
// out.dtype is the result's. `out` may share its buffer with inputs of the very same layout.
void elementwise(ElementMode mode, Views in, const MutView& out);

// The same for one or two inputs of n neighbouring elements and a `run` from find_element_run; the
// dtype must not be a 16-bit float.
void elementwise_flat(ElementRun run, ElementMode mode, const void* const* in, int inputs,
                      void* out, DType in_dtype, DType out_dtype, std::int64_t n);

}  // namespace mge::cpu
