// A tile of positions at a time: which pixels each one reads, and with which weights, is worked out
// once for all channels. Then the lanes are the positions, or, where channels lie side by side, the
// channels of one position.
//
// Gradients of images are added up by whoever owns the pixels: a thread has some channels of an
// image to itself and visits all positions that read it, in order. So nothing depends on the number
// of threads.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/kernels/cpu/parallel.h"
#include "core/ops/resize/filters.h"
#include "core/ops/sampling/sample.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int32_t;
using std::int64_t;

constexpr int64_t kTile = 128;
constexpr int64_t kChannels = 16;  // channels-last: the fewest that a thread takes

// Positions are computed in float for all images but float64 ones.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

int64_t grain_of(int64_t work) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)); }

// ---- along one axis -----------------------------------------------------------------------------

// What K taps along one axis read, for each position of a tile.
template <class A, int K>
struct AxisTile {
  int32_t index[K][kTile];   // in the image
  int32_t inside[K][kTile];  // 0 where the tap stands for the border value (CONSTANT)
  A weight[K][kTile];
  A slope[K][kTile];  // the derivative of the weight
};

template <class A>
inline A floor_of(A x) {
  if constexpr (std::is_same_v<A, float>) return __builtin_floorf(x);
  return __builtin_floor(x);
}
template <class A>
inline A nearest_even(A x) {
  if constexpr (std::is_same_v<A, float>) return __builtin_rintf(x);
  return __builtin_rint(x);
}

// Positions and sizes up to here are folded back into the image in float, which keeps them whole.
constexpr int32_t kNear = 1 << 20;

// i modulo n, in [0, n).
template <bool near>
[[gnu::always_inline]] inline int32_t modulo(int32_t i, int32_t n, float inverse) {
  int32_t r;
  if constexpr (near) {
    r = i - n * static_cast<int32_t>(floor_of(static_cast<float>(i) * inverse));
    r = r >= n ? r - n : r;
  } else {
    r = i % n;
  }
  return r < 0 ? r + n : r;
}

// After how many pixels a border repeats.
template <BorderMode border>
inline int64_t period_of(int64_t n) {
  if constexpr (border == BorderMode::WRAP) return n;
  if constexpr (border == BorderMode::REFLECT) return 2 * n;
  return std::max<int64_t>(1, 2 * n - 2);
}

// The pixel that stands at i; `period` is that of the border and `inverse` 1 / period.
template <BorderMode border, bool near>
[[gnu::always_inline]] inline int32_t pixel(int32_t i, int32_t n, int32_t period, float inverse) {
  if constexpr (border == BorderMode::REPLICATE || border == BorderMode::CONSTANT) {
    i = i < 0 ? 0 : i;
    return i > n - 1 ? n - 1 : i;
  }
  const int32_t r = modulo<near>(i, period, inverse);
  if constexpr (border == BorderMode::WRAP) return r;
  const int32_t mirrored = period - (border == BorderMode::REFLECT ? 1 : 0) - r;
  return r < n ? r : mirrored;
}

// A position that reads the same and fits an int32, or NaN.
template <BorderMode border, int K, bool near, class A>
[[gnu::always_inline]] inline A brought_near(A x, int32_t n, int64_t period) {
  if constexpr (border == BorderMode::REPLICATE || border == BorderMode::CONSTANT) {
    // Far enough outside, also where a float does not tell neighbouring numbers apart.
    const A low = A(-K - 1), high = A(n) + K + A(n >> 20);
    x = x < low ? low : x;
    return x > high ? high : x;
  }
  if constexpr (near) return x;
  // Half the reach of an int32 leaves room for the taps. Infinity gives NaN.
  return static_cast<A>(std::fmod(static_cast<double>(x), static_cast<double>(period)));
}

