// Random numbers. Each function draws from the counters that start at `first`; what it draws
// depends on (seed, first) alone. All buffers are contiguous; float dtypes only where not said
// otherwise.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor/dtype.h"

namespace mge::cpu {

struct RandomStream {
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
};

// How many counters n numbers of a dtype use (uniform, normal, dropout), and n numbers of the
// distributions below them, or a permutation of n.
std::uint64_t counters_of_block_numbers(DType dtype, std::int64_t n);
inline std::uint64_t counters_of_numbers(std::int64_t n) { return static_cast<std::uint64_t>(n); }

// In [low, high), with 24 random bits (53 for float64, 11 and 8 for float16 and bfloat16).
void uniform(RandomStream stream, double low, double high, DType dtype, std::int64_t n, void* out);
// By the method of Box and Muller; float32 reaches 6.7 standard deviations, float64 12.
void normal(RandomStream stream, double mean, double deviation, DType dtype, std::int64_t n,
            void* out);
// mask[i] is 0 with probability drop_prob, else 1; out = mask ? in / (1 - drop_prob) : 0.
void dropout(RandomStream stream, double drop_prob, DType dtype, std::int64_t n, const void* in,
             void* out, bool* mask);
// out = mask ? in / (1 - drop_prob) : 0
void dropout_backward(double drop_prob, DType dtype, std::int64_t n, const void* in,
                      const bool* mask, void* out);

// Parameters are positive; out[i] follows the distribution with parameters a[i] (and b[i]).
void gamma(RandomStream stream, std::span<const double> shape, std::span<const double> scale,
           double* out);
void beta(RandomStream stream, std::span<const double> alpha, std::span<const double> beta,
          double* out);
void poisson(RandomStream stream, std::span<const double> rate, double* out);

// A permutation of 0, ..., out.size() - 1, all equally likely.
void permutation(RandomStream stream, std::span<std::int32_t> out);

}  // namespace mge::cpu
