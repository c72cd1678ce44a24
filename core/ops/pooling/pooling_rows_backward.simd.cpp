// Pooling along rows, backward: the way of pooling_rows.simd.cpp from its end. Each row of dx takes
// from the output rows whose windows cover it, phase by phase, and the phases are woven into one
// row. Nothing is scattered, and each element is written once.
//
// Place `at` of a phase k takes tap k + j step of output at - j, for all j that the window reaches.
// In the rows of dy, `reach` zeros before each image stand for the outputs before the first and
// after the last.

#include <limits>
#include <type_traits>

#include "core/kernels/cpu/convert_lanes.h"
#include "core/ops/pooling/pooling_rows.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// Output rows whose windows cover input row ih.
Range outputs_of(const PoolLayout& p, int64_t ih) {
  const int64_t at = ih + p.pad_h, before = at - p.window_h + 1;
  return {before <= 0 ? 0 : (before + p.stride_h - 1) / p.stride_h,
          std::min(p.out_h, at / p.stride_h + 1)};
}

// Weaves Step phases, 3 or 4, into n columns of one channel: loops that the compiler makes shuffles
// of.
template <int Step, class A>
void weave_by(const Rows& r, const A* from, int64_t n, int64_t position, A* __restrict to) {
  const A* lines[Step];
  for (int s = 0; s < Step; ++s) {
    lines[s] = from + (position + s) % Step * r.phase_pitch + (position + s) / Step;
  }
  const A* __restrict a = lines[0];
  const A* __restrict b = lines[1];
  const A* __restrict c = lines[2];
  const A* __restrict d = lines[Step - 1];
  for (int64_t i = 0; i < n / Step; ++i, to += Step) {
    to[0] = a[i], to[1] = b[i], to[2] = c[i];
    if constexpr (Step > 3) to[3] = d[i];
  }
  for (int64_t i = n / Step * Step; i < n; ++i) *to++ = lines[i % Step][i / Step];
}

// Weaves phases into `n` columns, the first at `position` of the padded row.
template <class A>
void weave(const Rows& r, const A* __restrict from, int64_t n, int64_t position, A* __restrict to) {
  if (r.channels == 1 && r.step == 2 && r.phases == 2) {  // as weave_by, but faster
    const A* __restrict a = from + position % 2 * r.phase_pitch + position / 2;
    const A* __restrict b = from + (position + 1) % 2 * r.phase_pitch + (position + 1) / 2;
    for (int64_t i = 0; i < n / 2; ++i) to[2 * i] = a[i], to[2 * i + 1] = b[i];
    if (n % 2) to[n - 1] = a[n / 2];
    return;
  }
  if (r.channels == 1 && r.phases == r.step && n > r.step) {
    if (r.step == 3) return weave_by<3>(r, from, n, position, to);
    if (r.step == 4) return weave_by<4>(r, from, n, position, to);
  }
  if (r.phases < r.step) std::fill_n(to, n * r.channels, A(0));  // columns between the windows
  int64_t phase = position % r.step, place = position / r.step;
  for (int64_t s = 0; s < std::min(r.step, n); ++s) {
    if (phase < r.phases) {
      const A* line = from + phase * r.phase_pitch + place * r.channels;
      const int64_t columns = (n - s + r.step - 1) / r.step;
      with_channels(r.channels, [&](auto channels) {
        for (int64_t i = 0; i < columns; ++i) {
          A* at = to + (s + i * r.step) * channels;
          for (int64_t c = 0; c < channels; ++c) at[c] = line[i * channels + c];
        }
      });
    }
    if (++phase == r.step) phase = 0, ++place;
  }
}

template <class T, class A>
void write_row(const Rows& r, const A* from, int64_t n, int64_t position, A* buffer, T* to) {
  if (r.step == 1) {
    convert_run(from + position * r.channels, to, n * r.channels);
  } else if constexpr (std::is_same_v<T, A>) {
    weave(r, from, n, position, to);
  } else {
    weave(r, from, n, position, buffer);
    convert_run(buffer, to, n * r.channels);
  }
}

// Adds up what each place of the phases takes from the taps of one row. Row kw of what they give is
// kw * pitch from the first.
template <class A>
void across(const Rows& r, const A* rows, int64_t pitch, int64_t window, A* phases) {
  // What is read through memcpy may alias fields: hence the copies.
  const int64_t lanes = r.lanes, step = r.step, back = step * pitch - r.channels;
  for (int64_t phase = 0; phase < r.phases; ++phase) {
    const A* first = rows + phase * pitch + r.reach * r.channels;
    A* to = phases + phase * r.phase_pitch;
    for (int64_t j = 0; j < lanes; j += kLanes<A>) {
      const A* from = first + j;
      Vec<A> sum = load(from);
      for (int64_t kw = phase + step; kw < window; kw += step) sum += load(from += back);
      store(to + j, sum);
    }
  }
}

