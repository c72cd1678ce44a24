// A row is read twice or three times, from cache after the first; rows go to threads in chunks that
// depend on the shape alone.

#include <algorithm>
#include <cmath>

#include "core/kernels/cpu/moments.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/layer_norm/row_norm.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

// Runs shorter than this are spread out: a scale for each column, and long vector loops.
constexpr int64_t kShortRun = 16;

int64_t row_grain(const RowLayout& at) { return std::max<int64_t>(1, 16384 / at.cols); }

// One value for each column of all groups, from one for each channel.
template <class A>
void spread(const RowLayout& at, const A* from, A* to) {
  for (int64_t c = 0; c < at.channels(); ++c) std::fill_n(to + c * at.run, at.run, from[c]);
}

// ---- forward ------------------------------------------------------------------------------------

template <class T, class A>
void norm_columns(const T* __restrict x, T* __restrict y, int64_t n, A high, A low, A rstd,
                  const A* __restrict scale, const A* __restrict shift) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = T((((A(x[i]) - high) - low) * rstd) * scale[i] + shift[i]);
  }
}

template <class T, class A>
void norm_run(const T* __restrict x, T* __restrict y, int64_t n, A high, A low, A rstd, A scale,
              A shift) {
  for (int64_t i = 0; i < n; ++i) y[i] = T((((A(x[i]) - high) - low) * rstd) * scale + shift);
}

template <class T, class A>
void forward(const T* x, T* y, const RowLayout& at, double eps, const A* scale, const A* shift,
             A* mean, A* rstd) {
  const bool columns = scale && at.run < kShortRun;
  Scratch scratch(columns && at.run > 1 ? sizeof(A) * 2 * size_t(at.groups * at.cols) : 0);
  if (columns && at.run > 1) {
    A *const wide_scale = scratch.as<A>(), *const wide_shift = wide_scale + at.groups * at.cols;
    spread(at, scale, wide_scale);
    spread(at, shift, wide_shift);
    scale = wide_scale, shift = wide_shift;
  }
  const int64_t runs = at.cols / at.run;
  parallel_for(at.rows(), row_grain(at), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = x + row * at.cols;
      T* to = y + row * at.cols;
      const Moments m = moments(from, at.cols);
      const A high = A(m.mean), low = A(m.mean - double(high));
      const A r = A(1 / std::sqrt(m.m2 / double(at.cols) + eps));
      mean[row] = high, rstd[row] = r;
      const int64_t group = row % at.groups;
      if (columns) {
        const int64_t first = group * at.cols;
        norm_columns(from, to, at.cols, high, low, r, scale + first, shift + first);
        continue;
      }
      for (int64_t k = 0; k < runs; ++k) {
        const A s = scale ? scale[group * runs + k] : A(1),
                t = scale ? shift[group * runs + k] : A(0);
        norm_run(from + k * at.run, to + k * at.run, at.run, high, low, r, s, t);
      }
    }
  });
}

// ---- backward -----------------------------------------------------------------------------------
// With h = (x - mean) * rstd and g = dy * scale:
//   dx = rstd * (g - mean(g) - h * mean(g * h)), dscale = sum(dy * h), dshift = sum(dy).

template <class A>
struct Sums {
  double g = 0, gh = 0;
};

// Also adds dy * h to dscale, dy to dshift.
template <class T, class A>
Sums<A> column_sums(const T* __restrict dy, const T* __restrict x, int64_t n, A mean, A rstd,
                    const A* __restrict scale, A* __restrict dscale, A* __restrict dshift) {
  Sums<A> total;
  for (int64_t start = 0; start < n; start += kMomentBlock) {
    const int64_t stop = std::min(n, start + kMomentBlock);
    A s = 0, p = 0;
#pragma omp simd reduction(+ : s, p)
    for (int64_t i = start; i < stop; ++i) {
      const A d = A(dy[i]), h = (A(x[i]) - mean) * rstd, g = d * scale[i];
      s += g;
      p += g * h;
      dscale[i] += d * h;
      dshift[i] += d;
    }
    total.g += double(s), total.gh += double(p);
  }
  return total;
}

template <class T, class A>
void grad_columns(const T* __restrict dy, const T* __restrict x, T* __restrict dx, int64_t n,
                  A mean, A rstd, const A* __restrict scale, A mean_g, A mean_gh) {
  for (int64_t i = 0; i < n; ++i) {
    const A h = (A(x[i]) - mean) * rstd;
    dx[i] = T(rstd * ((A(dy[i]) * scale[i] - mean_g) - h * mean_gh));
  }
}

// Adds up `count` arrays of n values, in their order.
template <class A>
void add_parts(const A* parts, int64_t count, int64_t stride, int64_t n, A* out) {
  parallel_for(n, 512, [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 64;
    for (int64_t i = begin; i < end; i += kBlock) {
      double sum[kBlock] = {};
      const int64_t m = std::min(kBlock, end - i);
      for (int64_t p = 0; p < count; ++p) {
        const A* in = parts + p * stride + i;
        for (int64_t j = 0; j < m; ++j) sum[j] += double(in[j]);
      }
      for (int64_t j = 0; j < m; ++j) out[i + j] = A(sum[j]);
    }
  });
}

// The sums over the runs of each channel.
template <class A>
void fold_runs(const RowLayout& at, const A* from, A* to) {
  for (int64_t c = 0; c < at.channels(); ++c) {
    double sum = 0;
    for (int64_t i = 0; i < at.run; ++i) sum += double(from[c * at.run + i]);
    to[c] = A(sum);
  }
}

