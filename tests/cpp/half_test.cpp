#include "core/tensor/half.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/cpp/check.h"

namespace {

using mge::BFloat16;
using mge::Half;

bool is_nan(float x) { return x != x; }

template <class T>
void check_round_trip() {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = T::decode(static_cast<std::uint16_t>(bits));
    const std::uint16_t back = T::encode(value);
    if (is_nan(value)) {
      CHECK(is_nan(T::decode(back)));
    } else {
      CHECK(back == bits);
    }
  }
}

// The encoding of x is the nearest value of the format, the even one of two as near.
template <class T>
void check_nearest(float x) {
  const std::uint16_t bits = T::encode(x);
  const double got = T::decode(bits);
  if (std::isinf(got)) return;  // the boundaries have tests of their own
  const double error = std::abs(got - x);
  for (int step : {-1, 1}) {
    const float other = T::decode(static_cast<std::uint16_t>(bits + step));
    if (is_nan(other) || std::isinf(other)) continue;
    const double other_error = std::abs(static_cast<double>(other) - x);
    CHECK(error <= other_error);
    if (error == other_error) CHECK((bits & 1u) == 0);
  }
}

template <class T>
void check_random() {
  std::mt19937 random(0);
  for (int i = 0; i < 1000000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!is_nan(x) && !std::isinf(x)) check_nearest<T>(x);
  }
}

TEST(half_round_trip) { check_round_trip<Half>(); }
TEST(bfloat16_round_trip) { check_round_trip<BFloat16>(); }
TEST(half_nearest) { check_random<Half>(); }
TEST(bfloat16_nearest) { check_random<BFloat16>(); }

TEST(half_midpoints) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = Half::decode(static_cast<std::uint16_t>(bits));
    const float high = Half::decode(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    CHECK(Half::encode(middle) == ((bits & 1u) ? bits + 1 : bits));
    CHECK(Half::encode(std::nextafter(middle, low)) == bits);
    CHECK(Half::encode(std::nextafter(middle, high)) == bits + 1);
  }
}

TEST(half_overflow) {
  CHECK(Half::encode(65504.0f) == 0x7bff);
  CHECK(Half::encode(std::nextafter(65520.0f, 0.0f)) == 0x7bff);
  CHECK(Half::encode(65520.0f) == 0x7c00);
  CHECK(Half::encode(-std::numeric_limits<float>::infinity()) == 0xfc00);
  CHECK(is_nan(Half::decode(Half::encode(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(bfloat16_overflow) {
  CHECK(BFloat16::encode(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(is_nan(BFloat16::decode(BFloat16::encode(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
