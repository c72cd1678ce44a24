// The mathematical functions of elementwise kernels, one element ("lane") at a time: branch-free,
// so that the compiler vectorises a loop over them at any width. For *.simd.cpp files only.
//
// float functions are within 2 ulp over their whole range (tools/ulp.py checks every input); where
// float would lose digits they are computed in double, which also vectorises. double functions are
// libm's, or built on them. Infinities, NaN and signed zeros follow C99's Annex F.
//
// The polynomials are minimax fits of our own on the interval given beside each; the number behind
// "2^" bounds the relative error of the function that they stand for.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mge::cpu::MGE_SIMD_NS {
namespace {
namespace lanes {

#define MGE_LANE [[gnu::always_inline]] inline

template <class T>
inline constexpr T kInf = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

MGE_LANE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MGE_LANE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
MGE_LANE float abs(float x) { return __builtin_fabsf(x); }
MGE_LANE double abs(double x) { return __builtin_fabs(x); }
MGE_LANE float sqrt(float x) { return __builtin_sqrtf(x); }
MGE_LANE double sqrt(double x) { return __builtin_sqrt(x); }
MGE_LANE float floor(float x) { return __builtin_floorf(x); }
MGE_LANE double floor(double x) { return __builtin_floor(x); }
MGE_LANE float ceil(float x) { return __builtin_ceilf(x); }
MGE_LANE double ceil(double x) { return __builtin_ceil(x); }
MGE_LANE float trunc(float x) { return __builtin_truncf(x); }
MGE_LANE double trunc(double x) { return __builtin_trunc(x); }
MGE_LANE float copysign(float x, float s) { return __builtin_copysignf(x, s); }
MGE_LANE double copysign(double x, double s) { return __builtin_copysign(x, s); }

// c0 + x c1 + x^2 c2 + ...
template <class T>
MGE_LANE T poly(T, T c0) {
  return c0;
}
template <class T, class... Rest>
MGE_LANE T poly(T x, T c0, T c1, Rest... rest) {
  return fma(x, poly(x, c1, T(rest)...), c0);
}

// Half away from zero.
template <class T>
MGE_LANE T round(T x) {
  const T whole = trunc(x);
  const T up = abs(x - whole) >= T(0.5) ? T(1) : T(0);
  return copysign(abs(whole) + up, x);
}

// ---- building blocks in double, to about 2^-34 relative, for float functions
// ----------------------

// Adding this rounds a double below 2^51 in size to an integer, which then is in the low bits.
inline constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52

// 2^t; t is cut to [-1000, 1000], far outside of float's range.
MGE_LANE double wide_exp2(double t) {
  t = t > 1000 ? 1000 : t;
  t = t < -1000 ? -1000 : t;
  const double shifted = t + kRound;
  const double r = t - (shifted - kRound);
  // [-0.501, 0.501], 2^-34.3
  const double p = poly(r, 1.0, 6.93147180706810029e-01, 2.40226510710183111e-01,
                        5.55041036011525851e-02, 9.61803740385881040e-03, 1.33339379561284795e-03,
                        1.54670091174244432e-04, 1.51959574894647840e-05);
  const std::uint64_t scale =
      (std::bit_cast<std::uint64_t>(shifted) << 52) + (std::uint64_t{1023} << 52);
  return p * std::bit_cast<double>(scale);
}
MGE_LANE double wide_exp(double x) { return wide_exp2(x * 1.4426950408889634); }

// The natural logarithm of a normal double.
MGE_LANE double wide_log(double x) {
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t shifted = bits - sqrt_half + (std::uint64_t{1023} << 52);
  // The exponent, as a double: put under the mantissa of 2^52.
  const double e =
      std::bit_cast<double>((shifted >> 52) | 0x4330000000000000u) - 4503599627371519.0;
  const double m = std::bit_cast<double>((shifted & 0x000fffffffffffffu) + sqrt_half);
  const double s = (m - 1) / (m + 1), u = s * s;
  // log(m) = 2 atanh(s); m in [sqrt(1/2), sqrt(2)], 2^-44.9
  const double p = poly(u, 6.66666666758620852e-01, 3.99999955969379983e-01,
                        2.85721121979027215e-01, 2.21760461643990908e-01, 1.95864118484948502e-01);
  double r = fma(e, 0.69314718055994531, fma(s * u, p, 2 * s));
  r = x == kInf<double> ? x : r;
  r = x == 0 ? -kInf<double> : r;
  return x >= 0 ? r : kNaN<double>;
}

// x - k pi/2 for the nearest integer k, whose low bits are in the low bits of `quadrant`. The
// product with the first part of pi/2 is exact inside the fma: good for |x| up to kTrigLimit.
inline constexpr double kTrigLimit = 1073741824.0;  // 2^30
MGE_LANE double reduce_half_pi(double x, std::uint64_t& quadrant) {
  const double shifted = fma(x, 0.63661977236758134, kRound);
  const double k = shifted - kRound;
  quadrant = std::bit_cast<std::uint64_t>(shifted);
  return fma(k, -6.1232339957367660e-17, fma(k, -1.5707963267948966, x));
}
// [-0.794, 0.794], 2^-37.4
MGE_LANE double sin_poly(double r) {
  const double u = r * r;
  return fma(r * u,
             poly(u, -1.66666666386402984e-01, 8.33332905602639055e-03, -1.98392326437063071e-04,
                  2.71736657888654334e-06),
             r);
}
// [-0.794, 0.794], 2^-42.8
MGE_LANE double cos_poly(double r) {
  const double u = r * r;
  return fma(u * u,
             poly(u, 4.16666666155094956e-02, -1.38888831634739317e-03, 2.47993727334113804e-05,
                  -2.71986283462636590e-07),
             fma(u, -0.5, 1.0));
}
// atan on [-1, 1], 2^-33.9
MGE_LANE double atan_poly(double x) {
  const double u = x * x;
  return fma(x * u,
             poly(u, -3.33333321337526245e-01, 1.99999272405249839e-01, -1.42841671626867145e-01,
                  1.10945030491136520e-01, -8.98543605716264210e-02, 7.25942916309619130e-02,
                  -5.45157999446451089e-02, 3.44756775968636381e-02, -1.62993051663465546e-02,
                  4.92629620838609672e-03, -6.97946337616207738e-04),
             x);
}
// asin on [-1/2, 1/2], 2^-31.7
MGE_LANE double asin_poly(double x) {
  const double u = x * x;
  return fma(x * u,
             poly(u, 1.666665971e-01, 7.500521839e-02, 4.451335222e-02, 3.183952346e-02,
                  1.431217324e-02, 3.770212084e-02),
             x);
}
inline constexpr double kPi = 3.14159265358979324;

// (1 + 2 z) exp(z^2) erfc(z) for 0 <= z <= 10.3 as a polynomial in q = (z - 2) / (z + 2), 2^-32
MGE_LANE double scaled_erfc(double q) {
  return poly(q, 1.27697838181854606, -9.27638285515732103e-02, -1.66030431775296444e-01,
              1.64051354567188196e-01, -5.42192603205966100e-02, -8.03463028779560426e-03,
              8.71656754206829795e-03, 1.27180269013392228e-03, -1.43379507100854352e-03,
              -4.43963846896727298e-04, 1.67229363184531813e-04, 1.15204559581557134e-04,
              1.72473446607359215e-05);
}

// ---- exponentials
// -----------------------------------------------------------------------------------

// e^x as mantissa * 2^exponent with a mantissa in [0.7, 1.5], so that a factor can go in between;
// `rest` is what the mantissa lost to rounding.
struct ExpParts {
  float mantissa, rest;
  std::int32_t exponent;
};
MGE_LANE ExpParts exp_parts(float x) {
  constexpr float magic = 12582912.0f;  // 1.5 * 2^23
  const float shifted = fma(x, 1.442695041f, magic);
  const float k = shifted - magic;
  const float r = fma(k, -1.428606820e-06f, fma(k, -0.693145752f, x));
  // [-0.3472, 0.3472], 2^-27.8
  const float p = poly(r, 5.000000000e-01f, 1.666648686e-01f, 4.166554287e-02f, 8.372453973e-03f,
                       1.403618371e-03f);
  const float s = fma(r * r, p, r), mantissa = s + 1.0f;
  return {mantissa, s - (mantissa - 1.0f),
          static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u)};
}
MGE_LANE float power_of_two(std::int32_t k) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23);
}
// x * 2^k for |k| <= 252: in two steps, so that the result may be subnormal or overflow.
MGE_LANE float scale(float x, std::int32_t k) {
  const std::int32_t half = k >> 1;
  return x * power_of_two(half) * power_of_two(k - half);
}
MGE_LANE float clamp(float x, float low, float high) {  // keeps NaN
  x = x < low ? low : x;
  return x > high ? high : x;
}

