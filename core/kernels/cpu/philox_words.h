// A block of random words at once, in vector registers. For *.simd.cpp files only.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <cstdint>

#include "core/kernels/cpu/philox.h"
#include "core/kernels/cpu/random_loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// out[0:kBlockWords] = block number `block` of the stream.
#if defined(__AVX512F__)
// The masked forms, because GCC warns of what the plain ones leave unset.
inline __m512i multiply(__m512i a, __m512i b) { return _mm512_maskz_mul_epu32(0xff, a, b); }
inline __m512i high_half(__m512i a) { return _mm512_maskz_srli_epi64(0xff, a, 32); }

// Eight counters at once, each 32-bit word in a 64-bit lane.
[[maybe_unused]] inline void philox_words(RandomStream stream, std::int64_t block,
                                          std::uint32_t* out) {
  const __m512i m0 = _mm512_set1_epi64(kPhiloxM0), m1 = _mm512_set1_epi64(kPhiloxM1);
  const __m512i low = _mm512_set1_epi64(0xffffffff);
  for (std::int64_t half = 0; half < 2; ++half) {
    const std::uint64_t first =
        stream.first + static_cast<std::uint64_t>(block * kBlockCounters + half * 8);
    const __m512i n = _mm512_add_epi64(_mm512_set1_epi64(static_cast<std::int64_t>(first)),
                                       _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    __m512i c0 = _mm512_and_si512(n, low), c1 = high_half(n);
    __m512i c2 = _mm512_setzero_si512(), c3 = c2;
    std::uint32_t k0 = static_cast<std::uint32_t>(stream.seed);
    std::uint32_t k1 = static_cast<std::uint32_t>(stream.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const __m512i a = multiply(m0, c0), b = multiply(m1, c2);
      const __m512i x = _mm512_set1_epi64(k0), y = _mm512_set1_epi64(k1);
      // Only the low halves of the lanes count; the high ones are cleared at the end.
      c0 = _mm512_ternarylogic_epi64(high_half(b), c1, x, 0x96);
      c2 = _mm512_ternarylogic_epi64(high_half(a), c3, y, 0x96);
      c1 = _mm512_and_si512(b, low);
      c3 = _mm512_and_si512(a, low);
      k0 += kPhiloxW0;
      k1 += kPhiloxW1;
    }
    const __m512i words[] = {c0, c1, c2, c3};
    for (int w = 0; w < 4; ++w) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 16 * w + 8 * half),
                          _mm512_maskz_cvtepi64_epi32(0xff, words[w]));
    }
  }
}
#else
[[maybe_unused]] inline void philox_words(RandomStream stream, std::int64_t block,
                                          std::uint32_t* out) {
  // Sixteen counters side by side: 64-bit products of 32-bit halves, which the compiler vectorises.
  std::uint64_t c0[16], c1[16], c2[16], c3[16];
  for (int i = 0; i < 16; ++i) {
    const std::uint64_t n = stream.first + static_cast<std::uint64_t>(block * kBlockCounters + i);
    c0[i] = n & 0xffffffffu;
    c1[i] = n >> 32;
    c2[i] = c3[i] = 0;
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(stream.seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(stream.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 16; ++i) {
      const std::uint64_t a = (c0[i] & 0xffffffffu) * kPhiloxM0;
      const std::uint64_t b = (c2[i] & 0xffffffffu) * kPhiloxM1;
      c0[i] = (b >> 32) ^ c1[i] ^ k0;
      c2[i] = (a >> 32) ^ c3[i] ^ k1;
      c1[i] = b & 0xffffffffu;
      c3[i] = a & 0xffffffffu;
    }
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<std::uint32_t>(c0[i]);
    out[16 + i] = static_cast<std::uint32_t>(c1[i]);
    out[32 + i] = static_cast<std::uint32_t>(c2[i]);
    out[48 + i] = static_cast<std::uint32_t>(c3[i]);
  }
}
#endif

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
