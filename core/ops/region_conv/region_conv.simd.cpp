// Whether a tap counts is the same for all channels of a pixel: each pixel lists the taps that do,
// and then runs over its channels.

#include "core/ops/region_conv/region_conv.loops.h"

#include <algorithm>

#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kLanes = 64;       // channels at a time
constexpr int64_t kMostPieces = 16;  // that the sums of weight gradients are cut into

// A tap that counts: where the other pixel lies, and its weights.
struct Match {
  int64_t pixel, tap;
};

// The taps of output pixel (oh, ow), those with the region of that pixel.
int64_t taps_of_output(const RegionLayout& p, int64_t n, int64_t oh, int64_t ow, Match* out) {
  const int64_t region = p.rout[(n * p.out_h + oh) * p.out_w + ow];
  int64_t found = 0;
  for (int64_t kh = 0; kh < p.kernel_h; ++kh) {
    const int64_t h = oh * p.stride_h - p.pad_h + kh * p.dilate_h;
    if (h < 0 || h >= p.h) continue;
    const int64_t row = (n * p.h + h) * p.w;
    for (int64_t kw = 0; kw < p.kernel_w; ++kw) {
      const int64_t w = ow * p.stride_w - p.pad_w + kw * p.dilate_w;
      if (w < 0 || w >= p.w || p.rin[row + w] != region) continue;
      out[found++] = {row + w, kh * p.kernel_w + kw};
    }
  }
  return found;
}

// The output pixels that input pixel (h, w) counts for.
int64_t taps_of_input(const RegionLayout& p, int64_t n, int64_t h, int64_t w, Match* out) {
  const int64_t region = p.rin[(n * p.h + h) * p.w + w];
  int64_t found = 0;
  for (int64_t kh = 0; kh < p.kernel_h; ++kh) {
    const int64_t top = h + p.pad_h - kh * p.dilate_h;
    if (top < 0 || top % p.stride_h != 0 || top / p.stride_h >= p.out_h) continue;
    const int64_t row = (n * p.out_h + top / p.stride_h) * p.out_w;
    for (int64_t kw = 0; kw < p.kernel_w; ++kw) {
      const int64_t left = w + p.pad_w - kw * p.dilate_w;
      if (left < 0 || left % p.stride_w != 0 || left / p.stride_w >= p.out_w) continue;
      const int64_t at = row + left / p.stride_w;
      if (p.rout[at] == region) out[found++] = {at, kh * p.kernel_w + kw};
    }
  }
  return found;
}

// to[c] = the sum over the matches of from[pixel][c] * weight[tap][c]
template <class T>
void gather(const Match* matches, int64_t count, const T* from, const T* weight, int64_t channels,
            T* __restrict to) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    T sums[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) {
      const T* x = from + matches[i].pixel * channels + c;
      const T* w = weight + matches[i].tap * channels + c;
      for (int64_t j = 0; j < kLanes; ++j) sums[j] += x[j] * w[j];
    }
    std::copy_n(sums, kLanes, to + c);
  }
  if (c == channels) return;
  std::fill(to + c, to + channels, T{});
  for (int64_t i = 0; i < count; ++i) {
    const T* x = from + matches[i].pixel * channels;
    const T* w = weight + matches[i].tap * channels;
    for (int64_t j = c; j < channels; ++j) to[j] += x[j] * w[j];
  }
}

int64_t row_grain(const RegionLayout& p, int64_t width) {
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, width * p.channels * p.taps()));
}

// Calls f(image, row, column, room for the matches) for all pixels of images of height x width.
template <class F>
void each_pixel(const RegionLayout& p, int64_t height, int64_t width, F&& f) {
  const int threads = num_threads();
  const Scratch scratch(sizeof(Match) * static_cast<std::size_t>(p.taps() * threads));
  parallel_for(p.batch * height, row_grain(p, width), [&](int64_t begin, int64_t end) {
    Match* room = scratch.as<Match>() + omp_get_thread_num() % threads * p.taps();
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t w = 0; w < width; ++w) f(r / height, r % height, w, room);
    }
  });
}

