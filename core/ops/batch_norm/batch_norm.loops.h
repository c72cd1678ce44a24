// The loops of batch norm: statistics of each channel, and the passes that use them.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// A dense tensor seen as (outer, channels, inner). inner == 1 is the physical channels-last layout
// (and a plain (N, C)), with one row of channels for each position.
struct ChannelLayout {
  std::int64_t outer, channels, inner;
  std::int64_t per_channel() const { return outer * inner; }
  std::int64_t size() const { return outer * channels * inner; }
};

// mean and m2 (the sum of squared distances from the mean) of each channel; size() > 0.
MGE_DECLARE_SIMD(void, channel_moments,
                 (DType dtype, const void* x, const ChannelLayout& at, double* mean, double* m2));

// y = (x - mean) * scale + shift
MGE_DECLARE_SIMD(void, channel_affine,
                 (DType dtype, const void* x, void* y, const ChannelLayout& at, const double* mean,
                  const double* scale, const double* shift));

// sum_dy = sum(dy); sum_dyx = sum(dy * (x - mean))
MGE_DECLARE_SIMD(void, channel_grad_sums,
                 (DType dtype, const void* dy, const void* x, const ChannelLayout& at,
                  const double* mean, double* sum_dy, double* sum_dyx));

// dx = a * dy + b * (x - mean) + c
MGE_DECLARE_SIMD(void, channel_grad_apply,
                 (DType dtype, const void* dy, const void* x, void* dx, const ChannelLayout& at,
                  const double* mean, const double* a, const double* b, const double* c));

}  // namespace mge::cpu
