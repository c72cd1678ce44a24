// Mean and variance of runs of numbers, for *.simd.cpp files only: everything is in an anonymous
// namespace, so that each instruction set keeps its own copy.
//
// A block is read twice, the second time from cache. Both passes subtract the block's first value:
// a constant block, however large its value, has exactly that mean and exactly no variance.
#pragma once

#include <cstdint>

#include "core/tensor/dtype.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// Short enough for float32 sums to stay exact to a few ulp, and to stay in the L1 cache.
constexpr std::int64_t kMomentBlock = 4096;

// Of n numbers: their mean is `first + delta`, their squared distances from it add up to m2.
template <class A>
struct BlockMoments {
  A first, delta, m2;
};

template <class T, class A = ComputeType<T>>
inline BlockMoments<A> block_moments(const T* __restrict x, std::int64_t n) {
  const A first = A(x[0]);
  A sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += A(x[i]) - first;
  const A delta = sum / A(n);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < n; ++i) {
    const A t = (A(x[i]) - first) - delta;
    squares += t * t;
  }
  return {first, delta, squares};
}

struct Moments {
  double mean, m2;
};

// Of n > 0 contiguous numbers, in blocks of kMomentBlock.
template <class T>
inline Moments moments(const T* x, std::int64_t n) {
  using A = ComputeType<T>;
  if (n <= kMomentBlock) {
    const BlockMoments<A> b = block_moments(x, n);
    return {double(b.first) + double(b.delta), double(b.m2)};
  }
  // Chan, Golub and LeVeque: moments of two parts give those of the whole.
  double count = 0, mean = 0, m2 = 0;
  for (std::int64_t i = 0; i < n; i += kMomentBlock) {
    const std::int64_t m = n - i < kMomentBlock ? n - i : kMomentBlock;
    const BlockMoments<A> b = block_moments(x + i, m);
    const double part = double(b.first) + double(b.delta);
    if (i == 0) {
      count = double(m), mean = part, m2 = double(b.m2);
      continue;
    }
    const double distance = part - mean, total = count + double(m);
    mean += distance * (double(m) / total);
    m2 += double(b.m2) + distance * distance * (count * double(m) / total);
    count = total;
  }
  return {mean, m2};
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
