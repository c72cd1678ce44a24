// Many windows are reduced at once, one in each lane: tap by tap (a tap is a position in the
// window), a loop over the lanes. What the lanes are depends on the layout:
//
//   deep    channels-last with many channels: the channels of one output position
//   flat    no padding: consecutive outputs of an image (or of a plane, in row-major layout), found
//           through a table of where each one's window starts
//   strips  padding: the outputs of one output row, some of which a tap may miss
//
// Backward passes do scattered additions, one image's block of channels (or one plane) at a time.

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/kernels/cpu/parallel.h"
#include "core/ops/pooling/pooling.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kLanes = 256;
constexpr int64_t kFarthest = int64_t{1} << 30;  // that a table of 32-bit offsets reaches
constexpr int64_t kDeep = 16;                    // channels from which they are the lanes
constexpr int64_t kBackwardLanes = 64;           // channels that a backward pass works on at a time

int64_t grain_of(int64_t work) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)); }

// ---- reducers
// ------------------------------------------------------------------------------------
// start(lanes); then tap(...) for each tap, row_done() after each row of taps; then finish(...).
// tap: lane first + i sees at[where[i]], or at[i] without a table, for i below lanes.

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

  // first: the first tap of each lane, which has the maximum where nothing is above the lowest.
  void start(int64_t lanes, const std::int32_t* first) {
    std::fill_n(best, lanes, lowest());
    std::copy_n(first, lanes, found);
  }
  static constexpr A lowest() {
    return std::is_integral_v<T> ? std::numeric_limits<A>::lowest()
                                 : -std::numeric_limits<A>::infinity();
  }
  template <bool table>
  void tap(const T* __restrict at, const std::int32_t* __restrict where, int64_t first,
           int64_t lanes, std::int32_t id) {
    A* __restrict b = best + first;
    std::int32_t* __restrict f = found + first;
    for (int64_t j = 0; j < lanes; ++j) {
      const A v = A(at[table ? int64_t{where[j]} : j]), m = b[j];
      const bool take = !(v <= m) & (m == m);  // greater, or the first NaN
      b[j] = take ? v : m;
      f[j] = take ? id : f[j];
    }
  }
  void row_done(int64_t) {}
  void finish(int64_t out, int64_t lanes, const std::int32_t*) {
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

  void start(int64_t lanes, const std::int32_t*) {
    std::fill_n(row, lanes, A(0));
    std::fill_n(total, lanes, A(0));
  }
  template <bool table>
  void tap(const T* __restrict at, const std::int32_t* __restrict where, int64_t first,
           int64_t lanes, std::int32_t) {
    A* __restrict r = row + first;
    for (int64_t j = 0; j < lanes; ++j) r[j] += A(at[table ? int64_t{where[j]} : j]);
  }
  // Sums of rows, then the sum of these: large windows stay accurate.
  void row_done(int64_t lanes) {
    for (int64_t j = 0; j < lanes; ++j) total[j] += row[j], row[j] = 0;
  }
  void finish(int64_t out, int64_t lanes, const std::int32_t* counts) {
    T* __restrict to = y + out;
    for (int64_t j = 0; j < lanes; ++j) to[j] = T(total[j] / A(counts[j]));
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

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Input positions that the window of output o covers.
inline Range covered(int64_t o, int64_t stride, int64_t pad, int64_t window, int64_t size) {
  const int64_t start = o * stride - pad;
  return {std::max<int64_t>(0, start), std::min(size, start + window)};
}
inline Range rows_of(const PoolLayout& p, int64_t oh) {
  return covered(oh, p.stride_h, p.pad_h, p.window_h, p.h);
}
inline Range cols_of(const PoolLayout& p, int64_t ow) {
  return covered(ow, p.stride_w, p.pad_w, p.window_w, p.w);
}

// Outputs o in [from, to) whose window has position k of it inside the input.
inline Range lanes_inside(int64_t k, int64_t stride, int64_t pad, int64_t size, int64_t from,
                          int64_t to) {
  const int64_t low = pad > k ? (pad - k + stride - 1) / stride : 0;
  const int64_t high = size - 1 + pad - k < 0 ? 0 : (size - 1 + pad - k) / stride + 1;
  return {std::max(low, from), std::min(high, to)};
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
    std::int32_t counts[kLanes], ids[kLanes];
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
        std::fill_n(ids, lanes, first);
        std::fill_n(counts, lanes, at.count);
        r.start(lanes, ids);
        each_tap(
            p, x, at, c,
            [&](const T* v, std::int32_t id) { r.template tap<false>(v, nullptr, 0, lanes, id); },
            [&] { r.row_done(lanes); });
        r.finish(at.out + c, lanes, counts);
      }
    }
  });
}