MGE_LANE float exp(float x) {
  const ExpParts e = exp_parts(clamp(x, -104.0f, 89.0f));
  return scale(e.mantissa, e.exponent);
}
MGE_LANE double exp(double x) { return std::exp(x); }

MGE_LANE float expm1(float x) {
  constexpr float magic = 12582912.0f;
  x = clamp(x, -18.0f, 89.0f);
  const float shifted = fma(x, 1.442695041f, magic);
  const float k = shifted - magic;
  const float r = fma(k, -1.428606820e-06f, fma(k, -0.693145752f, x));
  // [-0.3472, 0.3472], 2^-26 of expm1
  const float p = poly(r, 5.000000000e-01f, 1.666653007e-01f, 4.166615382e-02f, 8.368265815e-03f,
                       1.397654531e-03f);
  const float m = fma(r * r, p, r);
  // 2^k m + (2^k - 1), at half the scale: 2^128 would overflow before the sum.
  const float s = power_of_two(
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u) - 1);
  const float wide = 2 * fma(s, m, s - 0.5f);
  return k == 0 ? (x == 0 ? x : m) : wide;
}
MGE_LANE double expm1(double x) { return std::expm1(x); }

MGE_LANE float log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float y = tiny ? x * 8388608.0f : x;
  constexpr std::uint32_t sqrt_half = 0x3f3504f3u;
  const std::uint32_t shifted = std::bit_cast<std::uint32_t>(y) - sqrt_half;
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + sqrt_half);
  const float e =
      static_cast<float>(static_cast<std::int32_t>(shifted) >> 23) - (tiny ? 23.0f : 0.0f);
  const float f = m - 1.0f, u = f * f;
  // [sqrt(1/2), sqrt(2)], 2^-29.7
  const float p = poly(f, 3.333331347e-01f, -2.500008047e-01f, 2.000211477e-01f, -1.666418165e-01f,
                       1.421682090e-01f, -1.246788129e-01f, 1.196584180e-01f, -1.135261282e-01f,
                       6.203671917e-02f);
  // From the smallest part to the largest. ln 2 is split so that e times its first part is exact.
  float r = fma(u * f, p, e * 1.428606820e-06f);
  r = fma(u, -0.5f, r) + f;
  r = fma(e, 0.693145752f, r);
  r = x == kInf<float> ? x : r;
  r = x == 0 ? -kInf<float> : r;
  return x >= 0 ? r : kNaN<float>;
}
MGE_LANE double log(double x) { return std::log(x); }

