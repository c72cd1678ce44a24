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

inline int32_t modulo(int32_t i, int32_t n) {
  const int32_t r = i % n;
  return r < 0 ? r + n : r;
}

template <BorderMode border>
[[gnu::always_inline]] inline int32_t pixel(int32_t i, int32_t n) {
  if constexpr (border == BorderMode::WRAP) return modulo(i, n);
  if constexpr (border == BorderMode::REFLECT) {
    const int32_t r = modulo(i, 2 * n);
    return r < n ? r : 2 * n - 1 - r;
  }
  if constexpr (border == BorderMode::REFLECT_101) {
    if (n == 1) return 0;
    const int32_t r = modulo(i, 2 * n - 2);
    return r < n ? r : 2 * n - 2 - r;
  }
  i = i < 0 ? 0 : i;
  return i > n - 1 ? n - 1 : i;
}

// A position near the image that reads the same: what comes out is below 2^30 in size or NaN.
template <BorderMode border, int K, class A>
[[gnu::always_inline]] inline A brought_near(A x, int32_t n) {
  if constexpr (border == BorderMode::REPLICATE || border == BorderMode::CONSTANT) {
    const A low = A(-K - 1), high = A(n) + K;
    x = x < low ? low : x;
    return x > high ? high : x;
  }
  constexpr A far = A(1 << 20);
  if (x < far && x > -far && n < (1 << 28)) return x;
  const int64_t period = border == BorderMode::WRAP      ? int64_t{n}
                         : border == BorderMode::REFLECT ? 2 * int64_t{n}
                                                         : std::max<int64_t>(1, 2 * int64_t{n} - 2);
  // Infinity gives NaN.
  return static_cast<A>(std::fmod(static_cast<double>(x), static_cast<double>(period)));
}

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