template <BorderMode border, bool near, class A, int K, bool slopes>
void fill_axis_with(const A* __restrict position, int64_t count, int64_t size, AxisTile<A, K>& to) {
  constexpr bool constant = border == BorderMode::CONSTANT;
  const auto n = static_cast<int32_t>(size);
  const int64_t wide = period_of<border>(size);
  const auto period = static_cast<int32_t>(std::min<int64_t>(wide, INT32_MAX));
  const float inverse = 1.0f / static_cast<float>(period);
  for (int64_t j = 0; j < count; ++j) {
    const A x = brought_near<border, K, near>(position[2 * j], n, wide);
    const A whole = K == 1 ? nearest_even(x) : floor_of(x);
    const A part = x - whole;  // NaN where x is
    // In CONSTANT, NaN is far outside.
    const int32_t first = static_cast<int32_t>(x == x ? whole : A(constant ? -2 * K - 2 : 0)) -
                          (K > 1 ? K / 2 - 1 : 0);
    for (int k = 0; k < K; ++k) {
      const int32_t i = first + k;
      to.index[k][j] = pixel<border, near>(i, n, period, inverse);
      if constexpr (constant) {
        to.inside[k][j] = static_cast<std::uint32_t>(i) < static_cast<std::uint32_t>(n) ? -1 : 0;
      }
    }
    const A t = constant ? (part == part ? part : A(0)) : part;
    if constexpr (K == 1) to.weight[0][j] = t == t ? A(1) : t;
    if constexpr (K == 2) to.weight[0][j] = 1 - t, to.weight[1][j] = t;
    if constexpr (K > 2) {
      A w[K];
      if constexpr (K == 4) cubic_weights(t, w);
      if constexpr (K == 8) lanczos4_weights(t, w);
      for (int k = 0; k < K; ++k) to.weight[k][j] = w[k];
      if constexpr (K == 4 && slopes) {
        cubic_slopes(t, w);
        for (int k = 0; k < K; ++k) to.slope[k][j] = w[k];
      }
    }
  }
}

// Whether all positions and the size are small enough to be folded back fast.
template <class A>
bool all_near(const A* position, int64_t count, int64_t size) {
  bool near = size < kNear / 4;
  for (int64_t j = 0; j < count; ++j) near &= std::fabs(position[2 * j]) < A(kNear);
  return near;
}

template <BorderMode border, class A, int K, bool slopes>
void fill_folded(const A* position, int64_t count, int64_t size, AxisTile<A, K>& to) {
  if (all_near(position, count, size)) {
    return fill_axis_with<border, true, A, K, slopes>(position, count, size, to);
  }
  fill_axis_with<border, false, A, K, slopes>(position, count, size, to);
}

template <class A, int K, bool slopes>
void fill_axis(BorderMode border, const A* position, int64_t count, int64_t size,
               AxisTile<A, K>& to) {
  switch (border) {
    case BorderMode::REFLECT:
      return fill_folded<BorderMode::REFLECT, A, K, slopes>(position, count, size, to);
    case BorderMode::REFLECT_101:
      return fill_folded<BorderMode::REFLECT_101, A, K, slopes>(position, count, size, to);
    case BorderMode::WRAP:
      return fill_folded<BorderMode::WRAP, A, K, slopes>(position, count, size, to);
    case BorderMode::CONSTANT:
      return fill_axis_with<BorderMode::CONSTANT, true, A, K, slopes>(position, count, size, to);
    default:
      return fill_axis_with<BorderMode::REPLICATE, true, A, K, slopes>(position, count, size, to);
  }
}

// ---- a tile of positions ------------------------------------------------------------------------

template <class A, int K, bool constant, bool slopes = false>
struct Tile {
  static constexpr int kTaps = K * K;
  AxisTile<A, K> x, y;
  int32_t offset[kTaps][kTile];  // of the pixel
  int32_t inside[kTaps][kTile];
  A weight[kTaps][kTile];

