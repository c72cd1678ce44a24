// Pooling along rows, for images whose channels do not fill a vector. Forward, in two steps: the
// windows of each input row are reduced once ("across"), and an output row then reduces what came
// out of the input rows that it covers ("down"). Of equal maxima the first in each step is the
// first in row-major order, so that neither step looks for ties.
//
// The lanes of a vector are neighbouring outputs. For the tap kw of neighbouring outputs to lie
// side by side, a row is split into phases when it is read: phase k has the positions k, k + step,
// k + 2 step, ... of the padded row, where the step is the stride. Tap kw of output ow is then
// element ow + kw / step of phase kw % step. Rows of several small images lie behind one another.
// The passes backward are in pooling_rows_backward.simd.cpp.

#include <limits>
#include <type_traits>
#include <utility>

#include "core/kernels/cpu/convert_lanes.h"
#include "core/ops/pooling/pooling_rows.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// Splits n columns of one channel into Step phases, 3 or 4: loops that the compiler makes shuffles
// of.
template <int Step, class A>
void split_by(const Rows& r, const A* __restrict from, int64_t n, int64_t position, A* to) {
  A* lines[Step];
  for (int s = 0; s < Step; ++s) {
    lines[s] = to + (position + s) % Step * r.phase_pitch + (position + s) / Step;
  }
  A* __restrict a = lines[0];
  A* __restrict b = lines[1];
  A* __restrict c = lines[2];
  A* __restrict d = lines[Step - 1];
  for (int64_t i = 0; i < n / Step; ++i, from += Step) {
    a[i] = from[0], b[i] = from[1], c[i] = from[2];
    if constexpr (Step > 3) d[i] = from[3];
  }
  for (int64_t i = n / Step * Step; i < n; ++i) lines[i % Step][i / Step] = *from++;
}

// Splits `n` columns, the first at `position` of the padded row, into phases.
template <class A>
void split(const Rows& r, const A* __restrict from, int64_t n, int64_t position, A* __restrict to) {
  if (r.channels == 1 && r.step == 2 && r.phases == 2) {  // as split_by, but a fifth faster
    A* __restrict a = to + position % 2 * r.phase_pitch + position / 2;
    A* __restrict b = to + (position + 1) % 2 * r.phase_pitch + (position + 1) / 2;
    for (int64_t i = 0; i < n / 2; ++i) a[i] = from[2 * i], b[i] = from[2 * i + 1];
    if (n % 2) a[n / 2] = from[n - 1];
    return;
  }
  if (r.channels == 1 && r.phases == r.step && n > r.step) {
    if (r.step == 3) return split_by<3>(r, from, n, position, to);
    if (r.step == 4) return split_by<4>(r, from, n, position, to);
  }
  if (r.channels == 1 && n <= r.step - position) {  // at most one column for each phase
    for (int64_t i = 0; i < n; ++i) to[(position + i) * r.phase_pitch] = from[i];
    return;
  }
  int64_t phase = position % r.step, place = position / r.step;
  for (int64_t s = 0; s < std::min(r.step, n); ++s) {
    if (phase < r.phases) {
      A* line = to + phase * r.phase_pitch + place * r.channels;
      const int64_t columns = (n - s + r.step - 1) / r.step;
      with_channels(r.channels, [&](auto channels) {
        for (int64_t i = 0; i < columns; ++i) {
          const A* at = from + (s + i * r.step) * channels;
          for (int64_t c = 0; c < channels; ++c) line[i * channels + c] = at[c];
        }
      });
    }
    if (++phase == r.step) phase = 0, ++place;
  }
}

// The same for elements of another type, by way of `buffer`.
template <class T, class A>
void read_row(const Rows& r, const T* from, int64_t n, int64_t position, A* buffer, A* to) {
  if (r.step == 1) {
    convert_run(from, to + position * r.channels, n * r.channels);
  } else if constexpr (std::is_same_v<T, A>) {
    split(r, from, n, position, to);
  } else {
    convert_run(from, buffer, n * r.channels);
    split(r, buffer, n, position, to);
  }
}

