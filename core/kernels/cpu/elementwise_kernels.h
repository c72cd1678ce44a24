// The loops that elementwise.cpp drives, compiled for each instruction set.
#pragma once

#include "core/kernels/cpu/simd.h"
#include "core/kernels/element_mode.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// out[i] = f(in[0][i], in[1][i], ...) for n neighbouring elements; out may be one of the inputs.
using ElementRun = void (*)(const void* const* in, void* out, std::int64_t n);

// The loop of a mode for operands of a type, or nullptr where there is none.
MGE_DECLARE_SIMD(ElementRun, float32_loop, (ElementMode mode));
MGE_DECLARE_SIMD(ElementRun, float64_loop, (ElementMode mode));
MGE_DECLARE_SIMD(ElementRun, integer_loop, (ElementMode mode, DType dtype));  // bool too
// WHERE: a bool and two operands of `width` bytes.
MGE_DECLARE_SIMD(ElementRun, where_loop, (std::int64_t width));

// One operand to a fixed power, where that is quicker than pow; else nullptr.
MGE_DECLARE_SIMD(ElementRun, float32_power, (double exponent));
MGE_DECLARE_SIMD(ElementRun, float64_power, (double exponent));

// 16-bit floats to float and back.
MGE_DECLARE_SIMD(void, widen_low, (const void* in, DType dtype, float* out, std::int64_t n));
MGE_DECLARE_SIMD(void, narrow_low, (const float* in, void* out, DType dtype, std::int64_t n));
// Elements of `width` bytes that lie `step` elements apart, to neighbours, and the other way.
MGE_DECLARE_SIMD(void, gather_run,
                 (const void* in, std::int64_t step, void* out, std::int64_t n,
                  std::int64_t width));
MGE_DECLARE_SIMD(void, scatter_run,
                 (const void* in, void* out, std::int64_t step, std::int64_t n,
                  std::int64_t width));
// Copies bytes from a 64-byte aligned buffer past the caches; stream_end() before others may read.
MGE_DECLARE_SIMD(void, stream_run, (const void* in, void* out, std::int64_t bytes));
MGE_DECLARE_SIMD(void, stream_end, ());

}  // namespace mge::cpu
