// Forward: a window of the first image against the same window of the second at a few displacements
// at a time. Rows of a window lie together, so that each is one long dot product. Backward: each
// pixel collects what all windows over it send, a block of channels in registers.

#include <algorithm>

#include "core/ops/detection/blocks.h"
#include "core/ops/detection/correlation.loops.h"
#include "core/ops/detection/lanes.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

template <class A>
[[gnu::always_inline]] inline A sum_of(Vec<A> v) {
  A s = 0;
  for (int64_t i = 0; i < kLanes<A>; ++i) s += v[i];
  return s;
}
template <bool multiply, class T>
[[gnu::always_inline]] inline T term(T a, T b) {
  if constexpr (multiply) {
    return a * b;
  } else {
    const T d = a - b;
    return d < 0 ? -d : d;
  }
}

// out[k] += the sum over a row of a window against rows of the other image that are `step` apart.
template <bool multiply, int D, class A>
[[gnu::always_inline]] inline void add_row(const A* a, const A* b, int64_t step, int64_t n,
                                           Vec<A>* sum, A* rest) {
  int64_t i = 0;
  for (; i + kLanes<A> <= n; i += kLanes<A>) {
    const Vec<A> va = load(a + i);
#pragma GCC unroll 8
    for (int k = 0; k < D; ++k) sum[k] += term<multiply>(va, load(b + k * step + i));
  }
  for (; i < n; ++i) {
#pragma GCC unroll 8
    for (int k = 0; k < D; ++k) rest[k] += term<multiply>(a[i], b[k * step + i]);
  }
}

// D displacements along a row, from (dy, dx) on, of the window at (y, x).
template <bool multiply, int D, class A>
void window(const CorrelationLayout& p, const A* a, const A* b, A* out, int64_t pitch) {
  Vec<A> sum[D] = {};
  A rest[D] = {};
  const int64_t row = p.w * p.c, n = p.kernel * p.c;
  for (int64_t k = 0; k < p.kernel; ++k) {
    add_row<multiply, D>(a + k * row, b + k * row, p.step * p.c, n, sum, rest);
  }
  const A share = A(1) / static_cast<A>(p.kernel * p.kernel * p.c);
  for (int k = 0; k < D; ++k) out[k * pitch] = (sum_of<A>(sum[k]) + rest[k]) * share;
}

template <bool multiply, class A>
void forward(const CorrelationLayout& p, const A* a, const A* b, A* y) {
  const int64_t across = p.across(), row = p.w * p.c, plane = p.out_h * p.out_w;
  const int64_t work = p.out_w * across * across * p.kernel * p.kernel * p.c;
  parallel_for(p.n * p.out_h, grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t n = k / p.out_h, i = k % p.out_h;
      for (int64_t dy = 0; dy < across; ++dy) {
        for (int64_t j = 0; j < p.out_w; ++j) {
          const int64_t at =
              n * p.h * row + (i * p.stride + p.border) * row + (j * p.stride + p.border) * p.c;
          const A* from = b + at + ((dy - p.reach) * row - p.reach * p.c) * p.step;
          A* out = y + (n * across * across + dy * across) * plane + i * p.out_w + j;
          int64_t d = 0;
          for (; d + 8 <= across; d += 8) {
            window<multiply, 8>(p, a + at, from + d * p.step * p.c, out + d * plane, plane);
          }
          for (; d + 3 <= across; d += 3) {
            window<multiply, 3>(p, a + at, from + d * p.step * p.c, out + d * plane, plane);
          }
          for (; d < across; ++d) {
            window<multiply, 1>(p, a + at, from + d * p.step * p.c, out + d * plane, plane);
          }
        }
      }
    }
  });
}

// The windows along one axis that cover a pixel.
struct Covering {
  int64_t begin, end;
};
Covering covering(const CorrelationLayout& p, int64_t pixel, int64_t windows) {
  // window i covers border + i * stride ... + kernel - 1
  const int64_t last = pixel - p.border;
  if (last < 0) return {0, 0};
  const int64_t first = last - p.kernel + 1;
  const int64_t begin = first <= 0 ? 0 : (first + p.stride - 1) / p.stride;
  return {begin, std::min(windows, last / p.stride + 1)};
}