  // Offsets count in elements that are `stride` apart for neighbouring pixels.
  void fill(const SampleLayout& at, const A* map, int64_t count, int64_t stride) {
    fill_axis<A, K, slopes>(at.border, map, count, at.width, x);
    fill_axis<A, K, slopes>(at.border, map + 1, count, at.height, y);
    const auto row = static_cast<int32_t>(at.width * stride), step = static_cast<int32_t>(stride);
    for (int r = 0; r < K; ++r) {
      for (int c = 0; c < K; ++c) {
        const int t = r * K + c;
        for (int64_t j = 0; j < count; ++j) {
          offset[t][j] = y.index[r][j] * row + x.index[c][j] * step;
          weight[t][j] = y.weight[r][j] * x.weight[c][j];
          if constexpr (constant) inside[t][j] = y.inside[r][j] & x.inside[c][j];
        }
      }
    }
  }
};

// Calls f(map, first point, points, tile) over the tiles from number `begin` to `end`.
template <class TileType, class A, class F>
void each_tile(const SampleLayout& at, const A* map, int64_t begin, int64_t end, int64_t stride,
               TileType& tile, F&& f) {
  const int64_t points = at.points(), tiles = (points + kTile - 1) / kTile;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t m = k / tiles, first = k % tiles * kTile;
    const int64_t count = std::min(kTile, points - first);
    tile.fill(at, map + (m * points + first) * 2, count, stride);
    f(m, first, count, tile);
  }
}

template <class T, class A>
inline T stored(A v) {
  if constexpr (std::is_integral_v<T>) {
    constexpr A low = A(std::numeric_limits<T>::min()), high = A(std::numeric_limits<T>::max());
    const A size = floor_of(std::fabs(v) + A(0.5));
    const A x = v < 0 ? -size : size;
    return static_cast<T>(x > low ? (x < high ? x : high) : low);  // NaN: the lowest
  } else {
    return v;
  }
}

// ---- reading ------------------------------------------------------------------------------------

// How the channels of an image are walked where positions are the lanes: in planes, or, where there
// are too few channels to be lanes themselves, one by one with a stride.
struct Walk {
  bool deep;                     // channels are the lanes
  int64_t stride;                // between pixels of a channel, in elements
  int64_t image_step, out_step;  // between channels
  explicit Walk(const SampleLayout& at)
      : deep(at.channels_last && (at.channels >= kChannels ||
                                  at.pixels() * at.channels > std::numeric_limits<int32_t>::max())),
        stride(at.channels_last && !deep ? at.channels : 1),
        image_step(at.channels_last ? 1 : at.pixels()),
        out_step(at.channels_last ? 1 : at.points()) {}
};

// The elements of one channel at the positions of a tile, weighed.
template <class T, int K, bool constant>
void read_channel(const T* __restrict plane, int64_t count, Sum<T> outside,
                  const Tile<Sum<T>, K, constant>& tile, Sum<T>* __restrict sum) {
  using A = Sum<T>;
  const auto tap = [&](int t, int64_t j) {
    const A v = A(plane[tile.offset[t][j]]);
    return tile.weight[t][j] * (!constant || tile.inside[t][j] ? v : outside);
  };
  if constexpr (K == 1) {
    for (int64_t j = 0; j < count; ++j) sum[j] = tap(0, j);
  } else if constexpr (K == 2) {
    for (int64_t j = 0; j < count; ++j) {
      sum[j] = (tap(0, j) + tap(1, j)) + (tap(2, j) + tap(3, j));
    }
  } else {
    for (int64_t j = 0; j < count; ++j) sum[j] = tap(0, j);
    for (int t = 1; t < K * K; ++t) {
      for (int64_t j = 0; j < count; ++j) sum[j] += tap(t, j);
    }
  }
}

template <class T, int K, bool constant>
void read_channels(const SampleLayout& at, const Walk& walk, const T* x, T* y, int64_t m,
                   int64_t first, int64_t count, const Tile<Sum<T>, K, constant>& tile) {
  using A = Sum<T>;
  const A outside = static_cast<A>(at.border_value);
  const T* image = x + at.image_of(m) * at.channels * at.pixels();
  T* to = y + m * at.channels * at.points() + first * walk.stride;
  A sum[kTile];
  for (int64_t c = 0; c < at.channels; ++c) {
    read_channel<T, K, constant>(image + c * walk.image_step, count, outside, tile, sum);
    T* __restrict line = to + c * walk.out_step;
    if (walk.stride == 1) {
      for (int64_t j = 0; j < count; ++j) line[j] = stored<T>(sum[j]);
    } else {
      for (int64_t j = 0; j < count; ++j) line[j * walk.stride] = stored<T>(sum[j]);
    }
  }
}

