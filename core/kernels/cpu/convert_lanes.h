// Conversion of n neighbouring elements between two types, for inclusion in
// *.simd.cpp files only: everything is static, so that each instruction set
// gets a copy of its own.
#pragma once

#ifdef __F16C__
#include <immintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/tensor/dtype.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

template <class T>
inline constexpr bool is_low = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

inline void widen(const Half* __restrict in, float* __restrict out, std::int64_t n) {
  std::int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
#endif
  for (; i < n; ++i) out[i] = Half::decode(in[i].bits);
}
inline void widen(const BFloat16* __restrict in, float* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = BFloat16::decode(in[i].bits);
}
inline void narrow(const float* __restrict in, Half* __restrict out, std::int64_t n) {
  std::int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; ++i) out[i].bits = Half::encode(in[i]);
}
inline void narrow(const float* __restrict in, BFloat16* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i].bits = BFloat16::encode(in[i]);
}

// A double as a float that rounds to the same 16-bit float as the double does:
// an inexact result gets an odd last bit ("round to odd"), so that it never
// looks like a tie.
inline float round_to_odd(double d) {
  const float f = static_cast<float>(d);
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f);
  const double back = static_cast<double>(f);
  const double ad = d < 0 ? -d : d, ab = back < 0 ? -back : back;
  // f is even and not d: step to the neighbour on d's side. From infinity, that
  // is the largest float.
  const std::uint32_t up = (u & 1u) == 0 && ab < ad ? 1u : 0u;
  const std::uint32_t down = (u & 1u) == 0 && ab > ad ? 1u : 0u;
  return std::bit_cast<float>(u + up - down);
}

// One element; neither type is a 16-bit float.
template <class To, class From>
inline To convert_one(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // As the hardware does it, without C++'s undefined behaviour outside the
    // range.
    if constexpr (std::is_same_v<To, std::uint64_t>) {
      constexpr From half = static_cast<From>(std::uint64_t{1} << 63);
      if (x >= half && x < 2 * half) {
        return static_cast<To>(x - half) + (std::uint64_t{1} << 63);
      }
    }
    // Negative numbers wrap.
    using Wide = std::conditional_t<sizeof(To) == 8 || std::is_same_v<To, std::uint32_t>,
                                    std::int64_t, std::int32_t>;
    constexpr From limit = static_cast<From>(std::numeric_limits<Wide>::min());
    // A double may lie less than 1 below the least int32.
    const bool inside =
        (sizeof(From) == 8 && sizeof(Wide) == 4 ? x > limit - 1 : x >= limit) && x < -limit;
    const Wide wide = static_cast<Wide>(inside ? x : From{0});
    return static_cast<To>(inside ? wide : std::numeric_limits<Wide>::min());
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
inline void convert_run(const From* __restrict in, To* __restrict out, std::int64_t n) {
  constexpr std::int64_t kBlock = 256;
  if constexpr (std::is_same_v<To, From>) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(To));
  } else if constexpr (is_low<From> && std::is_same_v<To, float>) {
    widen(in, out, n);
  } else if constexpr (std::is_same_v<From, float> && is_low<To>) {
    narrow(in, out, n);
  } else if constexpr (is_low<From> || is_low<To>) {
    float buffer[kBlock];
    for (std::int64_t i = 0; i < n; i += kBlock) {
      const std::int64_t m = n - i < kBlock ? n - i : kBlock;
      if constexpr (is_low<From>) {
        widen(in + i, buffer, m);
        convert_run<To, float>(buffer, out + i, m);
      } else {
        if constexpr (sizeof(From) >= 4) {
          for (std::int64_t j = 0; j < m; ++j)
            buffer[j] = round_to_odd(static_cast<double>(in[i + j]));
        } else {
          for (std::int64_t j = 0; j < m; ++j) buffer[j] = static_cast<float>(in[i + j]);
        }
        narrow(buffer, out + i, m);
      }
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = convert_one<To>(in[i]);
  }
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