// log(1 + x): x and 1 are scaled by the exponent of 1 + x before they are added, which loses
// nothing.
MGE_LANE float log1p(float x) {
  const float one_more = x + 1.0f;
  const std::uint32_t k =
      (std::bit_cast<std::uint32_t>(one_more) - 0x3f3504f3u) & 0xff800000u;  // exponent, in place
  // 2^(2 - k): 2^-k itself may be subnormal.
  const float down = std::bit_cast<float>(0x40800000u - k);
  const float e = static_cast<float>(static_cast<std::int32_t>(k) >> 23);
  const float f = fma(0.25f * x, down, fma(0.25f, down, -1.0f)), u = f * f;
  const float p = poly(f, 3.333331347e-01f, -2.500008047e-01f, 2.000211477e-01f, -1.666418165e-01f,
                       1.421682090e-01f, -1.246788129e-01f, 1.196584180e-01f, -1.135261282e-01f,
                       6.203671917e-02f);
  float r = fma(u * f, p, e * 1.428606820e-06f);
  r = fma(u, -0.5f, r) + f;
  r = fma(e, 0.693145752f, r);
  r = x == kInf<float> ? x : r;
  r = x == -1.0f ? -kInf<float> : r;
  r = abs(x) < 2.98023224e-08f ? x : r;  // 2^-25
  return x >= -1.0f ? r : kNaN<float>;
}
MGE_LANE double log1p(double x) { return std::log1p(x); }

// max(a, b) + log(1 + e^-|a - b|)
template <class T>
MGE_LANE T logaddexp(T a, T b) {
  const T most = a > b ? a : b;
  const T gap = a == b ? T(0) : abs(a - b);  // equal infinities have none
  return most + log1p(exp(-gap));
}

// ---- sigmoid and its kin
// ------------------------------------------------------------------------------

