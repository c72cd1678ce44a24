// Our own matrix product: small float32 problems, where the cost of calling oneDNN is most of the
// time, and the types that oneDNN has not got.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace mge::cpu {

// C[i, j] = sum over p of A[i, p] * B[p, j]; every operand with any strides, counted in elements.
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t a_row = 0, a_col = 0;
  std::int64_t b_row = 0, b_col = 0;
  std::int64_t c_row = 0, c_col = 0;
  bool accumulate = false;  // adds to what C holds
  bool alone = false;       // on the calling thread, however large
  // More products of the same sizes, one for each index of `batch`; strides of 0 repeat an operand.
  Dims batch;
  Dims a_batch, b_batch, c_batch;
};

// One element type for all operands: float32, float64, int32 (which wraps, as NumPy's does) or
// int64. The order of each sum depends on the sizes only: not on the number of threads.
void gemm(DType dtype, const Gemm& g);

MGE_DECLARE_SIMD(void, gemm_float32, (const Gemm& g));
MGE_DECLARE_SIMD(void, gemm_float64, (const Gemm& g));
MGE_DECLARE_SIMD(void, gemm_int32, (const Gemm& g));
MGE_DECLARE_SIMD(void, gemm_int64, (const Gemm& g));

}  // namespace mge::cpu
