// Lanes are channels in channels-last layout, output columns in row-major layout; a window is
// walked tap by tap (one position in the window), each tap for all lanes at once. A driver walks
// windows and taps of a layout, a reducer says what happens at each:
//
//   start(lanes)                 a new group of windows, one for each lane
//   tap(at, first, last)         lanes [first, last) see the input elements at + lane * step
//   row_done()                   the taps of one row of the window are through
//   finish(out, lanes, counts)   the results of the lanes go to out + lane; counts() gives the size
//                                of each window
// The backward reducers and MaxPick begin with start_at(out, lanes), which reads operands there.

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
// Channels that a backward pass works on at a time: its unit of parallel work.
constexpr int64_t kBackwardLanes = 64;

// A step between lanes that is known to the compiler makes vector loads; 0 is known at run time.
template <int step>
inline int64_t lane_step(int64_t at_run_time) {
  return step == 0 ? at_run_time : step;
}

// ---- reducers
// ------------------------------------------------------------------------------------

template <class T, int step>
struct Max {
  using A = std::conditional_t<std::is_integral_v<T>, T, ComputeType<T>>;
  const T* x;
  T* y;
  int64_t run_step;
  A best[kLanes];

  void start(int64_t lanes) {
    constexpr A lowest = std::is_integral_v<T> ? std::numeric_limits<A>::lowest()
                                               : -std::numeric_limits<A>::infinity();
    std::fill_n(best, lanes, lowest);
  }
  void tap(int64_t at, int64_t first, int64_t last) {
    const T* __restrict from = x + at;
    A* __restrict to = best;
    const int64_t s = lane_step<step>(run_step);
    for (int64_t j = first; j < last; ++j) {
      const A v = A(from[j * s]), b = to[j];
      to[j] = (v > b) | (v != v) ? v : b;
    }
  }
  void row_done() {}
  template <class Counts>
  void finish(int64_t out, int64_t lanes, Counts&&) {
    T* __restrict to = y + out;
    for (int64_t j = 0; j < lanes; ++j) to[j] = T(best[j]);
  }
};

template <class T, int step>
struct Average {
  using A = ComputeType<T>;
  const T* x;
  T* y;
  int64_t run_step;
  int64_t lanes = 0;
  A row[kLanes], total[kLanes];

  void start(int64_t n) {
    lanes = n;
    std::fill_n(row, n, A(0));
    std::fill_n(total, n, A(0));
  }
  void tap(int64_t at, int64_t first, int64_t last) {
    const T* __restrict from = x + at;
    A* __restrict to = row;
    const int64_t s = lane_step<step>(run_step);
    for (int64_t j = first; j < last; ++j) to[j] += A(from[j * s]);
  }
  // Sums of rows, then the sum of these: long windows stay accurate.
  void row_done() {
    for (int64_t j = 0; j < lanes; ++j) total[j] += row[j], row[j] = 0;
  }
  template <class Counts>
  void finish(int64_t out, int64_t n, Counts&& counts_of) {
    T* __restrict to = y + out;
    const int64_t* counts = counts_of();
    for (int64_t j = 0; j < n; ++j) to[j] = T(total[j] / A(counts[j]));
  }
};

// Gives each lane's dy to the first tap that equals its maximum, once.
template <class T, int step>
struct MaxBackward {
  using A = ComputeType<T>;
  const T *dy, *x, *y;
  A* dx;
  int64_t run_step, to_dx;  // dx lies to_dx elements before where x would
  A left[kLanes], best[kLanes];

  void start_at(int64_t out, int64_t lanes) {
    for (int64_t j = 0; j < lanes; ++j) left[j] = A(dy[out + j]), best[j] = A(y[out + j]);
  }
  void tap(int64_t at, int64_t first, int64_t last) {
    const T* __restrict from = x + at;
    A* __restrict to = dx + (at - to_dx), * __restrict rest = left;
    const A* __restrict maxima = best;
    const int64_t s = lane_step<step>(run_step);
    for (int64_t j = first; j < last; ++j) {
      const A v = A(from[j * s]), b = maxima[j], g = rest[j];
      const bool hit = (v == b) | ((v != v) & (b != b));
      to[j * s] += hit ? g : A(0);
      rest[j] = hit ? A(0) : g;
    }
  }
};

template <class T, int step>
struct AverageBackward {
  using A = ComputeType<T>;
  const T* dy;
  A* dx;
  int64_t run_step, to_dx;
  A share[kLanes];

