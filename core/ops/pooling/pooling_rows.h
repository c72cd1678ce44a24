// How rows of images lie in memory while they are pooled: see pooling_rows.simd.cpp. For *.simd.cpp
// files only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/vectors.h"
#include "core/ops/pooling/pooling_windows.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

// Numbers of taps, as wide as what they are chosen by.
template <class A>
using TapOf = std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>;
// What is computed in: float for small integers too, which it holds exactly.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// ---- rows ---------------------------------------------------------------------------------------

constexpr int64_t kRowLanes = 512;    // of a part of a wide row: what is kept of it stays in L1
constexpr int64_t kGroupLanes = 128;  // that rows of small images are put together for
constexpr int64_t kGroupElements = 4096;

// How rows are laid out, and in which parts the images are taken: some images, or some columns of
// one. A "place" is a position in a phase; output ow is at place ow.
struct Rows {
  int64_t channels;       // that lie side by side at each column
  int64_t images, step;   // the step is the stride, or the window where there is only one
  int64_t phases, reach;  // reach: places that a window goes on beyond its first one
  int64_t places;         // of a part, without the reach
  int64_t pitch;          // lanes from an image to the next
  int64_t group;          // images of a part
  int64_t lanes, phase_pitch;
  int64_t parts_of_row, parts;

  // `places` of each row, `rows` rows of each image to compute.
  Rows(const PoolLayout& p, int64_t step, int64_t all_places, int64_t rows, int64_t vector)
      : channels(p.channels_last ? p.c : 1), images(p.channels_last ? p.n : p.n * p.c), step(step) {
    phases = std::min(step, p.window_w);
    reach = (p.window_w - 1) / step;
    places = std::min(all_places, std::max<int64_t>(1, kRowLanes / channels));
    parts_of_row = (all_places + places - 1) / places;
    pitch = (places + reach) * channels;
    const int64_t fits = std::min(kGroupLanes / pitch, kGroupElements / (pitch * phases));
    const int64_t shared = images * rows / num_threads();
    group = parts_of_row > 1 ? 1 : std::clamp<int64_t>(std::min(fits, shared), 1, images);
    lanes = round_up((group - 1) * pitch + places * channels, vector);
    // An odd number of vectors: phases that lie a power of two apart share a few sets of the cache.
    phase_pitch = round_up(lanes + reach * channels, 2 * vector) + vector;
    parts = (images + group - 1) / group * parts_of_row;
  }

  // Sets the lanes of a place, counted from the first of the part, of all images.
  template <class V>
  void fill_place(V* row, int64_t place, V value) const {
    for (int64_t i = 0; i < group; ++i) {
      std::fill_n(row + i * pitch + place * channels, channels, value);
    }
  }
};

// Calls f(channels), with a constant for the small numbers that are common: loops over channels are
// unrolled then.
template <class F>
void with_channels(int64_t channels, F&& f) {
  switch (channels) {
    case 1:
      return f(std::integral_constant<int64_t, 1>{});
    case 3:
      return f(std::integral_constant<int64_t, 3>{});
    case 4:
      return f(std::integral_constant<int64_t, 4>{});
    case 8:
      return f(std::integral_constant<int64_t, 8>{});
    default:
      return f(channels);
  }
}

// Calls f(ow) for the outputs in [from, to) whose windows reach into the padding.
template <class F>
void each_cut_window(const PoolLayout& p, int64_t from, int64_t to, F&& f) {
  int64_t left = std::max<int64_t>(0, from), right = std::min(p.out_w, to);
  for (; left < right && left * p.stride_w < p.pad_w; ++left) f(left);
  for (; left < right && (right - 1) * p.stride_w - p.pad_w + p.window_w > p.w; --right) {
    f(right - 1);
  }
}

// Images [first, first + count), places [from, from + size).
struct Part {
  int64_t first = 0, count = 0, from = 0, size = 0;
  Part() = default;
  Part(const Rows& r, int64_t k, int64_t all_places)
      : first(k / r.parts_of_row * r.group),
        count(std::min(r.group, r.images - first)),
        from(k % r.parts_of_row * r.places),
        size(std::min(r.places, all_places - from)) {}
};

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