// ---- forward ------------------------------------------------------------------------------------

// What both reducers have: begin(...) notes what differs between the lanes of a part; across(...)
// reduces the windows of one row; down(...) reduces `rows` of these, row i being `ring + slot of
// i`; write(...) stores the results of an image.

template <class T>
struct MaxRows {
  using A = Wide<T>;
  using Tap = TapOf<A>;
  static constexpr A padding = -std::numeric_limits<A>::infinity();
  static constexpr int64_t values = 2;  // maxima, and the taps that they come from
  T* y;
  void* index;
  DType index_dtype;

  static Tap* taps_of(const Rows& r, A* row) { return reinterpret_cast<Tap*>(row + r.lanes); }
  static const Tap* taps_of(const Rows& r, const A* row) {
    return reinterpret_cast<const Tap*>(row + r.lanes);
  }

  // The first tap inside the image: it has the maximum where all are minus infinity.
  static void begin(const PoolLayout& p, const Rows& r, int64_t from, A* notes) {
    Tap* first = reinterpret_cast<Tap*>(notes);
    std::fill_n(first, r.lanes, Tap(0));
    each_cut_window(p, from, from + r.places, [&](int64_t ow) {
      const int64_t tap = std::max<int64_t>(0, p.pad_w - ow * p.stride_w);
      r.fill_place(first, ow - from, static_cast<Tap>(tap));
    });
  }

  static void across(const PoolLayout& p, const Rows& r, const A* phases, const int64_t* offsets,
                     const A* notes, A* to) {
    const Tap* first = reinterpret_cast<const Tap*>(notes);
    Tap* taps = taps_of(r, to);
    const int64_t lanes = r.lanes, window = p.window_w;  // that no store may alias
    for (int64_t j = 0; j < lanes; j += kLanes<A>) {
      Vec<A> best = load(phases + j);
      Vec<Tap> found = load(first + j);
      for (int64_t kw = 1; kw < window; ++kw) {
        take(load(phases + offsets[kw] + j), Vec<Tap>{} + static_cast<Tap>(kw), best, found);
      }
      store(to + j, best);
      store(taps + j, found);
    }
  }

  static void down(const PoolLayout& p, const Rows& r, Range rows, int64_t oh, const A* ring,
                   int64_t slots, const A*, A* to) {
    const int64_t lanes = r.lanes, window = p.window_w;
    const int64_t first_slot = rows.begin % slots;
    const int64_t first = (rows.begin - oh * p.stride_h + p.pad_h) * window;
    const auto taps_in = [lanes](const A* row) {
      return load(reinterpret_cast<const Tap*>(row + lanes));
    };
    for (int64_t j = 0; j < lanes; j += kLanes<A>) {
      int64_t slot = first_slot;
      const A* row = ring + slot * values * lanes + j;
      Vec<Tap> tap = Vec<Tap>{} + static_cast<Tap>(first);
      Vec<A> best = load(row);
      Vec<Tap> found = taps_in(row) + tap;
      for (int64_t i = 1; i < rows.size(); ++i) {
        if (++slot == slots) slot = 0;
        row = ring + slot * values * lanes + j;
        tap += static_cast<Tap>(window);
        take(load(row), taps_in(row) + tap, best, found);
      }
      store(to + j, best);
      store(taps_of(r, to) + j, found);
    }
  }

  void write(const Rows& r, const A* from, int64_t lane, int64_t out, int64_t n) const {
    convert_run(from + lane, y + out, n);
    if (!index) return;
    const Tap* __restrict taps = taps_of(r, from) + lane;
    if (index_dtype == DType::uint8) {
      std::uint8_t* __restrict to = static_cast<std::uint8_t*>(index) + out;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<std::uint8_t>(taps[i]);
    } else {
      std::int32_t* __restrict to = static_cast<std::int32_t*>(index) + out;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<std::int32_t>(taps[i]);
    }
  }

