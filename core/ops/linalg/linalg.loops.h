// What linalg.cpu.cpp calls of the code that is compiled for each instruction set. Matrices are
// row-major; each call works on one of them.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// How many columns of a matrix are eliminated together.
inline std::int64_t inverse_block(std::int64_t n) { return n < 96 ? n : n < 384 ? 32 : 64; }

enum class SvdResult : std::uint8_t { done, not_finite, no_convergence };

// Bytes of scratch for svd().
MGE_DECLARE_SIMD(std::int64_t, svd_workspace,
                 (DType dtype, std::int64_t rows, std::int64_t cols, bool full));

// x = the inverse of a, which is destroyed; false where a pivot is 0. The scratch holds
// inverse_block(n) * n numbers.
MGE_DECLARE_SIMD(bool, invert, (DType dtype, std::int64_t n, void* a, void* x, void* scratch));
// a, with rows >= cols, is (cols, rows) transposed, or itself where they are equal; it is
// destroyed. u is (rows, cols), or (rows, rows) where full; s has cols numbers and vt is (cols,
// cols). u and vt may be null: then only s is computed.
MGE_DECLARE_SIMD(SvdResult, svd,
                 (DType dtype, std::int64_t rows, std::int64_t cols, void* a, bool full, void* u,
                  void* s, void* vt, void* scratch));

}  // namespace mge::cpu