template <class T, class A>
void backward_columns(const T* dy, const T* x, T* dx, const RowLayout& at, const A* scale,
                      const A* mean, const A* rstd, A* dscale, A* dshift) {
  const int64_t width = at.groups * at.cols;
  const int64_t chunk = std::clamp<int64_t>(32768 / width, 8, 128);  // images
  const int64_t chunks = (at.images + chunk - 1) / chunk;
  Scratch scratch(sizeof(A) * static_cast<std::size_t>((2 * chunks + 3) * width));
  A* const parts = scratch.as<A>();
  A *const sums = parts + 2 * chunks * width, *const wide_scale = sums + 2 * width;
  spread(at, scale, wide_scale);
  const A count = A(at.cols);
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      A *part_scale = parts + 2 * k * width, *part_shift = part_scale + width;
      std::fill_n(part_scale, 2 * width, A(0));
      const int64_t last = std::min(at.images, (k + 1) * chunk) * at.groups;
      for (int64_t row = k * chunk * at.groups; row < last; ++row) {
        const int64_t first = row % at.groups * at.cols, o = row * at.cols;
        const Sums<A> s = column_sums(dy + o, x + o, at.cols, mean[row], rstd[row],
                                      wide_scale + first, part_scale + first, part_shift + first);
        grad_columns(dy + o, x + o, dx + o, at.cols, mean[row], rstd[row], wide_scale + first,
                     A(s.g) / count, A(s.gh) / count);
      }
    }
  });
  if (!dscale) return;
  add_parts(parts, chunks, 2 * width, 2 * width, sums);
  fold_runs(at, sums, dscale);
  fold_runs(at, sums + width, dshift);
}

template <class T, class A>
Sums<A> run_sums(const T* __restrict dy, const T* __restrict x, int64_t n, A mean) {
  Sums<A> total;
  for (int64_t start = 0; start < n; start += kMomentBlock) {
    const int64_t stop = std::min(n, start + kMomentBlock);
    A s = 0, p = 0;
#pragma omp simd reduction(+ : s, p)
    for (int64_t i = start; i < stop; ++i) {
      s += A(dy[i]);
      p += A(dy[i]) * (A(x[i]) - mean);
    }
    total.g += double(s), total.gh += double(p);
  }
  return total;
}

template <class T, class A>
void grad_run(const T* __restrict dy, const T* __restrict x, T* __restrict dx, int64_t n, A mean,
              A a, A b, A c) {
  for (int64_t i = 0; i < n; ++i) dx[i] = T((A(dy[i]) * a + c) + (A(x[i]) - mean) * b);
}

template <class T, class A>
void backward_runs(const T* dy, const T* x, T* dx, const RowLayout& at, const A* scale,
                   const A* mean, const A* rstd, A* dscale, A* dshift) {
  const int64_t runs = at.cols / at.run, channels = at.channels();
  Scratch scratch(2 * sizeof(double) * static_cast<std::size_t>(at.rows() * runs));
  double* const sums = scratch.as<double>();
  parallel_for(at.rows(), row_grain(at), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t group = row % at.groups;
      double mean_g = 0, mean_gh = 0;
      for (int64_t k = 0; k < runs; ++k) {
        const int64_t o = row * at.cols + k * at.run;
        const Sums<A> s = run_sums(dy + o, x + o, at.run, mean[row]);
        const double w = scale ? double(scale[group * runs + k]) : 1.0;
        double* part = sums + 2 * (row * runs + k);
        part[0] = s.g, part[1] = s.gh * double(rstd[row]);
        mean_g += w * part[0] / double(at.cols);
        mean_gh += w * part[1] / double(at.cols);
      }
      const A b = A(-mean_gh * double(rstd[row]) * double(rstd[row]));
      const A c = A(-mean_g * double(rstd[row]));
      for (int64_t k = 0; k < runs; ++k) {
        const int64_t o = row * at.cols + k * at.run;
        const A a = scale ? scale[group * runs + k] * rstd[row] : rstd[row];
        grad_run(dy + o, x + o, dx + o, at.run, mean[row], a, b, c);
      }
    }
  });
  if (!dscale) return;
  for (int64_t c = 0; c < channels; ++c) {
    double shift = 0, grow = 0;
    for (int64_t image = 0; image < at.images; ++image) {
      shift += sums[2 * (image * channels + c)];
      grow += sums[2 * (image * channels + c) + 1];
    }
    dshift[c] = A(shift), dscale[c] = A(grow);
  }
}

}  // namespace

void row_norm(DType dtype, const void* x, void* y, const RowLayout& at, double eps,
              const void* scale, const void* shift, void* mean, void* rstd) {
  visit_float("LayerNorm", dtype, [&]<class T>(Tag<T>) {
    using A = ComputeType<T>;
    forward(static_cast<const T*>(x), static_cast<T*>(y), at, eps, static_cast<const A*>(scale),
            static_cast<const A*>(shift), static_cast<A*>(mean), static_cast<A*>(rstd));
  });
}

void row_norm_backward(DType dtype, const void* dy, const void* x, void* dx, const RowLayout& at,
                       const void* scale, const void* mean, const void* rstd, void* dscale,
                       void* dshift) {
  visit_float("LayerNormBackward", dtype, [&]<class T>(Tag<T>) {
    using A = ComputeType<T>;
    const auto run = scale && at.run < kShortRun ? &backward_columns<T, A> : &backward_runs<T, A>;
    run(static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx), at,
        static_cast<const A*>(scale), static_cast<const A*>(mean), static_cast<const A*>(rstd),
        static_cast<A*>(dscale), static_cast<A*>(dshift));
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