  // The result `out`, of n neighbouring elements, the first of which is tap `first`.
  void run(const T* x, int64_t n, int64_t first, int64_t count, int64_t out) const;

 private:
  [[gnu::always_inline]] static void take(Vec<A> v, Vec<Tap> tap, Vec<A>& best, Vec<Tap>& found) {
    const Vec<Tap> more = ~(v <= best) & (best == best);  // greater, or the first NaN
    best = more ? v : best;
    found = more ? tap : found;
  }
};

template <class T>
struct AverageRows {
  using A = Wide<T>;
  static constexpr A padding = 0;
  static constexpr int64_t values = 1;
  T* y;

  // How many columns each window covers.
  static void begin(const PoolLayout& p, const Rows& r, int64_t from, A* notes) {
    std::fill_n(notes, r.lanes, A(p.window_w));
    if (p.count_padding) return;
    each_cut_window(p, from, from + r.places,
                    [&](int64_t ow) { r.fill_place(notes, ow - from, A(cols_of(p, ow).size())); });
  }

  static void across(const PoolLayout& p, const Rows& r, const A* phases, const int64_t* offsets,
                     const A*, A* to) {
    const int64_t lanes = r.lanes, window = p.window_w;
    for (int64_t j = 0; j < lanes; j += kLanes<A>) {
      Vec<A> sum = {};
      for (int64_t kw = 0; kw < window; ++kw) sum += load(phases + offsets[kw] + j);
      store(to + j, sum);
    }
  }

  static void down(const PoolLayout& p, const Rows& r, Range rows, int64_t, const A* ring,
                   int64_t slots, const A* columns, A* to) {
    const A height = A(p.count_padding ? p.window_h : rows.size());
    const int64_t lanes = r.lanes, first_slot = rows.begin % slots;
    for (int64_t j = 0; j < lanes; j += kLanes<A>) {
      int64_t slot = first_slot;
      Vec<A> sum = {};
      for (int64_t i = 0; i < rows.size(); ++i) {
        sum += load(ring + slot * lanes + j);
        if (++slot == slots) slot = 0;
      }
      store(to + j, sum / (load(columns + j) * height));
    }
  }

  void write(const Rows&, const A* from, int64_t lane, int64_t out, int64_t n) const {
    convert_run(from + lane, y + out, n);
  }

  void run(const T* x, int64_t n, int64_t first, int64_t count, int64_t out) const;
};

