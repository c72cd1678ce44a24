// The inner loops of scan.cpp, one build for each instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Neighbouring lines are summed together, at most so many.
inline constexpr std::int64_t kScanLanes = 512;

// Running sums of `lanes` lines of n elements; steps lead to the next element of a line, lane steps
// to the next line. All steps are in elements of dtype and may be negative.
struct ScanRun {
  const void* in;
  void* out;
  std::int64_t n, in_step, out_step;
  std::int64_t lanes, in_lane, out_lane;
  bool exclusive;
};
MGE_DECLARE_SIMD(void, cumsum_run, (DType dtype, const ScanRun& run));

}  // namespace mge::cpu
