#include "core/kernels/cpu/lanes.h"
#include "core/ops/complex/complex.loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using Mode = ComplexElemwise::Mode;

template <class T>
struct Pair {
  T re, im;
};

// |z|, without overflow or underflow on the way: float in double, double scaled by the larger part.
[[gnu::always_inline]] inline float modulus(Pair<float> z) {
  const double re = z.re, im = z.im, r = lanes::sqrt(re * re + im * im);
  const bool infinite =
      lanes::abs(re) == lanes::kInf<double> || lanes::abs(im) == lanes::kInf<double>;
  return static_cast<float>(infinite ? lanes::kInf<double> : r);
}
[[gnu::always_inline]] inline double modulus(Pair<double> z) {
  const double a = lanes::abs(z.re), b = lanes::abs(z.im);
  const double high = a > b ? a : b, low = a > b ? b : a;
  const double ratio = high == 0 ? 0.0 : low / high;
  const double scaled = high * lanes::sqrt(1 + ratio * ratio);
  const double r = a != a || b != b ? a + b : scaled;
  return a == lanes::kInf<double> || b == lanes::kInf<double> ? lanes::kInf<double> : r;
}

// Smith's quotient.
template <class T>
[[gnu::always_inline]] inline Pair<T> quotient(Pair<T> a, Pair<T> b) {
  const double ar = a.re, ai = a.im, br = b.re, bi = b.im;
  const bool wide = lanes::abs(br) >= lanes::abs(bi);
  const double large = wide ? br : bi, small = wide ? bi : br;
  const double p = wide ? ar : ai, q = wide ? ai : ar;
  const double ratio = large == 0 ? 0.0 : small / large;
  const double scale = large + small * ratio;
  const double re = (p + q * ratio) / (large == 0 ? 0.0 : scale);
  const double im = (q - p * ratio) / (large == 0 ? 0.0 : scale);
  return {static_cast<T>(re), static_cast<T>(wide ? im : -im)};
}

template <Mode mode, class T>
[[gnu::always_inline]] inline Pair<T> compute(Pair<T> a, Pair<T> b) {
  if constexpr (mode == Mode::ADD) return {a.re + b.re, a.im + b.im};
  if constexpr (mode == Mode::SUB) return {a.re - b.re, a.im - b.im};
  if constexpr (mode == Mode::MUL) return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  if constexpr (mode == Mode::TRUE_DIV) return quotient(a, b);
  if constexpr (mode == Mode::NEGATE) return {-a.re, -a.im};
  if constexpr (mode == Mode::CONJ) return {a.re, -a.im};
}

template <Mode mode, class T, int a_step, int b_step>
void run(const T* a, const T* b, T* out, std::int64_t n) {
#pragma GCC ivdep  // the output may be an operand's own buffer
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at_a = 2 * i * a_step, at_b = 2 * i * b_step;
    const Pair<T> y = compute<mode>(Pair<T>{a[at_a], a[at_a + 1]}, Pair<T>{b[at_b], b[at_b + 1]});
    out[2 * i] = y.re;
    out[2 * i + 1] = y.im;
  }
}

template <Mode mode, class T>
void binary(ComplexOperand a, ComplexOperand b, T* out, std::int64_t n) {
  const T *p = static_cast<const T*>(a.data), *q = static_cast<const T*>(b.data);
  if (a.repeats) return run<mode, T, 0, 1>(p, q, out, n);
  if (b.repeats) return run<mode, T, 1, 0>(p, q, out, n);
  run<mode, T, 1, 1>(p, q, out, n);
}

template <class T>
void arithmetic(Mode mode, ComplexOperand a, ComplexOperand b, T* out, std::int64_t n) {
  const T* p = static_cast<const T*>(a.data);
  switch (mode) {
    case Mode::ADD:
      return binary<Mode::ADD>(a, b, out, n);
    case Mode::SUB:
      return binary<Mode::SUB>(a, b, out, n);
    case Mode::MUL:
      return binary<Mode::MUL>(a, b, out, n);
    case Mode::TRUE_DIV:
      return binary<Mode::TRUE_DIV>(a, b, out, n);
    case Mode::NEGATE:
      return run<Mode::NEGATE, T, 1, 1>(p, p, out, n);
    case Mode::CONJ:
      return run<Mode::CONJ, T, 1, 1>(p, p, out, n);
    case Mode::ABS:
      for (std::int64_t i = 0; i < n; ++i) out[i] = modulus(Pair<T>{p[2 * i], p[2 * i + 1]});
  }
}

template <class T>
void zip(const T* re, std::int64_t re_step, const T* im, std::int64_t im_step, T* out,
         std::int64_t n) {
  if (re_step == 1 && im_step == 1) {
    for (std::int64_t i = 0; i < n; ++i) {
      out[2 * i] = re[i];
      out[2 * i + 1] = im[i];
    }
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    out[2 * i] = re[i * re_step];
    out[2 * i + 1] = im[i * im_step];
  }
}

}  // namespace

void complex_arithmetic(Mode mode, DType part, ComplexOperand a, ComplexOperand b, void* out,
                        std::int64_t n) {
  if (part == DType::float32) {
    arithmetic(mode, a, b, static_cast<float*>(out), n);
  } else {
    arithmetic(mode, a, b, static_cast<double*>(out), n);
  }
}

void complex_zip(DType part, const void* re, std::int64_t re_step, const void* im,
                 std::int64_t im_step, void* out, std::int64_t n) {
  if (part == DType::float32) {
    zip(static_cast<const float*>(re), re_step, static_cast<const float*>(im), im_step,
        static_cast<float*>(out), n);
  } else {
    zip(static_cast<const double*>(re), re_step, static_cast<const double*>(im), im_step,
        static_cast<double*>(out), n);
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
