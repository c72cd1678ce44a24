// Vectors of channels, for the loops of this folder (*.simd.cpp only).
#pragma once

#include <cstdint>

#include "core/kernels/cpu/vectors.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {
namespace channels {

// to[i] += w * from[i].
template <class A>
[[gnu::always_inline]] inline void add_scaled(A* __restrict to, const A* __restrict from, A w,
                                              std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += w * from[i];
}

// Calls f(first channel, count) with f.template operator()<V>: V vectors of channels at a time,
// then single ones with V = 0.
template <class A, class F>
[[gnu::always_inline]] inline void each_block(std::int64_t channels, F&& f) {
  constexpr std::int64_t lanes = kLanes<A>;
  std::int64_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes) f.template operator()<4>(c);
  for (; c + lanes <= channels; c += lanes) f.template operator()<1>(c);
  for (; c < channels; ++c) f.template operator()<0>(c);
}

}  // namespace channels
}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
