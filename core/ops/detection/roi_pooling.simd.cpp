// Channels are the lanes. Backward passes add into the image, a block of channels of one image at a
// time, in the order of the boxes.

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/ops/detection/blocks.h"
#include "core/ops/detection/lanes.h"
#include "core/ops/detection/roi_pooling.loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kBlock = 64;  // channels that are reduced at a time

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Pixels of bin i of `bins` over a box: from floor(i * length / bins) to ceil((i + 1) * length /
// bins), as far as they lie on the image. Lengths are below 2^33 and bins below 2^31.
Range bin_range(int64_t start, int64_t length, int64_t i, int64_t bins, int64_t size) {
  const int64_t q = length / bins, r = length % bins;
  const int64_t from = i * q + i * r / bins;
  const int64_t to = (i + 1) * q + ((i + 1) * r + bins - 1) / bins;
  return {std::clamp<int64_t>(start + from, 0, size), std::clamp<int64_t>(start + to, 0, size)};
}

struct Bin {
  Range y, x;
  bool empty() const { return y.size() <= 0 || x.size() <= 0; }
  int64_t pixels() const { return y.size() * x.size(); }
};
Bin bin_of(const RoiPoolLayout& p, const PixelBox& box, int64_t i, int64_t j) {
  return {bin_range(box.y, box.height, i, p.out_h, p.h),
          bin_range(box.x, box.width, j, p.out_w, p.w)};
}

// The type of the elements of a vector of integers, or of an integer.
template <class I>
auto element_of(I v) {
  if constexpr (std::is_integral_v<I>) {
    return v;
  } else {
    return v[0];
  }
}

template <class A>
void average_bin(const RoiPoolLayout& p, const A* image, const Bin& bin, A* __restrict out,
                 int64_t n) {
  A sum[kBlock] = {};
  for (int64_t y = bin.y.begin; y < bin.y.end; ++y) {
    // Row by row: long sums keep their digits.
    A row[kBlock] = {};
    for (int64_t x = bin.x.begin; x < bin.x.end; ++x) {
      channels::add_scaled(row, image + (y * p.w + x) * p.c, A(1), n);
    }
    channels::add_scaled(sum, row, A(1), n);
  }
  const A share = bin.empty() ? A(0) : A(1) / static_cast<A>(bin.pixels());
  for (int64_t l = 0; l < n; ++l) out[l] = sum[l] * share;
}

// The maximum of a bin and the pixel that it is at, for V vectors of channels; NaN wins.
template <int V, class A>
[[gnu::always_inline]] inline void max_bin(const RoiPoolLayout& p, const A* image, const Bin& bin,
                                           A* out, std::int32_t* index) {
  constexpr int many = V == 0 ? 1 : V, lanes = V == 0 ? 1 : static_cast<int>(kLanes<A>);
  using T = std::conditional_t<V == 0, A, Vec<A>>;
  using I = std::conditional_t<V == 0, std::int64_t, decltype(T{} < T{})>;
  const bool empty = bin.empty();
  const int64_t first = empty ? -1 : bin.y.begin * p.w + bin.x.begin;
  T best[many];
  I at[many];
  for (int v = 0; v < many; ++v) {
    best[v] = T{} + (empty ? A(0) : -std::numeric_limits<A>::infinity());
    at[v] = I{} + static_cast<decltype(element_of(I{}))>(first);
  }
  for (int64_t y = bin.y.begin; y < bin.y.end; ++y) {
    for (int64_t x = bin.x.begin; x < bin.x.end; ++x) {
      const int64_t pixel = y * p.w + x;
      const I here = I{} + static_cast<decltype(element_of(I{}))>(pixel);
#pragma GCC unroll 4
      for (int v = 0; v < many; ++v) {
        T value;
        std::memcpy(&value, image + pixel * p.c + v * lanes, sizeof value);
        const auto take = (value > best[v]) | (value != value);
        best[v] = take ? value : best[v];
        at[v] = take ? here : at[v];
      }
    }
  }
  for (int v = 0; v < many; ++v) {
    std::memcpy(out + v * lanes, &best[v], sizeof(T));
    decltype(element_of(I{})) ids[lanes];
    std::memcpy(ids, &at[v], sizeof ids);
    for (int l = 0; l < lanes; ++l) index[v * lanes + l] = static_cast<std::int32_t>(ids[l]);
  }
}

// Calls f(box, bin, first element of the bin in y and index) for all bins of all boxes.
template <class Nowhere, class F>
void each_bin(const RoiPoolLayout& p, Nowhere&& nowhere, F&& f) {
  const int64_t bins = p.out_h * p.out_w;
  parallel_for(p.rois, grain_of(bins * p.c * 8), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = k * bins * p.c;
      if (p.box[k].image < 0) {
        nowhere(at, bins * p.c);
        continue;
      }
      for (int64_t bin = 0; bin < bins; ++bin) {
        f(p.box[k], bin_of(p, p.box[k], bin / p.out_w, bin % p.out_w), at + bin * p.c);
      }
    }
  });
}