  void start_at(int64_t out, int64_t lanes, const int64_t* counts) {
    for (int64_t j = 0; j < lanes; ++j) share[j] = A(dy[out + j]) / A(counts[j]);
  }
  void tap(int64_t at, int64_t first, int64_t last) {
    A* __restrict to = dx + (at - to_dx);
    const A* __restrict from = share;
    const int64_t s = lane_step<step>(run_step);
    for (int64_t j = first; j < last; ++j) to[j * s] += from[j];
  }
};

// What MaxBackward sends to one tap, fetched from there.
template <class T, int step>
struct MaxPick {
  using A = ComputeType<T>;
  const T *g, *x, *y;
  T* out;
  int64_t run_step;
  A best[kLanes], found[kLanes], open[kLanes];

  void start_at(int64_t at, int64_t lanes) {
    for (int64_t j = 0; j < lanes; ++j) best[j] = A(y[at + j]), found[j] = 0, open[j] = 1;
  }
  void tap(int64_t at, int64_t first, int64_t last) {
    const T* __restrict from = x + at, * __restrict value = g + at;
    const int64_t s = lane_step<step>(run_step);
    for (int64_t j = first; j < last; ++j) {
      const A v = A(from[j * s]), b = best[j];
      const bool hit = (open[j] != 0) & ((v == b) | ((v != v) & (b != b)));
      found[j] = hit ? A(value[j * s]) : found[j];
      open[j] = hit ? A(0) : open[j];
    }
  }
  void finish(int64_t at, int64_t lanes) {
    for (int64_t j = 0; j < lanes; ++j) out[at + j] = T(found[j]);
  }
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

// Outputs o in [from, to) whose window has position k of it inside the input.
inline Range lanes_inside(int64_t k, int64_t stride, int64_t pad, int64_t size, int64_t from,
                          int64_t to) {
  const int64_t low = pad > k ? (pad - k + stride - 1) / stride : 0;
  const int64_t high = size - 1 + pad - k < 0 ? 0 : (size - 1 + pad - k) / stride + 1;
  return {std::max(low, from), std::min(high, to)};
}

// The group of windows of output (oh, ow), lanes are `lanes` channels from c on.
template <class Reducer>
inline void taps_last(const PoolLayout& p, int64_t image, Range rows, Range cols, int64_t c,
                      int64_t lanes, Reducer& r) {
  for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
    for (int64_t iw = cols.begin; iw < cols.end; ++iw) {
      r.tap(((image * p.h + ih) * p.w + iw) * p.c + c, 0, lanes);
    }
    if constexpr (requires { r.row_done(); }) r.row_done();
  }
}

// The group of windows of output row oh, lanes are the columns [from, to).
template <class Reducer>
inline void taps_first(const PoolLayout& p, int64_t plane, Range rows, int64_t from, int64_t to,
                       Reducer& r) {
  for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
    for (int64_t k = 0; k < p.window_w; ++k) {
      const Range lanes = lanes_inside(k, p.stride_w, p.pad_w, p.w, from, to);
      if (lanes.size() <= 0) continue;
      // Lane j is column from + j.
      const int64_t at = (plane * p.h + ih) * p.w + from * p.stride_w - p.pad_w + k;
      r.tap(at, lanes.begin - from, lanes.end - from);
    }
    if constexpr (requires { r.row_done(); }) r.row_done();
  }
}

// Elements that each lane's average is over.
inline void count_last(const PoolLayout& p, Range rows, Range cols, int64_t lanes,
                       int64_t* counts) {
  const int64_t count = p.count_padding ? p.window_h * p.window_w : rows.size() * cols.size();
  std::fill_n(counts, lanes, count);
}
inline void count_first(const PoolLayout& p, Range rows, int64_t from, int64_t to,
                        int64_t* counts) {
  for (int64_t o = from; o < to; ++o) {
    counts[o - from] = p.count_padding
                           ? p.window_h * p.window_w
                           : rows.size() * covered(o, p.stride_w, p.pad_w, p.window_w, p.w).size();
  }
}