template <class T, class Reducer>
void pool_flat(const PoolLayout& p, const T* x, const Reducer& start) {
  const Images images(p);
  const int64_t size = p.out_h * p.out_w * images.channels;
  const int64_t in_size = p.h * p.w * images.channels;
  // Small images are taken several at a time.
  const int64_t fits = std::min(kLanes / size, kFarthest / in_size);
  const int64_t group = std::clamp<int64_t>(fits, 1, images.count);
  const int64_t groups = (images.count + group - 1) / group;
  // Where the window of each output of a group starts.
  Scratch scratch(static_cast<std::size_t>(group * size) * sizeof(std::int32_t));
  std::int32_t* const starts = scratch.as<std::int32_t>();
  for (int64_t o = 0, image = 0; image < group; ++image) {
    for (int64_t oh = 0; oh < p.out_h; ++oh) {
      for (int64_t ow = 0; ow < p.out_w; ++ow) {
        const int64_t at = (oh * p.stride_h * p.w + ow * p.stride_w) * images.channels;
        for (int64_t c = 0; c < images.channels; ++c) {
          starts[o++] = static_cast<std::int32_t>(image * in_size + at + c);
        }
      }
    }
  }
  const int64_t blocks = (group * size + kLanes - 1) / kLanes;
  const int64_t work = std::min(group * size, kLanes) * p.taps();
  parallel_for(groups * blocks, grain_of(work), [&](int64_t begin, int64_t end) {
    Reducer r = start;
    std::int32_t counts[kLanes], ids[kLanes] = {};
    std::fill_n(counts, kLanes, static_cast<std::int32_t>(p.taps()));
    for (int64_t k = begin; k < end; ++k) {
      const int64_t image = k / blocks * group, first = k % blocks * kLanes;
      const int64_t there = std::min(group, images.count - image) * size - first;
      const int64_t lanes = std::min(kLanes, there);
      if (lanes <= 0) continue;  // the last group is smaller
      std::int32_t id = 0;
      r.start(lanes, ids);
      for (int64_t kh = 0; kh < p.window_h; ++kh) {
        for (int64_t kw = 0; kw < p.window_w; ++kw) {
          r.template tap<true>(x + image * in_size + (kh * p.w + kw) * images.channels,
                               starts + first, 0, lanes, id++);
        }
        r.row_done(lanes);
      }
      r.finish(image * size + first, lanes, counts);
    }
  });
}

// Lane j of a strip is channel j % channels of output column from + j / channels.
template <class T, class Reducer>
void pool_strips(const PoolLayout& p, const T* x, const Reducer& start) {
  const Images images(p);
  const int64_t channels = images.channels, most = kLanes / channels;  // output columns of a strip
  std::int32_t starts[kLanes];
  for (int64_t j = 0; j < most * channels; ++j) {
    starts[j] = static_cast<std::int32_t>(j / channels * p.stride_w * channels + j % channels);
  }
  const int64_t work = p.out_w * channels * p.taps();
  parallel_for(images.count * p.out_h, grain_of(work), [&](int64_t begin, int64_t end) {
    Reducer r = start;
    std::int32_t counts[kLanes], ids[kLanes];
    for (int64_t k = begin; k < end; ++k) {
      const int64_t image = k / p.out_h, oh = k % p.out_h;
      const Range rows = rows_of(p, oh);
      for (int64_t from = 0; from < p.out_w; from += most) {
        const int64_t to = std::min(p.out_w, from + most), lanes = (to - from) * channels;
        for (int64_t j = 0; j < lanes; ++j) {
          const int64_t ow = from + j / channels;
          const Range cols = cols_of(p, ow);
          counts[j] = count_of(p, rows, cols);
          ids[j] = static_cast<std::int32_t>((rows.begin - oh * p.stride_h + p.pad_h) * p.window_w +
                                             cols.begin - ow * p.stride_w + p.pad_w);
        }
        r.start(lanes, ids);
        for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
          const int64_t id = (ih - oh * p.stride_h + p.pad_h) * p.window_w;
          for (int64_t kw = 0; kw < p.window_w; ++kw) {
            const Range in = lanes_inside(kw, p.stride_w, p.pad_w, p.w, from, to);
            if (in.size() <= 0) continue;
            const int64_t column = in.begin * p.stride_w - p.pad_w + kw;
            r.template tap<true>(x + ((image * p.h + ih) * p.w + column) * channels, starts,
                                 (in.begin - from) * channels, in.size() * channels,
                                 static_cast<std::int32_t>(id + kw));
          }
          r.row_done(lanes);
        }
        r.finish((k * p.out_w + from) * channels, lanes, counts);
      }
    }
  });
}

