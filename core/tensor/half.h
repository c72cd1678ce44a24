// The two 16-bit float formats. Arithmetic happens in float; these types only store and convert.
#pragma once

#include <bit>
#include <cstdint>

namespace mge {

// IEEE binary16, round to nearest even. Branch-free, so that loops over it vectorise.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) : bits(encode(value)) {}
  explicit operator float() const { return decode(bits); }

  static std::uint16_t encode(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7fffffffu;
    // Normal result: rebias the exponent by 112 and round the mantissa from 23 to 10 bits.
    const std::uint32_t normal =
        (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal result: adding 0.5f aligns the mantissa so that the hardware rounds it.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    std::uint32_t out = magnitude < (113u << 23) ? subnormal : normal;
    out = magnitude >= 0x477ff000u ? 0x7c00u : out;  // rounds to infinity
    out = magnitude > 0x7f800000u ? nan : out;
    return static_cast<std::uint16_t>(out | sign);
  }
  static float decode(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    const std::uint32_t exponent = magnitude & (0x1fu << 23);
    const std::uint32_t normal = magnitude + (112u << 23);
    const std::uint32_t special = magnitude + (224u << 23);  // infinity and NaN
    // Subnormal: give it the exponent of 2^-14, then take the implicit one off again.
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
        std::bit_cast<float>(magnitude + (113u << 23)) - std::bit_cast<float>(113u << 23));
    std::uint32_t out = exponent == 0 ? subnormal : normal;
    out = exponent == (0x1fu << 23) ? special : out;
    return std::bit_cast<float>(out | sign);
  }
};

// The upper half of a binary32, round to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) : bits(encode(value)) {}
  explicit operator float() const { return decode(bits); }

  static std::uint16_t encode(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t nan = (u >> 16) | 0x40u;
    return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
  static float decode(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

}  // namespace mge
