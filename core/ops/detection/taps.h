// Where bins of a box are sampled along one axis, and which pixels that reads (*.simd.cpp only).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mge::cpu::MGE_SIMD_NS {
namespace {
namespace taps {

// A pixel and its weight.
template <class A>
struct Tap {
  std::int64_t at;
  A weight;
};

// The pixels around a point: at most two along an axis, none of them outside of the image.
template <class A>
struct Point {
  std::int32_t count;
  std::int64_t at[2];
  A weight[2];
};

// The point at `position` of an axis with `size` pixels; 0 <= floor(position) + 1 <= size.
template <class A>
[[gnu::always_inline]] inline Point<A> point_at(double position, std::int64_t size) {
  const double below = std::floor(position);
  const std::int64_t first = static_cast<std::int64_t>(below);
  const double share = position - below;
  Point<A> p{0, {0, 0}, {0, 0}};
  const auto put = [&](std::int64_t at, double weight) {
    if (at < 0 || at >= size || weight == 0) return;
    p.at[p.count] = at;
    p.weight[p.count++] = static_cast<A>(weight);
  };
  put(first, 1 - share);
  put(first + 1, share);
  return p;
}

// A box along one axis, cut into bins that are sampled at regular points.
struct Axis {
  double start, bin;     // of the box, of each bin; both finite
  double grid, spacing;  // points of a bin, and from one to the next
  std::int64_t size;     // pixels

  // samples: of each bin, 0 for one a pixel.
  Axis(double from, double to, std::int64_t bins, std::int64_t samples, std::int64_t size_)
      : start(from),
        bin(std::max(to - from, 0.0) / static_cast<double>(bins)),
        grid(samples > 0 ? static_cast<double>(samples) : std::ceil(bin)),
        spacing(grid > 0 ? bin / grid : 0),
        size(size_) {}

  bool finite() const { return std::isfinite(start) && std::isfinite(bin); }

  // Calls f(position) for each point of bin i that lies on the image, in order; the number of them.
  template <class F>
  [[gnu::always_inline]] std::int64_t each_point(std::int64_t i, F&& f) const {
    const double from = start + static_cast<double>(i) * bin;
    double first = 0, last = grid;
    if (grid > 1024) {
      // Only those near the image: a box may be as large as it likes.
      first = std::clamp(std::floor((-1 - from) / spacing - 1.5), 0.0, grid);
      last = std::clamp(std::ceil((static_cast<double>(size) - from) / spacing + 1.5), 0.0, grid);
    }
    const std::int64_t many = static_cast<std::int64_t>(
        std::clamp(last - first, 0.0, 2.0 * static_cast<double>(size) + 1024));
    std::int64_t n = 0;
    for (std::int64_t s = 0; s < many; ++s) {
      const double position = from + (first + static_cast<double>(s) + 0.5) * spacing;
      if (!(position > -1 && position < static_cast<double>(size))) continue;
      f(position);
      ++n;
    }
    return n;
  }
};

// Adds a tap to a list whose pixels ascend: points come in order, so that a pixel that is there
// already is one of the last two.
template <class A>
[[gnu::always_inline]] inline void merge(Tap<A>* list, std::int64_t& n, std::int64_t at, A weight) {
  if (n > 0 && list[n - 1].at == at) {
    list[n - 1].weight += weight;
  } else if (n > 1 && list[n - 2].at == at) {
    list[n - 2].weight += weight;
  } else {
    list[n++] = {at, weight};
  }
}

}  // namespace taps
}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
