// All four passes run at memory speed: each reads its operands once, in chunks that stay in the L2
// cache, and the second pass of a pair walks the chunks backwards, to meet what the first one left
// in the L3 cache. Chunks depend on the shape alone, so results do not depend on the threads.

#include <algorithm>
#include <vector>

#include "core/kernels/cpu/moments.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/batch_norm/batch_norm.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kChunkElements = 32768;

// ---- channels last ------------------------------------------------------------------------------

// Rows of few channels are joined until they are wide enough for long vector loops: `width` values
// are `fold` repeats of the channels. What does not fill a last wide row is the tail.
struct Wide {
  int64_t channels, fold, width, rows, tail, chunk_rows, chunks;

  explicit Wide(const ChannelLayout& at) : channels(at.channels) {
    fold = std::max<int64_t>(1, std::min<int64_t>(256 / channels, at.outer));
    width = fold * channels;
    rows = at.outer / fold;
    tail = (at.outer - rows * fold) * channels;
    chunk_rows = std::max<int64_t>(16, kChunkElements / width);
    chunks = (rows + chunk_rows - 1) / chunk_rows;
  }
  int64_t row(int64_t chunk) const { return chunk * chunk_rows; }
  int64_t rows_in(int64_t chunk) const { return std::min(chunk_rows, rows - row(chunk)); }
};

// Calls f(chunk) over all chunks, and over the tail as a chunk of one shorter row.
template <class F>
void each_chunk(const Wide& w, bool backwards, F&& f) {
  const int64_t n = w.chunks + (w.tail ? 1 : 0);
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = backwards ? begin + end - 1 - i : i;
      const bool tail = chunk == w.chunks;
      f(chunk, w.row(0) + (tail ? w.rows : w.row(chunk)), tail ? 1 : w.rows_in(chunk),
        tail ? w.tail : w.width);
    }
  });
}

// One value for each column of a wide row, from one for each channel.
template <class A>
void widen(const Wide& w, const double* from, A* to) {
  for (int64_t i = 0; i < w.width; ++i) to[i] = A(from[i % w.channels]);
}

// delta: mean minus the first row; m2: squared distances from the mean. Four rows at a time, to
// load and store the sums less often.
template <class T, class A>
void chunk_moments(const T* __restrict x, int64_t rows, int64_t w, int64_t width,
                   A* __restrict first, A* __restrict delta, A* __restrict m2) {
  for (int64_t c = 0; c < width; ++c) first[c] = A(x[c]);
  for (int64_t c = 0; c < width; ++c) delta[c] = m2[c] = 0;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* __restrict v = x + r * w;
    for (int64_t c = 0; c < width; ++c) {
      const A k = first[c];
      delta[c] +=
          ((A(v[c]) - k) + (A(v[c + w]) - k)) + ((A(v[c + 2 * w]) - k) + (A(v[c + 3 * w]) - k));
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) delta[c] += A(x[r * w + c]) - first[c];
  }
  for (int64_t c = 0; c < width; ++c) delta[c] /= A(rows);
  for (r = 0; r + 4 <= rows; r += 4) {
    const T* __restrict v = x + r * w;
    for (int64_t c = 0; c < width; ++c) {
      const A k = first[c], d = delta[c];
      const A t0 = (A(v[c]) - k) - d, t1 = (A(v[c + w]) - k) - d;
      const A t2 = (A(v[c + 2 * w]) - k) - d, t3 = (A(v[c + 3 * w]) - k) - d;
      m2[c] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const A t = (A(x[r * w + c]) - first[c]) - delta[c];
      m2[c] += t * t;
    }
  }
}

// Adds to s the rows of g, to p those of g * (x - center).
template <class T, class A>
void chunk_grad_sums(const T* __restrict g, const T* __restrict x, int64_t rows, int64_t w,
                     int64_t width, const A* __restrict center, A* __restrict s, A* __restrict p) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, g += 4 * w, x += 4 * w) {
    for (int64_t c = 0; c < width; ++c) {
      const A g0 = A(g[c]), g1 = A(g[c + w]), g2 = A(g[c + 2 * w]), g3 = A(g[c + 3 * w]);
      const A m = center[c];
      s[c] += (g0 + g1) + (g2 + g3);
      p[c] += (g0 * (A(x[c]) - m) + g1 * (A(x[c + w]) - m)) +
              (g2 * (A(x[c + 2 * w]) - m) + g3 * (A(x[c + 3 * w]) - m));
    }
  }
  for (; r < rows; ++r, g += w, x += w) {
    for (int64_t c = 0; c < width; ++c) {
      s[c] += A(g[c]);
      p[c] += A(g[c]) * (A(x[c]) - center[c]);
    }
  }
}

