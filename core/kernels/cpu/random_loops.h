// The inner loops of random.cpp, one build for each instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/random.h"
#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Numbers are made in blocks: of 64 words from 16 counters, word w of counter c at place 16 w + c.
inline constexpr std::int64_t kBlockWords = 64, kBlockCounters = 16;
constexpr std::int64_t block_numbers(DType dtype) {
  return dtype == DType::float64 ? kBlockWords / 2 : kBlockWords;
}

// Blocks begin, begin + 1, ..., end - 1 of n numbers in all; the last block may be cut short.
MGE_DECLARE_SIMD(void, uniform_blocks,
                 (RandomStream stream, double low, double high, DType dtype, std::int64_t begin,
                  std::int64_t end, std::int64_t n, void* out));
MGE_DECLARE_SIMD(void, normal_blocks,
                 (RandomStream stream, double mean, double deviation, DType dtype,
                  std::int64_t begin, std::int64_t end, std::int64_t n, void* out));
MGE_DECLARE_SIMD(void, dropout_blocks,
                 (RandomStream stream, double drop_prob, DType dtype, std::int64_t begin,
                  std::int64_t end, std::int64_t n, const void* in, void* out, bool* mask));
MGE_DECLARE_SIMD(void, apply_mask,
                 (double scale, DType dtype, std::int64_t n, const void* in, const bool* mask,
                  void* out));

}  // namespace mge::cpu
