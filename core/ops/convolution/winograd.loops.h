// Convolutions of 3 x 3 by Winograd's minimal filtering, F(2 x 2, 3 x 3): 16 multiplications for
// the 36 of four results (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
// 2015). Its transforms have no numbers but 0, 1 and 1/2: results are as exact as direct ones.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/onednn.h"
#include "core/kernels/cpu/simd.h"

namespace mge::cpu {

// Stride and dilation of 1, one group; both counts of channels are multiples of kWinogradChannels.
struct WinogradLayout {
  std::int64_t batch, channels, h, w;
  std::int64_t out_channels, out_h, out_w;
  std::int64_t pad_h, pad_w;
};
inline constexpr std::int64_t kWinogradChannels = 16;
inline constexpr std::int64_t kWinogradOutChannels = 8;

// Of weights (out, in, 3, 3), row-major, to 16 * in * out numbers.
MGE_DECLARE_SIMD(void, winograd_pack,
                 (const float* weight, std::int64_t in, std::int64_t out, float* packed));
// x and y are channels-last; `bias` may be null.
MGE_DECLARE_SIMD(void, winograd_convolution,
                 (const float* x, const float* packed, const float* bias, float* y,
                  const WinogradLayout& layout, const dnn::PostOps& post));

}  // namespace mge::cpu
