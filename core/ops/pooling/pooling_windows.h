// Which elements a window covers. For *.simd.cpp files only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/ops/pooling/pooling.loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Input positions that the window of output o covers.
inline Range covered(std::int64_t o, std::int64_t stride, std::int64_t pad, std::int64_t window,
                     std::int64_t size) {
  const std::int64_t start = o * stride - pad;
  return {std::max<std::int64_t>(0, start), std::min(size, start + window)};
}
inline Range rows_of(const PoolLayout& p, std::int64_t oh) {
  return covered(oh, p.stride_h, p.pad_h, p.window_h, p.h);
}
inline Range cols_of(const PoolLayout& p, std::int64_t ow) {
  return covered(ow, p.stride_w, p.pad_w, p.window_w, p.w);
}

inline std::int64_t grain_of(std::int64_t work) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, work));
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