template <class T, int K, bool constant>
void read_pixels(const SampleLayout& at, const T* x, T* y, int64_t m, int64_t first, int64_t count,
                 const Tile<Sum<T>, K, constant>& tile, const T* beyond) {
  using A = Sum<T>;
  const int64_t n = at.channels;
  const T* image = x + at.image_of(m) * n * at.pixels();
  for (int64_t j = 0; j < count; ++j) {
    T* __restrict to = y + (m * at.points() + first + j) * n;
    const auto tap = [&](int t) {
      if (constant && !tile.inside[t][j]) return beyond;
      return image + int64_t{tile.offset[t][j]} * n;
    };
    if constexpr (K <= 2) {
      const T* __restrict a = tap(0), * __restrict b = tap(K == 2 ? 1 : 0);
      const T* __restrict c = tap(K == 2 ? 2 : 0), * __restrict d = tap(K == 2 ? 3 : 0);
      const A p = tile.weight[0][j], q = K == 2 ? tile.weight[1 % (K * K)][j] : A(0);
      const A r = K == 2 ? tile.weight[2 % (K * K)][j] : A(0);
      const A s = K == 2 ? tile.weight[3 % (K * K)][j] : A(0);
      for (int64_t i = 0; i < n; ++i) {
        A sum = p * A(a[i]);
        if constexpr (K == 2) sum = (sum + q * A(b[i])) + (r * A(c[i]) + s * A(d[i]));
        to[i] = stored<T>(sum);
      }
    } else {
      for (int64_t from = 0; from < n; from += kTile) {
        const int64_t lanes = std::min(kTile, n - from);
        A sum[kTile] = {};
        for (int t = 0; t < K * K; ++t) {
          const T* __restrict v = tap(t) + (constant && !tile.inside[t][j] ? 0 : from);
          const A w = tile.weight[t][j];
          for (int64_t i = 0; i < lanes; ++i) sum[i] += w * A(v[i]);
        }
        for (int64_t i = 0; i < lanes; ++i) to[from + i] = stored<T>(sum[i]);
      }
    }
  }
}

// A pixel of the border value, with room to read a tile's worth of channels.
template <class T>
class Beyond {
 public:
  explicit Beyond(const SampleLayout& at)
      : memory_(static_cast<std::size_t>(at.channels + kTile) * sizeof(T)) {
    std::fill_n(memory_.as<T>(), at.channels + kTile, stored<T>(Sum<T>(at.border_value)));
  }
  const T* get() const { return memory_.as<T>(); }

 private:
  Scratch memory_;
};

template <class T, int K, bool constant>
void read(const T* x, const Sum<T>* map, T* y, const SampleLayout& at) {
  const int64_t tiles = (at.points() + kTile - 1) / kTile;
  const Walk walk(at);
  const Beyond<T> beyond(at);
  const int64_t work = kTile * (at.channels + 8) * K * K;
  parallel_for(at.maps * tiles, grain_of(work), [&](int64_t begin, int64_t end) {
    Tile<Sum<T>, K, constant> tile;
    each_tile(at, map, begin, end, walk.stride, tile,
              [&](int64_t m, int64_t first, int64_t count, const auto& t) {
                if (walk.deep) {
                  read_pixels<T, K, constant>(at, x, y, m, first, count, t, beyond.get());
                } else {
                  read_channels<T, K, constant>(at, walk, x, y, m, first, count, t);
                }
              });
  });
}

// ---- the gradient of images ---------------------------------------------------------------------