template <class T, class Reducer>
void pool_rows(const PoolLayout& p, const T* x, const Reducer& reducer) {
  using A = typename Reducer::A;
  const int64_t step = p.out_w == 1 ? p.window_w : p.stride_w;
  const Rows r(p, step, p.out_w, p.out_h, kLanes<A>);
  const int64_t slots = std::min(p.window_h, p.h);
  const int64_t row_lanes = Reducer::values * r.lanes;
  // Of each thread, in this order: phases, notes, a row on its way, the ring of rows, results.
  const int64_t notes_at = r.phases * r.phase_pitch, buffer_at = notes_at + r.lanes;
  const int64_t most_columns = std::min(p.w, (r.places - 1) * p.stride_w + p.window_w);
  const int64_t ring_at = buffer_at + most_columns * r.channels;
  const int64_t result_at = ring_at + slots * row_lanes;
  const int64_t size = round_up(result_at + row_lanes, kLanes<A>);
  const int threads = num_threads();  // allocated here: nothing may throw inside parallel_for
  Scratch scratch(static_cast<std::size_t>(size * threads) * sizeof(A));
  Scratch table(static_cast<std::size_t>(p.window_w) * sizeof(int64_t));
  int64_t* const offsets = table.as<int64_t>();
  for (int64_t kw = 0; kw < p.window_w; ++kw) {
    offsets[kw] = kw % r.step * r.phase_pitch + kw / r.step * r.channels;
  }
  const int64_t work = r.lanes * (p.window_h + p.window_w);
  parallel_for(r.parts * p.out_h, grain_of(work), [&](int64_t begin, int64_t end) {
    A* const phases = scratch.as<A>() + omp_get_thread_num() % threads * size;
    A *const notes = phases + notes_at, *const buffer = phases + buffer_at;
    A *const ring = phases + ring_at, *const result = phases + result_at;
    Part part;
    Range columns{};
    int64_t ready = 0;  // rows of the part before this one are in the ring
    for (int64_t k = begin; k < end; ++k) {
      const int64_t oh = k % p.out_h;
      if (oh == 0 || k == begin) {
        part = Part(r, k / p.out_h, p.out_w);
        columns = {cols_of(p, part.from).begin, cols_of(p, part.from + part.size - 1).end};
        ready = 0;
        // Where all parts have the same padding, no row overwrites it.
        if (k == begin || (r.parts_of_row > 1 && p.pad_w > 0)) {
          std::fill_n(phases, notes_at, Reducer::padding);
          Reducer::begin(p, r, part.from, notes);
        }
      }
      const Range rows = rows_of(p, oh);
      for (int64_t ih = std::max(ready, rows.begin); ih < rows.end; ++ih) {
        for (int64_t i = 0; i < part.count; ++i) {
          const int64_t from = ((part.first + i) * p.h + ih) * p.w + columns.begin;
          read_row(r, x + from * r.channels, columns.size(),
                   columns.begin + p.pad_w - part.from * p.stride_w, buffer, phases + i * r.pitch);
        }
        Reducer::across(p, r, phases, offsets, notes, ring + ih % slots * row_lanes);
      }
      ready = std::max(ready, rows.end);
      Reducer::down(p, r, rows, oh, ring, slots, notes, result);
      for (int64_t i = 0; i < part.count; ++i) {
        const int64_t out = ((part.first + i) * p.out_h + oh) * p.out_w + part.from;
        reducer.write(r, result, i * r.pitch, out * r.channels, part.size * r.channels);
      }
    }
  });
}

// ---- windows of whole rows ----------------------------------------------------------------------
// Such a window is a run of neighbouring elements, and the lanes are the elements.

bool takes_whole_rows(const PoolLayout& p) {
  return !(p.channels_last && p.c > 1) && p.window_w == p.w && p.pad_w == 0 &&
         (p.out_h == 1 || p.window_h <= 4 * p.stride_h);
}

template <class A>
Vec<TapOf<A>> own_numbers() {
  Vec<TapOf<A>> own;
  for (int64_t j = 0; j < kLanes<A>; ++j) own[j] = static_cast<TapOf<A>>(j);
  return own;
}

// Calls f(v, number of v's first element) with vectors that hold each of n elements once, in
// ascending order in each lane, and `padding`.
template <class T, class F>
[[gnu::always_inline]] inline void each_vector(const T* x, int64_t n, Wide<T> padding, F&& f) {
  using A = Wide<T>;
  constexpr int64_t lanes = kLanes<A>;
  if constexpr (std::is_same_v<T, A>) {
    if (n >= lanes) {
      for (int64_t i = 0; i + lanes <= n; i += lanes) f(load(x + i), i);
      const int64_t seen = (lanes - n % lanes) % lanes;
      if (seen == 0) return;
      const auto fresh = own_numbers<A>() >= static_cast<TapOf<A>>(seen);
      return f(fresh ? load(x + n - lanes) : Vec<A>{} + padding, n - lanes);
    }
  }
  constexpr int64_t kBlock = 512;
  A block[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t here = std::min(kBlock, n - i), padded = round_up(here, lanes);
    store(block + padded - lanes, Vec<A>{} + padding);
    convert_run(x + i, block, here);
    for (int64_t j = 0; j < padded; j += lanes) f(load(block + j), i + j);
  }
}

// Pairs of lanes that are Step apart, exchanged.
template <std::size_t Step, class V, std::size_t... I>
[[gnu::always_inline]] inline V exchanged(V v, std::index_sequence<I...>) {
  return __builtin_shufflevector(v, v, static_cast<int>(I ^ Step)...);
}