// Calls work(reducer, out, lanes, counts, taps) for every group of windows in output row oh of an
// image (channels-last; channels [c_begin, c_end)) or of a plane; taps() walks the taps.
template <class Reducer, class Work>
void groups_last(const PoolLayout& p, int64_t image, int64_t oh, int64_t c_begin, int64_t c_end,
                 Reducer& r, Work&& work) {
  int64_t counts[kLanes];
  const Range rows = covered(oh, p.stride_h, p.pad_h, p.window_h, p.h);
  for (int64_t ow = 0; ow < p.out_w; ++ow) {
    const Range cols = covered(ow, p.stride_w, p.pad_w, p.window_w, p.w);
    for (int64_t c = c_begin; c < c_end; c += kLanes) {
      const int64_t lanes = std::min(kLanes, c_end - c);
      const int64_t out = ((image * p.out_h + oh) * p.out_w + ow) * p.c + c;
      work(
          out, lanes, [&] { return count_last(p, rows, cols, lanes, counts), counts; },
          [&] { taps_last(p, image, rows, cols, c, lanes, r); });
    }
  }
}
template <class Reducer, class Work>
void groups_first(const PoolLayout& p, int64_t plane, int64_t oh, Reducer& r, Work&& work) {
  int64_t counts[kLanes];
  const Range rows = covered(oh, p.stride_h, p.pad_h, p.window_h, p.h);
  for (int64_t from = 0; from < p.out_w; from += kLanes) {
    const int64_t to = std::min(p.out_w, from + kLanes);
    work((plane * p.out_h + oh) * p.out_w + from, to - from,
         [&] { return count_first(p, rows, from, to, counts), counts; },
         [&] { taps_first(p, plane, rows, from, to, r); });
  }
}

// ---- drivers ------------------------------------------------------------------------------------

int64_t grain_of(int64_t work) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)); }

// Calls f(image or plane, oh) for all output rows.
template <class F>
void each_out_row(const PoolLayout& p, F&& f) {
  const int64_t wide = p.channels_last ? p.c : 1, many = p.channels_last ? p.n : p.n * p.c;
  const int64_t work = p.out_w * wide * p.window_h * p.window_w;
  parallel_for(many * p.out_h, grain_of(work), [&](int64_t begin, int64_t end) { f(begin, end); });
}

template <class Reducer, class Work>
void run_rows(const PoolLayout& p, int64_t begin, int64_t end, Reducer& r, Work&& work) {
  for (int64_t k = begin; k < end; ++k) {
    if (p.channels_last) {
      groups_last(p, k / p.out_h, k % p.out_h, 0, p.c, r, work);
    } else {
      groups_first(p, k / p.out_h, k % p.out_h, r, work);
    }
  }
}

template <class Reducer>
void pool(const PoolLayout& p, const Reducer& start) {
  each_out_row(p, [&](int64_t begin, int64_t end) {
    Reducer r = start;
    run_rows(p, begin, end, r, [&](int64_t out, int64_t lanes, auto&& counts, auto&& taps) {
      if constexpr (requires { r.start_at(out, lanes); }) {
        r.start_at(out, lanes);
        taps();
        r.finish(out, lanes);
      } else {
        r.start(lanes);
        taps();
        r.finish(out, lanes, counts);
      }
    });
  });
}

