#include <bit>
#include <cmath>
#include <cstring>

#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/lanes.h"
#include "core/kernels/cpu/philox_words.h"
#include "core/kernels/cpu/random_loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// ---- blocks of numbers -------------------------------------------------------------------------

template <class T>
constexpr std::int64_t kNumbers = block_numbers(dtype_of<T>);
template <class T>
constexpr std::uint32_t kUniformBits = std::is_same_v<T, Half>       ? 11
                                       : std::is_same_v<T, BFloat16> ? 8
                                                                     : 24;

double word_pair(const std::uint32_t* words, int i) {
  const std::uint64_t bits =
      static_cast<std::uint64_t>(words[i]) << 32 | words[i + kBlockWords / 2];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// The largest T below `high`, in the type that is computed in.
template <class T>
auto below(double high) {
  if constexpr (std::is_same_v<T, double>) {
    return std::nextafter(high, -HUGE_VAL);
  } else if constexpr (std::is_same_v<T, float>) {
    const float h = static_cast<float>(high);
    return static_cast<double>(h) < high ? h : std::nextafterf(h, -INFINITY);
  } else {
    // Next to h among the 16-bit floats, whose bits order as their magnitudes do.
    T h(static_cast<float>(high));
    const float f = static_cast<float>(h);
    if (static_cast<double>(f) < high) return f;
    if (f == 0) return -static_cast<float>(std::bit_cast<T>(std::uint16_t{1}));
    h.bits = static_cast<std::uint16_t>(f > 0 ? h.bits - 1 : h.bits + 1);
    return static_cast<float>(h);
  }
}

template <class T>
void uniform_block(RandomStream stream, std::int64_t block, double low, double high,
                   ComputeType<T> top, std::int64_t count, T* out) {
  using C = ComputeType<T>;
  std::uint32_t words[kBlockWords];
  philox_words(stream, block, words);
  C numbers[kNumbers<T>];
  const C from = static_cast<C>(low), width = static_cast<C>(high - low);
  for (int i = 0; i < kNumbers<T>; ++i) {
    C u;
    if constexpr (std::is_same_v<T, double>) {
      u = word_pair(words, i);
    } else {
      constexpr std::uint32_t bits = kUniformBits<T>;
      u = static_cast<float>(static_cast<std::int32_t>(words[i] >> (32 - bits))) *
          (1.0f / static_cast<float>(1u << bits));
    }
    const C x = lanes::fma(u, width, from);
    numbers[i] = x < top ? x : top;  // rounding may reach `high`
  }
  convert_run<T, C>(numbers, out, count);
}

template <class T>
void normal_block(RandomStream stream, std::int64_t block, double mean, double deviation,
                  std::int64_t count, T* out) {
  std::uint32_t words[kBlockWords];
  philox_words(stream, block, words);
  ComputeType<T> numbers[kNumbers<T>];
  if constexpr (std::is_same_v<T, double>) {
    for (int i = 0; i < 16; ++i) {
      // Neither 0 nor 1: half a step in from both ends.
      const double u = word_pair(words, i) + 0x1p-54, turn = word_pair(words, i + 16);
      const double r = deviation * std::sqrt(-2 * std::log(u));
      numbers[i] = mean + r * std::cos(2 * lanes::kPi * turn);
      numbers[i + 16] = mean + r * std::sin(2 * lanes::kPi * turn);
    }
  } else {
    const float m = static_cast<float>(mean), d = static_cast<float>(deviation);
    for (int i = 0; i < 32; ++i) {
      const float u = static_cast<float>(words[i]) * 0x1p-32f + 0x1p-33f;
      const float r = d * lanes::sqrt(-2 * lanes::log(u < 1.0f ? u : 1.0f));
      // The turn to the nearest quarter, and what is left of it: both exact.
      const std::uint32_t turn = words[i + 32], quarter = (turn + 0x20000000u) >> 30;
      const double angle = static_cast<double>(static_cast<std::int32_t>(turn - (quarter << 30))) *
                           (2 * lanes::kPi * 0x1p-32);
      const float s = static_cast<float>(lanes::sin_poly(angle));
      const float c = static_cast<float>(lanes::cos_poly(angle));
      const float x = quarter & 1 ? -s : c, y = quarter & 1 ? c : s;
      numbers[i] = lanes::fma(r, quarter & 2 ? -x : x, m);
      numbers[i + 32] = lanes::fma(r, quarter & 2 ? -y : y, m);
    }
  }
  convert_run<T, ComputeType<T>>(numbers, out, count);
}

// Calls make(block, count, out) for each block.
template <class T, class F>
void for_blocks(std::int64_t begin, std::int64_t end, std::int64_t n, void* out, F make) {
  for (std::int64_t b = begin; b < end; ++b) {
    const std::int64_t first = b * kNumbers<T>, left = n - first;
    make(b, left < kNumbers<T> ? left : kNumbers<T>, static_cast<T*>(out) + first);
  }
}

template <class C>
void mask_run(const C* __restrict in, const std::uint8_t* __restrict mask, C scale, std::int64_t n,
              C* __restrict out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = mask[i] ? in[i] * scale : C{0};
}

// 16-bit floats go through float32, a block at a time.
template <class T>
void mask_any(const T* in, const std::uint8_t* mask, double scale, std::int64_t n, T* out) {
  using C = ComputeType<T>;
  const C s = static_cast<C>(scale);
  if constexpr (std::is_same_v<C, T>) {
    mask_run<C>(in, mask, s, n, out);
  } else {
    C wide[kBlockWords], result[kBlockWords];
    for (std::int64_t i = 0; i < n; i += kBlockWords) {
      const int some = n - i < kBlockWords ? static_cast<int>(n - i) : int{kBlockWords};
      widen(in + i, wide, some);
      mask_run<C>(wide, mask + i, s, some, result);
      narrow(result, out + i, some);
    }
  }
}

}  // namespace