// What both have: read(...) takes the outputs [from, from + n) of row oh into a row of the ring,
// from `lane` on; take(...) computes the phases of row ih from the rows `outputs` of the ring.

template <class T, class Index>
struct MaxBack {
  using A = ComputeType<T>;
  using Tap = TapOf<A>;
  static constexpr int64_t values = 2;  // dy, and the taps that it goes to
  const T* dy;
  const Index* index;

  void begin(const PoolLayout&, const Rows&, const Part&, int64_t, A*) const {}

  void read(const PoolLayout&, int64_t from, int64_t n, int64_t lane, int64_t row_lanes,
            A* row) const {
    convert_run(dy + from, row + lane, n);
    Tap* __restrict taps = reinterpret_cast<Tap*>(row + row_lanes) + lane;
    const Index* __restrict ids = index + from;
    for (int64_t i = 0; i < n; ++i) taps[i] = static_cast<Tap>(ids[i]);
  }
  void row_done(const PoolLayout&, int64_t, const A*, int64_t, A*) const {}

  static int64_t sums(const PoolLayout& p) { return p.window_w; }

  // First down: for each column of the windows, what its elements in this row get from each output.
  void take(const PoolLayout& p, const Rows& r, int64_t ih, Range outputs, const A* ring,
            int64_t slots, int64_t row_lanes, A* columns, A* phases) const {
    int64_t kw = 0;
    const auto down = [&]<int N>() {
      for (; kw + N <= p.window_w; kw += N) {
        down_columns<N>(p, ih, outputs, ring, slots, row_lanes, kw, columns + kw * row_lanes);
      }
    };
    down.template operator()<4>();
    down.template operator()<3>();
    down.template operator()<1>();
    across(r, columns, row_lanes, p.window_w, phases);
  }

 private:
  // Of N columns from kw on.
  template <int N>
  static void down_columns(const PoolLayout& p, int64_t ih, Range outputs, const A* ring,
                           int64_t slots, int64_t row_lanes, int64_t kw, A* to) {
    const int64_t first = outputs.begin % slots;
    const int64_t first_tap = (ih + p.pad_h - outputs.begin * p.stride_h) * p.window_w + kw;
    const Vec<Tap> next = Vec<Tap>{} + static_cast<Tap>(p.stride_h * p.window_w);
    for (int64_t j = 0; j < row_lanes; j += kLanes<A>) {
      Vec<A> sum[N] = {};
      Vec<Tap> tap = Vec<Tap>{} + static_cast<Tap>(first_tap);
      int64_t slot = first;
      for (int64_t i = 0; i < outputs.size(); ++i, tap -= next) {
        const A* g = ring + slot * values * row_lanes + j;
        const Vec<A> v = load(g);
        const Vec<Tap> id = load(reinterpret_cast<const Tap*>(g + row_lanes)) - tap;
#pragma GCC unroll 4
        for (int k = 0; k < N; ++k) {
          sum[k] += id == Vec<Tap>{} + static_cast<Tap>(k) ? v : Vec<A>{};
        }
        if (++slot == slots) slot = 0;
      }
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) store(to + k * row_lanes + j, sum[k]);
    }
  }
};

template <class T>
struct AverageBack {
  using A = ComputeType<T>;
  static constexpr int64_t values = 1;
  const T* dy;

  static int64_t sums(const PoolLayout&) { return 1; }

  // How many columns each window covers.
  void begin(const PoolLayout& p, const Rows& r, const Part& part, int64_t row_lanes,
             A* notes) const {
    std::fill_n(notes, row_lanes, A(p.window_w));
    if (p.count_padding) return;
    const int64_t first = part.from - r.reach;
    each_cut_window(p, first, part.from + r.places,
                    [&](int64_t ow) { r.fill_place(notes, ow - first, A(cols_of(p, ow).size())); });
  }

  void read(const PoolLayout&, int64_t from, int64_t n, int64_t lane, int64_t, A* row) const {
    convert_run(dy + from, row + lane, n);
  }
  void row_done(const PoolLayout& p, int64_t oh, const A* columns, int64_t row_lanes,
                A* row) const {
    const A height = A(p.count_padding ? p.window_h : rows_of(p, oh).size());
    for (int64_t j = 0; j < row_lanes; j += kLanes<A>) {
      store(row + j, load(row + j) / (load(columns + j) * height));
    }
  }

  void take(const PoolLayout& p, const Rows& r, int64_t, Range outputs, const A* ring,
            int64_t slots, int64_t row_lanes, A* buffer, A* phases) const {
    const int64_t first = outputs.begin % slots;
    for (int64_t j = 0; j < row_lanes; j += kLanes<A>) {
      Vec<A> sum = {};
      int64_t slot = first;
      for (int64_t i = 0; i < outputs.size(); ++i) {
        sum += load(ring + slot * row_lanes + j);
        if (++slot == slots) slot = 0;
      }
      store(buffer + j, sum);
    }
    across(r, buffer, 0, p.window_w, phases);
  }
};

