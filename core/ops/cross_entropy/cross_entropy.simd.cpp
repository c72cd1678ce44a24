// With s = x - max(x) and L = log(sum(exp(s))), the loss is L - s[label]: the maximum is never
// added back, which would cost every digit of L where logits are large. Where all logits are -inf
// (the sum is 0) the loss is inf, and softmax counts as 0 in the gradient.

#include <cmath>

#include "core/ops/cross_entropy/cross_entropy.loops.h"
#include "core/ops/softmax/softmax_rows.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

// ---- contiguous rows ----------------------------------------------------------------------------

// mean(x - shift)
template <class T, class A>
double row_mean(const T* __restrict x, int64_t n, A shift) {
  double total = 0;
  for (int64_t start = 0; start < n; start += kMomentBlock) {
    const int64_t stop = std::min(n, start + kMomentBlock);
    A s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = start; i < stop; ++i) s += A(x[i]) - shift;
    total += double(s);
  }
  return total / double(n);
}

template <class T, class A>
A loss_row(const T* x, int64_t n, int64_t label, double smooth) {
  const A shift = shift_of(row_max(x, n));
  const double sum = row_exp_sum<false, T, A>(x, n, shift, nullptr);
  if (sum == 0) return -kNegativeInfinity<A>;
  const double log_sum = std::log(sum);
  const double own = double(A(x[label]) - shift);
  if (smooth == 0) return A(log_sum - own);
  return A(log_sum - (1 - smooth) * own - smooth * row_mean(x, n, shift));
}

template <class T, class A>
void grad_row(const T* __restrict x, T* __restrict dx, int64_t n, int64_t label, double smooth,
              A dloss) {
  const A shift = shift_of(row_max(x, n));
  const double sum = row_exp_sum<false, T, A>(x, n, shift, nullptr);
  const A scale = sum == 0 ? A(0) : A(double(dloss) / sum);
  const A uniform = A(double(dloss) * smooth / double(n));
  for (int64_t i = 0; i < n; ++i) dx[i] = T(lanes::exp(A(x[i]) - shift) * scale - uniform);
  // Rounded once, also in the 16-bit types.
  const A own = lanes::exp(A(x[label]) - shift) * scale - uniform;
  dx[label] = T(own - A(double(dloss) * (1 - smooth)));
}

// ---- an inner axis
// -------------------------------------------------------------------------------

template <class T, class A>
void loss_columns(const T* __restrict x, const std::int32_t* __restrict labels, A* __restrict loss,
                  int64_t n, int64_t stride, int64_t width, double smooth) {
  A shift[kInnerBlock], sum[kInnerBlock];
  columns_max(x, n, stride, width, shift);
  for (int64_t j = 0; j < width; ++j) shift[j] = shift_of(shift[j]);
  columns_exp_sum(x, n, stride, width, shift, sum);
  for (int64_t j = 0; j < width; ++j) {
    const A own = A(x[labels[j] * stride + j]) - shift[j];
    loss[j] = lanes::log(sum[j]) - A(1 - smooth) * own;
  }
  if (smooth != 0) {
    A mean[kInnerBlock] = {};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < width; ++j) mean[j] += A(x[i * stride + j]) - shift[j];
    }
    for (int64_t j = 0; j < width; ++j) loss[j] -= A(smooth) * (mean[j] / A(n));
  }
  for (int64_t j = 0; j < width; ++j) loss[j] = sum[j] == 0 ? -kNegativeInfinity<A> : loss[j];
}

template <class T, class A>
void grad_columns(const T* __restrict x, const std::int32_t* __restrict labels,
                  const A* __restrict dloss, T* __restrict dx, int64_t n, int64_t stride,
                  int64_t width, double smooth) {
  A shift[kInnerBlock], scale[kInnerBlock], uniform[kInnerBlock];
  columns_max(x, n, stride, width, shift);
  for (int64_t j = 0; j < width; ++j) shift[j] = shift_of(shift[j]);
  columns_exp_sum(x, n, stride, width, shift, scale);
  for (int64_t j = 0; j < width; ++j) {
    scale[j] = scale[j] == 0 ? A(0) : dloss[j] / scale[j];
    uniform[j] = A(smooth / double(n)) * dloss[j];
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const A v = lanes::exp(A(x[i * stride + j]) - shift[j]) * scale[j] - uniform[j];
      dx[i * stride + j] = T(labels[j] == i ? v - A(1 - smooth) * dloss[j] : v);
    }
  }
}

}  // namespace

void cross_entropy_forward(DType dtype, const void* logits, const std::int32_t* labels, void* loss,
                           const ClassLayout& at) {
  visit_float("CrossEntropy", dtype, [&]<class T>(Tag<T>) {
    using A = ComputeType<T>;
    const T* x = static_cast<const T*>(logits);
    A* out = static_cast<A*>(loss);
    if (at.inner == 1) {
      each_row(at.outer, at.classes, [&](int64_t row) {
        out[row] = loss_row<T, A>(x + row * at.classes, at.classes, labels[row], at.smooth);
      });
      return;
    }
    each_column_block(at.outer, at.classes, at.inner, [&](int64_t o, int64_t p, int64_t width) {
      loss_columns<T, A>(x + o, labels + p, out + p, at.classes, at.inner, width, at.smooth);
    });
  });
}

void cross_entropy_backward(DType dtype, const void* dloss, bool single, const void* logits,
                            const std::int32_t* labels, void* dlogits, const ClassLayout& at) {
  visit_float("CrossEntropyBackward", dtype, [&]<class T>(Tag<T>) {
    using A = ComputeType<T>;
    const T* x = static_cast<const T*>(logits);
    T* dx = static_cast<T*>(dlogits);
    const A* g = static_cast<const A*>(dloss);
    if (at.inner == 1) {
      each_row(at.outer, at.classes, [&](int64_t row) {
        grad_row<T, A>(x + row * at.classes, dx + row * at.classes, at.classes, labels[row],
                       at.smooth, g[single ? 0 : row]);
      });
      return;
    }
    each_column_block(at.outer, at.classes, at.inner, [&](int64_t o, int64_t p, int64_t width) {
      A same[kInnerBlock];
      std::fill_n(same, kInnerBlock, g[0]);
      grad_columns<T, A>(x + o, labels + p, single ? same : g + p, dx + o, at.classes, at.inner,
                         width, at.smooth);
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