template <class T>
void moments_last(const T* x, const ChannelLayout& at, double* mean, double* m2) {
  using A = ComputeType<T>;
  const Wide w(at);
  const int64_t n = w.chunks + 1;
  Scratch scratch(sizeof(A) * static_cast<std::size_t>(3 * n * w.width));
  A* parts = scratch.as<A>();
  each_chunk(w, false, [&](int64_t chunk, int64_t row, int64_t rows, int64_t width) {
    A* out = parts + 3 * chunk * w.width;
    chunk_moments(x + row * w.width, rows, w.width, width, out, out + w.width, out + 2 * w.width);
  });
  // Both sums count from the first value of the channel, so that a constant stays exact.
  const double total = double(at.outer);
  std::fill_n(mean, w.channels, 0.0);
  std::fill_n(m2, w.channels, 0.0);
  auto each_part = [&](auto&& f) {
    for (int64_t chunk = 0; chunk < n; ++chunk) {
      const bool tail = chunk == w.chunks;
      const A* in = parts + 3 * chunk * w.width;
      const double rows = tail ? 1.0 : double(w.rows_in(chunk));
      const int64_t width = tail ? w.tail : w.width;
      for (int64_t at_fold = 0; at_fold < width; at_fold += w.channels) {
        f(in + at_fold, in + at_fold + w.width, in + at_fold + 2 * w.width, rows);
      }
    }
  };
  each_part([&](const A* first, const A* delta, const A*, double rows) {
    for (int64_t c = 0; c < w.channels; ++c) {
      mean[c] += rows * ((double(first[c]) - double(parts[c])) + double(delta[c]));
    }
  });
  for (int64_t c = 0; c < w.channels; ++c) mean[c] = double(parts[c]) + mean[c] / total;
  each_part([&](const A* first, const A* delta, const A* part_m2, double rows) {
    for (int64_t c = 0; c < w.channels; ++c) {
      const double distance = (double(first[c]) - mean[c]) + double(delta[c]);
      m2[c] += double(part_m2[c]) + rows * (distance * distance);
    }
  });
}

template <class T>
void affine_last(const T* x, T* y, const ChannelLayout& at, const double* mean, const double* scale,
                 const double* shift) {
  using A = ComputeType<T>;
  const Wide w(at);
  Scratch scratch(sizeof(A) * static_cast<std::size_t>(4 * w.width));
  A* const high = scratch.as<A>();
  A *const low = high + w.width, *const a = low + w.width, *const b = a + w.width;
  widen(w, mean, high);
  // What the mean loses in float32 matters where it is much larger than the spread.
  for (int64_t c = 0; c < w.width; ++c) low[c] = A(mean[c % w.channels] - double(high[c]));
  widen(w, scale, a);
  widen(w, shift, b);
  each_chunk(w, true, [&](int64_t, int64_t row, int64_t rows, int64_t width) {
    const A* __restrict h = high, * __restrict l = low, * __restrict s = a, * __restrict t = b;
    for (int64_t r = row; r < row + rows; ++r) {
      const T* __restrict from = x + r * w.width;
      T* __restrict to = y + r * w.width;
      for (int64_t c = 0; c < width; ++c) {
        to[c] = T(((A(from[c]) - h[c]) - l[c]) * s[c] + t[c]);
      }
    }
  });
}

template <class T>
void grad_sums_last(const T* dy, const T* x, const ChannelLayout& at, const double* mean,
                    double* sum_dy, double* sum_dyx) {
  using A = ComputeType<T>;
  const Wide w(at);
  const int64_t n = w.chunks + 1;
  Scratch scratch(sizeof(A) * static_cast<std::size_t>((2 * n + 1) * w.width));
  A* const center = scratch.as<A>();
  A* const parts = center + w.width;
  widen(w, mean, center);
  std::fill_n(parts, 2 * n * w.width, A(0));
  each_chunk(w, false, [&](int64_t chunk, int64_t row, int64_t rows, int64_t width) {
    A* s = parts + 2 * chunk * w.width;
    chunk_grad_sums(dy + row * w.width, x + row * w.width, rows, w.width, width, center, s,
                    s + w.width);
  });
  std::fill_n(sum_dy, w.channels, 0.0);
  std::fill_n(sum_dyx, w.channels, 0.0);
  for (int64_t chunk = 0; chunk < n; ++chunk) {
    for (int64_t f = 0; f < w.width; f += w.channels) {
      const A *s = parts + 2 * chunk * w.width + f, *p = s + w.width;
      for (int64_t c = 0; c < w.channels; ++c) sum_dy[c] += double(s[c]);
      for (int64_t c = 0; c < w.channels; ++c) sum_dyx[c] += double(p[c]);
    }
  }
}