template <class A>
void average(const RoiPoolLayout& p, const A* x, A* y) {
  each_bin(
      p,
      [&](int64_t at, int64_t n) { std::fill_n(y + at, n, std::numeric_limits<A>::quiet_NaN()); },
      [&](const PixelBox& box, const Bin& bin, int64_t at) {
        const A* image = x + box.image * p.h * p.w * p.c;
        for (int64_t c = 0; c < p.c; c += kBlock) {
          average_bin(p, image + c, bin, y + at + c, std::min(kBlock, p.c - c));
        }
      });
}

template <class A>
void maximum(const RoiPoolLayout& p, const A* x, A* y, std::int32_t* index) {
  each_bin(
      p,
      [&](int64_t at, int64_t n) {
        std::fill_n(y + at, n, std::numeric_limits<A>::quiet_NaN());
        std::fill_n(index + at, n, -1);
      },
      [&](const PixelBox& box, const Bin& bin, int64_t at) {
        const A* image = x + box.image * p.h * p.w * p.c;
        channels::each_block<A>(p.c, [&]<int V>(int64_t c) {
          max_bin<V>(p, image + c, bin, y + at + c, index + at + c);
        });
      });
}

template <class A>
void pick(const RoiPoolLayout& p, const A* x, const std::int32_t* index, A* y) {
  const int64_t pixels = p.h * p.w;
  each_bin(
      p, [&](int64_t at, int64_t n) { std::fill_n(y + at, n, A(0)); },
      [&](const PixelBox& box, const Bin&, int64_t at) {
        const A* image = x + box.image * pixels * p.c;
        for (int64_t l = 0; l < p.c; ++l) {
          const int64_t pixel = index[at + l];
          y[at + l] = pixel >= 0 && pixel < pixels ? image[pixel * p.c + l] : A(0);
        }
      });
}

template <class A>
void average_backward(const RoiPoolLayout& p, const A* dy, A* dx) {
  const int64_t bins = p.out_h * p.out_w;
  clear(dx, p.n * p.h * p.w * p.c);
  each_channel_block(p.n, p.c, p.rois * bins * p.c * 8,
                     [&](int64_t n, int64_t first, int64_t count) {
                       A* image = dx + n * p.h * p.w * p.c + first;
                       for (int64_t k = 0; k < p.rois; ++k) {
                         if (p.box[k].image != n) continue;
                         for (int64_t b = 0; b < bins; ++b) {
                           const Bin bin = bin_of(p, p.box[k], b / p.out_w, b % p.out_w);
                           if (bin.empty()) continue;
                           const A* g = dy + (k * bins + b) * p.c + first;
                           const A share = A(1) / static_cast<A>(bin.pixels());
                           for (int64_t y = bin.y.begin; y < bin.y.end; ++y) {
                             for (int64_t x = bin.x.begin; x < bin.x.end; ++x) {
                               channels::add_scaled(image + (y * p.w + x) * p.c, g, share, count);
                             }
                           }
                         }
                       }
                     });
}

template <class A>
void maximum_backward(const RoiPoolLayout& p, const A* dy, const std::int32_t* index, A* dx) {
  const int64_t bins = p.out_h * p.out_w, pixels = p.h * p.w;
  clear(dx, p.n * pixels * p.c);
  each_channel_block(p.n, p.c, p.rois * bins * p.c * 2,
                     [&](int64_t n, int64_t first, int64_t count) {
                       A* image = dx + n * pixels * p.c + first;
                       for (int64_t k = 0; k < p.rois; ++k) {
                         if (p.box[k].image != n) continue;
                         for (int64_t b = 0; b < bins; ++b) {
                           const int64_t at = (k * bins + b) * p.c + first;
                           for (int64_t l = 0; l < count; ++l) {
                             const int64_t pixel = index[at + l];
                             if (pixel >= 0 && pixel < pixels) image[pixel * p.c + l] += dy[at + l];
                           }
                         }
                       }
                     });
}

}  // namespace

void roi_pool_average(DType dtype, const void* x, void* y, const RoiPoolLayout& at) {
  with_type(dtype,
            [&]<class A>(Tag<A>) { average(at, static_cast<const A*>(x), static_cast<A*>(y)); });
}

void roi_pool_max(DType dtype, const void* x, void* y, std::int32_t* index,
                  const RoiPoolLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    maximum(at, static_cast<const A*>(x), static_cast<A*>(y), index);
  });
}

void roi_pool_average_backward(DType dtype, const void* dy, void* dx, const RoiPoolLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    average_backward(at, static_cast<const A*>(dy), static_cast<A*>(dx));
  });
}

void roi_pool_max_backward(DType dtype, const void* dy, const std::int32_t* index, void* dx,
                           const RoiPoolLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    maximum_backward(at, static_cast<const A*>(dy), index, static_cast<A*>(dx));
  });
}

void roi_pool_pick(DType dtype, const void* x, const std::int32_t* index, void* y,
                   const RoiPoolLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    pick(at, static_cast<const A*>(x), index, static_cast<A*>(y));
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
