#include <cmath>

#include "core/ops/softmax/softmax.loops.h"
#include "core/ops/softmax/softmax_rows.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;
using Kind = SoftmaxKind;

// ---- contiguous rows ----------------------------------------------------------------------------

template <Kind kind, class T, class A>
void forward_row(const T* __restrict x, T* __restrict y, int64_t n) {
  const A maximum = row_max(x, n), shift = shift_of(maximum);
  if constexpr (kind == Kind::softmax) {
    constexpr bool in_place = std::is_same_v<T, A>;
    double sum;
    if constexpr (in_place) {
      sum = row_exp_sum<true>(x, n, shift, y);
    } else {
      sum = row_exp_sum<false, T, A>(x, n, shift, nullptr);
    }
    const A scale = maximum == kNegativeInfinity<A> ? A(0) : A(1 / sum);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (in_place) {
        y[i] *= scale;
      } else {
        y[i] = T(lanes::exp(A(x[i]) - shift) * scale);
      }
    }
  } else {
    const double log_sum = std::log(row_exp_sum<false, T, A>(x, n, shift, nullptr));
    if constexpr (kind == Kind::logsumexp) {
      const bool infinite = maximum == -kNegativeInfinity<A>;
      y[0] = T(infinite ? maximum : A(double(shift) + log_sum));
    } else {
      const A drop = maximum == kNegativeInfinity<A> ? A(0) : A(log_sum);
      for (int64_t i = 0; i < n; ++i) y[i] = T((A(x[i]) - shift) - drop);
    }
  }
}

template <Kind kind, class T, class A>
void backward_row(const T* __restrict dy, const T* __restrict y, const T* __restrict x,
                  T* __restrict dx, int64_t n) {
  if constexpr (kind == Kind::logsumexp) {
    const A g = A(dy[0]), sum = A(y[0]);
    const bool masked = sum == kNegativeInfinity<A>;
    for (int64_t i = 0; i < n; ++i) dx[i] = T(masked ? A(0) : g * lanes::exp(A(x[i]) - sum));
  } else {
    double total = 0;
    for (int64_t start = 0; start < n; start += kMomentBlock) {
      const int64_t stop = std::min(n, start + kMomentBlock);
      A s = 0;
#pragma omp simd reduction(+ : s)
      for (int64_t i = start; i < stop; ++i) {
        s += kind == Kind::softmax ? A(dy[i]) * A(y[i]) : A(dy[i]);
      }
      total += double(s);
    }
    const A sum = A(total);
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = kind == Kind::softmax ? T((A(dy[i]) - sum) * A(y[i]))
                                    : T(A(dy[i]) - lanes::exp(A(y[i])) * sum);
    }
  }
}

// ---- an inner axis
// -------------------------------------------------------------------------------

template <Kind kind, class T, class A>
void forward_columns(const T* __restrict x, T* __restrict y, T* __restrict reduced, int64_t n,
                     int64_t stride, int64_t width) {
  A maximum[kInnerBlock], shift[kInnerBlock], sum[kInnerBlock];
  columns_max(x, n, stride, width, maximum);
  for (int64_t j = 0; j < width; ++j) shift[j] = shift_of(maximum[j]);
  columns_exp_sum(x, n, stride, width, shift, sum);
  if constexpr (kind == Kind::softmax) {
    for (int64_t j = 0; j < width; ++j) {
      sum[j] = maximum[j] == kNegativeInfinity<A> ? A(0) : A(1) / sum[j];
    }
  } else {
    for (int64_t j = 0; j < width; ++j) sum[j] = lanes::log(sum[j]);
  }
  if constexpr (kind == Kind::logsumexp) {
    for (int64_t j = 0; j < width; ++j) {
      reduced[j] = T(maximum[j] == -kNegativeInfinity<A> ? maximum[j] : shift[j] + sum[j]);
    }
    return;
  }
  if constexpr (kind == Kind::logsoftmax) {
    for (int64_t j = 0; j < width; ++j) sum[j] = maximum[j] == kNegativeInfinity<A> ? A(0) : sum[j];
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const A v = A(x[i * stride + j]) - shift[j];
      y[i * stride + j] = kind == Kind::softmax ? T(lanes::exp(v) * sum[j]) : T(v - sum[j]);
    }
  }
}

