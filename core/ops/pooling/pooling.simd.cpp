// Pooling of images with many channels that lie side by side: the channels of an output position
// are reduced at once, one in each lane, tap by tap (a tap is a position in the window). Rows of
// other images are reduced in pooling_rows.simd.cpp.
//
// Backward passes do scattered additions, one image's block of channels (or one plane) at a time;
// those of rows whose windows overlap, or of averages, are in pooling_rows_backward.simd.cpp.

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/kernels/cpu/parallel.h"
#include "core/ops/pooling/pooling_windows.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kLanes = 256;
constexpr int64_t kDeep = 16;           // channels from which they are the lanes
constexpr int64_t kBackwardLanes = 64;  // channels that a backward pass works on at a time

// ---- reducers
// ------------------------------------------------------------------------------------
// start(lanes); then tap(...) for each tap, row_done() after each row of taps; then finish(...).

template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, T, ComputeType<T>>;

template <class T>
struct Max {
  using A = Wide<T>;
  T* y;
  void* index;  // may be null
  DType index_dtype;
  A best[kLanes];
  std::int32_t found[kLanes];

  // first: the first tap, which has the maximum where nothing is above the lowest.
  void start(int64_t lanes, std::int32_t first) {
    std::fill_n(best, lanes, lowest());
    std::fill_n(found, lanes, first);
  }
  static constexpr A lowest() {
    return std::is_integral_v<T> ? std::numeric_limits<A>::lowest()
                                 : -std::numeric_limits<A>::infinity();
  }
  void tap(const T* __restrict at, int64_t lanes, std::int32_t id) {
    for (int64_t j = 0; j < lanes; ++j) {
      const A v = A(at[j]), m = best[j];
      const bool take = !(v <= m) & (m == m);  // greater, or the first NaN
      best[j] = take ? v : m;
      found[j] = take ? id : found[j];
    }
  }
  void row_done(int64_t) {}
  void finish(int64_t out, int64_t lanes, std::int32_t) {
    T* __restrict to = y + out;
    for (int64_t j = 0; j < lanes; ++j) to[j] = T(best[j]);
    if (!index) return;
    if (index_dtype == DType::int32) {
      std::copy_n(found, lanes, static_cast<std::int32_t*>(index) + out);
      return;
    }
    std::uint8_t* __restrict ids = static_cast<std::uint8_t*>(index) + out;
    for (int64_t j = 0; j < lanes; ++j) ids[j] = static_cast<std::uint8_t>(found[j]);
  }
};

template <class T>
struct Average {
  using A = ComputeType<T>;
  T* y;
  A row[kLanes], total[kLanes];

  void start(int64_t lanes, std::int32_t) {
    std::fill_n(row, lanes, A(0));
    std::fill_n(total, lanes, A(0));
  }
  void tap(const T* __restrict at, int64_t lanes, std::int32_t) {
    for (int64_t j = 0; j < lanes; ++j) row[j] += A(at[j]);
  }
  // Sums of rows, then the sum of these: large windows stay accurate.
  void row_done(int64_t lanes) {
    for (int64_t j = 0; j < lanes; ++j) total[j] += row[j], row[j] = 0;
  }
  void finish(int64_t out, int64_t lanes, std::int32_t count) {
    T* __restrict to = y + out;
    for (int64_t j = 0; j < lanes; ++j) to[j] = T(total[j] / A(count));
  }
};

// The same for 16 float32 lanes that stay in registers from the first tap to the last.
using Floats = float __attribute__((vector_size(64)));
using Ints = std::int32_t __attribute__((vector_size(64)));
constexpr int64_t kRegister = 16;

struct MaxLanes {
  Floats best = Floats{} - std::numeric_limits<float>::infinity();
  Ints found;
  explicit MaxLanes(std::int32_t first) : found(Ints{} + first) {}
  [[gnu::always_inline]] void tap(const float* at, std::int32_t id) {
    Floats v;
    __builtin_memcpy(&v, at, sizeof v);
    const Ints take = ~(v <= best) & (best == best);
    best = take ? v : best;
    found = take ? Ints{} + id : found;
  }
  void row_done() {}
  template <class Reducer>
  [[gnu::always_inline]] void finish(const Reducer& r, int64_t out, float) const {
    __builtin_memcpy(r.y + out, &best, sizeof best);
    if (!r.index) return;
    if (r.index_dtype == DType::int32) {
      __builtin_memcpy(static_cast<std::int32_t*>(r.index) + out, &found, sizeof found);
      return;
    }
    std::uint8_t* to = static_cast<std::uint8_t*>(r.index) + out;
    for (int64_t j = 0; j < kRegister; ++j) to[j] = static_cast<std::uint8_t>(found[j]);
  }
};