template <class T>
[[gnu::always_inline]] inline T sign_of(T v) {
  return v > 0 ? T{} + 1 : v < 0 ? T{} - 1 : T{};
}

// What the windows over one pixel send to V vectors of its channels. The pixel is of the first
// image, or of the second.
template <bool multiply, bool second, int V, class A>
void collect(const CorrelationLayout& p, const A* dy, const A* a, const A* b, int64_t n, int64_t py,
             int64_t px, int64_t c, A share, A* to) {
  constexpr int lanes = static_cast<int>(V == 0 ? 1 : kLanes<A>), many = V == 0 ? 1 : V;
  using T = std::conditional_t<V == 0, A, Vec<A>>;
  const auto read = [](const A* from) {
    if constexpr (V == 0) {
      return *from;
    } else {
      return load(from);
    }
  };
  const int64_t across = p.across(), row = p.w * p.c;
  const int64_t mine = ((n * p.h + py) * p.w + px) * p.c + c;
  T sum[many] = {};
  const auto add = [&](const A* g, const A* other) __attribute__((always_inline)) {
    const A w = *g;
#pragma GCC unroll 4
    for (int v = 0; v < many; ++v) {
      if constexpr (multiply) {
        sum[v] += w * read(other + v * lanes);
      } else {
        const T d = read((second ? b : a) + mine + v * lanes) - read(other + v * lanes);
        sum[v] += w * sign_of<T>(d);
      }
    }
  };
  for (int64_t dr = -p.reach; dr <= p.reach; ++dr) {
    const int64_t shift_y = dr * p.step;
    const int64_t qy = second ? py - shift_y : py;  // the row in the first image
    if (qy < 0 || qy >= p.h) continue;
    const Covering rows = covering(p, qy, p.out_h);
    for (int64_t dc = -p.reach; dc <= p.reach; ++dc) {
      const int64_t shift_x = dc * p.step;
      const int64_t qx = second ? px - shift_x : px;
      if (qx < 0 || qx >= p.w) continue;
      const Covering cols = covering(p, qx, p.out_w);
      const int64_t d = (dr + p.reach) * across + dc + p.reach;
      const int64_t offset = shift_y * row + shift_x * p.c;
      const A* other = (second ? a - offset : b + offset) + mine;
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        for (int64_t j = cols.begin; j < cols.end; ++j) {
          add(dy + ((n * p.out_h + i) * p.out_w + j) * across * across + d, other);
        }
      }
    }
  }
  for (int v = 0; v < many; ++v) {
    const T scaled = sum[v] * share;
    if constexpr (V == 0) {
      *to = scaled;
    } else {
      store(to + v * lanes, scaled);
    }
  }
}

template <bool multiply, bool second, class A>
void backward(const CorrelationLayout& p, const A* dy, const A* a, const A* b, A* to) {
  const A share = A(1) / static_cast<A>(p.kernel * p.kernel * p.c);
  const int64_t work = p.w * p.c * p.across() * p.across();
  parallel_for(p.n * p.h, grain_of(work), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t px = 0; px < p.w; ++px) {
        A* pixel = to + (k * p.w + px) * p.c;
        channels::each_block<A>(p.c, [&]<int V>(int64_t c) {
          collect<multiply, second, V>(p, dy, a, b, k / p.h, k % p.h, px, c, share, pixel + c);
        });
      }
    }
  });
}

}  // namespace

void correlate(DType dtype, const void* a, const void* b, void* y, const CorrelationLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    const A *first = static_cast<const A*>(a), *other = static_cast<const A*>(b);
    if (at.multiply) {
      forward<true>(at, first, other, static_cast<A*>(y));
    } else {
      forward<false>(at, first, other, static_cast<A*>(y));
    }
  });
}

void correlate_backward(DType dtype, const void* dy, const void* a, const void* b, void* to,
                        bool second, const CorrelationLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    const auto run = [&](auto kernel) {
      kernel(at, static_cast<const A*>(dy), static_cast<const A*>(a), static_cast<const A*>(b),
             static_cast<A*>(to));
    };
    if (at.multiply) {
      second ? run(backward<true, true, A>) : run(backward<true, false, A>);
    } else {
      second ? run(backward<false, true, A>) : run(backward<false, false, A>);
    }
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
