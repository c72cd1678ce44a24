// A vector of channels at a time: a row of x, with its padding, and a row of dy are packed side by
// side, and some taps add up in registers along them. oneDNN 3.2 takes a matrix product for each
// channel where kernels are long: 30 times slower for 31 taps over 512 channels.

#include <algorithm>

#include "core/kernels/cpu/parallel.h"
#include "core/ops/convolution/depthwise.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

template <class T>
constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
constexpr int64_t kTaps = 8;  // at a time: so many sums stay in registers

// `count` pixels that lie `step` elements apart, lanes [0, lanes) of each; the others are 0.
template <class T>
void pack(const T* from, int64_t step, int64_t count, int64_t lanes, T* to) {
  constexpr int64_t kL = kLanes<T>;
  if (lanes == kL) {
    for (int64_t i = 0; i < count; ++i) std::copy_n(from + i * step, kL, to + i * kL);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < kL; ++j) to[i * kL + j] = j < lanes ? from[i * step + j] : T{};
  }
}

// sums[tap] += the sum over positions of x[position * stride + tap * dilate] * dy[position]
template <int64_t kCount, class T>
void add_taps(const T* x, const T* dy, int64_t positions, int64_t stride, int64_t dilate,
              double* sums) {
  constexpr int64_t kL = kLanes<T>;
  T row[kCount][kL] = {};
  for (int64_t i = 0; i < positions; ++i) {
    const T *g = dy + i * kL, *from = x + i * stride * kL;
    for (int64_t t = 0; t < kCount; ++t) {
      for (int64_t j = 0; j < kL; ++j) row[t][j] += from[t * dilate * kL + j] * g[j];
    }
  }
  for (int64_t t = 0; t < kCount; ++t) {
    for (int64_t j = 0; j < kL; ++j) sums[t * kL + j] += row[t][j];
  }
}

template <class T>
void add_row(const DepthwiseLayout& p, const T* x, const T* dy, double* sums) {
  constexpr int64_t kL = kLanes<T>;
  int64_t k = 0;
  for (; k + kTaps <= p.kernel_w; k += kTaps) {
    add_taps<kTaps>(x + k * p.dilate_w * kL, dy, p.out_w, p.stride_w, p.dilate_w, sums + k * kL);
  }
  for (; k + 3 <= p.kernel_w; k += 3) {
    add_taps<3>(x + k * p.dilate_w * kL, dy, p.out_w, p.stride_w, p.dilate_w, sums + k * kL);
  }
  for (; k < p.kernel_w; ++k) {
    add_taps<1>(x + k * p.dilate_w * kL, dy, p.out_w, p.stride_w, p.dilate_w, sums + k * kL);
  }
}

// The sums of some rows of dy for one vector of channels.
template <class T>
void add_rows(const DepthwiseLayout& p, const T* x, const T* dy, int64_t lanes, int64_t first,
              int64_t last, T* row, double* sums) {
  constexpr int64_t kL = kLanes<T>;
  // The pixels of a row that windows reach, and those of them that lie in the image.
  const int64_t reach = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilate_w + 1;
  const int64_t count = std::clamp<int64_t>(reach - p.pad_w, 0, p.w);
  T* const g = row + reach * kL;
  std::fill_n(row, reach * kL, T{});
  for (int64_t r = first; r < last; ++r) {
    const int64_t n = r / p.out_h, oh = r % p.out_h;
    pack(dy + r * p.out_w * p.channels, p.channels, p.out_w, lanes, g);
    for (int64_t kh = 0; kh < p.kernel_h; ++kh) {
      const int64_t h = oh * p.stride_h - p.pad_h + kh * p.dilate_h;
      if (h < 0 || h >= p.h || count == 0) continue;
      pack(x + (n * p.h + h) * p.w * p.channels, p.channels, count, lanes, row + p.pad_w * kL);
      add_row(p, row, g, sums + kh * p.kernel_w * kL);
    }
  }
}

template <class T>
void backward_filter(const T* x, const T* dy, T* dw, const DepthwiseLayout& p) {
  constexpr int64_t kL = kLanes<T>;
  const int64_t taps = p.kernel_h * p.kernel_w, rows = p.batch * p.out_h;
  const int64_t blocks = (p.channels + kL - 1) / kL;
  // Few channels are cut along the rows as well, as the shape alone says.
  const int64_t pieces = std::min<int64_t>(rows, blocks >= 8 ? 1 : 8);
  const int64_t reach = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilate_w + 1;
  const int64_t need = (std::max(reach, p.pad_w + p.w) + p.out_w) * kL;
  const int threads = num_threads();
  const Scratch packed(sizeof(T) * static_cast<std::size_t>(need * threads));
  const Scratch totals(sizeof(double) * static_cast<std::size_t>(pieces * blocks * taps * kL));
  std::fill_n(totals.as<double>(), pieces * blocks * taps * kL, 0.0);
  const int64_t work = std::max<int64_t>(1, rows / pieces * p.out_w * taps * kL);
  parallel_for(
      pieces * blocks, std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
        T* const row = packed.as<T>() + omp_get_thread_num() % threads * need;
        for (int64_t task = begin; task < end; ++task) {
          const int64_t piece = task / blocks, c = task % blocks * kL;
          add_rows(p, x + c, dy + c, std::min(kL, p.channels - c), rows * piece / pieces,
                   rows * (piece + 1) / pieces, row, totals.as<double>() + task * taps * kL);
        }
      });
  for (int64_t c = 0; c < p.channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      double sum = 0;
      for (int64_t k = 0; k < pieces; ++k) {
        sum += totals.as<double>()[((k * blocks + c / kL) * taps + t) * kL + c % kL];
      }
      dw[c * taps + t] = T(sum);
    }
  }
}

}  // namespace

void depthwise_backward_filter(DType dtype, const void* x, const void* dy, void* dw,
                               const DepthwiseLayout& at) {
  const auto run = [&]<class T>(Tag<T>) {
    backward_filter(static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dw), at);
  };
  dtype == DType::float64 ? run(Tag<double>{}) : run(Tag<float>{});
}

}  // namespace mge::cpu::MGE_SIMD_NS