// Calls f(g), where g exchanges lanes, for halves, quarters, ... of a vector of `Lanes`: combining
// a vector with g of it each time combines all lanes.
template <std::size_t Lanes, std::size_t Step = Lanes / 2, class F>
[[gnu::always_inline]] inline void each_exchange(F&& f) {
  f([](auto v) { return exchanged<Step>(v, std::make_index_sequence<Lanes>{}); });
  if constexpr (Step > 1) each_exchange<Lanes, Step / 2>(f);
}

template <class T>
void MaxRows<T>::run(const T* x, int64_t n, int64_t first, int64_t, int64_t out) const {
  Vec<A> best = Vec<A>{} + padding;
  Vec<Tap> found = {};
  const Vec<Tap> own = own_numbers<A>();
  each_vector(x, n, padding,
              [&](Vec<A> v, int64_t from) { take(v, own + static_cast<Tap>(from), best, found); });
  // Lanes do not follow one another: of those that have the maximum, the least tap is the first.
  Vec<A> most = best;
  each_exchange<kLanes<A>>([&](auto exchange) {
    const Vec<A> v = exchange(most);
    most = ~(v <= most) & (most == most) ? v : most;
  });
  found = (best == most) | (best != best) ? found : Vec<Tap>{} + std::numeric_limits<Tap>::max();
  each_exchange<kLanes<A>>([&](auto exchange) {
    const Vec<Tap> tap = exchange(found);
    found = tap < found ? tap : found;
  });
  const A top = most[0];
  convert_run(&top, y + out, 1);
  if (!index) return;
  const int64_t tap = first + found[0];
  if (index_dtype == DType::uint8) {
    static_cast<std::uint8_t*>(index)[out] = static_cast<std::uint8_t>(tap);
  } else {
    static_cast<std::int32_t*>(index)[out] = static_cast<std::int32_t>(tap);
  }
}

template <class T>
void AverageRows<T>::run(const T* x, int64_t n, int64_t, int64_t count, int64_t out) const {
  Vec<A> sum = {};
  each_vector(x, n, padding, [&](Vec<A> v, int64_t) { sum += v; });
  each_exchange<kLanes<A>>([&](auto exchange) { sum += exchange(sum); });
  const A mean = sum[0] / A(count);
  convert_run(&mean, y + out, 1);
}

template <class T, class Reducer>
void pool_runs(const PoolLayout& p, const T* x, const Reducer& reducer) {
  parallel_for(p.n * p.c * p.out_h, grain_of(p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t oh = k % p.out_h;
      const Range rows = rows_of(p, oh);
      reducer.run(x + (k / p.out_h * p.h + rows.begin) * p.w, rows.size() * p.w,
                  (rows.begin - oh * p.stride_h + p.pad_h) * p.w,
                  p.count_padding ? p.taps() : rows.size() * p.w, k);
    }
  });
}

// -------------------------------------------------------------------------------------------------

template <class T, class Reducer>
void pool(const PoolLayout& p, const T* x, const Reducer& reducer) {
  takes_whole_rows(p) ? pool_runs(p, x, reducer) : pool_rows(p, x, reducer);
}

}  // namespace

void max_pool_rows(DType dtype, const void* x, void* y, void* index, const PoolLayout& at) {
  auto run = [&]<class T>(Tag<T>) {
    const MaxRows<T> r{static_cast<T*>(y), index, pool_index_dtype(at.taps())};
    pool(at, static_cast<const T*>(x), r);
  };
  if (dtype == DType::int8) return run(Tag<std::int8_t>{});
  if (dtype == DType::uint8) return run(Tag<std::uint8_t>{});
  visit_float("Pooling", dtype, run);
}

void average_pool_rows(DType dtype, const void* x, void* y, const PoolLayout& at) {
  visit_float("Pooling", dtype, [&]<class T>(Tag<T>) {
    pool(at, static_cast<const T*>(x), AverageRows<T>{static_cast<T*>(y)});
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
