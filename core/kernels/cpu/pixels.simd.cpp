// Compiled without contraction to fused multiply-adds (CMakeLists.txt), which round once less.

#include "core/kernels/cpu/pixels.h"

#include <algorithm>

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// A value for each channel, repeated, so that a row is a run of numbers without channels. The
// length is a multiple of 1, 2, 3 and 4.
constexpr std::int64_t kTile = 192;
struct Tile {
  alignas(64) float values[kTile];
  Tile(const float* of_channels, std::int64_t channels) {
    for (std::int64_t i = 0; i < kTile; ++i) values[i] = of_channels[i % channels];
  }
};

inline std::uint8_t cut(float x) {
  return static_cast<std::uint8_t>(static_cast<int>(std::clamp(x, 0.0f, 255.0f)));
}

constexpr std::int64_t kBlock = 256;  // pixels whose channels are set apart at a time

// The channels of n pixels apart from each other. The compiler sees that all of what stands side by
// side is read, and shuffles vectors of it.
template <int C>
void set_apart(const std::uint8_t* __restrict pixels, std::int64_t n, std::uint8_t (*to)[kBlock]) {
  for (std::int64_t x = 0; x < n; ++x) {
    for (int c = 0; c < C; ++c) to[c][x] = pixels[C * x + c];
  }
}

// out[c, y, x] = f(value, c).
template <int C, class T, class F>
void fill_planes(const Pixels& in, T* out, F f) {
  alignas(64) std::uint8_t block[C][kBlock];
  const std::int64_t plane = in.height * in.width;
  for (std::int64_t y = 0; y < in.height; ++y) {
    for (std::int64_t x = 0; x < in.width; x += kBlock) {
      const std::int64_t n = std::min(kBlock, in.width - x);
      set_apart<C>(in.data + y * in.row + C * x, n, block);
      for (int c = 0; c < C; ++c) {
        T* __restrict to = out + c * plane + y * in.width + x;
        for (std::int64_t i = 0; i < n; ++i) to[i] = f(block[c][i], c);
      }
    }
  }
}
template <class T, class F>
void fill_planes(const Pixels& in, T* out, F f) {
  switch (in.channels) {
    case 1:
      return fill_planes<1>(in, out, f);
    case 2:
      return fill_planes<2>(in, out, f);
    case 3:
      return fill_planes<3>(in, out, f);
    default:
      return fill_planes<4>(in, out, f);
  }
}

}  // namespace

void normalize_pixels(const Pixels& in, const float* mean, const float* std, float* out) {
  const Tile means(mean, in.channels), stds(std, in.channels);
  const std::int64_t length = in.width * in.channels;
  for (std::int64_t y = 0; y < in.height; ++y) {
    for (std::int64_t from = 0; from < length; from += kTile) {
      const std::int64_t n = std::min(kTile, length - from);
      const std::uint8_t* __restrict line = in.data + y * in.row + from;
      float* __restrict to = out + y * length + from;
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = (static_cast<float>(line[i]) - means.values[i]) / stds.values[i];
      }
    }
  }
}

void normalize_planes(const Pixels& in, const float* mean, const float* std, float* out) {
  fill_planes(in, out,
              [=](std::uint8_t x, int c) { return (static_cast<float>(x) - mean[c]) / std[c]; });
}

void copy_planes(const Pixels& in, std::uint8_t* out) {
  fill_planes(in, out, [](std::uint8_t x, int) { return x; });
}

void mix_constant(const Pixels& in, float share, const float* offset, std::uint8_t* out) {
  const Tile offsets(offset, in.channels);
  const std::int64_t length = in.width * in.channels;
  for (std::int64_t y = 0; y < in.height; ++y) {
    for (std::int64_t from = 0; from < length; from += kTile) {
      const std::int64_t n = std::min(kTile, length - from);
      const std::uint8_t* __restrict line = in.data + y * in.row + from;
      std::uint8_t* __restrict to = out + y * length + from;
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = cut(static_cast<float>(line[i]) * share + offsets.values[i]);
      }
    }
  }
}

void mix_grey(const Pixels& in, float share, float rest, std::uint8_t* out) {
  alignas(64) std::uint8_t from[3][kBlock], to[3][kBlock];
  for (std::int64_t y = 0; y < in.height; ++y) {
    for (std::int64_t x = 0; x < in.width; x += kBlock) {
      const std::int64_t n = std::min(kBlock, in.width - x);
      std::uint8_t* __restrict end = out + 3 * (y * in.width + x);
      set_apart<3>(in.data + y * in.row + 3 * x, n, from);
      for (std::int64_t i = 0; i < n; ++i) {
        const float b = from[0][i], g = from[1][i], r = from[2][i];
        const float grey = (b * 0.114f + g * 0.587f + r * 0.299f) * rest;
        to[0][i] = cut(b * share + grey);
        to[1][i] = cut(g * share + grey);
        to[2][i] = cut(r * share + grey);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        end[3 * i] = to[0][i];
        end[3 * i + 1] = to[1][i];
        end[3 * i + 2] = to[2][i];
      }
    }
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
