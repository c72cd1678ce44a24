// How the loops of this folder are cut among threads (*.simd.cpp only).
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/parallel.h"
#include "core/tensor/dtype.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

inline std::int64_t grain_of(std::int64_t work) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, work));
}

// Calls f(image, first channel, channels) on all threads: every channel of every image once. What
// is added up within a channel does not depend on how they are cut. `work` is that of all.
template <class F>
void each_channel_block(std::int64_t images, std::int64_t channels, std::int64_t work, F&& f) {
  if (images * channels <= 0) return;
  const std::int64_t wanted = std::max<std::int64_t>(1, 2 * num_threads() / images);
  // Whole cache lines, lest threads share them.
  const std::int64_t block =
      std::max<std::int64_t>(16, (channels + wanted - 1) / wanted + 15) / 16 * 16;
  const std::int64_t blocks = (channels + block - 1) / block;
  parallel_for(images * blocks, grain_of(work / (images * blocks)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t u = begin; u < end; ++u) {
                   const std::int64_t c = u % blocks * block;
                   f(u / blocks, c, std::min(block, channels - c));
                 }
               });
}

template <class A>
void clear(A* to, std::int64_t n) {
  parallel_for(n, 65536, [&](std::int64_t begin, std::int64_t end) {
    std::fill(to + begin, to + end, A(0));
  });
}

// Calls f(Tag<A>{}) for float32 and float64, which are all that these kernels ask for.
template <class F>
void with_type(DType dtype, F&& f) {
  if (dtype == DType::float64) {
    f(Tag<double>{});
  } else {
    f(Tag<float>{});
  }
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
