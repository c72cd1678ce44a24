// Pieces that dense factorisations share: vector loops, the matrix product, Householder reflectors
// and blocks of them. For *.simd.cpp files only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/parallel.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

template <class T>
void axpy(T factor, const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}
template <class T>
void scale(T factor, T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}
// In 32 partial sums, which the compiler keeps in vectors.
template <class T>
T dot(const T* x, const T* y, int64_t n) {
  constexpr int64_t lanes = 32;
  T sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int64_t j = 0; j < lanes; ++j) sums[j] += x[i + j] * y[i + j];
  }
  T total = 0;
  if (i > 0) {
    for (int64_t width = lanes / 2; width > 0; width /= 2) {
      for (int64_t j = 0; j < width; ++j) sums[j] += sums[j + width];
    }
    total = sums[0];
  }
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}

// A matrix with any strides.
template <class T>
struct Block {
  T* data;
  int64_t row, col;
};
template <class T>
Block<T> turned(Block<T> b) {
  return {b.data, b.col, b.row};
}

// A factorisation of fewer elements stays on one thread: its products are many and short, and
// waking threads for each costs more than they save (measured: 256 x 256).
inline constexpr int64_t kThreadedElements = 400 * 400;

// c = a b, or c += a b; a is (m, k), b (k, n).
template <class T>
void product(int64_t m, int64_t n, int64_t k, Block<T> a, Block<T> b, Block<T> c, bool accumulate,
             bool alone) {
  if (m == 0 || n == 0) return;
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a = a.data;
  g.b = b.data;
  g.c = c.data;
  g.a_row = a.row;
  g.a_col = a.col;
  g.b_row = b.row;
  g.b_col = b.col;
  g.c_row = c.row;
  g.c_col = c.col;
  g.accumulate = accumulate;
  g.alone = alone;
  if constexpr (std::is_same_v<T, float>) {
    gemm_float32(g);
  } else {
    gemm_float64(g);
  }
}

// ---- Householder reflectors: I - tau v v', v[0] = 1
// ------------------------------------------------

// The reflector that takes x to (beta, 0, ...): x becomes v.
template <class T>
struct Reflection {
  T beta, tau;
};
// Sums of squares below this have lost digits. Matrices are scaled so that their largest element is
// near 1.
template <class T>
inline constexpr T kSmallSquare = std::is_same_v<T, float> ? T(1e-26) : T(1e-260);
template <class T>
Reflection<T> reflect(T* x, int64_t n) {
  T tail = n > 1 ? dot(x + 1, x + 1, n - 1) : T(0);
  T unit = 1;
  if (x[0] * x[0] + tail < kSmallSquare<T>) {
    // Squares lose digits: once more with the largest at 1. What is far below is 0.
    T largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
    if (largest > kSmallSquare<T>) {
      unit = largest;
      scale(1 / unit, x, n);
      tail = dot(x + 1, x + 1, n - 1);
    } else {
      std::fill(x, x + n, T(0));
      tail = 0;
    }
  }
  const T alpha = x[0];
  x[0] = 1;
  if (tail == 0) return {alpha * unit, 0};
  const T norm = std::sqrt(alpha * alpha + tail);
  const T beta = alpha > 0 ? -norm : norm;
  scale(1 / (alpha - beta), x + 1, n - 1);
  return {beta * unit, (beta - alpha) / beta};
}

// How many reflectors go together.
inline constexpr int64_t kReflectors = 32;

// Reflectors j < count; v_j is column j of `v`, (rows, count), which is 0 above its j-th element.
// Their product H_0 H_1 ... is I - v t v'; t is upper triangular, (kReflectors, kReflectors).
template <class T>
void block_factor(int64_t rows, int64_t count, Block<T> v, const T* tau, T* t, bool alone) {
  T grams[kReflectors * kReflectors];
  product<T>(count, count, rows, turned(v), v, {grams, kReflectors, 1}, false, alone);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t i = 0; i < j; ++i) {
      T sum = 0;
      for (int64_t k = i; k < j; ++k) sum += t[i * kReflectors + k] * grams[k * kReflectors + j];
      t[i * kReflectors + j] = -tau[j] * sum;
    }
    t[j * kReflectors + j] = tau[j];
    for (int64_t i = j + 1; i < count; ++i) t[i * kReflectors + j] = 0;
  }
}

// c = (I - v t v') c, or (I - v t' v') c where `inverse`; c is (rows, cols), w holds 2 *
// kReflectors
// * cols numbers.
template <class T>
void apply_block(int64_t rows, int64_t cols, int64_t count, Block<T> v, const T* t, bool inverse,
                 Block<T> c, T* w, bool alone) {
  T negative[kReflectors * kReflectors];
  for (int64_t i = 0; i < kReflectors * kReflectors; ++i) negative[i] = -t[i];
  Block<T> middle{negative, kReflectors, 1};
  if (inverse) middle = turned(middle);
  const Block<T> first{w, cols, 1}, second{w + kReflectors * cols, cols, 1};
  product<T>(count, cols, rows, turned(v), c, first, false, alone);
  product<T>(count, cols, count, middle, first, second, false, alone);
  product<T>(rows, cols, count, v, second, c, true, alone);
}

// The same for a c whose columns are contiguous, computed on its transpose.
template <class T>
void apply_block_turned(int64_t rows, int64_t cols, int64_t count, Block<T> v, const T* t,
                        bool inverse, Block<T> c, T* w, bool alone) {
  T negative[kReflectors * kReflectors];
  for (int64_t i = 0; i < kReflectors * kReflectors; ++i) negative[i] = -t[i];
  Block<T> middle{negative, kReflectors, 1};
  if (!inverse) middle = turned(middle);
  const Block<T> first{w, count, 1}, second{w + kReflectors * cols, count, 1};
  product<T>(cols, count, rows, turned(c), v, first, false, alone);
  product<T>(cols, count, count, first, middle, second, false, alone);
  product<T>(cols, rows, count, second, turned(v), turned(c), true, alone);
}

// c = (I - tau v v') c; c is (rows, cols) with contiguous rows, w holds cols numbers.
template <class T>
void apply_one(int64_t rows, int64_t cols, const T* v, int64_t v_step, T tau, T* c, int64_t c_row,
               T* w) {
  if (tau == 0) return;
  std::fill(w, w + cols, T(0));
  for (int64_t i = 0; i < rows; ++i) axpy(v[i * v_step], c + i * c_row, w, cols);
  scale(-tau, w, cols);
  for (int64_t i = 0; i < rows; ++i) axpy(v[i * v_step], w, c + i * c_row, cols);
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