struct AverageLanes {
  Floats row{}, total{};
  explicit AverageLanes(std::int32_t) {}
  [[gnu::always_inline]] void tap(const float* at, std::int32_t) {
    Floats v;
    __builtin_memcpy(&v, at, sizeof v);
    row += v;
  }
  [[gnu::always_inline]] void row_done() { total += row, row = Floats{}; }
  template <class Reducer>
  [[gnu::always_inline]] void finish(const Reducer& r, int64_t out, float count) const {
    const Floats mean = total / count;
    __builtin_memcpy(r.y + out, &mean, sizeof mean);
  }
};

template <class Reducer>
struct InRegisters {
  using type = void;
};
template <>
struct InRegisters<Max<float>> {
  using type = MaxLanes;
};
template <>
struct InRegisters<Average<float>> {
  using type = AverageLanes;
};

// ---- windows ------------------------------------------------------------------------------------

// Columns of outputs whose windows do not reach into the padding.
inline Range whole_columns(const PoolLayout& p) {
  const int64_t begin = std::min(p.out_w, (p.pad_w + p.stride_w - 1) / p.stride_w);
  const int64_t last = p.w - p.window_w + p.pad_w;
  return {begin, last < 0 ? begin : std::clamp(last / p.stride_w + 1, begin, p.out_w)};
}

inline std::int32_t count_of(const PoolLayout& p, Range rows, Range cols) {
  return static_cast<std::int32_t>(p.count_padding ? p.taps() : rows.size() * cols.size());
}

// An image whose channels lie side by side, or a plane of one channel.
struct Images {
  int64_t count, channels;
  explicit Images(const PoolLayout& p)
      : count(p.channels_last ? p.n : p.n * p.c), channels(p.channels_last ? p.c : 1) {}
};

// ---- forward
// -------------------------------------------------------------------------------------

// Some channels, from c on, of the output position whose windows cover `rows` and `cols`. The first
// tap of the windows at row 0 and column 0 would have the number `origin`.
struct Position {
  Range rows, cols;
  int64_t image, out, origin;
  std::int32_t count;

  Position(const PoolLayout& p, int64_t k, int64_t ow)
      : rows(rows_of(p, k % p.out_h)),
        cols(cols_of(p, ow)),
        image(k / p.out_h),
        out((k * p.out_w + ow) * p.c),
        origin((p.pad_h - k % p.out_h * p.stride_h) * p.window_w + p.pad_w - ow * p.stride_w),
        count(count_of(p, rows, cols)) {}
  std::int32_t id(const PoolLayout& p, int64_t ih, int64_t iw) const {
    return static_cast<std::int32_t>(origin + ih * p.window_w + iw);
  }
};

// Calls tap(input, id) and row_done() over the windows of a position.
template <class T, class Tap, class RowDone>
[[gnu::always_inline]] inline void each_tap(const PoolLayout& p, const T* x, const Position& at,
                                            int64_t c, Tap&& tap, RowDone&& row_done) {
  for (int64_t ih = at.rows.begin; ih < at.rows.end; ++ih) {
    const T* from = x + ((at.image * p.h + ih) * p.w + at.cols.begin) * p.c + c;
    for (int64_t iw = at.cols.begin; iw < at.cols.end; ++iw, from += p.c) {
      tap(from, at.id(p, ih, iw));
    }
    row_done();
  }
}

template <class T, class Reducer>
void pool_deep(const PoolLayout& p, const T* x, const Reducer& start) {
  using Lanes = typename InRegisters<Reducer>::type;
  parallel_for(p.n * p.out_h, grain_of(p.out_w * p.c * p.taps()), [&](int64_t begin, int64_t end) {
    Reducer r = start;
    for (int64_t i = begin * p.out_w; i < end * p.out_w; ++i) {
      const Position at(p, i / p.out_w, i % p.out_w);
      const std::int32_t first = at.id(p, at.rows.begin, at.cols.begin);
      int64_t c = 0;
      if constexpr (!std::is_void_v<Lanes>) {
        for (; c + kRegister <= p.c; c += kRegister) {
          Lanes lanes(first);
          each_tap(
              p, x, at, c, [&](const T* v, std::int32_t id) { lanes.tap(v, id); },
              [&] { lanes.row_done(); });
          lanes.finish(r, at.out + c, static_cast<float>(at.count));
        }
      }
      for (; c < p.c; c += kLanes) {
        const int64_t lanes = std::min(kLanes, p.c - c);
        r.start(lanes, first);
        each_tap(
            p, x, at, c, [&](const T* v, std::int32_t id) { r.tap(v, lanes, id); },
            [&] { r.row_done(lanes); });
        r.finish(at.out + c, lanes, at.count);
      }
    }
  });
}