// Adds the upstream gradient of the points of a tile to the channels [begin, end) of an image.
template <class A, int K, bool constant>
void spread(const SampleLayout& at, const A* dy, A* image, int64_t m, int64_t first, int64_t count,
            int64_t begin, int64_t end, const Tile<A, K, constant>& tile) {
  if (at.channels_last) {
    for (int64_t j = 0; j < count; ++j) {
      const A* __restrict g = dy + (m * at.points() + first + j) * at.channels;
      for (int t = 0; t < K * K; ++t) {
        if (constant && !tile.inside[t][j]) continue;
        A* __restrict to = image + int64_t{tile.offset[t][j]} * at.channels;
        const A w = tile.weight[t][j];
        for (int64_t c = begin; c < end; ++c) to[c] += w * g[c];
      }
    }
    return;
  }
  for (int64_t c = begin; c < end; ++c) {
    const A* __restrict g = dy + (m * at.channels + c) * at.points() + first;
    A* __restrict plane = image + c * at.pixels();
    for (int64_t j = 0; j < count; ++j) {
      const A v = g[j];
      for (int t = 0; t < K * K; ++t) {
        if (constant && !tile.inside[t][j]) continue;
        plane[tile.offset[t][j]] += tile.weight[t][j] * v;
      }
    }
  }
}

template <class A, int K, bool constant>
void spread_all(const A* dy, const A* map, A* dx, const SampleLayout& at) {
  const int64_t tiles = (at.points() + kTile - 1) / kTile;
  // As few blocks of channels as keep the threads busy: each works the positions out anew.
  const int64_t wanted = std::max<int64_t>(1, 4 * num_threads() / std::max<int64_t>(1, at.images));
  const int64_t least = at.channels_last ? kChannels : 1;
  const int64_t block = std::max(least, (at.channels + wanted - 1) / wanted);
  const int64_t blocks = (at.channels + block - 1) / block;
  const int64_t work = block * (at.points() * K * K + at.pixels());
  parallel_for(at.images * blocks, grain_of(work), [&](int64_t from, int64_t to) {
    Tile<A, K, constant> tile;
    for (int64_t k = from; k < to; ++k) {
      const int64_t n = k / blocks, begin = k % blocks * block;
      const int64_t end = std::min(at.channels, begin + block);
      A* image = dx + n * at.channels * at.pixels();
      if (!at.channels_last) {
        std::fill_n(image + begin * at.pixels(), (end - begin) * at.pixels(), A(0));
      } else {
        for (int64_t p = 0; p < at.pixels(); ++p) {
          std::fill_n(image + p * at.channels + begin, end - begin, A(0));
        }
      }
      for (int64_t m = at.image ? 0 : n; m < (at.image ? at.maps : n + 1); ++m) {
        if (at.image_of(m) != n) continue;
        each_tile(at, map, m * tiles, (m + 1) * tiles, 1, tile,
                  [&](int64_t, int64_t first, int64_t count, const auto& t) {
                    spread(at, dy, image, m, first, count, begin, end, t);
                  });
      }
    }
  });
}

// ---- the gradient of positions ------------------------------------------------------------------

// For the four pixels around a position, differences are taken before they are weighed: that loses
// nothing where pixels are alike.
template <class A>
struct Slopes {
  A x[kTile] = {}, y[kTile] = {};
};

// Adds what one channel gives, with upstream gradients `step` apart.
template <class A, bool constant>
void add_slopes(const A* __restrict plane, const A* __restrict g, int64_t step, int64_t count,
                A outside, const Tile<A, 2, constant, true>& tile, Slopes<A>& to) {
  const auto value = [&](int t, int64_t j) {
    const A v = plane[tile.offset[t][j]];
    return !constant || tile.inside[t][j] ? v : outside;
  };
  for (int64_t j = 0; j < count; ++j) {
    const A a = value(0, j), b = value(1, j), c = value(2, j), d = value(3, j);
    const A upstream = g[j * step];
    to.x[j] += upstream * (tile.y.weight[0][j] * (b - a) + tile.y.weight[1][j] * (d - c));
    to.y[j] += upstream * (tile.x.weight[0][j] * (c - a) + tile.x.weight[1][j] * (d - b));
  }
}