template <class T, class Reducer>
void pool(const PoolLayout& p, const T* x, const Reducer& start) {
  const Images images(p);
  const bool padded = p.pad_h != 0 || p.pad_w != 0;
  const bool small = p.h * p.w * images.channels <= kFarthest;
  if (p.channels_last && (p.c >= kDeep || (p.c > 1 && !small))) return pool_deep(p, x, start);
  if (!padded && small) return pool_flat(p, x, start);
  pool_strips(p, x, start);
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
  each_backward_row(p, dx, [&](const Unit& unit, A* to, int64_t pitch, int64_t oh) {
    const Range rows = rows_of(p, oh);
    int64_t done = 0;
    if (unit.lanes == 1 && pitch == 1 && units.pitch == 1 && inside(p, rows, cols_of(p, 0))) {
      // A plane: one loop over the columns whose windows lie inside.
      const Range whole = lanes_inside(p.window_w - 1, p.stride_w, p.pad_w, p.w, 0, p.out_w);
      const int64_t o = unit.out + oh * p.out_w;
      A* first = to + rows.begin * p.w - p.pad_w;
      for (; done < whole.end; ++done, first += p.stride_w) {
        first[offsets[index[o + done]]] += A(dy[o + done]);
      }
    }
    for (int64_t ow = done; ow < p.out_w; ++ow) {
      const int64_t o = unit.out + (oh * p.out_w + ow) * units.pitch;
      const T* g = dy + o;
      const Index* id = index + o;
      if (inside(p, rows, cols_of(p, ow))) {
        A* first = to + (rows.begin * p.w + ow * p.stride_w - p.pad_w) * pitch;
        for (int64_t j = 0; j < unit.lanes; ++j) first[offsets[id[j]] + j] += A(g[j]);
        continue;
      }
      for (int64_t j = 0; j < unit.lanes; ++j) {
        const int64_t at = position_of(p, oh, ow, id[j]);
        if (at >= 0) to[at * pitch + j] += A(g[j]);
      }
    }
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
  parallel_for(
      images.count * p.out_h, grain_of(p.out_w * channels), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          const int64_t image = k / p.out_h, oh = k % p.out_h;
          const T* from = g + image * p.h * p.w * channels;
          const Range rows = rows_of(p, oh);
          for (int64_t ow = 0; ow < p.out_w; ++ow) {
            const int64_t o = (k * p.out_w + ow) * channels;
            if (inside(p, rows, cols_of(p, ow))) {
              const T* first = from + (rows.begin * p.w + ow * p.stride_w - p.pad_w) * channels;
              for (int64_t j = 0; j < channels; ++j) out[o + j] = first[offsets[index[o + j]] + j];
              continue;
            }
            for (int64_t j = 0; j < channels; ++j) {
              const int64_t at = position_of(p, oh, ow, index[o + j]);
              out[o + j] = at >= 0 ? from[at * channels + j] : T(0.0f);
            }
          }
        }
      });
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
  auto run = [&]<class T>(Tag<T>) {
    Max<T> r;
    r.y = static_cast<T*>(y), r.index = index, r.index_dtype = pool_index_dtype(at.taps());
    pool(at, static_cast<const T*>(x), r);
  };
  if (dtype == DType::int8) return run(Tag<std::int8_t>{});
  if (dtype == DType::uint8) return run(Tag<std::uint8_t>{});
  visit_float("Pooling", dtype, run);
}

void average_pool(DType dtype, const void* x, void* y, const PoolLayout& at) {
  visit_float("Pooling", dtype, [&]<class T>(Tag<T>) {
    Average<T> r;
    r.y = static_cast<T*>(y);
    pool(at, static_cast<const T*>(x), r);
  });
}

void max_pool_backward(DType dtype, const void* dy, const void* index, void* dx,
                       const PoolLayout& at) {
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    with_index(at, [&]<class Index>(Index*) {
      max_backward(at, static_cast<const T*>(dy), static_cast<const Index*>(index),
                   static_cast<T*>(dx));
    });
  });
}

void average_pool_backward(DType dtype, const void* dy, void* dx, const PoolLayout& at) {
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    average_backward(at, static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

void max_pool_pick(DType dtype, const void* g, const void* index, void* out, const PoolLayout& at) {
  visit_float("MaxPoolPick", dtype, [&]<class T>(Tag<T>) {
    with_index(at, [&]<class Index>(Index*) {
      max_pick(at, static_cast<const T*>(g), static_cast<const Index*>(index),
               static_cast<T*>(out));
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
