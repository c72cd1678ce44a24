// Convolutions of 3 x 3 by Winograd's minimal filtering, F(2 x 2, 3 x 3): 16 multiplications for
// the 36 of four results (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
// 2015). Its transforms have no numbers but 0, 1 and 1/2: results are as exact as direct ones.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/onednn.h"
#include "core/kernels/cpu/simd.h"

namespace mge::cpu {

// Stride and dilation of 1, one group.
struct WinogradLayout {
  std::int64_t batch, channels, h, w;
  std::int64_t out_channels, out_h, out_w;
  std::int64_t pad_h, pad_w;
};
// What the numbers of channels are multiples of; of the gradient of the weights, both of the first.
inline constexpr std::int64_t kWinogradChannels = 16;
inline constexpr std::int64_t kWinogradOutChannels = 8;

// To 16 * in * out numbers. Weights are row-major: (out, in, 3, 3), or, for the gradient of the
// data, which is a convolution by the reversed filters, (in, out, 3, 3).
enum class WinogradFilters : std::uint8_t { forward, reversed };
MGE_DECLARE_SIMD(void, winograd_pack,
                 (const float* weight, std::int64_t in, std::int64_t out, WinogradFilters filters,
                  float* packed));
// x and y are channels-last; `bias` may be null.
MGE_DECLARE_SIMD(void, winograd_convolution,
                 (const float* x, const float* packed, const float* bias, float* y,
                  const WinogradLayout& layout, const dnn::PostOps& post));
// x and dy are channels-last, dw (out, in, 3, 3) is row-major.
MGE_DECLARE_SIMD(void, winograd_backward_filter,
                 (const float* x, const float* dy, float* dw, const WinogradLayout& layout));

}  // namespace mge::cpu