template <class T, class Back>
void back_rows(const PoolLayout& p, T* dx, const Back& back) {
  using A = typename Back::A;
  const int64_t places = (p.pad_w + p.w - 1) / p.stride_w + 1;
  const Rows r(p, p.stride_w, places, p.h, kLanes<A>);
  const int64_t row_lanes = round_up(r.lanes + r.reach * r.channels, kLanes<A>);
  const int64_t slots = std::min(p.out_h, (p.window_h - 1) / p.stride_h + 1);
  // Of each thread, in this order: the ring of rows, notes, a row on its way, phases.
  const int64_t ring_row = Back::values * row_lanes, notes_at = slots * ring_row;
  const int64_t buffer_at = notes_at + row_lanes;
  const int64_t row_columns = std::min(p.w, r.places * p.stride_w) * r.channels;
  const int64_t phases_at = buffer_at + std::max(back.sums(p) * row_lanes, row_columns);
  const int64_t size = round_up(phases_at + r.phases * r.phase_pitch, kLanes<A>);
  const int threads = num_threads();  // allocated here: nothing may throw inside parallel_for
  Scratch scratch(static_cast<std::size_t>(size * threads) * sizeof(A));
  const int64_t work = r.lanes * (p.window_h + p.window_w);
  parallel_for(r.parts * p.h, grain_of(work), [&](int64_t begin, int64_t end) {
    A* const ring = scratch.as<A>() + omp_get_thread_num() % threads * size;
    A *const notes = ring + notes_at, *const buffer = ring + buffer_at;
    A* const phases = ring + phases_at;
    Part part;
    Range outputs{}, columns{};
    int64_t ready = 0;  // output rows of the part before this one are in the ring
    for (int64_t k = begin; k < end; ++k) {
      const int64_t ih = k % p.h;
      if (ih == 0 || k == begin) {
        part = Part(r, k / p.h, places);
        outputs = {std::max<int64_t>(0, part.from - r.reach),
                   std::min(p.out_w, part.from + part.size)};
        columns = {std::max<int64_t>(0, part.from * p.stride_w - p.pad_w),
                   std::min(p.w, (part.from + part.size) * p.stride_w - p.pad_w)};
        ready = 0;
        // Where all parts have the same columns, no row overwrites the zeros between.
        if (k == begin || r.parts_of_row > 1) {
          std::fill_n(ring, notes_at, A(0));
          back.begin(p, r, part, row_lanes, notes);
        }
      }
      const Range rows = outputs_of(p, ih);
      for (int64_t oh = std::max(ready, rows.begin); oh < rows.end; ++oh) {
        A* const row = ring + oh % slots * ring_row;
        for (int64_t i = 0; i < part.count && outputs.size() > 0; ++i) {
          const int64_t from = ((part.first + i) * p.out_h + oh) * p.out_w + outputs.begin;
          const int64_t lane = i * r.pitch + (outputs.begin - part.from + r.reach) * r.channels;
          back.read(p, from * r.channels, outputs.size() * r.channels, lane, row_lanes, row);
        }
        back.row_done(p, oh, notes, row_lanes, row);
      }
      ready = std::max(ready, rows.end);
      back.take(p, r, ih, rows, ring, slots, row_lanes, buffer, phases);
      for (int64_t i = 0; i < part.count && columns.size() > 0; ++i) {
        const int64_t to = ((part.first + i) * p.h + ih) * p.w + columns.begin;
        write_row(r, phases + i * r.pitch, columns.size(),
                  columns.begin + p.pad_w - part.from * p.stride_w, buffer, dx + to * r.channels);
      }
    }
  });
}

}  // namespace

void max_pool_backward_rows(DType dtype, const void* dy, const void* index, void* dx,
                            const PoolLayout& at) {
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    const T* g = static_cast<const T*>(dy);
    if (pool_index_dtype(at.taps()) == DType::uint8) {
      const auto* ids = static_cast<const std::uint8_t*>(index);
      back_rows(at, static_cast<T*>(dx), MaxBack<T, std::uint8_t>{g, ids});
    } else {
      const auto* ids = static_cast<const std::int32_t*>(index);
      back_rows(at, static_cast<T*>(dx), MaxBack<T, std::int32_t>{g, ids});
    }
  });
}

void average_pool_backward_rows(DType dtype, const void* dy, void* dx, const PoolLayout& at) {
  visit_float("PoolingBackward", dtype, [&]<class T>(Tag<T>) {
    back_rows(at, static_cast<T*>(dx), AverageBack<T>{static_cast<const T*>(dy)});
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