// Whether the rows are what lies side by side. Rows are padded in memory, which does not serve
// those that are mostly padding.
bool by_rows(const PoolLayout& p) { return !(p.channels_last && p.c >= kDeep) && p.pad_w <= p.w; }

// Backward, single windows leave nothing to add up.
bool by_rows_backward(const PoolLayout& p) { return by_rows(p) && p.out_w > 1; }

// A column as a row.
PoolLayout upright(PoolLayout p) {
  if (p.w == 1 && p.window_w == 1) {
    std::swap(p.h, p.w);
    std::swap(p.out_h, p.out_w);
    std::swap(p.window_h, p.window_w);
    std::swap(p.stride_h, p.stride_w);
    std::swap(p.pad_h, p.pad_w);
  }
  return p;
}

// Planes as images of one channel.
PoolLayout side_by_side(PoolLayout p) {
  if (!p.channels_last) p.n *= p.c, p.c = 1, p.channels_last = true;
  return p;
}

// ---- backward
// ------------------------------------------------------------------------------------

// What a backward pass works on at a time: some channels of an image, or a plane.
struct Unit {
  int64_t in, out;  // first element of the unit in dx and dy
  int64_t lanes;    // channels
};
struct Units {
  int64_t block, blocks, pitch, count;
  explicit Units(const PoolLayout& p)
      : block(p.channels_last ? std::min(p.c, kBackwardLanes) : 1),
        blocks(p.channels_last ? (p.c + block - 1) / block : p.c),
        pitch(p.channels_last ? p.c : 1),
        count(p.n * blocks) {}
  Unit at(const PoolLayout& p, int64_t k) const {
    if (!p.channels_last) return {k * p.h * p.w, k * p.out_h * p.out_w, 1};
    const int64_t image = k / blocks, c = k % blocks * block;
    return {image * p.h * p.w * p.c + c, image * p.out_h * p.out_w * p.c + c,
            std::min(block, p.c - c)};
  }
};

// Calls row(unit, dx, oh) for all output rows of all units. Rows of dx are cleared just before the
// first window reaches them, while they are about to be in cache anyway. The 16-bit types add up in
// float32, in a scratch plane of the thread's own.
template <class T, class Row>
void each_backward_row(const PoolLayout& p, T* dx, Row&& row) {
  using A = ComputeType<T>;
  constexpr bool direct = std::is_same_v<T, A>;
  const Units units(p);
  const int64_t plane = p.h * p.w * units.block;
  const int threads = num_threads();  // allocated here: nothing may throw inside parallel_for
  Scratch scratch(direct ? 0 : sizeof(A) * static_cast<std::size_t>(plane * threads));
  parallel_for(units.count, grain_of(plane), [&](int64_t begin, int64_t end) {
    // Of an accumulator: positions are `pitch` apart.
    const int64_t pitch = direct ? units.pitch : units.block;
    for (int64_t k = begin; k < end; ++k) {
      const Unit unit = units.at(p, k);
      A* to;
      if constexpr (direct) {
        to = dx + unit.in;
      } else {
        to = scratch.as<A>() + omp_get_thread_num() % threads * plane;
      }
      int64_t cleared = 0;
      const auto clear_to = [&](int64_t ih) {
        if (ih <= cleared) return;
        if (pitch == unit.lanes)
          std::fill_n(to + cleared * p.w * pitch, (ih - cleared) * p.w * pitch, A(0));
        for (int64_t i = cleared * p.w; i < ih * p.w && pitch != unit.lanes; ++i) {
          std::fill_n(to + i * pitch, unit.lanes, A(0));
        }
        cleared = ih;
      };
      for (int64_t oh = 0; oh < p.out_h; ++oh) {
        clear_to(rows_of(p, oh).end);
        row(unit, to, pitch, oh);
      }
      clear_to(p.h);
      if constexpr (!direct) {
        for (int64_t i = 0; i < p.h * p.w; ++i) {
          T* out = dx + unit.in + i * units.pitch;
          for (int64_t j = 0; j < unit.lanes; ++j) out[j] = T(to[i * pitch + j]);
        }
      }
    }
  });
}

