#include "core/ops/check_non_finite/check_non_finite.loops.h"

#include "core/kernels/cpu/convert_lanes.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

constexpr std::int64_t kBlock = 1024;

// The bits that an infinity or a NaN has all of.
template <class T>
struct Exponent;
template <>
struct Exponent<float> {
  using Bits = std::uint32_t;
  static constexpr Bits mask = 0x7f800000u;
};
template <>
struct Exponent<double> {
  using Bits = std::uint64_t;
  static constexpr Bits mask = 0x7ff0000000000000u;
};
template <>
struct Exponent<Half> {
  using Bits = std::uint16_t;
  static constexpr Bits mask = 0x7c00u;
};
template <>
struct Exponent<BFloat16> {
  using Bits = std::uint16_t;
  static constexpr Bits mask = 0x7f80u;
};

template <class T>
bool finite(T value) {
  using Bits = typename Exponent<T>::Bits;
  constexpr Bits mask = Exponent<T>::mask;
  return (std::bit_cast<Bits>(value) & mask) != mask;
}

// x and y may be one. The flag has the width of an element, so that the loop keeps its lanes.
template <class T>
bool run(const T* x, T* y, double scale, std::int64_t n) {
  using Bits = typename Exponent<T>::Bits;
  Bits bad = 0;
  if constexpr (!is_low<T>) {
    const T factor = static_cast<T>(scale);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = x[i] * factor;
      bad |= finite(y[i]) ? Bits{0} : Bits{1};
    }
    return bad == 0;
  }
  // 16-bit floats go through a block of float32 in L1.
  alignas(64) float wide[kBlock];
  const float factor = static_cast<float>(scale);
  for (std::int64_t at = 0; at < n; at += kBlock) {
    const std::int64_t count = n - at < kBlock ? n - at : kBlock;
    if constexpr (is_low<T>) {
      widen(x + at, wide, count);
      for (std::int64_t i = 0; i < count; ++i) wide[i] *= factor;
      narrow(wide, y + at, count);
    }
    for (std::int64_t i = at; i < at + count; ++i) {
      bad |= static_cast<Bits>(finite(y[i]) ? 0 : 1);
    }
  }
  return bad == 0;
}

}  // namespace

bool scale_and_check(DType dtype, const void* x, void* y, double scale, std::int64_t n) {
  switch (dtype) {
    case DType::float16:
      return run(static_cast<const Half*>(x), static_cast<Half*>(y), scale, n);
    case DType::bfloat16:
      return run(static_cast<const BFloat16*>(x), static_cast<BFloat16*>(y), scale, n);
    case DType::float64:
      return run(static_cast<const double*>(x), static_cast<double*>(y), scale, n);
    default:
      return run(static_cast<const float*>(x), static_cast<float*>(y), scale, n);
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