template <class T>
void grad_apply_last(const T* dy, const T* x, T* dx, const ChannelLayout& at, const double* mean,
                     const double* a, const double* b, const double* c) {
  using A = ComputeType<T>;
  const Wide w(at);
  Scratch scratch(sizeof(A) * static_cast<std::size_t>(4 * w.width));
  A* const center = scratch.as<A>();
  A *const wa = center + w.width, *const wb = wa + w.width, *const wc = wb + w.width;
  widen(w, mean, center);
  widen(w, a, wa);
  widen(w, b, wb);
  widen(w, c, wc);
  each_chunk(w, true, [&](int64_t, int64_t row, int64_t rows, int64_t width) {
    const A* __restrict k = center, * __restrict fa = wa, * __restrict fb = wb, * __restrict fc = wc;
    for (int64_t r = row; r < row + rows; ++r) {
      const T* __restrict g = dy + r * w.width, * __restrict from = x + r * w.width;
      T* __restrict to = dx + r * w.width;
      for (int64_t j = 0; j < width; ++j) {
        to[j] = T(A(g[j]) * fa[j] + ((A(from[j]) - k[j]) * fb[j] + fc[j]));
      }
    }
  });
}

// ---- channels first -----------------------------------------------------------------------------

// A plane of one image and channel is cut into blocks.
struct Planes {
  int64_t channels, inner, blocks, units;
  explicit Planes(const ChannelLayout& at)
      : channels(at.channels),
        inner(at.inner),
        blocks((at.inner + kMomentBlock - 1) / kMomentBlock),
        units(at.outer * at.channels * blocks) {}
  int64_t channel(int64_t unit) const { return unit / blocks % channels; }
  int64_t begin(int64_t unit) const { return unit / blocks * inner + unit % blocks * kMomentBlock; }
  int64_t length(int64_t unit) const {
    return std::min(kMomentBlock, inner - unit % blocks * kMomentBlock);
  }
};

template <class F>
void each_plane(const Planes& p, bool backwards, F&& f) {
  const int64_t grain = std::max<int64_t>(1, kChunkElements / std::min(p.inner, kMomentBlock));
  parallel_for(p.units, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t unit = backwards ? begin + end - 1 - i : i;
      f(unit, p.channel(unit), p.begin(unit), p.length(unit));
    }
  });
}

template <class T>
void moments_first(const T* x, const ChannelLayout& at, double* mean, double* m2) {
  using A = ComputeType<T>;
  const Planes p(at);
  Scratch scratch(sizeof(BlockMoments<A>) * static_cast<std::size_t>(p.units));
  BlockMoments<A>* parts = scratch.as<BlockMoments<A>>();
  each_plane(p, false, [&](int64_t unit, int64_t, int64_t begin, int64_t length) {
    parts[unit] = block_moments(x + begin, length);
  });
  const double total = double(at.per_channel());
  std::fill_n(mean, p.channels, 0.0);
  std::fill_n(m2, p.channels, 0.0);
  for (int64_t u = 0; u < p.units; ++u) {
    const int64_t c = p.channel(u);
    const double origin = double(parts[c * p.blocks].first);
    mean[c] += double(p.length(u)) * ((double(parts[u].first) - origin) + double(parts[u].delta));
  }
  for (int64_t c = 0; c < p.channels; ++c) {
    mean[c] = double(parts[c * p.blocks].first) + mean[c] / total;
  }
  for (int64_t u = 0; u < p.units; ++u) {
    const int64_t c = p.channel(u);
    const double distance = (double(parts[u].first) - mean[c]) + double(parts[u].delta);
    m2[c] += double(parts[u].m2) + double(p.length(u)) * (distance * distance);
  }
}