// Whether the whole window of an output lies inside the input.
inline bool inside(const PoolLayout& p, Range rows, Range cols) {
  return rows.size() == p.window_h && cols.size() == p.window_w;
}

// Where tap `id` of the window at (oh, ow) lies, or -1 in the padding.
inline int64_t position_of(const PoolLayout& p, int64_t oh, int64_t ow, int64_t id) {
  const int64_t ih = oh * p.stride_h - p.pad_h + id / p.window_w;
  const int64_t iw = ow * p.stride_w - p.pad_w + id % p.window_w;
  return ih < 0 || iw < 0 || ih >= p.h || iw >= p.w ? -1 : ih * p.w + iw;
}

// Distances of all taps from the first one, times `pitch`.
class TapOffsets {
 public:
  TapOffsets(const PoolLayout& p, int64_t pitch)
      : scratch_(static_cast<std::size_t>(p.taps()) * sizeof(int64_t)) {
    int64_t* to = scratch_.as<int64_t>();
    for (int64_t kh = 0; kh < p.window_h; ++kh) {
      for (int64_t kw = 0; kw < p.window_w; ++kw) *to++ = (kh * p.w + kw) * pitch;
    }
  }
  int64_t operator[](int64_t id) const { return scratch_.as<int64_t>()[id]; }

 private:
  Scratch scratch_;
};

template <class T, class Index>
void max_backward(const PoolLayout& p, const T* dy, const Index* index, T* dx) {
  using A = ComputeType<T>;
  const Units units(p);
  const TapOffsets offsets(p, std::is_same_v<T, A> ? units.pitch : units.block);
  const bool plane = units.block == 1 && units.pitch == 1;
  const Range whole = whole_columns(p);
  each_backward_row(p, dx, [&](const Unit& unit, A* to, int64_t pitch, int64_t oh) {
    const Range rows = rows_of(p, oh);
    const auto column = [&](int64_t ow) {
      const int64_t o = unit.out + (oh * p.out_w + ow) * units.pitch;
      const T* g = dy + o;
      const Index* id = index + o;
      if (inside(p, rows, cols_of(p, ow))) {
        A* first = to + (rows.begin * p.w + ow * p.stride_w - p.pad_w) * pitch;
        for (int64_t j = 0; j < unit.lanes; ++j) first[offsets[id[j]] + j] += A(g[j]);
        return;
      }
      for (int64_t j = 0; j < unit.lanes; ++j) {
        const int64_t at = position_of(p, oh, ow, id[j]);
        if (at >= 0) to[at * pitch + j] += A(g[j]);
      }
    };
    int64_t ow = 0;
    if (plane && rows.size() == p.window_h) {
      for (; ow < whole.begin; ++ow) column(ow);
      const T* g = dy + unit.out + oh * p.out_w;
      const Index* id = index + unit.out + oh * p.out_w;
      A* first = to + rows.begin * p.w - p.pad_w;
      for (; ow < whole.end; ++ow) first[ow * p.stride_w + offsets[id[ow]]] += A(g[ow]);
    }
    for (; ow < p.out_w; ++ow) column(ow);
  });
}

template <class A>
inline void add_lanes(A* __restrict to, const A* __restrict from, int64_t n) {
  for (int64_t j = 0; j < n; ++j) to[j] += from[j];
}

template <class T>
void average_backward(const PoolLayout& p, const T* dy, T* dx) {
  using A = ComputeType<T>;
  const Units units(p);
  each_backward_row(p, dx, [&](const Unit& unit, A* to, int64_t pitch, int64_t oh) {
    A share[kBackwardLanes];
    const Range rows = rows_of(p, oh);
    for (int64_t ow = 0; ow < p.out_w; ++ow) {
      const Range cols = cols_of(p, ow);
      const A count = A(count_of(p, rows, cols));
      const T* g = dy + unit.out + (oh * p.out_w + ow) * units.pitch;
      for (int64_t j = 0; j < unit.lanes; ++j) share[j] = A(g[j]) / count;
      for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
        if (pitch == 1) {
          A* line = to + ih * p.w;
          for (int64_t iw = cols.begin; iw < cols.end; ++iw) line[iw] += share[0];
          continue;
        }
        for (int64_t iw = cols.begin; iw < cols.end; ++iw) {
          add_lanes(to + (ih * p.w + iw) * pitch, share, unit.lanes);
        }
      }
    }
  });
}