void uniform_blocks(RandomStream stream, double low, double high, DType dtype, std::int64_t begin,
                    std::int64_t end, std::int64_t n, void* out) {
  visit_float("random", dtype, [&]<class T>(Tag<T>) {
    const auto top = below<T>(high);
    for_blocks<T>(begin, end, n, out, [&](std::int64_t block, std::int64_t count, T* to) {
      uniform_block<T>(stream, block, low, high, top, count, to);
    });
  });
}

void normal_blocks(RandomStream stream, double mean, double deviation, DType dtype,
                   std::int64_t begin, std::int64_t end, std::int64_t n, void* out) {
  visit_float("random", dtype, [&]<class T>(Tag<T>) {
    for_blocks<T>(begin, end, n, out, [&](std::int64_t block, std::int64_t count, T* to) {
      normal_block<T>(stream, block, mean, deviation, count, to);
    });
  });
}

void dropout_blocks(RandomStream stream, double drop_prob, DType dtype, std::int64_t begin,
                    std::int64_t end, std::int64_t n, const void* in, void* out, bool* mask) {
  const double scale = drop_prob < 1 ? 1 / (1 - drop_prob) : 0;
  // Words at or above the threshold keep their element; it is 2^32 where all are dropped.
  const std::uint64_t threshold = static_cast<std::uint64_t>(std::llround(drop_prob * 0x1p32));
  std::uint8_t* keep = reinterpret_cast<std::uint8_t*>(mask);
  visit_float("random", dtype, [&]<class T>(Tag<T>) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::uint32_t words[kBlockWords];
      philox_words(stream, b, words);
      std::uint8_t kept[kBlockWords];
      if (threshold >> 32) {
        std::memset(kept, 0, sizeof(kept));
      } else {
        const std::uint32_t limit = static_cast<std::uint32_t>(threshold);
        for (int i = 0; i < kBlockWords; ++i) kept[i] = words[i] >= limit;
      }
      const std::int64_t first = b * kBlockWords;
      const std::int64_t some = n - first < kBlockWords ? n - first : kBlockWords;
      std::memcpy(keep + first, kept, static_cast<std::size_t>(some));
      mask_any(static_cast<const T*>(in) + first, kept, scale, some, static_cast<T*>(out) + first);
    }
  });
}

void apply_mask(double scale, DType dtype, std::int64_t n, const void* in, const bool* mask,
                void* out) {
  visit_float("random", dtype, [&]<class T>(Tag<T>) {
    mask_any(static_cast<const T*>(in), reinterpret_cast<const std::uint8_t*>(mask), scale, n,
             static_cast<T*>(out));
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
