// The inverse by LU decomposition with row pivoting, in blocks of columns, so that all but a sliver
// of the work is matrix products (Golub and Van Loan, "Matrix Computations", 3.4).
#include "core/ops/linalg/dense.h"
#include "core/ops/linalg/linalg.loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

constexpr int64_t kColumns = 256;  // of a triangular solve, for one thread

template <class T>
struct Lu {
  int64_t n;
  T* a;         // becomes L (below the diagonal, which is 1) and U
  T* x;         // starts as the identity
  T* negative;  // (n, block): a negated block of columns
  bool alone() const { return n * n < kThreadedElements; }
};

template <class T>
void negate_block(const Lu<T>& s, int64_t from, int64_t to, int64_t col, int64_t width) {
  for (int64_t i = from; i < to; ++i) {
    for (int64_t j = 0; j < width; ++j)
      s.negative[(i - from) * width + j] = -s.a[i * s.n + col + j];
  }
}

// Columns [k, end) below row k; false where a pivot is 0. NaN counts as larger than any number.
template <class T>
bool factor_panel(const Lu<T>& s, int64_t k, int64_t end) {
  const int64_t n = s.n;
  for (int64_t j = k; j < end; ++j) {
    int64_t pivot = j;
    T largest = std::abs(s.a[j * n + j]);
    for (int64_t i = j + 1; i < n; ++i) {
      const T v = std::abs(s.a[i * n + j]);
      if (v > largest || v != v) {
        largest = v;
        pivot = i;
      }
    }
    if (largest == 0) return false;
    if (pivot != j) {
      std::swap_ranges(s.a + j * n, s.a + (j + 1) * n, s.a + pivot * n);
      std::swap_ranges(s.x + j * n, s.x + (j + 1) * n, s.x + pivot * n);
    }
    const T d = s.a[j * n + j];
    const T* from = s.a + j * n + j + 1;
    for (int64_t i = j + 1; i < n; ++i) {
      const T l = s.a[i * n + j] / d;
      s.a[i * n + j] = l;
      if (l != 0) axpy(-l, from, s.a + i * n + j + 1, end - j - 1);
    }
  }
  return true;
}

// Rows [k, end) of `b`, columns [from, to): solved with the unit lower triangle at (k, k).
template <class T>
void solve_lower(const Lu<T>& s, int64_t k, int64_t end, T* b, int64_t from, int64_t to) {
  const int64_t n = s.n;
  parallel_for((to - from + kColumns - 1) / kColumns, 4, [&](int64_t first, int64_t last) {
    const int64_t c0 = from + first * kColumns, c1 = std::min(to, from + last * kColumns);
    for (int64_t i = k + 1; i < end; ++i) {
      for (int64_t j = k; j < i; ++j) {
        const T l = s.a[i * n + j];
        if (l != 0) axpy(-l, b + j * n + c0, b + i * n + c0, c1 - c0);
      }
    }
  });
}
// The same with the upper triangle.
template <class T>
void solve_upper(const Lu<T>& s, int64_t k, int64_t end, T* b) {
  const int64_t n = s.n;
  parallel_for((n + kColumns - 1) / kColumns, 4, [&](int64_t first, int64_t last) {
    const int64_t c0 = first * kColumns, c1 = std::min(n, last * kColumns);
    for (int64_t i = end - 1; i >= k; --i) {
      for (int64_t j = i + 1; j < end; ++j) {
        const T u = s.a[i * n + j];
        if (u != 0) axpy(-u, b + j * n + c0, b + i * n + c0, c1 - c0);
      }
      const T d = s.a[i * n + i];
      for (int64_t c = c0; c < c1; ++c) b[i * n + c] /= d;
    }
  });
}

template <class T>
bool invert_matrix(const Lu<T>& s) {
  const int64_t n = s.n, width = inverse_block(n);
  std::fill(s.x, s.x + n * n, T(0));
  for (int64_t i = 0; i < n; ++i) s.x[i * n + i] = 1;
  for (int64_t k = 0; k < n; k += width) {
    const int64_t end = std::min(n, k + width), rest = n - end;
    if (!factor_panel(s, k, end)) return false;
    solve_lower(s, k, end, s.a, end, n);
    negate_block(s, end, n, k, end - k);
    product<T>(rest, rest, end - k, {s.negative, end - k, 1}, {s.a + k * n + end, n, 1},
               {s.a + end * n + end, n, 1}, true, s.alone());
  }
  for (int64_t k = 0; k < n; k += width) {
    const int64_t end = std::min(n, k + width);
    solve_lower(s, k, end, s.x, 0, n);
    negate_block(s, end, n, k, end - k);
    product<T>(n - end, n, end - k, {s.negative, end - k, 1}, {s.x + k * n, n, 1},
               {s.x + end * n, n, 1}, true, s.alone());
  }
  for (int64_t end = n; end > 0;) {
    const int64_t k = (end - 1) / width * width;
    solve_upper(s, k, end, s.x);
    negate_block(s, 0, k, k, end - k);
    product<T>(k, n, end - k, {s.negative, end - k, 1}, {s.x + k * n, n, 1}, {s.x, n, 1}, true,
               s.alone());
    end = k;
  }
  return true;
}

}  // namespace

bool invert(DType dtype, int64_t n, void* a, void* x, void* scratch) {
  if (dtype == DType::float32) {
    return invert_matrix(
        Lu<float>{n, static_cast<float*>(a), static_cast<float*>(x), static_cast<float*>(scratch)});
  }
  return invert_matrix(Lu<double>{n, static_cast<double*>(a), static_cast<double*>(x),
                                  static_cast<double*>(scratch)});
}

}  // namespace mge::cpu::MGE_SIMD_NS