template <class T>
void forward(const T* x, const T* weight, T* y, const RegionLayout& p) {
  each_pixel(p, p.out_h, p.out_w, [&](int64_t n, int64_t h, int64_t w, Match* room) {
    const int64_t count = taps_of_output(p, n, h, w, room);
    gather(room, count, x, weight, p.channels, y + ((n * p.out_h + h) * p.out_w + w) * p.channels);
  });
}

template <class T>
void backward_data(const T* weight, const T* dy, T* dx, const RegionLayout& p) {
  each_pixel(p, p.h, p.w, [&](int64_t n, int64_t h, int64_t w, Match* room) {
    const int64_t count = taps_of_input(p, n, h, w, room);
    gather(room, count, dy, weight, p.channels, dx + ((n * p.h + h) * p.w + w) * p.channels);
  });
}

// Rows are cut into pieces that depend on the shape alone; each piece adds up rows in T and the
// sums of rows in double.
template <class T>
void backward_filter(const T* x, const T* dy, T* dw, const RegionLayout& p) {
  const int64_t rows = p.batch * p.out_h, size = p.taps() * p.channels;
  const int64_t pieces = std::min(rows, kMostPieces);
  const int threads = num_threads();
  const Scratch totals(sizeof(double) * static_cast<std::size_t>(pieces * size));
  const Scratch sums(sizeof(T) * static_cast<std::size_t>(threads * size));
  const Scratch rooms(sizeof(Match) * static_cast<std::size_t>(p.taps() * threads));
  std::fill_n(totals.as<double>(), pieces * size, 0.0);
  parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
    const int64_t me = omp_get_thread_num() % threads;
    T* const sum = sums.as<T>() + me * size;
    Match* const room = rooms.as<Match>() + me * p.taps();
    for (int64_t piece = first; piece < last; ++piece) {
      double* const total = totals.as<double>() + piece * size;
      for (int64_t r = rows * piece / pieces; r < rows * (piece + 1) / pieces; ++r) {
        std::fill_n(sum, size, T{});
        for (int64_t w = 0; w < p.out_w; ++w) {
          const int64_t count = taps_of_output(p, r / p.out_h, r % p.out_h, w, room);
          const T* __restrict g = dy + (r * p.out_w + w) * p.channels;
          for (int64_t i = 0; i < count; ++i) {
            const T* __restrict from = x + room[i].pixel * p.channels;
            T* __restrict to = sum + room[i].tap * p.channels;
            for (int64_t c = 0; c < p.channels; ++c) to[c] += from[c] * g[c];
          }
        }
        for (int64_t i = 0; i < size; ++i) total[i] += sum[i];
      }
    }
  });
  for (int64_t i = 0; i < size; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < pieces; ++k) sum += totals.as<double>()[k * size + i];
    dw[i] = T(sum);
  }
}

template <class F>
void with_type(DType dtype, F&& f) {
  dtype == DType::float64 ? f(Tag<double>{}) : f(Tag<float>{});
}

}  // namespace

void region_forward(DType dtype, const void* x, const void* weight, void* y,
                    const RegionLayout& at) {
  with_type(dtype, [&]<class T>(Tag<T>) {
    forward(static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<T*>(y), at);
  });
}

void region_backward_data(DType dtype, const void* weight, const void* dy, void* dx,
                          const RegionLayout& at) {
  with_type(dtype, [&]<class T>(Tag<T>) {
    backward_data(static_cast<const T*>(weight), static_cast<const T*>(dy), static_cast<T*>(dx),
                  at);
  });
}

void region_backward_filter(DType dtype, const void* x, const void* dy, void* dw,
                            const RegionLayout& at) {
  with_type(dtype, [&]<class T>(Tag<T>) {
    backward_filter(static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dw), at);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