template <class T, class Index>
void max_pick(const PoolLayout& p, const T* g, const Index* index, T* out) {
  const Images images(p);
  const int64_t channels = images.channels;
  const TapOffsets offsets(p, channels);
  const Range whole = whole_columns(p);
  const auto rows_between = [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t image = k / p.out_h, oh = k % p.out_h;
      const T* from = g + image * p.h * p.w * channels;
      const Range rows = rows_of(p, oh);
      const auto column = [&](int64_t ow) {
        const int64_t o = (k * p.out_w + ow) * channels;
        if (inside(p, rows, cols_of(p, ow))) {
          const T* first = from + (rows.begin * p.w + ow * p.stride_w - p.pad_w) * channels;
          for (int64_t j = 0; j < channels; ++j) out[o + j] = first[offsets[index[o + j]] + j];
          return;
        }
        for (int64_t j = 0; j < channels; ++j) {
          const int64_t at = position_of(p, oh, ow, index[o + j]);
          out[o + j] = at >= 0 ? from[at * channels + j] : T(0.0f);
        }
      };
      int64_t ow = 0;
      if (channels == 1 && rows.size() == p.window_h) {
        for (; ow < whole.begin; ++ow) column(ow);
        const Index* id = index + k * p.out_w;
        const T* first = from + rows.begin * p.w - p.pad_w;
        T* to = out + k * p.out_w;
        for (; ow < whole.end; ++ow) to[ow] = first[ow * p.stride_w + offsets[id[ow]]];
      }
      for (; ow < p.out_w; ++ow) column(ow);
    }
  };
  parallel_for(images.count * p.out_h, grain_of(p.out_w * channels), rows_between);
}

// Calls f with a null pointer of the type that indices have.
template <class F>
void with_index(const PoolLayout& p, F&& f) {
  if (pool_index_dtype(p.taps()) == DType::uint8) {
    f(static_cast<std::uint8_t*>(nullptr));
  } else {
    f(static_cast<std::int32_t*>(nullptr));
  }
}

}  // namespace

void max_pool(DType dtype, const void* x, void* y, void* index, const PoolLayout& at) {
  if (by_rows(at)) return max_pool_rows(dtype, x, y, index, upright(at));
  auto run = [&]<class T>(Tag<T>) {
    Max<T> r;
    r.y = static_cast<T*>(y), r.index = index, r.index_dtype = pool_index_dtype(at.taps());
    pool_deep(side_by_side(at), static_cast<const T*>(x), r);
  };
  if (dtype == DType::int8) return run(Tag<std::int8_t>{});
  if (dtype == DType::uint8) return run(Tag<std::uint8_t>{});
  visit_float("Pooling", dtype, run);
}

void average_pool(DType dtype, const void* x, void* y, const PoolLayout& at) {
  if (by_rows(at)) return average_pool_rows(dtype, x, y, upright(at));
  visit_float("Pooling", dtype, [&]<class T>(Tag<T>) {
    Average<T> r;
    r.y = static_cast<T*>(y);
    pool_deep(side_by_side(at), static_cast<const T*>(x), r);
  });
}

void max_pool_backward(DType dtype, const void* dy, const void* index, void* dx,
                       const PoolLayout& layout) {
  const PoolLayout at = upright(layout);
  // By rows, each element looks at all windows that cover it; scattered additions are one for each
  // window, but slow in 16 bits. What is faster was measured.
  const int64_t strides = at.stride_h * at.stride_w;
  const bool low = dtype == DType::float16 || dtype == DType::bfloat16;
  const bool plane = !at.channels_last || at.c == 1;
  const bool overlap = strides <= 4 && at.taps() > 2 * strides;
  if (by_rows_backward(at) && plane && (low || overlap) && at.taps() <= 32 * strides) {
    return max_pool_backward_rows(dtype, dy, index, dx, at);
  }
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    with_index(at, [&]<class Index>(Index*) {
      max_backward(at, static_cast<const T*>(dy), static_cast<const Index*>(index),
                   static_cast<T*>(dx));
    });
  });
}

void average_pool_backward(DType dtype, const void* dy, void* dx, const PoolLayout& layout) {
  const PoolLayout at = upright(layout);
  if (by_rows_backward(at)) return average_pool_backward_rows(dtype, dy, dx, at);
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    average_backward(at, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

void max_pool_pick(DType dtype, const void* g, const void* index, void* out,
                   const PoolLayout& layout) {
  const PoolLayout at = upright(layout);
  visit_float("MaxPoolPick", dtype, [&]<class T>(Tag<T>) {
    with_index(at, [&]<class Index>(Index*) {
      max_pick(at, static_cast<const T*>(g), static_cast<const Index*>(index),
               static_cast<T*>(out));
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