template <class T>
void affine_first(const T* x, T* y, const ChannelLayout& at, const double* mean,
                  const double* scale, const double* shift) {
  using A = ComputeType<T>;
  each_plane(Planes(at), true, [&](int64_t, int64_t c, int64_t begin, int64_t length) {
    const A high = A(mean[c]), low = A(mean[c] - double(high)), s = A(scale[c]), t = A(shift[c]);
    const T* __restrict from = x + begin;
    T* __restrict to = y + begin;
    for (int64_t i = 0; i < length; ++i) to[i] = T(((A(from[i]) - high) - low) * s + t);
  });
}

template <class T>
void grad_sums_first(const T* dy, const T* x, const ChannelLayout& at, const double* mean,
                     double* sum_dy, double* sum_dyx) {
  using A = ComputeType<T>;
  const Planes p(at);
  Scratch scratch(2 * sizeof(A) * static_cast<std::size_t>(p.units));
  A* parts = scratch.as<A>();
  each_plane(p, false, [&](int64_t unit, int64_t c, int64_t begin, int64_t length) {
    const A center = A(mean[c]);
    const T* __restrict g = dy + begin, * __restrict v = x + begin;
    A s = 0, q = 0;
#pragma omp simd reduction(+ : s, q)
    for (int64_t i = 0; i < length; ++i) {
      s += A(g[i]);
      q += A(g[i]) * (A(v[i]) - center);
    }
    parts[2 * unit] = s;
    parts[2 * unit + 1] = q;
  });
  std::fill_n(sum_dy, p.channels, 0.0);
  std::fill_n(sum_dyx, p.channels, 0.0);
  for (int64_t u = 0; u < p.units; ++u) {
    sum_dy[p.channel(u)] += double(parts[2 * u]);
    sum_dyx[p.channel(u)] += double(parts[2 * u + 1]);
  }
}

template <class T>
void grad_apply_first(const T* dy, const T* x, T* dx, const ChannelLayout& at, const double* mean,
                      const double* a, const double* b, const double* c) {
  using A = ComputeType<T>;
  each_plane(Planes(at), true, [&](int64_t, int64_t ch, int64_t begin, int64_t length) {
    const A k = A(mean[ch]), fa = A(a[ch]), fb = A(b[ch]), fc = A(c[ch]);
    const T* __restrict g = dy + begin, * __restrict from = x + begin;
    T* __restrict to = dx + begin;
    for (int64_t i = 0; i < length; ++i) to[i] = T(A(g[i]) * fa + ((A(from[i]) - k) * fb + fc));
  });
}

}  // namespace

void channel_moments(DType dtype, const void* x, const ChannelLayout& at, double* mean,
                     double* m2) {
  visit_float("BatchNorm", dtype, [&]<class T>(Tag<T>) {
    const T* from = static_cast<const T*>(x);
    if (at.inner == 1) {
      moments_last(from, at, mean, m2);
    } else {
      moments_first(from, at, mean, m2);
    }
  });
}

void channel_affine(DType dtype, const void* x, void* y, const ChannelLayout& at,
                    const double* mean, const double* scale, const double* shift) {
  visit_float("BatchNorm", dtype, [&]<class T>(Tag<T>) {
    const T* from = static_cast<const T*>(x);
    if (at.inner == 1) {
      affine_last(from, static_cast<T*>(y), at, mean, scale, shift);
    } else {
      affine_first(from, static_cast<T*>(y), at, mean, scale, shift);
    }
  });
}

void channel_grad_sums(DType dtype, const void* dy, const void* x, const ChannelLayout& at,
                       const double* mean, double* sum_dy, double* sum_dyx) {
  visit_float("BatchNormBackward", dtype, [&]<class T>(Tag<T>) {
    const T *g = static_cast<const T*>(dy), *from = static_cast<const T*>(x);
    if (at.inner == 1) {
      grad_sums_last(g, from, at, mean, sum_dy, sum_dyx);
    } else {
      grad_sums_first(g, from, at, mean, sum_dy, sum_dyx);
    }
  });
}

void channel_grad_apply(DType dtype, const void* dy, const void* x, void* dx,
                        const ChannelLayout& at, const double* mean, const double* a,
                        const double* b, const double* c) {
  visit_float("BatchNormBackward", dtype, [&]<class T>(Tag<T>) {
    const T *g = static_cast<const T*>(dy), *from = static_cast<const T*>(x);
    if (at.inner == 1) {
      grad_apply_last(g, from, static_cast<T*>(dx), at, mean, a, b, c);
    } else {
      grad_apply_first(g, from, static_cast<T*>(dx), at, mean, a, b, c);
    }
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
