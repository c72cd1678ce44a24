#include "core/ops/cvt_color/cvt_color.loops.h"

#include <algorithm>

#include "core/kernels/cpu/parallel.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int32_t;
using std::int64_t;
using std::uint8_t;

constexpr int64_t kGrain = 8192;

template <class A, int in, int out>
void map_all(const A* __restrict x, A* __restrict y, int64_t pixels, const PixelMap& map) {
  A m[out][in], bias[out];
  for (int k = 0; k < out; ++k) {
    bias[k] = static_cast<A>(map.bias[k]);
    for (int c = 0; c < in; ++c) m[k][c] = static_cast<A>(map.matrix[k][c]);
  }
  parallel_for(pixels, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int k = 0; k < out; ++k) {
        A sum = bias[k];
        for (int c = 0; c < in; ++c) sum += m[k][c] == 0 ? A(0) : m[k][c] * x[i * in + c];
        y[i * out + k] = sum;
      }
    }
  });
}

template <class A>
void map_floats(const A* x, A* y, int64_t pixels, const PixelMap& map) {
  if (map.in == 3 && map.out == 1) return map_all<A, 3, 1>(x, y, pixels, map);
  if (map.in == 4 && map.out == 1) return map_all<A, 4, 1>(x, y, pixels, map);
  map_all<A, 3, 3>(x, y, pixels, map);
}

// Weights in units of 2^-14.
constexpr int32_t kRed = 4899, kGreen = 9617, kBlue = 1868;
constexpr int32_t rounded(int32_t v) { return (v + (1 << 13)) >> 14; }
inline uint8_t byte(int32_t v) { return static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v); }

template <int channels>
void gray_all(const uint8_t* __restrict x, uint8_t* __restrict y, int64_t pixels, int32_t first,
              int32_t third) {
  parallel_for(pixels, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* p = x + i * channels;
      y[i] = static_cast<uint8_t>(rounded(p[0] * first + p[1] * kGreen + p[2] * third));
    }
  });
}

}  // namespace

void map_pixels(DType dtype, const void* x, void* y, int64_t pixels, const PixelMap& map) {
  if (dtype == DType::float64) {
    return map_floats(static_cast<const double*>(x), static_cast<double*>(y), pixels, map);
  }
  map_floats(static_cast<const float*>(x), static_cast<float*>(y), pixels, map);
}

void gray_pixels(const uint8_t* x, uint8_t* y, int64_t pixels, int channels, int r, int b) {
  const int32_t first = r < b ? kRed : kBlue, third = r < b ? kBlue : kRed;
  if (channels == 4) return gray_all<4>(x, y, pixels, first, third);
  gray_all<3>(x, y, pixels, first, third);
}

void bgr_to_yuv(const uint8_t* x, uint8_t* y, int64_t pixels) {
  parallel_for(pixels, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t b = x[3 * i], g = x[3 * i + 1], r = x[3 * i + 2];
      const int32_t luma = rounded(r * kRed + g * kGreen + b * kBlue);
      y[3 * i] = static_cast<uint8_t>(luma);
      y[3 * i + 1] = byte(rounded((b - luma) * 8061 + (128 << 14)));
      y[3 * i + 2] = byte(rounded((r - luma) * 14369 + (128 << 14)));
    }
  });
}

void yuv_to_bgr(const uint8_t* x, uint8_t* y, int64_t pixels) {
  parallel_for(pixels, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t luma = x[3 * i], u = x[3 * i + 1] - 128, v = x[3 * i + 2] - 128;
      y[3 * i] = byte(luma + rounded(u * 33292));
      y[3 * i + 1] = byte(luma + rounded(u * -6472 + v * -9519));
      y[3 * i + 2] = byte(luma + rounded(v * 18678));
    }
  });
}

namespace {

// Full range: R = Y + 1.402 V, G = Y - 0.344 U - 0.714 V, B = Y + 1.772 U, with weights in units of
// 2^-8. Video range: all are stretched, with weights in units of 2^-14; those of the chroma are the
// reference's, 2 for U in B where the standard says 2.017.
template <bool video>
void convert_row(const uint8_t* __restrict luma, const uint8_t* __restrict u,
                 const uint8_t* __restrict v, int64_t step, int64_t width, int red, int blue,
                 uint8_t* __restrict to) {
  for (int64_t i = 0; i < width / 2; ++i) {
    const int32_t cu = u[i * step] - 128, cv = v[i * step] - 128;
    int32_t r, g, b;
    if constexpr (video) {
      r = 26112 * cv, g = -6400 * cu - 13312 * cv, b = 32768 * cu;
    } else {
      r = (359 * cv) >> 8, g = -((88 * cu + 183 * cv) >> 8), b = (454 * cu) >> 8;
    }
    for (int64_t k = 0; k < 2; ++k) {
      const int32_t y = luma[2 * i + k];
      uint8_t* p = to + (2 * i + k) * 3;
      if constexpr (video) {
        const int32_t wide = 19071 * (y - 16);
        p[red] = byte(rounded(wide + r)), p[1] = byte(rounded(wide + g));
        p[blue] = byte(rounded(wide + b));
      } else {
        p[red] = byte(y + r), p[1] = byte(y + g), p[blue] = byte(y + b);
      }
    }
  }
}

}  // namespace

void from_planes(const uint8_t* x, uint8_t* y, const PlanarImage& at) {
  const int64_t pixels = at.height * at.width;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, at.width));
  parallel_for(at.images * at.height, grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t image = k / at.height, row = k % at.height;
      const uint8_t* from = x + image * (pixels + pixels / 2);
      const uint8_t* luma = from + row * at.width;
      if (at.gray) {
        std::copy_n(luma, at.width, y + k * at.width);
        continue;
      }
      const uint8_t* chroma = from + pixels + row / 2 * at.chroma.row_step;
      const int red = at.blue_first ? 2 : 0;
      uint8_t* to = y + k * at.width * 3;
      const auto convert = at.video_range ? &convert_row<true> : &convert_row<false>;
      convert(luma, chroma + at.chroma.u, chroma + at.chroma.v, at.chroma.step, at.width, red,
              2 - red, to);
    }
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