template <class A, bool constant>
void add_slopes(const A* __restrict plane, const A* __restrict g, int64_t step, int64_t count,
                A outside, const Tile<A, 4, constant, true>& tile, Slopes<A>& to) {
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) {
      const int t = 4 * r + c;
      for (int64_t j = 0; j < count; ++j) {
        const A v = plane[tile.offset[t][j]];
        const A grown = g[j * step] * (!constant || tile.inside[t][j] ? v : outside);
        to.x[j] += tile.y.weight[r][j] * tile.x.slope[c][j] * grown;
        to.y[j] += tile.y.slope[r][j] * tile.x.weight[c][j] * grown;
      }
    }
  }
}

// The sum of f(c) over the channels, kChannels of them side by side.
template <class A, class F>
[[gnu::always_inline]] inline A channel_sum(int64_t n, F&& f) {
  A lanes[kChannels] = {}, total = 0;
  int64_t c = 0;
  for (; c + kChannels <= n; c += kChannels) {
    for (int64_t l = 0; l < kChannels; ++l) lanes[l] += f(c + l);
  }
  for (; c < n; ++c) total += f(c);
  for (const A v : lanes) total += v;
  return total;
}

// The slopes at one position whose channels lie side by side.
template <class A>
void pixel_slopes(const A* const* pixel, const A* __restrict g, int64_t n, int64_t j,
                  const auto& tile, Slopes<A>& to) {
  if constexpr (std::remove_cvref_t<decltype(tile)>::kTaps == 4) {
    const A* __restrict a = pixel[0];
    const A* __restrict b = pixel[1];
    const A* __restrict c = pixel[2];
    const A* __restrict d = pixel[3];
    const A x0 = tile.x.weight[0][j], x1 = tile.x.weight[1][j];
    const A y0 = tile.y.weight[0][j], y1 = tile.y.weight[1][j];
    to.x[j] = channel_sum<A>(
        n, [&](int64_t i) { return g[i] * (y0 * (b[i] - a[i]) + y1 * (d[i] - c[i])); });
    to.y[j] = channel_sum<A>(
        n, [&](int64_t i) { return g[i] * (x0 * (c[i] - a[i]) + x1 * (d[i] - b[i])); });
  } else {
    for (int t = 0; t < 16; ++t) {
      const A* __restrict v = pixel[t];
      const A product = channel_sum<A>(n, [&](int64_t i) { return g[i] * v[i]; });
      to.x[j] += tile.y.weight[t / 4][j] * tile.x.slope[t % 4][j] * product;
      to.y[j] += tile.y.slope[t / 4][j] * tile.x.weight[t % 4][j] * product;
    }
  }
}

template <class A, int K, bool constant>
void slopes_of_tile(const SampleLayout& at, const Walk& walk, const A* x, const A* dy, int64_t m,
                    int64_t first, int64_t count, const Tile<A, K, constant, true>& tile,
                    const A* beyond, Slopes<A>& to) {
  const int64_t n = at.channels;
  const A* image = x + at.image_of(m) * n * at.pixels();
  if (!walk.deep) {
    const A* g = dy + m * n * at.points() + first * walk.stride;
    for (int64_t c = 0; c < n; ++c) {
      add_slopes(image + c * walk.image_step, g + c * walk.out_step, walk.stride, count,
                 static_cast<A>(at.border_value), tile, to);
    }
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    const A* pixel[K * K];
    for (int t = 0; t < K * K; ++t) {
      const bool outside = constant && !tile.inside[t][j];
      pixel[t] = outside ? beyond : image + int64_t{tile.offset[t][j]} * n;
    }
    pixel_slopes(pixel, dy + (m * at.points() + first + j) * n, n, j, tile, to);
  }
}

