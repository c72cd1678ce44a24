// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011):
// four random words from a counter and a key. Everything is static: each instruction set gets its
// own.
#pragma once

#include <array>
#include <cstdint>

namespace mge::cpu {
namespace {

inline constexpr std::uint32_t kPhiloxM0 = 0xd2511f53u, kPhiloxM1 = 0xcd9e8d57u;
inline constexpr std::uint32_t kPhiloxW0 = 0x9e3779b9u, kPhiloxW1 = 0xbb67ae85u;

using PhiloxWords = std::array<std::uint32_t, 4>;

[[maybe_unused]] inline PhiloxWords philox(PhiloxWords c, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{kPhiloxM0} * c[0], b = std::uint64_t{kPhiloxM1} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += kPhiloxW0;
    k1 += kPhiloxW1;
  }
  return c;
}

// The words of counter `n` of a stream.
[[maybe_unused]] inline PhiloxWords philox(std::uint64_t seed, std::uint64_t n,
                                           std::uint32_t step) {
  return philox({static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), step, 0},
                seed);
}

}  // namespace
}  // namespace mge::cpu
