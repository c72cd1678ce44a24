// What kernels that walk over blocks of elements share: blocks of rows are gathered from operands
// of any layout and scattered to them.
#pragma once

#include "core/kernels/cpu/elementwise_kernels.h"
#include "core/kernels/cpu/nd_loop.h"

namespace mge::cpu {

// A strided operand whose neighbours lie along another axis is copied by a blocked transpose first
// where it has so many elements.
inline constexpr std::int64_t kTransposeFirst = 16384;
// Results of so many bytes, which no cache keeps until they are read, are written around the
// caches: that saves reading the lines that are about to be overwritten (measured: 20 % of a large
// add).
inline constexpr std::int64_t kStreamBytes = std::int64_t{1} << 25;

// Rows of `columns` elements of `size` bytes, `step0` elements from one another, in rows `step1`
// elements apart, become neighbours.
inline void gather_block(const char* source, std::int64_t step0, std::int64_t step1,
                         std::int64_t rows, std::int64_t columns, std::int64_t size, char* to) {
  if (step0 == 0 && step1 == 0) {
    MGE_DISPATCH(gather_run)(source, 0, to, rows * columns, size);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    MGE_DISPATCH(gather_run)
    (source + r * step1 * size, step0, to + r * columns * size, columns, size);
  }
}

// The other way.
inline void scatter_block(const char* from, char* target, std::int64_t step0, std::int64_t step1,
                          std::int64_t rows, std::int64_t columns, std::int64_t size) {
  for (std::int64_t r = 0; r < rows; ++r) {
    MGE_DISPATCH(scatter_run)
    (from + r * columns * size, target + r * step1 * size, step0, columns, size);
  }
}

// Whether operand k runs along another axis than operand 0's innermost, so that gathering rows of
// it would touch a cache line for each element.
template <int N>
bool runs_across(const NdLoop<N>& loop, int k) {
  const std::int64_t inner = std::abs(loop.stride_or_0(k, 0));
  if (loop.ndim < 2 || inner <= 1 || loop.size[0] < 8) return false;
  for (int axis = 1; axis < loop.ndim; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (std::abs(loop.stride[static_cast<std::size_t>(k)][a]) < inner && loop.size[a] >= 8) {
      return loop.stride[static_cast<std::size_t>(k)][a] != 0;
    }
  }
  return false;
}

// A dense layout for an operand that broadcasts to `out`, with the axes in the output's order.
inline Strides ordered_as(const Shape& shape, const Strides& out) {
  const int lead = out.size() - shape.size();
  Strides order = shape;
  for (int i = 0; i < shape.size(); ++i) order[i] = out[lead + i];
  return dense_like(shape, order);
}

}  // namespace mge::cpu