template <Kind kind, class T, class A>
void backward_columns(const T* __restrict dy, const T* __restrict y, const T* __restrict x,
                      T* __restrict dx, int64_t n, int64_t stride, int64_t width) {
  if constexpr (kind == Kind::logsumexp) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        const A sum = A(y[j]), v = A(dy[j]) * lanes::exp(A(x[i * stride + j]) - sum);
        dx[i * stride + j] = T(sum == kNegativeInfinity<A> ? A(0) : v);
      }
    }
  } else {
    A sum[kInnerBlock] = {};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        const A g = A(dy[i * stride + j]);
        sum[j] += kind == Kind::softmax ? g * A(y[i * stride + j]) : g;
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        const A g = A(dy[i * stride + j]), v = A(y[i * stride + j]);
        dx[i * stride + j] =
            kind == Kind::softmax ? T((g - sum[j]) * v) : T(g - lanes::exp(v) * sum[j]);
      }
    }
  }
}

// ---- dispatch
// ------------------------------------------------------------------------------------

template <Kind kind, class T>
void forward(const T* x, T* y, const AxisLayout& at) {
  using A = ComputeType<T>;
  if (at.inner == 1) {
    const int64_t step = kind == Kind::logsumexp ? 1 : at.n;
    each_row(at.outer, at.n,
             [&](int64_t row) { forward_row<kind, T, A>(x + row * at.n, y + row * step, at.n); });
  } else {
    each_column_block(at.outer, at.n, at.inner, [&](int64_t o, int64_t position, int64_t width) {
      forward_columns<kind, T, A>(x + o, y + o, y + position, at.n, at.inner, width);
    });
  }
}

template <Kind kind, class T>
void backward(const T* dy, const T* y, const T* x, T* dx, const AxisLayout& at) {
  using A = ComputeType<T>;
  constexpr bool reduced = kind == Kind::logsumexp;  // then x is given, dy and y are reduced
  if (at.inner == 1) {
    const int64_t step = reduced ? 1 : at.n;
    each_row(at.outer, at.n, [&](int64_t row) {
      backward_row<kind, T, A>(dy + row * step, y + row * step, reduced ? x + row * at.n : nullptr,
                               dx + row * at.n, at.n);
    });
  } else {
    each_column_block(at.outer, at.n, at.inner, [&](int64_t o, int64_t position, int64_t width) {
      const int64_t small = reduced ? position : o;
      backward_columns<kind, T, A>(dy + small, y + small, reduced ? x + o : nullptr, dx + o, at.n,
                                   at.inner, width);
    });
  }
}

// f(integral_constant of kind)
template <class F>
void visit_kind(Kind kind, F&& f) {
  switch (kind) {
    case Kind::softmax:
      return f(std::integral_constant<Kind, Kind::softmax>{});
    case Kind::logsoftmax:
      return f(std::integral_constant<Kind, Kind::logsoftmax>{});
    case Kind::logsumexp:
      return f(std::integral_constant<Kind, Kind::logsumexp>{});
  }
}

}  // namespace

void softmax_forward(SoftmaxKind kind, DType dtype, const void* x, void* y, const AxisLayout& at) {
  visit_float("Softmax", dtype, [&]<class T>(Tag<T>) {
    visit_kind(kind,
               [&](auto k) { forward<k.value>(static_cast<const T*>(x), static_cast<T*>(y), at); });
  });
}

void softmax_backward(SoftmaxKind kind, DType dtype, const void* dy, const void* y, const void* x,
                      void* dx, const AxisLayout& at) {
  visit_float("SoftmaxBackward", dtype, [&]<class T>(Tag<T>) {
    visit_kind(kind, [&](auto k) {
      backward<k.value>(static_cast<const T*>(dy), static_cast<const T*>(y),
                        static_cast<const T*>(x), static_cast<T*>(dx), at);
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