template <class A, int K, bool constant>
void slopes_of(const A* x, const A* map, const A* dy, A* dmap, const SampleLayout& at) {
  const int64_t tiles = (at.points() + kTile - 1) / kTile;
  const Walk walk(at);
  const Beyond<A> beyond(at);
  const int64_t work = kTile * (at.channels + 8) * K * K;
  parallel_for(at.maps * tiles, grain_of(work), [&](int64_t begin, int64_t end) {
    Tile<A, K, constant, true> tile;
    each_tile(at, map, begin, end, walk.stride, tile,
              [&](int64_t m, int64_t first, int64_t count, const auto& t) {
                Slopes<A> sum;
                slopes_of_tile(at, walk, x, dy, m, first, count, t, beyond.get(), sum);
                A* __restrict to = dmap + (m * at.points() + first) * 2;
                for (int64_t j = 0; j < count; ++j) {
                  to[2 * j] = sum.x[j], to[2 * j + 1] = sum.y[j];
                }
              });
  });
}

// ---- which of them ------------------------------------------------------------------------------

// Calls f(std::integral_constant<int, K>{}, std::bool_constant<whether the border is CONSTANT>{}).
template <class F>
void with_modes(const SampleLayout& at, F&& f) {
  const auto with = [&](auto constant) {
    switch (at.mode) {
      case InterpolationMode::NEAREST:
        return f(std::integral_constant<int, 1>{}, constant);
      case InterpolationMode::CUBIC:
        return f(std::integral_constant<int, 4>{}, constant);
      case InterpolationMode::LANCZOS4:
        return f(std::integral_constant<int, 8>{}, constant);
      default:
        return f(std::integral_constant<int, 2>{}, constant);
    }
  };
  if (at.border == BorderMode::CONSTANT) return with(std::true_type{});
  with(std::false_type{});
}

}  // namespace

void sample(DType dtype, const void* x, const void* map, void* y, const SampleLayout& at) {
  const auto run = [&]<class T>(Tag<T>) {
    with_modes(at, [&]<int K, bool b>(std::integral_constant<int, K>, std::bool_constant<b>) {
      read<T, K, b>(static_cast<const T*>(x), static_cast<const Sum<T>*>(map), static_cast<T*>(y),
                    at);
    });
  };
  if (dtype == DType::uint8) return run(Tag<std::uint8_t>{});
  if (dtype == DType::int8) return run(Tag<std::int8_t>{});
  if (dtype == DType::float64) return run(Tag<double>{});
  run(Tag<float>{});
}

void sample_backward_data(DType dtype, const void* dy, const void* map, void* dx,
                          const SampleLayout& at) {
  const auto run = [&]<class A>(Tag<A>) {
    with_modes(at, [&]<int K, bool b>(std::integral_constant<int, K>, std::bool_constant<b>) {
      spread_all<A, K, b>(static_cast<const A*>(dy), static_cast<const A*>(map),
                          static_cast<A*>(dx), at);
    });
  };
  if (dtype == DType::float64) return run(Tag<double>{});
  run(Tag<float>{});
}

void sample_backward_map(DType dtype, const void* x, const void* map, const void* dy, void* dmap,
                         const SampleLayout& at) {
  const auto run = [&]<class A>(Tag<A>) {
    const auto with = [&]<int K, bool b>(std::integral_constant<int, K>, std::bool_constant<b>) {
      if constexpr (K == 2 || K == 4) {
        slopes_of<A, K, b>(static_cast<const A*>(x), static_cast<const A*>(map),
                           static_cast<const A*>(dy), static_cast<A*>(dmap), at);
      } else {  // NEAREST; LANCZOS4 does not come here
        std::fill_n(static_cast<A*>(dmap), 2 * at.maps * at.points(), A(0));
      }
    };
    with_modes(at, with);
  };
  if (dtype == DType::float64) return run(Tag<double>{});
  run(Tag<float>{});
}

// ---- positions from matrices --------------------------------------------------------------------

namespace {

template <class A>
void grid_rows(const A* mat, A* map, int64_t maps, int64_t height, int64_t width) {
  parallel_for(maps * height, grain_of(8 * width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const A* m = mat + r / height * 9;
      const double i = static_cast<double>(r % height);
      const double u0 = m[0], v0 = m[3], w0 = m[6];
      const double u = m[1] * i + m[2], v = m[4] * i + m[5], w = m[7] * i + m[8];
      A* __restrict to = map + r * width * 2;
      for (int64_t k = 0; k < width; ++k) {
        const double j = static_cast<double>(k), below = w0 * j + w;
        to[2 * k] = static_cast<A>((u0 * j + u) / below);
        to[2 * k + 1] = static_cast<A>((v0 * j + v) / below);
      }
    }
  });
}

