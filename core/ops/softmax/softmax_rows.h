// Maxima and sums of exponentials along an axis; for *.simd.cpp files only.
//
// A row whose values are all -inf is shifted by 0 instead of its maximum: its exponentials are 0,
// not NaN. The same where the maximum is +inf would hide it; there NaN comes out, as in NumPy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/kernels/cpu/lanes.h"
#include "core/kernels/cpu/moments.h"
#include "core/kernels/cpu/parallel.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

template <class A>
constexpr A kNegativeInfinity = -std::numeric_limits<A>::infinity();

// Positions along the inner axis that are worked on together.
constexpr std::int64_t kInnerBlock = 64;

template <class A>
inline A shift_of(A maximum) {
  return maximum == kNegativeInfinity<A> ? A(0) : maximum;
}

// ---- contiguous rows ----------------------------------------------------------------------------

template <class T, class A = ComputeType<T>>
inline A row_max(const T* __restrict x, std::int64_t n) {
  A m = kNegativeInfinity<A>;
#pragma omp simd reduction(max : m)
  for (std::int64_t i = 0; i < n; ++i) m = A(x[i]) > m ? A(x[i]) : m;
  return m;
}

// sum(exp(x - shift)); the exponentials go to e unless it is null.
template <bool store, class T, class A = ComputeType<T>>
inline double row_exp_sum(const T* __restrict x, std::int64_t n, A shift, A* __restrict e) {
  double total = 0;
  for (std::int64_t start = 0; start < n; start += kMomentBlock) {
    const std::int64_t stop = std::min(n, start + kMomentBlock);
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (std::int64_t i = start; i < stop; ++i) {
      const A v = lanes::exp(A(x[i]) - shift);
      if constexpr (store) e[i] = v;
      s += v;
    }
    total += double(s);
  }
  return total;
}

// ---- an inner axis: rows of `width` <= kInnerBlock positions, `stride` apart
// ---------------------

template <class T, class A = ComputeType<T>>
inline void columns_max(const T* __restrict x, std::int64_t n, std::int64_t stride,
                        std::int64_t width, A* __restrict m) {
  for (std::int64_t j = 0; j < width; ++j) m[j] = kNegativeInfinity<A>;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const A v = A(x[i * stride + j]);
      m[j] = v > m[j] ? v : m[j];
    }
  }
}

// Sums in runs of 64, so that float32 sums of long axes stay accurate.
template <class T, class A = ComputeType<T>>
inline void columns_exp_sum(const T* __restrict x, std::int64_t n, std::int64_t stride,
                            std::int64_t width, const A* __restrict shift, A* __restrict sum) {
  A run[kInnerBlock];
  for (std::int64_t j = 0; j < width; ++j) sum[j] = 0;
  for (std::int64_t start = 0; start < n; start += 64) {
    const std::int64_t stop = std::min<std::int64_t>(n, start + 64);
    for (std::int64_t j = 0; j < width; ++j) run[j] = 0;
    for (std::int64_t i = start; i < stop; ++i) {
      for (std::int64_t j = 0; j < width; ++j) {
        run[j] += lanes::exp(A(x[i * stride + j]) - shift[j]);
      }
    }
    for (std::int64_t j = 0; j < width; ++j) sum[j] += run[j];
  }
}

// Calls f(offset of the first element, index of the first position, width) over all positions of
// (outer, inner), in blocks of the inner axis.
template <class F>
inline void each_column_block(std::int64_t outer, std::int64_t n, std::int64_t inner, F&& f) {
  const std::int64_t blocks = (inner + kInnerBlock - 1) / kInnerBlock;
  const std::int64_t cost = std::max<std::int64_t>(1, n * std::min(inner, kInnerBlock));
  parallel_for(outer * blocks, std::max<std::int64_t>(1, 4096 / cost),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t k = begin; k < end; ++k) {
                   const std::int64_t o = k / blocks, j = k % blocks * kInnerBlock;
                   f(o * n * inner + j, o * inner + j, std::min(kInnerBlock, inner - j));
                 }
               });
}

// Calls f(row) over rows of n elements.
template <class F>
inline void each_row(std::int64_t rows, std::int64_t n, F&& f) {
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, n));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) f(row);
  });
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
