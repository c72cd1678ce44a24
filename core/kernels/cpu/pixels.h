// Images of 8 bits on their way to a network: pixels become float32, and colours are mixed.
//
// The results are those of the plain expressions in float32, each operation rounded: NumPy gives
// the same bits.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"

namespace mge::cpu {

inline constexpr int kMaxPixelChannels = 4;

// (height, width, channels), channels from 1 to 4. Pixels stand side by side; rows may be any
// distance apart, also a negative one.
struct Pixels {
  const std::uint8_t* data;
  std::int64_t height, width, channels;
  std::int64_t row;  // bytes from one row to the next
};

// (value - mean[channel]) / std[channel]: (height, width, channels), row-major.
MGE_DECLARE_SIMD(void, normalize_pixels,
                 (const Pixels& in, const float* mean, const float* std, float* out));
// The same as (channels, height, width).
MGE_DECLARE_SIMD(void, normalize_planes,
                 (const Pixels& in, const float* mean, const float* std, float* out));

// The values as they are, as (channels, height, width).
MGE_DECLARE_SIMD(void, copy_planes, (const Pixels& in, std::uint8_t* out));

// value * share + offset[channel], brought into [0, 255] and cut: (height, width, channels).
MGE_DECLARE_SIMD(void, mix_constant,
                 (const Pixels& in, float share, const float* offset, std::uint8_t* out));
// value * share + grey * rest, likewise; grey is 0.114 of the first channel, 0.587 of the second
// and 0.299 of the third. Of three channels.
MGE_DECLARE_SIMD(void, mix_grey, (const Pixels& in, float share, float rest, std::uint8_t* out));

}  // namespace mge::cpu