// What one row of pixels adds to the gradient of a matrix: sums over the row of the gradients of u,
// v and w times the column, and of these alone; eight columns side by side.
template <class A>
void grid_row_sums(const A* m, const A* __restrict g, int64_t row, int64_t width, double* sums) {
  constexpr int64_t kColumns = 8;
  const double i = static_cast<double>(row);
  const double u0 = m[0], v0 = m[3], w0 = m[6];
  const double u = m[1] * i + m[2], v = m[4] * i + m[5], w = m[7] * i + m[8];
  double total[6][kColumns] = {};
  for (int64_t from = 0; from < width; from += kColumns) {
    const int64_t columns = std::min(kColumns, width - from);
    double gu[kColumns] = {}, gv[kColumns] = {};
    for (int64_t l = 0; l < columns; ++l) {
      gu[l] = g[2 * (from + l)], gv[l] = g[2 * (from + l) + 1];
    }
    for (int64_t l = 0; l < kColumns; ++l) {
      // Lanes behind the end repeat the first column, with gradient 0.
      const double j = static_cast<double>(from) + (l < columns ? static_cast<double>(l) : 0.0);
      const double below = 1 / (w0 * j + w);
      const double du = gu[l] * below, dv = gv[l] * below;
      const double dw = -(du * (u0 * j + u) + dv * (v0 * j + v)) * below;
      total[0][l] += du * j, total[1][l] += du;
      total[2][l] += dv * j, total[3][l] += dv;
      total[4][l] += dw * j, total[5][l] += dw;
    }
  }
  for (int k = 0; k < 6; ++k) {
    sums[k] = 0;
    for (const double part : total[k]) sums[k] += part;
  }
}

template <class A>
void grid_sums(const A* mat, const A* dmap, A* dmat, int64_t maps, int64_t height, int64_t width) {
  const Scratch scratch(static_cast<std::size_t>(maps * height * 6) * sizeof(double));
  double* rows = scratch.as<double>();
  parallel_for(maps * height, grain_of(8 * width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      grid_row_sums(mat + r / height * 9, dmap + r * width * 2, r % height, width, rows + r * 6);
    }
  });
  for (int64_t m = 0; m < maps; ++m) {
    double total[9] = {};
    for (int64_t i = 0; i < height; ++i) {
      const double* s = rows + (m * height + i) * 6;
      for (int64_t k = 0; k < 3; ++k) {
        total[3 * k] += s[2 * k];
        total[3 * k + 1] += s[2 * k + 1] * static_cast<double>(i);
        total[3 * k + 2] += s[2 * k + 1];
      }
    }
    for (int64_t k = 0; k < 9; ++k) dmat[9 * m + k] = static_cast<A>(total[k]);
  }
}

}  // namespace

void perspective_grid(DType dtype, const void* mat, void* map, int64_t maps, int64_t height,
                      int64_t width) {
  if (dtype == DType::float64) {
    return grid_rows(static_cast<const double*>(mat), static_cast<double*>(map), maps, height,
                     width);
  }
  grid_rows(static_cast<const float*>(mat), static_cast<float*>(map), maps, height, width);
}

void perspective_grid_backward(DType dtype, const void* mat, const void* dmap, void* dmat,
                               int64_t maps, int64_t height, int64_t width) {
  if (dtype == DType::float64) {
    return grid_sums(static_cast<const double*>(mat), static_cast<const double*>(dmap),
                     static_cast<double*>(dmat), maps, height, width);
  }
  grid_sums(static_cast<const float*>(mat), static_cast<const float*>(dmap),
            static_cast<float*>(dmat), maps, height, width);
}

}  // namespace mge::cpu::MGE_SIMD_NS