template <BorderMode border, class A, int K, bool slopes>
void fill_axis_with(const A* __restrict position, int64_t count, int64_t size, AxisTile<A, K>& to) {
  const auto n = static_cast<int32_t>(size);
  constexpr bool constant = border == BorderMode::CONSTANT;
  for (int64_t j = 0; j < count; ++j) {
    const A x = brought_near<border, K>(position[2 * j], n);
    const A whole = K == 1 ? nearest_even(x) : floor_of(x);
    const A part = x - whole;  // NaN where x is
    // In CONSTANT, NaN is far outside.
    const int32_t first = static_cast<int32_t>(x == x ? whole : A(constant ? -2 * K - 2 : 0)) -
                          (K > 1 ? K / 2 - 1 : 0);
    for (int k = 0; k < K; ++k) {
      const int32_t i = first + k;
      to.index[k][j] = pixel<border>(i, n);
      if constexpr (constant) to.inside[k][j] = i >= 0 && i < n ? -1 : 0;
    }
    if constexpr (K == 1) to.weight[0][j] = part == part || constant ? A(1) : part;
    if constexpr (K == 1 && slopes) to.slope[0][j] = 0;
    if constexpr (K == 2) {
      const A t = constant && part != part ? A(0) : part;
      to.weight[0][j] = 1 - t, to.weight[1][j] = t;
    }
    if constexpr (K == 2 && slopes) to.slope[0][j] = -1, to.slope[1][j] = 1;
    if constexpr (K > 2) {
      A w[K];
      const A t = constant && part != part ? A(0) : part;
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

template <class A, int K, bool slopes>
void fill_axis(BorderMode border, const A* position, int64_t count, int64_t size,
               AxisTile<A, K>& to) {
  switch (border) {
    case BorderMode::REFLECT:
      return fill_axis_with<BorderMode::REFLECT, A, K, slopes>(position, count, size, to);
    case BorderMode::REFLECT_101:
      return fill_axis_with<BorderMode::REFLECT_101, A, K, slopes>(position, count, size, to);
    case BorderMode::WRAP:
      return fill_axis_with<BorderMode::WRAP, A, K, slopes>(position, count, size, to);
    case BorderMode::CONSTANT:
      return fill_axis_with<BorderMode::CONSTANT, A, K, slopes>(position, count, size, to);
    default:
      return fill_axis_with<BorderMode::REPLICATE, A, K, slopes>(position, count, size, to);
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

  void fill(const SampleLayout& at, const A* map, int64_t count) {
    fill_axis<A, K, slopes>(at.border, map, count, at.width, x);
    fill_axis<A, K, slopes>(at.border, map + 1, count, at.height, y);
    const auto width = static_cast<int32_t>(at.width);
    for (int r = 0; r < K; ++r) {
      for (int c = 0; c < K; ++c) {
        const int t = r * K + c;
        for (int64_t j = 0; j < count; ++j) {
          offset[t][j] = y.index[r][j] * width + x.index[c][j];
          weight[t][j] = y.weight[r][j] * x.weight[c][j];
          if constexpr (constant) inside[t][j] = y.inside[r][j] & x.inside[c][j];
        }
      }
    }
  }
};

// Calls f(map, first point, points, tile) over the tiles from number `begin` to `end`.
template <class TileType, class A, class F>
void each_tile(const SampleLayout& at, const A* map, int64_t begin, int64_t end, TileType& tile,
               F&& f) {
  const int64_t points = at.points(), tiles = (points + kTile - 1) / kTile;
  for (int64_t k = begin; k < end; ++k) {
    const int64_t m = k / tiles, first = k % tiles * kTile;
    const int64_t count = std::min(kTile, points - first);
    tile.fill(at, map + (m * points + first) * 2, count);
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

template <class T, int K, bool constant>
void read_planes(const SampleLayout& at, const T* x, T* y, int64_t m, int64_t first, int64_t count,
                 const Tile<Sum<T>, K, constant>& tile) {
  using A = Sum<T>;
  const A outside = static_cast<A>(at.border_value);
  const T* __restrict plane = x + at.image_of(m) * at.channels * at.pixels();
  T* __restrict to = y + m * at.channels * at.points() + first;
  for (int64_t c = 0; c < at.channels; ++c, plane += at.pixels(), to += at.points()) {
    const auto tap = [&](int t, int64_t j) {
      const A v = A(plane[tile.offset[t][j]]);
      return tile.weight[t][j] * (!constant || tile.inside[t][j] ? v : outside);
    };
    if constexpr (K <= 2) {
      for (int64_t j = 0; j < count; ++j) {
        A sum = tap(0, j);
        if constexpr (K == 2) sum = (sum + tap(1, j)) + (tap(2, j) + tap(3, j));
        to[j] = stored<T>(sum);
      }
    } else {
      A sum[kTile];
      for (int64_t j = 0; j < count; ++j) sum[j] = tap(0, j);
      for (int t = 1; t < K * K; ++t) {
        for (int64_t j = 0; j < count; ++j) sum[j] += tap(t, j);
      }
      for (int64_t j = 0; j < count; ++j) to[j] = stored<T>(sum[j]);
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

template <class T, int K, bool constant>
void read(const T* x, const Sum<T>* map, T* y, const SampleLayout& at) {
  const int64_t tiles = (at.points() + kTile - 1) / kTile;
  const bool last = at.channels_last;
  const Scratch beyond(last ? static_cast<std::size_t>(at.channels + kTile) * sizeof(T) : 0);
  if (last) {
    std::fill_n(beyond.as<T>(), at.channels + kTile, stored<T>(Sum<T>(at.border_value)));
  }
  const int64_t work = kTile * (at.channels + 8) * K * K;
  parallel_for(at.maps * tiles, grain_of(work), [&](int64_t begin, int64_t end) {
    Tile<Sum<T>, K, constant> tile;
    each_tile(at, map, begin, end, tile,
              [&](int64_t m, int64_t first, int64_t count, const auto& t) {
                if (last) {
                  read_pixels<T, K, constant>(at, x, y, m, first, count, t, beyond.as<T>());
                } else {
                  read_planes<T, K, constant>(at, x, y, m, first, count, t);
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
        each_tile(at, map, m * tiles, (m + 1) * tiles, tile,
                  [&](int64_t, int64_t first, int64_t count, const auto& t) {
                    spread(at, dy, image, m, first, count, begin, end, t);
                  });
      }
    }
  });
}

// ---- the gradient of positions ------------------------------------------------------------------

// The slopes of a point along x and y from the values of its taps: those of the four pixels around
// it are subtracted first, which loses nothing where they are alike.
template <class A, int K, class TileType, class Value>
[[gnu::always_inline]] inline void add_slopes(const TileType& tile, int64_t j, A g, Value&& value,
                                              A& along_x, A& along_y) {
  if constexpr (K == 2) {
    const A a = value(0), b = value(1), c = value(2), d = value(3);
    along_x += g * (tile.y.weight[0][j] * (b - a) + tile.y.weight[1][j] * (d - c));
    along_y += g * (tile.x.weight[0][j] * (c - a) + tile.x.weight[1][j] * (d - b));
  } else {
    A sx = 0, sy = 0;
    for (int r = 0; r < K; ++r) {
      A line = 0, slope = 0;
      for (int c = 0; c < K; ++c) {
        const A v = value(r * K + c);
        line += tile.x.weight[c][j] * v, slope += tile.x.slope[c][j] * v;
      }
      sx += tile.y.weight[r][j] * slope, sy += tile.y.slope[r][j] * line;
    }
    along_x += g * sx, along_y += g * sy;
  }
}

template <class A, int K, bool constant>
void slopes_of(const A* x, const A* map, const A* dy, A* dmap, const SampleLayout& at) {
  const int64_t tiles = (at.points() + kTile - 1) / kTile, n = at.channels;
  const A outside = static_cast<A>(at.border_value);
  const int64_t work = kTile * (n + 8) * K * K;
  parallel_for(at.maps * tiles, grain_of(work), [&](int64_t begin, int64_t end) {
    Tile<A, K, constant, true> tile;
    each_tile(
        at, map, begin, end, tile, [&](int64_t m, int64_t first, int64_t count, const auto& t) {
          A sx[kTile] = {}, sy[kTile] = {};
          const A* image = x + at.image_of(m) * n * at.pixels();
          if (at.channels_last) {
            for (int64_t j = 0; j < count; ++j) {
              const A* __restrict g = dy + (m * at.points() + first + j) * n;
              const A* pixel[K * K];
              for (int k = 0; k < K * K; ++k) pixel[k] = image + int64_t{t.offset[k][j]} * n;
              A px = 0, py = 0;
              for (int64_t c = 0; c < n; ++c) {
                add_slopes<A, K>(
                    t, j, g[c],
                    [&](int k) { return !constant || t.inside[k][j] ? pixel[k][c] : outside; }, px,
                    py);
              }
              sx[j] = px, sy[j] = py;
            }
          } else {
            for (int64_t c = 0; c < n; ++c) {
              const A* __restrict g = dy + (m * n + c) * at.points() + first;
              const A* __restrict plane = image + c * at.pixels();
              for (int64_t j = 0; j < count; ++j) {
                add_slopes<A, K>(
                    t, j, g[j],
                    [&](int k) {
                      const A v = plane[t.offset[k][j]];
                      return !constant || t.inside[k][j] ? v : outside;
                    },
                    sx[j], sy[j]);
              }
            }
          }
          A* to = dmap + (m * at.points() + first) * 2;
          for (int64_t j = 0; j < count; ++j) to[2 * j] = sx[j], to[2 * j + 1] = sy[j];
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

// What one row of pixels adds to the gradient of a matrix: (3, 2) sums over the row, of the
// gradients of u, v and w times the column and times 1.
template <class A>
void grid_row_sums(const A* m, const A* __restrict g, int64_t row, int64_t width, double* sums) {
  const double i = static_cast<double>(row);
  const double u0 = m[0], v0 = m[3], w0 = m[6];
  const double u = m[1] * i + m[2], v = m[4] * i + m[5], w = m[7] * i + m[8];
  double total[6] = {};
  for (int64_t k = 0; k < width; ++k) {
    const double j = static_cast<double>(k), below = 1 / (w0 * j + w);
    const double du = static_cast<double>(g[2 * k]) * below;
    const double dv = static_cast<double>(g[2 * k + 1]) * below;
    const double dw = -(du * (u0 * j + u) + dv * (v0 * j + v)) * below;
    total[0] += du * j, total[1] += du;
    total[2] += dv * j, total[3] += dv;
    total[4] += dw * j, total[5] += dw;
  }
  std::copy_n(total, 6, sums);
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
