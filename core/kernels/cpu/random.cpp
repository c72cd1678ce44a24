#include "core/kernels/cpu/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/philox.h"
#include "core/kernels/cpu/random_loops.h"

namespace mge::cpu {
namespace {

constexpr std::int64_t kThreadBlocks = 256;    // worth a thread
constexpr std::int64_t kThreadNumbers = 1024;  // of the slower distributions

std::int64_t blocks_of(DType dtype, std::int64_t n) {
  return (n + block_numbers(dtype) - 1) / block_numbers(dtype);
}

// As many uniform numbers as one result needs: its counter, with a step that counts up.
class Draws {
 public:
  Draws(RandomStream stream, std::int64_t i)
      : seed_(stream.seed), counter_(stream.first + static_cast<std::uint64_t>(i)) {}

  // In (0, 1), 53 bits.
  double uniform() {
    if (used_ == 4) refill();
    const std::uint64_t bits = static_cast<std::uint64_t>(words_[used_]) << 32 | words_[used_ + 1];
    used_ += 2;
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
  }
  double normal() {
    const double r = std::sqrt(-2 * std::log(uniform()));
    return r * std::cos(6.283185307179586 * uniform());
  }

 private:
  void refill() {
    words_ = philox(seed_, counter_, step_++);
    used_ = 0;
  }
  std::uint64_t seed_, counter_;
  std::uint32_t step_ = 0;
  std::size_t used_ = 4;
  PhiloxWords words_{};
};

// The logarithm of a gamma variate with scale 1, by the method of Marsaglia and Tsang (A simple
// method for generating gamma variables, ACM TOMS 26, 2000). Small shapes give numbers that only
// their logarithm can hold.
double log_gamma_variate(Draws& draws, double shape) {
  double boost = 0;
  if (shape < 1) {
    boost = std::log(draws.uniform()) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.normal(), t = 1 + c * x;
    if (t <= 0) continue;
    const double v = t * t * t;
    if (std::log(draws.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return std::log(d * v) + boost;
    }
  }
}

// Counts the uniform numbers whose product stays above exp(-rate).
double poisson_small(Draws& draws, double rate) {
  const double limit = std::exp(-rate);
  double product = draws.uniform();
  double n = 0;
  for (; product > limit; ++n) product *= draws.uniform();
  return n;
}

// log(k!), by Stirling's series where it has converged. std::lgamma is not safe in threads.
double log_factorial(double k) {
  double x = k + 1, below = 1;
  for (; x < 10; ++x) below *= x;
  const double u = 1 / (x * x);
  const double series = (1.0 / 12 - u * (1.0 / 360 - u * (1.0 / 1260 - u / 1680))) / x;
  return (x - 0.5) * std::log(x) - x + 0.91893853320467274 + series - std::log(below);
}

// Hormann's transformed rejection (The transformed rejection method for generating Poisson random
// variables, Insurance: Mathematics and Economics 12, 1993), for rates of 10 and more.
double poisson_large(Draws& draws, double rate) {
  const double root = std::sqrt(rate), log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = draws.uniform() - 0.5, v = draws.uniform();
    const double us = 0.5 - std::abs(u), k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <=
        k * log_rate - rate - log_factorial(k)) {
      return k;
    }
  }
}

template <class F>
void for_numbers(std::size_t n, F&& one) {
  parallel_for(static_cast<std::int64_t>(n), kThreadNumbers,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) one(static_cast<std::size_t>(i));
               });
}

}  // namespace

std::uint64_t counters_of_block_numbers(DType dtype, std::int64_t n) {
  return static_cast<std::uint64_t>(blocks_of(dtype, n) * kBlockCounters);
}

void uniform(RandomStream stream, double low, double high, DType dtype, std::int64_t n, void* out) {
  parallel_for(blocks_of(dtype, n), kThreadBlocks, [&](std::int64_t begin, std::int64_t end) {
    MGE_DISPATCH(uniform_blocks)(stream, low, high, dtype, begin, end, n, out);
  });
}

void normal(RandomStream stream, double mean, double deviation, DType dtype, std::int64_t n,
            void* out) {
  parallel_for(blocks_of(dtype, n), kThreadBlocks, [&](std::int64_t begin, std::int64_t end) {
    MGE_DISPATCH(normal_blocks)(stream, mean, deviation, dtype, begin, end, n, out);
  });
}

void dropout(RandomStream stream, double drop_prob, DType dtype, std::int64_t n, const void* in,
             void* out, bool* mask) {
  const std::int64_t blocks = (n + kBlockWords - 1) / kBlockWords;
  parallel_for(blocks, kThreadBlocks, [&](std::int64_t begin, std::int64_t end) {
    MGE_DISPATCH(dropout_blocks)(stream, drop_prob, dtype, begin, end, n, in, out, mask);
  });
}

void dropout_backward(double drop_prob, DType dtype, std::int64_t n, const void* in,
                      const bool* mask, void* out) {
  const double scale = drop_prob < 1 ? 1 / (1 - drop_prob) : 0;
  const std::int64_t item = size_of(dtype);
  parallel_for(n, kThreadBlocks * kBlockWords, [&](std::int64_t begin, std::int64_t end) {
    MGE_DISPATCH(apply_mask)
    (scale, dtype, end - begin, static_cast<const char*>(in) + begin * item, mask + begin,
     static_cast<char*>(out) + begin * item);
  });
}

void gamma(RandomStream stream, std::span<const double> shape, std::span<const double> scale,
           double* out) {
  for_numbers(shape.size(), [&](std::size_t i) {
    Draws draws(stream, static_cast<std::int64_t>(i));
    out[i] = std::exp(log_gamma_variate(draws, shape[i])) * scale[i];
  });
}

void beta(RandomStream stream, std::span<const double> alpha, std::span<const double> beta,
          double* out) {
  for_numbers(alpha.size(), [&](std::size_t i) {
    Draws draws(stream, static_cast<std::int64_t>(i));
    // x / (x + y) with both gamma variates as logarithms: small parameters underflow otherwise.
    const double x = log_gamma_variate(draws, alpha[i]), y = log_gamma_variate(draws, beta[i]);
    out[i] = 1 / (1 + std::exp(y - x));
  });
}

void poisson(RandomStream stream, std::span<const double> rate, double* out) {
  for_numbers(rate.size(), [&](std::size_t i) {
    Draws draws(stream, static_cast<std::int64_t>(i));
    out[i] = rate[i] < 10 ? poisson_small(draws, rate[i]) : poisson_large(draws, rate[i]);
  });
}

void permutation(RandomStream stream, std::span<std::int32_t> out) {
  std::iota(out.begin(), out.end(), 0);
  // Fisher and Yates. A counter serves two steps; the high half of a 128-bit product scales its 64
  // random bits to the range.
  PhiloxWords words{};
  for (std::size_t left = out.size(), step = 0; left > 1; --left, ++step) {
    const std::size_t half = step % 2 * 2;
    if (half == 0) words = philox(stream.seed, stream.first + step / 2, 0);
    const std::uint64_t bits = static_cast<std::uint64_t>(words[half]) << 32 | words[half + 1];
    const auto wide = static_cast<unsigned __int128>(bits) * left;
    std::swap(out[left - 1], out[static_cast<std::size_t>(wide >> 64)]);
  }
}

}  // namespace mge::cpu