// sigmoid(x) and 1 - sigmoid(x), neither of which cancels.
template <class T>
struct SigmoidPair {
  T value, complement;
};
template <class T>
MGE_LANE SigmoidPair<T> sigmoid_pair(T x) {
  const T e = exp(-abs(x));
  const T large = T(1) / (T(1) + e), small = e * large;
  return {x < 0 ? small : large, x < 0 ? large : small};
}
MGE_LANE double sigmoid(double x) {
  const double e = exp(-abs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
// e^-|x| and 1 + e^-|x|, and what that sum lost to rounding. |x| is cut to 120, where the first has
// long vanished.
struct SigmoidParts {
  ExpParts e;
  float sum, sum_rest;
};
MGE_LANE SigmoidParts sigmoid_parts(float x) {
  const ExpParts e = exp_parts(-abs(clamp(x, -120.0f, 120.0f)));
  const float power = power_of_two(e.exponent < -126 ? -126 : e.exponent);
  const float sum = fma(e.mantissa, power, 1.0f);
  return {e, sum, fma(e.mantissa, power, 1.0f - sum)};
}
MGE_LANE float sigmoid(float x) {
  const auto [e, sum, sum_rest] = sigmoid_parts(x);
  // The power of two comes last: e^-90 is subnormal, which costs digits. Mantissa and sum are about
  // 1, which is close enough to give back most of what they lost.
  const float below = e.mantissa / sum;
  return x < 0 ? scale(fma(below, e.rest - sum_rest, below), e.exponent) : 1.0f / sum;
}

// x * sigmoid(x). Below 0 the power of two comes last here too: 90 e^-90 is not subnormal.
MGE_LANE float silu(float x) {
  const auto [e, sum, sum_rest] = sigmoid_parts(x);
  const float z = x < -120.0f ? -120.0f : x;
  const float top = x < 0 ? z * e.mantissa : z;
  const float lost = x < 0 ? fma(z, e.mantissa, -top) + z * e.rest : 0.0f;
  const float inverse = 1.0f / sum, q = top * inverse;
  const float low = (fma(-q, sum_rest, fma(-q, sum, top)) + lost) * inverse;
  // An infinite x has no low part.
  return scale(q < kInf<float> ? q + low : q, x < 0 ? e.exponent : 0);
}
MGE_LANE double silu(double x) {
  const double z = x < -800 ? -800 : x;
  return z < 0 ? z * sigmoid(z) : x * sigmoid(x);
}
// The derivative, s (1 + x (1 - s)).
template <class T>
MGE_LANE T silu_slope(T x) {
  const SigmoidPair<T> s = sigmoid_pair(x);
  const T bounded = x < T(-1000) ? T(-1000) : x > T(1000) ? T(1000) : x;  // no 0 * infinity
  return s.value * fma(bounded, s.complement, T(1));
}
template <class T>
MGE_LANE T softplus(T x) {
  return (x < 0 ? T(0) : x) + log1p(exp(-abs(x)));
}
template <class T>
MGE_LANE T logsigmoid(T x) {
  return (x > 0 ? T(0) : x) - log1p(exp(-abs(x)));
}

MGE_LANE float tanh(float x) {
  const float z = abs(x);
  const float u = z * z;
  // [0, 0.625], 2^-27.7
  const float near = fma(z * u,
                         poly(u, -3.333328068e-01f, 1.333140582e-01f, -5.373651534e-02f,
                              2.062816732e-02f, -5.692296196e-03f),
                         z);
  const ExpParts e = exp_parts(2 * (z > 10.0f ? 10.0f : z));
  const float far = 1.0f - 2.0f / fma(e.mantissa, power_of_two(e.exponent), 1.0f);
  return copysign(z < 0.625f ? near : far, x);
}
MGE_LANE double tanh(double x) { return std::tanh(x); }

MGE_LANE float sinh(float x) {
  const double z = abs(static_cast<double>(x)), u = z * z;
  const double e = wide_exp(z);
  // Taylor's terms up to z^9 leave 2^-32 at 0.6.
  const double near = fma(z * u, poly(u, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880), z);
  const double r = z < 0.6 ? near : 0.5 * (e - 1 / e);
  return copysign(static_cast<float>(r), x);
}
MGE_LANE double sinh(double x) { return std::sinh(x); }
MGE_LANE float cosh(float x) {
  const double e = wide_exp(abs(static_cast<double>(x)));
  return static_cast<float>(0.5 * (e + 1 / e));
}
MGE_LANE double cosh(double x) { return std::cosh(x); }

// ---- inverse hyperbolic functions
// -----------------------------------------------------------------

// log(1 + t) needs t to be seen beside the 1; below 2^-12 the first terms of the series are better.
inline constexpr double kSmall = 1.0 / 4096;

MGE_LANE float asinh(float x) {
  const double z = abs(static_cast<double>(x)), u = z * z;
  const double t = z + u / (1 + sqrt(u + 1));
  const double far = z == kInf<double> ? z : wide_log(1 + t);
  const double r = z < kSmall ? fma(z * u, -1.0 / 6, z) : far;
  return copysign(static_cast<float>(r), x);
}
MGE_LANE double asinh(double x) { return std::asinh(x); }
MGE_LANE float acosh(float x) {
  const double d = static_cast<double>(x) - 1;
  const double r = wide_log(1 + (d + sqrt(d * (d + 2))));
  return x >= 1 ? static_cast<float>(r) : kNaN<float>;
}
MGE_LANE double acosh(double x) { return std::acosh(x); }
MGE_LANE float atanh(float x) {
  const double z = abs(static_cast<double>(x));
  const double far = 0.5 * wide_log(1 + 2 * z / (1 - z));
  const double r = z < kSmall ? fma(z * z * z, 1.0 / 3, z) : far;
  return copysign(static_cast<float>(r), x);
}
MGE_LANE double atanh(double x) { return std::atanh(x); }

// ---- trigonometry
// -----------------------------------------------------------------------------------

// For |x| <= kTrigLimit; kernels send others to libm.
MGE_LANE float sin(float x) {
  std::uint64_t quadrant;
  const double r = reduce_half_pi(x, quadrant);
  const double v = quadrant & 1 ? cos_poly(r) : sin_poly(r);
  return x == 0 ? x : static_cast<float>(quadrant & 2 ? -v : v);
}
MGE_LANE double sin(double x) { return std::sin(x); }
MGE_LANE float cos(float x) {
  std::uint64_t quadrant;
  const double r = reduce_half_pi(x, quadrant);
  const double v = quadrant & 1 ? sin_poly(r) : cos_poly(r);
  return static_cast<float>((quadrant + 1) & 2 ? -v : v);
}
MGE_LANE double cos(double x) { return std::cos(x); }
MGE_LANE float tan(float x) {
  std::uint64_t quadrant;
  const double r = reduce_half_pi(x, quadrant);
  const double s = sin_poly(r), c = cos_poly(r);
  return x == 0 ? x : static_cast<float>(quadrant & 1 ? -c / s : s / c);
}
MGE_LANE double tan(double x) { return std::tan(x); }

MGE_LANE float asin(float x) {
  const double z = abs(static_cast<double>(x));
  const bool far = z > 0.5;
  // asin(z) = pi/2 - 2 asin(sqrt((1 - z) / 2))
  const double r = asin_poly(far ? sqrt(0.5 * (1 - z)) : z);
  return copysign(static_cast<float>(far ? kPi / 2 - 2 * r : r), x);
}
MGE_LANE double asin(double x) { return std::asin(x); }
MGE_LANE float acos(float x) {
  const double z = abs(static_cast<double>(x));
  const bool far = z > 0.5;
  const double r = asin_poly(far ? sqrt(0.5 * (1 - z)) : z);
  const double positive = far ? 2 * r : kPi / 2 - r;
  return static_cast<float>(x < 0 ? kPi - positive : positive);
}
MGE_LANE double acos(double x) { return std::acos(x); }
MGE_LANE float atan(float x) {
  const double z = abs(static_cast<double>(x));
  const bool far = z > 1;
  const double r = atan_poly(far ? 1 / z : z);
  return copysign(static_cast<float>(far ? kPi / 2 - r : r), x);
}
MGE_LANE double atan(double x) { return std::atan(x); }
MGE_LANE float atan2(float y, float x) {
  const double ay = abs(static_cast<double>(y)), ax = abs(static_cast<double>(x));
  const bool steep = ay > ax;
  const double most = steep ? ay : ax, least = steep ? ax : ay;
  double slope = least / most;
  slope = least == most ? 1 : slope;  // both infinite
  slope = most == 0 ? 0 : slope;
  double r = atan_poly(slope);
  r = steep ? kPi / 2 - r : r;
  r = std::bit_cast<std::uint32_t>(x) >> 31 ? kPi - r : r;
  const float f = copysign(static_cast<float>(r), y);
  return x != x || y != y ? x + y : f;
}
MGE_LANE double atan2(double y, double x) { return std::atan2(y, x); }

// ---- powers
// -------------------------------------------------------------------------------------------

// The conditions are all on floats and joined without short circuits: others do not vectorise.
MGE_LANE float pow(float x, float y) {
  const double t = y * (wide_log(abs(static_cast<double>(x))) * 1.4426950408889634);
  float size = static_cast<float>(wide_exp2(t));
  const float ax = abs(x), ay = abs(y);
  // 1 to any power and anything to the power 0 are 1, NaN included; the logarithm says 0 *
  // infinity.
  size = ax == 1.0f ? 1.0f : size;
  // Whole numbers from 2^24 on are even here, infinity too.
  const float half = ay * 0.5f;
  const bool whole = trunc(ay) == ay;
  const bool odd = whole & (trunc(half) != half) & (ay < 16777216.0f);
  const bool negative = std::bit_cast<std::int32_t>(x) < 0;
  float r = negative & odd ? -size : size;
  r = (x < 0) & !whole & (ax < kInf<float>) ? kNaN<float> : r;
  r = (x != x) | (y != y) ? x + y : r;
  return (x == 1.0f) | (y == 0) ? 1.0f : r;
}
MGE_LANE double pow(double x, double y) { return std::pow(x, y); }

// ---- the error function
// -----------------------------------------------------------------------------

MGE_LANE double wide_erfc(double z) {  // z >= 0
  z = z > 12 ? 12 : z;
  return wide_exp(-z * z) * scaled_erfc((z - 2) / (z + 2)) / (1 + 2 * z);
}
// erf(z) / z - 1 in u = z^2; z in [0, 0.9], 2^-30
MGE_LANE float erf_poly(float u) {
  return poly(u, 1.283791661e-01f, -3.761263192e-01f, 1.128370091e-01f, -2.686078660e-02f,
              5.206132773e-03f, -8.212813991e-04f, 8.702273772e-05f);
}
MGE_LANE double erf(double x) { return std::erf(x); }
MGE_LANE float erfc(float x) {
  const double r = wide_erfc(abs(static_cast<double>(x)));
  return static_cast<float>(x < 0 ? 2 - r : r);
}
MGE_LANE double erfc(double x) { return std::erfc(x); }

// e^(-x^2 / 2) for |x| <= 15, but for the rounding of x^2.
MGE_LANE ExpParts normal_exp(float x) { return exp_parts(-0.5f * (x * x)); }
// erfc(|x| / sqrt(2)) / 2, the share of the normal distribution beyond |x|, for |x| <= 15 (where it
// vanishes in float), from e = normal_exp(x). What each step loses to rounding goes into `rest`.
MGE_LANE ExpParts normal_tail(float x, const ExpParts& e) {
  const float z = abs(x);
  // x^2 / 2 in two parts: its rounding error alone would cost seven bits at x = 13.
  const float square = x * x;
  const float e_rest = fma(-0.5f * fma(x, x, -square), e.mantissa, e.rest);
  const float q = (z - 3.0f) / (z + 3.0f);
  // (1 + 1.5 z) e^(z^2 / 2) erfc(z / sqrt(2)) / 2 for 0 <= z <= 14.5, 2^-31
  constexpr float first = 6.68326715998808774e-01f, first_rest = -1.949771222e-08f;
  const float tilt =
      q * poly(q, -4.15888352574304496e-02f, -8.62607517940367219e-02f, 9.08527375073217985e-02f,
               -3.71608811716830773e-02f, 2.86317498392947263e-04f, 5.00709812241356862e-03f,
               -3.50864980293152907e-04f, -8.33123745983172328e-04f, -2.23056721422735312e-05f,
               1.32876736979117848e-04f, 3.48848350995288760e-05f);
  const float p = first + tilt, p_rest = first - p + tilt + first_rest;
  const float d = fma(1.5f, z, 1.0f), d_rest = fma(1.5f, z, 1.0f - d);
  const float inverse = 1.0f / d, g = p * inverse;
  const float g_rest = fma(-g, d_rest, fma(-g, d, p) + p_rest) * inverse;
  const float high = e.mantissa * g;
  return {high, fma(e_rest, g, fma(e.mantissa, g_rest, fma(e.mantissa, g, -high))), e.exponent};
}
MGE_LANE float erf(float x) {
  const float z = abs(x);
  const float bounded = z > 5.0f ? 5.0f : z;
  const float y = bounded * 1.41421356f;
  const ExpParts tail = normal_tail(y, normal_exp(y));
  const float far = fma(-2.0f * tail.mantissa, power_of_two(tail.exponent), 1.0f);
  return copysign(z < 0.9f ? fma(z, erf_poly(z * z), z) : far, x);
}
// x times the normal distribution function of x.
MGE_LANE float gelu(float x) {
  const float z = clamp(x, -15.0f, 15.0f);
  const ExpParts tail = normal_tail(z, normal_exp(z));
  // Below 0, x comes in before the power of two: the tail may be subnormal where the result is not.
  const float high = z * tail.mantissa;
  const float below = high + fma(z, tail.rest, fma(z, tail.mantissa, -high));
  const float scaled = scale(x < 0 ? below : tail.mantissa + tail.rest, tail.exponent);
  const float far = x < 0 ? scaled : x * (1.0f - scaled);
  // Around 0 the distribution function is (1 + erf(x / sqrt(2))) / 2.
  const float slope = fma(0.353553391f, erf_poly(0.5f * z * z), 0.353553391f);
  return abs(x) < 0.7f ? x * fma(z, slope, 0.5f) : far;
}
MGE_LANE double gelu(double x) {
  const double z = x < -40 ? -40 : x;
  return z * (0.5 * std::erfc(z * -0.70710678118654752));
}
// The derivative: the distribution function plus x times the density.
MGE_LANE float gelu_slope(float x) {
  const float z = clamp(x, -15.0f, 15.0f);
  const ExpParts e = normal_exp(z), tail = normal_tail(z, e);
  const float beyond = scale(tail.mantissa, tail.exponent);
  const float density = 0.398942280f * scale(e.mantissa, e.exponent);
  return fma(z, density, x < 0 ? beyond : 1.0f - beyond);
}
MGE_LANE double gelu_slope(double x) {
  const double z = x < -40 ? -40 : x > 40 ? 40 : x;
  return 0.5 * std::erfc(z * -0.70710678118654752) +
         z * 0.39894228040143268 * std::exp(-0.5 * z * z);
}

// gelu and its slope with the normal distribution function exact to 2^-22, as 1 + erf is, and not
// to the digits of its tail, which take three times as long.
MGE_LANE float fast_gelu(float x) {
  const float z = clamp(x, -5.5f, 5.5f);
  // (distribution function - 1/2) / z in z^2, which runs from -1 to 1 here: to 2^-25; rounding
  // makes it 2^-22.7
  const float u = fma(z * z, 2 / 30.25f, -1.0f);
  const float p = poly(u, 1.285519295e-01f, -6.417232500e-02f, 4.773778316e-02f, -3.879340558e-02f,
                       3.206742816e-02f, -2.604036884e-02f, 2.038357138e-02f, -1.504235102e-02f,
                       1.016775549e-02f, -6.700172242e-03f, 4.718356385e-03f, -2.593710551e-03f,
                       6.437077841e-04f, -4.001957678e-04f, 6.551481798e-04f, -2.740660155e-04f);
  return x < -5.5f ? 0.0f : x * fma(z, p, 0.5f);
}
MGE_LANE double fast_gelu(double x) { return gelu(x); }
MGE_LANE float fast_gelu_slope(float x) {
  const float z = clamp(x, -5.75f, 5.75f);
  // (slope - 1/2) / z in the same way: to 2^-25; rounding makes it 2^-22
  const float u = fma(z * z, 2 / 33.0625f, -1.0f);
  const float p = poly(u, 1.230718270e-01f, -6.228140742e-02f, 4.936722293e-02f, -4.729423672e-02f,
                       5.170648545e-02f, -5.952444300e-02f, 6.675459445e-02f, -7.057823241e-02f,
                       6.938505918e-02f, -5.935922265e-02f, 4.316299781e-02f, -3.492847830e-02f,
                       3.169308975e-02f, -1.622025110e-02f, 1.062140218e-03f, -2.832292113e-03f,
                       6.217061076e-03f, -2.445366234e-03f);
  return fma(z, p, 0.5f);
}
MGE_LANE double fast_gelu_slope(double x) { return gelu_slope(x); }

// erfinv(x) / x as a function of w = -log(1 - x^2); 2^-26.4 up to w = 106.
MGE_LANE double erfinv_over_x(double w) {
  const double s = sqrt(w);
  const double near =
      poly(w - 2.5, 1.50140935351378579e+00, 2.46640287638502459e-01, -4.17733940954843463e-03,
           -1.25274466745915226e-03, 2.18282636063799404e-04, -4.96190824255227387e-06,
           -3.43461338355152439e-06, 4.65891355542744451e-07, 1.80374458071284054e-08,
           -8.77277201610357399e-09, 3.35527434931428824e-10);
  const double middle =
      poly(s - 3, 2.83297679568777472e+00, 1.00167508677115169e+00, 9.44568421368389456e-03,
           -7.63941015515030419e-03, 5.68317204277234232e-03, -3.58698731819477026e-03,
           1.49585758399376563e-03, -7.66199266043725692e-05, -3.18723917813143280e-04,
           1.28964484938889955e-04);
  const double far =
      poly(s - 7, 6.86901971769396091e+00, 1.00859551379483903e+00, -5.12987107375080737e-04,
           6.43747833885125771e-06, 6.31629033474335428e-06, -1.68574717011132027e-06,
           2.44267038921314036e-07, -4.11640821646566373e-08, 1.58441109211818192e-08,
           -2.43706619082649356e-09);
  return w < 5 ? near : s < 4 ? middle : far;
}
MGE_LANE float erfinv(float x) {
  const double z = x;
  const double r = z * erfinv_over_x(-wide_log((1 - z) * (1 + z)));
  return abs(x) == 1 ? copysign(kInf<float>, x) : static_cast<float>(r);
}
MGE_LANE float erfcinv(float x) {
  const double z = x;
  const double r = (1 - z) * erfinv_over_x(-wide_log(z * (2 - z)));
  const float edge = x == 0 ? kInf<float> : -kInf<float>;
  return x == 0 || x == 2 ? edge : static_cast<float>(r);
}
// Three steps of Halley's method on erfc, which keeps its digits where erf has none left.
MGE_LANE double refine_erfcinv(double r, double y) {
  for (int i = 0; i < 3; ++i) {
    const double error = (std::erfc(r) - y) / (1.1283791670955126 * std::exp(-r * r));
    const double step = error / (1 + r * error);
    r = std::isfinite(step) ? r + step : r;
  }
  return r;
}
MGE_LANE double erfcinv(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? kInf<double> : y == 2 ? -kInf<double> : kNaN<double>;
  const bool low = y > 1;
  const double p = low ? 2 - y : y;
  const double w = -(std::log(p) + std::log(2 - p));
  // Past the fit, r^2 = w - log(r sqrt(pi)) with its first approximation inside.
  const double start = w < 100 ? (1 - p) * erfinv_over_x(w)
                               : std::sqrt(w - 0.5 * std::log(w * 3.14159265358979324 / 4));
  const double r = refine_erfcinv(start, p);
  return low ? -r : r;
}
MGE_LANE double erfinv(double x) {
  const double z = std::fabs(x);
  if (z < 0.5) {
    double r = x * erfinv_over_x(-std::log1p(-x * x));
    for (int i = 0; i < 2; ++i) {
      const double error = (std::erf(r) - x) / (1.1283791670955126 * std::exp(-r * r));
      r -= error / (1 + r * error);
    }
    return r;
  }
  return std::copysign(erfcinv(1 - z), x);
}

// ---- division
// ---------------------------------------------------------------------------------------

template <class T>
struct Quotient {
  T floor, remainder;
};
// Floor division and the remainder with the sign of the divisor, for |a / b| < kQuotientLimit.
inline constexpr double kQuotientLimit = 4503599627370496.0;  // 2^52
MGE_LANE Quotient<float> divide(float a, float b) {
  const double x = a, y = b;
  double q = floor(x / y);
  double r = fma(-q, y, x);  // exact
  // x / y may have been rounded up to a whole number.
  const bool over = r * y < 0;
  q = over ? q - 1 : q;
  r = over ? r + y : r;
  // A finite number over infinity is 0 or just below; infinity over anything is NaN.
  const bool apart = x * y < 0;
  const bool by_inf = (abs(y) == kInf<double>)&(abs(x) < kInf<double>);
  q = (r != r) & (y != 0) ? kNaN<double> : q;
  q = by_inf ? (apart ? -1.0 : 0.0) : q;
  r = by_inf ? (apart ? y : x) : r;
  return {static_cast<float>(q), static_cast<float>(r == 0 ? copysign(0.0, y) : r)};
}
inline Quotient<double> divide(double a, double b) {
  if (b == 0) return {a / b, kNaN<double>};
  double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) {
    r += b;
    q -= 1;
  }
  if (r == 0) r = std::copysign(0.0, b);
  if (q == 0) return {std::copysign(0.0, a / b), r};
  const double whole = std::floor(q);
  return {q - whole > 0.5 ? whole + 1 : whole, r};
}

#undef MGE_LANE

}  // namespace lanes
}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