// dx of one unit (an image's block of channels, or a plane) at a time. Rows of it are cleared just
// before the first window reaches them, while they are about to be in cache anyway. The 16-bit
// types add up in float32, in a scratch plane of the unit's own.
template <class T, class Reducer>
void pool_backward(const PoolLayout& p, const Reducer& start, T* dx) {
  using A = ComputeType<T>;
  constexpr bool direct = std::is_same_v<T, A>;
  const int64_t block = p.channels_last ? std::min(p.c, kBackwardLanes) : 1;
  const int64_t blocks = p.channels_last ? (p.c + block - 1) / block : p.c;
  const int64_t plane = p.h * p.w * block;
  // Row `ih` of the unit starts at row_at(ih); positions in it are `pitch` apart, `lanes` wide.
  const int64_t pitch = p.channels_last ? p.c : 1;
  const int threads = num_threads();
  Scratch scratch(
      direct ? 0 : sizeof(A) * static_cast<std::size_t>(plane * pitch / block * threads + 64));
  parallel_for(p.n * blocks, grain_of(plane), [&](int64_t begin, int64_t end) {
    Reducer r = start;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / blocks, b = unit % blocks;
      const int64_t c = p.channels_last ? b * block : 0;
      const int64_t lanes = p.channels_last ? std::min(block, p.c - c) : 1;
      const int64_t base = p.channels_last ? image * p.h * p.w * p.c : unit * p.h * p.w;
      A* accumulate;
      if constexpr (direct) {
        accumulate = dx + base;
      } else {
        accumulate = scratch.as<A>() + omp_get_thread_num() * (p.h * p.w * pitch);
      }
      r.dx = accumulate, r.to_dx = base;
      int64_t cleared = 0;
      auto clear_to = [&](int64_t row) {
        for (int64_t k = cleared * p.w; k < row * p.w; ++k) {
          std::fill_n(accumulate + k * pitch + c, lanes, A(0));
        }
        cleared = std::max(cleared, row);
      };
      auto work = [&](int64_t out, int64_t n, auto&& counts, auto&& taps) {
        if constexpr (requires { r.start_at(out, n, counts()); }) {
          r.start_at(out, n, counts());
        } else {
          r.start_at(out, n);
        }
        taps();
      };
      for (int64_t oh = 0; oh < p.out_h; ++oh) {
        clear_to(covered(oh, p.stride_h, p.pad_h, p.window_h, p.h).end);
        if (p.channels_last) {
          groups_last(p, image, oh, c, c + lanes, r, work);
        } else {
          groups_first(p, unit, oh, r, work);
        }
      }
      clear_to(p.h);
      if constexpr (!direct) {
        for (int64_t k = 0; k < p.h * p.w; ++k) {
          for (int64_t j = 0; j < lanes; ++j) {
            dx[base + k * pitch + c + j] = T(accumulate[k * pitch + c + j]);
          }
        }
      }
    }
  });
}

// Calls f with the step between lanes as an integral_constant.
template <class T, class F>
void with_step(const PoolLayout& p, F&& f) {
  if (p.channels_last || p.stride_w == 1) {
    f(std::integral_constant<int, 1>{});
  } else if (std::is_same_v<T, float> && p.stride_w == 2) {
    f(std::integral_constant<int, std::is_same_v<T, float> ? 2 : 0>{});
  } else {
    f(std::integral_constant<int, 0>{});
  }
}

}  // namespace

void max_pool(DType dtype, const void* x, void* y, const PoolLayout& at) {
  auto run = [&]<class T>(Tag<T>) {
    with_step<T>(at, [&](auto step) {
      Max<T, step> r;
      r.x = static_cast<const T*>(x), r.y = static_cast<T*>(y), r.run_step = at.stride_w;
      pool(at, r);
    });
  };
  if (dtype == DType::int8) return run(Tag<std::int8_t>{});
  if (dtype == DType::uint8) return run(Tag<std::uint8_t>{});
  visit_float("Pooling", dtype, run);
}

void average_pool(DType dtype, const void* x, void* y, const PoolLayout& at) {
  visit_float("Pooling", dtype, [&]<class T>(Tag<T>) {
    with_step<T>(at, [&](auto step) {
      Average<T, step> r;
      r.x = static_cast<const T*>(x), r.y = static_cast<T*>(y), r.run_step = at.stride_w;
      pool(at, r);
    });
  });
}

void max_pool_backward(DType dtype, const void* dy, const void* x, const void* y, void* dx,
                       const PoolLayout& at) {
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    with_step<T>(at, [&](auto step) {
      MaxBackward<T, step> r;
      r.dy = static_cast<const T*>(dy), r.x = static_cast<const T*>(x);
      r.y = static_cast<const T*>(y), r.run_step = at.stride_w;
      pool_backward(at, r, static_cast<T*>(dx));
    });
  });
}

void average_pool_backward(DType dtype, const void* dy, void* dx, const PoolLayout& at) {
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    with_step<T>(at, [&](auto step) {
      AverageBackward<T, step> r;
      r.dy = static_cast<const T*>(dy), r.run_step = at.stride_w;
      pool_backward(at, r, static_cast<T*>(dx));
    });
  });
}

void max_pool_pick(DType dtype, const void* g, const void* x, const void* y, void* out,
                   const PoolLayout& at) {
  visit_float("MaxPoolPick", dtype, [&]<class T>(Tag<T>) {
    with_step<T>(at, [&](auto step) {
      MaxPick<T, step> r;
      r.g = static_cast<const T*>(g), r.x = static_cast<const T*>(x);
      r.y = static_cast<const T*>(y), r.out = static_cast<T*>(out), r.run_step = at.stride_w;
      pool(at, r);
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
