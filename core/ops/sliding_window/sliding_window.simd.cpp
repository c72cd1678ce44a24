// Each row of the result gathers what lies on it, so that rows may go to any thread; the order of
// its sums is fixed.

#include "core/ops/sliding_window/sliding_window.loops.h"

#include <algorithm>

#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

// Integers wrap.
template <class A>
A plus(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

// to[i * to_step] += from[i * from_step]
template <class A, class T>
void add_line(A* __restrict to, int64_t to_step, const T* __restrict from, int64_t from_step,
              int64_t n) {
  if (to_step == 1 && from_step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = plus(to[i], A(from[i]));
  } else if (to_step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = plus(to[i], A(from[i * from_step]));
  } else {
    for (int64_t i = 0; i < n; ++i) {
      to[i * to_step] = plus(to[i * to_step], A(from[i * from_step]));
    }
  }
}

// sums += what the windows of one image and channel have on row h.
template <class A, class T>
void add_row(const WindowLayout& p, const T* windows, int64_t h, A* sums) {
  for (int64_t kh = 0; kh < p.window_h; ++kh) {
    const int64_t top = h + p.pad_h - kh * p.dilate_h;  // of the window, times the stride
    if (top < 0) break;
    if (top % p.stride_h != 0 || top / p.stride_h >= p.out_h) continue;
    const T* row = windows + top / p.stride_h * p.step[2] + kh * p.step[4];
    for (int64_t kw = 0; kw < p.window_w; ++kw) {
      // Windows j with 0 <= j stride + left < w.
      const int64_t left = kw * p.dilate_w - p.pad_w;
      if (left >= p.w) break;
      const int64_t first = left >= 0 ? 0 : (-left + p.stride_w - 1) / p.stride_w;
      const int64_t last = std::min(p.out_w, (p.w - 1 - left) / p.stride_w + 1);
      if (first >= last) continue;
      add_line(sums + first * p.stride_w + left, p.stride_w,
               row + first * p.step[3] + kw * p.step[5], p.step[3], last - first);
    }
  }
}

template <class T>
void add_all(const T* windows, T* planes, const WindowLayout& p) {
  using A = ComputeType<T>;
  constexpr bool direct = std::is_same_v<T, A>;
  const int threads = num_threads();
  const Scratch scratch(direct ? 0 : sizeof(A) * static_cast<std::size_t>(p.w * threads));
  const int64_t work = p.w * p.window_h * p.window_w;
  parallel_for(p.images * p.channels * p.h,
               std::max<int64_t>(1, 16384 / std::max<int64_t>(work, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const int64_t h = r % p.h, c = r / p.h % p.channels, n = r / p.h / p.channels;
                   const T* from = windows + n * p.step[0] + c * p.step[1];
                   T* to = planes + r * p.w;
                   if constexpr (direct) {
                     std::fill_n(to, p.w, T{});
                     add_row(p, from, h, to);
                   } else {
                     A* sums = scratch.as<A>() + omp_get_thread_num() % threads * p.w;
                     std::fill_n(sums, p.w, A{});
                     add_row(p, from, h, sums);
                     for (int64_t i = 0; i < p.w; ++i) to[i] = T(sums[i]);
                   }
                 }
               });
}

}  // namespace

void add_windows(DType dtype, const void* windows, void* planes, const WindowLayout& at) {
  const auto run = [&]<class T>(Tag<T>) {
    add_all(static_cast<const T*>(windows), static_cast<T*>(planes), at);
  };
  const DType bits = signed_dtype(dtype);
  if (bits == DType::int32) return run(Tag<std::int32_t>{});
  if (bits == DType::int64) return run(Tag<std::int64_t>{});
  visit_float("SlidingWindowTranspose", dtype, run);
}

}  // namespace mge::cpu::MGE_SIMD_NS
