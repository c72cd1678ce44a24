// The inner loops of reductions, one build for each instruction set (reduce.simd.cpp), and what the
// driver in reduce.cpp hands them.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/reduce.h"
#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Accumulators of some neighbouring outputs.
struct ReduceTile {
  void* acc;            // one ReduceLoops::acc for each output
  std::int32_t* index;  // argmax and argmin: the position that acc was found at
  const double* shift;  // sum of squares: what is subtracted first, one for each output; or null
  std::int64_t base;    // argmax and argmin: the position of the first row
};

struct ReduceLoops {
  DType acc;
  // acc[i] = what changes no result
  void (*fill)(void* acc, std::int64_t n);
  // acc[i] takes in[i * row_stride + j] for all j < n
  void (*rows)(const void* in, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
               const ReduceTile& tile);
  // acc[j] takes in[i * row_stride + j] for all i < rows
  void (*columns)(const void* in, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                  const ReduceTile& tile);
  // acc[i] takes from.acc[i], which comes after it
  void (*merge)(const ReduceTile& from, std::int64_t n, const ReduceTile& tile);
};

// `wide` accumulates integers in float64 too, for means and variances.
MGE_DECLARE_SIMD(ReduceLoops, reduce_loops, (ReduceMode mode, DType dtype, bool wide));
MGE_DECLARE_SIMD(ReduceLoops, arg_reduce_loops, (bool largest, DType dtype));

}  // namespace mge::cpu
