// One struct for each elementwise mode: what it does to one element, for floats (T is float or
// double) and for integers; and the loops that apply one to blocks. For *.simd.cpp files only.
#pragma once

#include <type_traits>

#include "core/kernels/cpu/elementwise_kernels.h"
#include "core/kernels/cpu/lanes.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {
namespace element {

#define MGE_LANE [[gnu::always_inline]] inline

// Integer arithmetic wraps: it happens in an unsigned type that is no narrower than int.
template <class T>
using Unsigned = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
template <class T>
inline constexpr bool is_int = std::is_integral_v<T>;

// ---- arithmetic
// ---------------------------------------------------------------------------------------

template <class T>
MGE_LANE T add(T a, T b) {
  if constexpr (is_int<T>) {
    return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
  } else {
    return a + b;
  }
}
template <class T>
MGE_LANE T sub(T a, T b) {
  if constexpr (is_int<T>) {
    return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
  } else {
    return a - b;
  }
}
template <class T>
MGE_LANE T mul(T a, T b) {
  if constexpr (is_int<T>) {
    return static_cast<T>(Unsigned<T>(a) * Unsigned<T>(b));
  } else {
    return a * b;
  }
}
template <class T>
MGE_LANE T muladd(T a, T b, T c) {
  if constexpr (is_int<T>) {
    return add(mul(a, b), c);
  } else {
    return lanes::fma(a, b, c);
  }
}
// NaN wins over everything.
template <class T>
MGE_LANE T max(T a, T b) {
  return (a > b) | (a != a) ? a : b;
}
template <class T>
MGE_LANE T min(T a, T b) {
  return (a < b) | (a != a) ? a : b;
}

// Integer division and remainder round towards minus infinity; by zero both give 0.
template <class T>
MGE_LANE T int_floor_div(T a, T b) {
  if constexpr (sizeof(T) <= 4) {
    // A double holds the operands, and the rounded quotient is on the right side of every integer.
    double q = lanes::floor(static_cast<double>(a) / static_cast<double>(b == 0 ? T(1) : b));
    // The least int32 over -1 wraps; and quotients of uint32s have the bits of an int32.
    q = q > 2147483647.0 ? q - 4294967296.0 : q;
    return static_cast<T>(b == 0 ? 0 : static_cast<std::int32_t>(q));
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_unsigned_v<T>) {
      return a / b;
    } else {
      if (b == T(-1)) return sub(T(0), a);
      const T q = a / b;
      return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
    }
  }
}
template <class T>
MGE_LANE T int_mod(T a, T b) {
  return b == 0 ? T(0) : sub(a, mul(int_floor_div(a, b), b));
}

struct Add {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return add(a, b);
  }
};
struct Sub {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return sub(a, b);
  }
};
struct Mul {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return mul(a, b);
  }
};
struct TrueDiv {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return a / b;
  }
};
struct FloorDiv {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    if constexpr (is_int<T>) {
      return int_floor_div(a, b);
    } else {
      return lanes::divide(a, b).floor;
    }
  }
  MGE_LANE static bool rare(float a, float b) {
    return lanes::abs(static_cast<double>(a) / b) >= lanes::kQuotientLimit;
  }
  static float slow(float a, float b) {
    return static_cast<float>(lanes::divide(static_cast<double>(a), static_cast<double>(b)).floor);
  }
};
struct Mod {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    if constexpr (is_int<T>) {
      return int_mod(a, b);
    } else {
      return lanes::divide(a, b).remainder;
    }
  }
  MGE_LANE static bool rare(float a, float b) { return FloorDiv::rare(a, b); }
  static float slow(float a, float b) {
    return static_cast<float>(
        lanes::divide(static_cast<double>(a), static_cast<double>(b)).remainder);
  }
};
struct Max {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return max(a, b);
  }
};
struct Min {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return min(a, b);
  }
};
struct Negate {
  template <class T>
  MGE_LANE T operator()(T a) const {
    if constexpr (is_int<T>) {
      return sub(T(0), a);
    } else {
      return -a;
    }
  }
};
struct Abs {
  template <class T>
  MGE_LANE T operator()(T a) const {
    if constexpr (!is_int<T>) {
      return lanes::abs(a);
    } else if constexpr (std::is_unsigned_v<T>) {
      return a;
    } else {
      return a < 0 ? sub(T(0), a) : a;
    }
  }
};
struct Square {
  template <class T>
  MGE_LANE T operator()(T a) const {
    return mul(a, a);
  }
};
struct Sign {
  template <class T>
  MGE_LANE T operator()(T a) const {
    const T up = a > T(0) ? T(1) : T(0), down = a < T(0) ? T(1) : T(0);
    const T s = static_cast<T>(up - down);
    return a != a ? a : s;
  }
};
struct Floor {
  template <class T>
  MGE_LANE T operator()(T a) const {
    if constexpr (is_int<T>) {
      return a;
    } else {
      return lanes::floor(a);
    }
  }
};
struct Ceil {
  template <class T>
  MGE_LANE T operator()(T a) const {
    return lanes::ceil(a);
  }
};
struct Round {
  template <class T>
  MGE_LANE T operator()(T a) const {
    return lanes::round(a);
  }
};
struct MulAdd3 {
  template <class T>
  MGE_LANE T operator()(T a, T b, T c) const {
    return muladd(a, b, c);
  }
};
struct MulAdd4 {
  template <class T>
  MGE_LANE T operator()(T a, T b, T c, T d) const {
    return muladd(a, b, mul(c, d));
  }
};
// The upper half of the product, rounded; signed numbers are fractions with one bit of sign.
struct RoundedMulHigh {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    constexpr int shift = static_cast<int>(sizeof(T)) * 8 - (std::is_signed_v<T> ? 1 : 0);
    using Signed = std::conditional_t<sizeof(T) == 8, __int128, std::int64_t>;
    using Unsigned = std::conditional_t<sizeof(T) == 8, unsigned __int128, std::uint64_t>;
    using Wide = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
    const Wide p = static_cast<Wide>(a) * static_cast<Wide>(b) + (Wide{1} << (shift - 1));
    const Wide high = p >> shift;
    return high > std::numeric_limits<T>::max() ? std::numeric_limits<T>::max()
                                                : static_cast<T>(high);
  }
};

// ---- bits and truth
// -------------------------------------------------------------------------------

// Shifts by less than 0 or by the width and more push every bit out.
struct ShiftLeft {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    constexpr unsigned width = sizeof(T) * 8;
    const auto count = static_cast<Unsigned<T>>(b);
    const Unsigned<T> shifted = Unsigned<T>(a) << (count & (width - 1));
    return static_cast<T>(count < width ? shifted : 0);
  }
};
struct ShiftRight {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    constexpr unsigned width = sizeof(T) * 8;
    const auto count = static_cast<Unsigned<T>>(b);
    const T shifted = static_cast<T>(a >> (count < width ? count : width - 1));
    return std::is_signed_v<T> || count < width ? shifted : T(0);
  }
};
struct And {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Not {  // of a bool: 0 or 1
  template <class T>
  MGE_LANE T operator()(T a) const {
    return a ^ T(1);
  }
};
struct Less {
  template <class T>
  MGE_LANE bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  MGE_LANE bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Equal {
  template <class T>
  MGE_LANE bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  MGE_LANE bool operator()(T a, T b) const {
    return a != b;
  }
};
struct IsNaN {
  template <class T>
  MGE_LANE bool operator()(T a) const {
    return a != a;
  }
};
struct IsInf {
  template <class T>
  MGE_LANE bool operator()(T a) const {
    if constexpr (is_int<T>) {
      return false;
    } else {
      return lanes::abs(a) == lanes::kInf<T>;
    }
  }
};
struct CondLeqMov {
  template <class T>
  MGE_LANE T operator()(T a, T b, T c) const {
    return a <= b ? c : T(0);
  }
};
struct CondLtMov {
  template <class T>
  MGE_LANE T operator()(T a, T b, T c) const {
    return a < b ? c : T(0);
  }
};
struct SwitchGt0 {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return a > T(0) ? b : T(0);
  }
};

// ---- functions of floats
// ----------------------------------------------------------------------------

#define MGE_FUNCTION(Name, expression)                  \
  struct Name {                                         \
    template <class T>                                  \
    MGE_LANE T operator()([[maybe_unused]] T x) const { \
      return expression;                                \
    }                                                   \
  }
MGE_FUNCTION(Exp, lanes::exp(x));
MGE_FUNCTION(Expm1, lanes::expm1(x));
MGE_FUNCTION(Log, lanes::log(x));
MGE_FUNCTION(Log1p, lanes::log1p(x));
MGE_FUNCTION(Sqrt, lanes::sqrt(x));
MGE_FUNCTION(Rsqrt, T(1) / lanes::sqrt(x));
MGE_FUNCTION(Asin, lanes::asin(x));
MGE_FUNCTION(Acos, lanes::acos(x));
MGE_FUNCTION(Atan, lanes::atan(x));
MGE_FUNCTION(Sinh, lanes::sinh(x));
MGE_FUNCTION(Cosh, lanes::cosh(x));
MGE_FUNCTION(Tanh, lanes::tanh(x));
MGE_FUNCTION(Asinh, lanes::asinh(x));
MGE_FUNCTION(Acosh, lanes::acosh(x));
MGE_FUNCTION(Atanh, lanes::atanh(x));
MGE_FUNCTION(Erf, lanes::erf(x));
MGE_FUNCTION(Erfc, lanes::erfc(x));
MGE_FUNCTION(Erfinv, lanes::erfinv(x));
MGE_FUNCTION(Erfcinv, lanes::erfcinv(x));
MGE_FUNCTION(Sigmoid, lanes::sigmoid(x));
MGE_FUNCTION(LogSigmoid, lanes::logsigmoid(x));
MGE_FUNCTION(Softplus, lanes::softplus(x));
MGE_FUNCTION(Silu, lanes::silu(x));
MGE_FUNCTION(Gelu, lanes::gelu(x));
MGE_FUNCTION(FastGelu, lanes::fast_gelu(x));
MGE_FUNCTION(Relu, x <= T(0) ? T(0) : x);
// The 3/27 Pade form of tanh, as the reference has it.
MGE_FUNCTION(FastTanh, x*(x* x + T(27)) / (x * x * T(9) + T(27)));
#undef MGE_FUNCTION

#define MGE_TRIG(Name, function)                                                        \
  struct Name {                                                                         \
    template <class T>                                                                  \
    MGE_LANE T operator()(T x) const {                                                  \
      return lanes::function(x);                                                        \
    }                                                                                   \
    MGE_LANE static bool rare(float x) {                                                \
      return lanes::abs(x) > static_cast<float>(lanes::kTrigLimit);                     \
    }                                                                                   \
    static float slow(float x) { return static_cast<float>(std::function(double(x))); } \
  }
MGE_TRIG(Sin, sin);
MGE_TRIG(Cos, cos);
MGE_TRIG(Tan, tan);
#undef MGE_TRIG

template <class T>
MGE_LANE T clip(T x, T low, T high) {  // NaN stays, a bound's too; low wins over a lesser high
  T r = x > high ? high : x;
  r = x < low ? low : r;
  r = low != low ? low : r;
  return high != high ? high : r;
}
struct Relu6 {
  template <class T>
  MGE_LANE T operator()(T x) const {
    const T low = x <= T(0) ? T(0) : x;
    return low > T(6) ? T(6) : low;
  }
};
template <class T>
MGE_LANE T hsigmoid(T x) {
  return Relu6{}(x + T(3)) / T(6);
}
struct HSigmoid {
  template <class T>
  MGE_LANE T operator()(T x) const {
    return hsigmoid(x);
  }
};
template <class T>
MGE_LANE T hswish(T x) {
  const T inside = x * (x + T(3)) / T(6);
  return x <= T(-3) ? T(0) : x > T(3) ? x : inside;
}
struct HSwish {
  template <class T>
  MGE_LANE T operator()(T x) const {
    return hswish(x);
  }
};
struct Pow {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return lanes::pow(a, b);
  }
};
// Powers that are one or two instructions; each is what pow gives, infinities and zeros included.
struct PowerOne {
  template <class T>
  MGE_LANE T operator()(T x) const {
    return x;
  }
};
struct PowerThree {
  template <class T>
  MGE_LANE T operator()(T x) const {
    return x * x * x;
  }
};
struct PowerMinusOne {
  template <class T>
  MGE_LANE T operator()(T x) const {
    return T(1) / x;
  }
};
struct PowerHalf {
  template <class T>
  MGE_LANE T operator()(T x) const {
    return x == -lanes::kInf<T> ? lanes::kInf<T> : lanes::sqrt(x) + T(0);
  }
};
struct Atan2 {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return lanes::atan2(a, b);
  }
};
struct LogSumExp {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return lanes::logaddexp(a, b);
  }
};
struct Prelu {
  template <class T>
  MGE_LANE T operator()(T x, T slope) const {
    return x < T(0) ? x * slope : x;
  }
};
struct Clip {
  template <class T>
  MGE_LANE T operator()(T x, T low, T high) const {
    return clip(x, low, high);
  }
};
struct AddRelu {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    const T s = add(a, b);
    return s <= T(0) ? T(0) : s;
  }
};
struct AddSigmoid {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return lanes::sigmoid(a + b);
  }
};
struct AddTanh {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return lanes::tanh(a + b);
  }
};
struct AddHSwish {
  template <class T>
  MGE_LANE T operator()(T a, T b) const {
    return hswish(a + b);
  }
};

// ---- gradients: (input or output, upstream)
// ------------------------------------------------------------

#define MGE_SLOPE(Name, slope)               \
  struct Name {                              \
    template <class T>                       \
    MGE_LANE T operator()(T x, T dy) const { \
      return dy * (slope);                   \
    }                                        \
  }
MGE_SLOPE(AbsGrad, Sign{}(x));
MGE_SLOPE(SigmoidGrad, x*(T(1) - x));          // of the output
MGE_SLOPE(TanhGrad, lanes::fma(-x, x, T(1)));  // of the output
MGE_SLOPE(SiluGrad, lanes::silu_slope(x));
MGE_SLOPE(GeluGrad, lanes::gelu_slope(x));
MGE_SLOPE(FastGeluGrad, lanes::fast_gelu_slope(x));
MGE_SLOPE(SoftplusGrad, lanes::sigmoid(x));
MGE_SLOPE(AsinhGrad, T(1) / lanes::sqrt(lanes::fma(x, x, T(1))));
MGE_SLOPE(AcoshGrad, T(1) / lanes::sqrt((x - T(1)) * (x + T(1))));
MGE_SLOPE(AtanhGrad, T(1) / ((T(1) - x) * (T(1) + x)));
#undef MGE_SLOPE
struct FastTanhGrad {
  template <class T>
  MGE_LANE T operator()(T x, T dy) const {
    const T u = x * x, ratio = (T(9) - u) / (T(3) + u);
    return dy * ratio * ratio / T(9);
  }
};
struct HSwishGrad {
  template <class T>
  MGE_LANE T operator()(T x, T dy) const {
    const T slope = (T(2) * x + T(3)) / T(6);
    const T inside = x > T(3) ? T(1) : slope;
    return x < T(-3) ? T(0) : dy * inside;
  }
};
struct HSigmoidGrad {
  template <class T>
  MGE_LANE T operator()(T x, T dy) const {
    return x > T(-3) && x < T(3) ? dy / T(6) : T(0);
  }
};
struct Relu6Grad {
  template <class T>
  MGE_LANE T operator()(T x, T dy) const {
    return x > T(0) && x < T(6) ? dy : T(0);
  }
};
struct PreluGrad {
  template <class T>
  MGE_LANE T operator()(T x, T dy, T slope) const {
    return x < T(0) ? dy * slope : dy;
  }
};

#undef MGE_LANE

// ---- loops
// ----------------------------------------------------------------------------------------------

// The output may be one of the inputs: every element is read before it is written, and nothing
// else depends on the order, which is what ivdep says.
template <class Op, class T, class R>
void map1(const void* const* in, void* out, std::int64_t n) {
  const T* a = static_cast<const T*>(in[0]);
  R* o = static_cast<R*>(out);
  const Op op{};
  if constexpr (requires { Op::slow(T{}); } && std::is_same_v<T, float>) {
    constexpr std::int64_t block = 512;
    for (std::int64_t start = 0; start < n; start += block) {
      const std::int64_t stop = start + block < n ? start + block : n;
      int rare = 0;
      for (std::int64_t i = start; i < stop; ++i) rare |= Op::rare(a[i]) ? 1 : 0;
      if (rare) {
        for (std::int64_t i = start; i < stop; ++i)
          o[i] = Op::rare(a[i]) ? Op::slow(a[i]) : op(a[i]);
      } else {
#pragma GCC ivdep
        for (std::int64_t i = start; i < stop; ++i) o[i] = op(a[i]);
      }
    }
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(op(a[i]));
  }
}
template <class Op, class T, class R>
void map2(const void* const* in, void* out, std::int64_t n) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  R* o = static_cast<R*>(out);
  const Op op{};
  if constexpr (requires { Op::slow(T{}, T{}); } && std::is_same_v<T, float>) {
    constexpr std::int64_t block = 512;
    for (std::int64_t start = 0; start < n; start += block) {
      const std::int64_t stop = start + block < n ? start + block : n;
      int rare = 0;
      for (std::int64_t i = start; i < stop; ++i) rare |= Op::rare(a[i], b[i]) ? 1 : 0;
      if (rare) {
        for (std::int64_t i = start; i < stop; ++i) {
          o[i] = Op::rare(a[i], b[i]) ? Op::slow(a[i], b[i]) : op(a[i], b[i]);
        }
      } else {
#pragma GCC ivdep
        for (std::int64_t i = start; i < stop; ++i) o[i] = op(a[i], b[i]);
      }
    }
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(op(a[i], b[i]));
  }
}
template <class Op, class T, class R>
void map3(const void* const* in, void* out, std::int64_t n) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  R* o = static_cast<R*>(out);
  const Op op{};
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(op(a[i], b[i], c[i]));
}
template <class Op, class T, class R>
void map4(const void* const* in, void* out, std::int64_t n) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  const T* d = static_cast<const T*>(in[3]);
  R* o = static_cast<R*>(out);
  const Op op{};
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) o[i] = static_cast<R>(op(a[i], b[i], c[i], d[i]));
}

using Truth = std::uint8_t;  // a bool's byte

}  // namespace element

// The modes that a float type has; nullptr for others.
template <class T>
ElementRun float_loop(ElementMode mode) {
  using namespace element;
  using M = ElementMode;
  switch (mode) {
#define MGE_ROW(mode, arity, Op) \
  case M::mode:                  \
    return map##arity<Op, T, T>
#define MGE_TRUTH(mode, arity, Op) \
  case M::mode:                    \
    return map##arity<Op, T, Truth>
    MGE_ROW(RELU, 1, Relu);
    MGE_ROW(ABS, 1, Abs);
    MGE_ROW(ACOS, 1, Acos);
    MGE_ROW(ASIN, 1, Asin);
    MGE_ROW(CEIL, 1, Ceil);
    MGE_ROW(COS, 1, Cos);
    MGE_ROW(EXP, 1, Exp);
    MGE_ROW(EXPM1, 1, Expm1);
    MGE_ROW(FLOOR, 1, Floor);
    MGE_ROW(LOG, 1, Log);
    MGE_ROW(LOG1P, 1, Log1p);
    MGE_ROW(NEGATE, 1, Negate);
    MGE_ROW(SIGMOID, 1, Sigmoid);
    MGE_ROW(SIN, 1, Sin);
    MGE_ROW(TANH, 1, Tanh);
    MGE_ROW(ABS_GRAD, 2, AbsGrad);
    MGE_ROW(ADD, 2, Add);
    MGE_ROW(FLOOR_DIV, 2, FloorDiv);
    MGE_ROW(MAX, 2, Max);
    MGE_ROW(MIN, 2, Min);
    MGE_ROW(MOD, 2, Mod);
    MGE_ROW(MUL, 2, Mul);
    MGE_ROW(POW, 2, Pow);
    MGE_ROW(SIGMOID_GRAD, 2, SigmoidGrad);
    MGE_ROW(SUB, 2, Sub);
    MGE_ROW(SWITCH_GT0, 2, SwitchGt0);
    MGE_ROW(TANH_GRAD, 2, TanhGrad);
    MGE_ROW(TRUE_DIV, 2, TrueDiv);
    MGE_ROW(LOG_SUM_EXP, 2, LogSumExp);
    MGE_TRUTH(LT, 2, Less);
    MGE_TRUTH(LEQ, 2, LessEqual);
    MGE_TRUTH(EQ, 2, Equal);
    MGE_TRUTH(NEQ, 2, NotEqual);
    MGE_ROW(FUSE_MUL_ADD3, 3, MulAdd3);
    MGE_ROW(FUSE_MUL_ADD4, 4, MulAdd4);
    MGE_ROW(FUSE_ADD_RELU, 2, AddRelu);
    MGE_ROW(FUSE_ADD_SIGMOID, 2, AddSigmoid);
    MGE_ROW(FUSE_ADD_TANH, 2, AddTanh);
    MGE_ROW(FUSE_ADD_H_SWISH, 2, AddHSwish);
    MGE_ROW(FAST_TANH, 1, FastTanh);
    MGE_ROW(FAST_TANH_GRAD, 2, FastTanhGrad);
    MGE_ROW(ROUND, 1, Round);
    MGE_ROW(ATAN2, 2, Atan2);
    MGE_ROW(ERF, 1, Erf);
    MGE_ROW(ERFINV, 1, Erfinv);
    MGE_ROW(ERFC, 1, Erfc);
    MGE_ROW(ERFCINV, 1, Erfcinv);
    MGE_ROW(H_SWISH, 1, HSwish);
    MGE_ROW(H_SWISH_GRAD, 2, HSwishGrad);
    MGE_ROW(SILU, 1, Silu);
    MGE_ROW(SILU_GRAD, 2, SiluGrad);
    MGE_ROW(GELU, 1, Gelu);
    MGE_ROW(GELU_GRAD, 2, GeluGrad);
    MGE_ROW(FAST_GELU, 1, FastGelu);
    MGE_ROW(FAST_GELU_GRAD, 2, FastGeluGrad);
    MGE_ROW(COND_LEQ_MOV, 3, CondLeqMov);
    MGE_ROW(COND_LT_MOV, 3, CondLtMov);
    MGE_TRUTH(ISNAN, 1, IsNaN);
    MGE_TRUTH(ISINF, 1, IsInf);
    MGE_ROW(SINH, 1, Sinh);
    MGE_ROW(COSH, 1, Cosh);
    MGE_ROW(ASINH, 1, Asinh);
    MGE_ROW(ACOSH, 1, Acosh);
    MGE_ROW(ATANH, 1, Atanh);
    MGE_ROW(TAN, 1, Tan);
    MGE_ROW(ASINH_GRAD, 2, AsinhGrad);
    MGE_ROW(ACOSH_GRAD, 2, AcoshGrad);
    MGE_ROW(ATANH_GRAD, 2, AtanhGrad);
    MGE_ROW(PRELU, 2, Prelu);
    MGE_ROW(CLIP, 3, Clip);
    MGE_ROW(PRELU_GRAD, 3, PreluGrad);
    MGE_ROW(SOFTPLUS, 1, Softplus);
    MGE_ROW(SOFTPLUS_GRAD, 2, SoftplusGrad);
    MGE_ROW(RELU6, 1, Relu6);
    MGE_ROW(RELU6_GRAD, 2, Relu6Grad);
    MGE_ROW(HSIGMOID, 1, HSigmoid);
    MGE_ROW(HSIGMOID_GRAD, 2, HSigmoidGrad);
    MGE_ROW(LOGSIGMOID, 1, LogSigmoid);
    MGE_ROW(SQRT, 1, Sqrt);
    MGE_ROW(SQUARE, 1, Square);
    MGE_ROW(SIGN, 1, Sign);
    MGE_ROW(ATAN, 1, Atan);
    MGE_ROW(RSQRT, 1, Rsqrt);
    default:
      return nullptr;
  }
}

// The loop that raises one operand to a fixed power, or nullptr where there is no short one.
template <class T>
ElementRun short_power(double exponent) {
  using namespace element;
  if (exponent == 2) return map1<Square, T, T>;
  if (exponent == 3) return map1<PowerThree, T, T>;
  if (exponent == 1) return map1<PowerOne, T, T>;
  if (exponent == 0.5) return map1<PowerHalf, T, T>;
  if (exponent == -1) return map1<PowerMinusOne, T, T>;
  return nullptr;
}

// The modes that an integer type has. Those whose bits do not depend on the sign share the loop of
// the signed type.
template <class T>
ElementRun int_loop(ElementMode mode) {
  using namespace element;
  using M = ElementMode;
  using S = Signed<T>;
  switch (mode) {
#define MGE_BITS(mode, arity, Op) \
  case M::mode:                   \
    return map##arity<Op, S, S>
#define MGE_BITS_TRUTH(mode, arity, Op) \
  case M::mode:                         \
    return map##arity<Op, S, Truth>
    MGE_ROW(RELU, 1, Relu);
    MGE_ROW(RELU6, 1, Relu6);
    MGE_ROW(ABS, 1, Abs);
    MGE_BITS(CEIL, 1, Floor);
    MGE_BITS(FLOOR, 1, Floor);
    MGE_BITS(ROUND, 1, Floor);
    MGE_BITS(NEGATE, 1, Negate);
    MGE_BITS(SQUARE, 1, Square);
    MGE_ROW(SIGN, 1, Sign);
    MGE_BITS(ADD, 2, Add);
    MGE_BITS(SUB, 2, Sub);
    MGE_BITS(MUL, 2, Mul);
    MGE_ROW(FLOOR_DIV, 2, FloorDiv);
    MGE_ROW(MOD, 2, Mod);
    MGE_ROW(MAX, 2, Max);
    MGE_ROW(MIN, 2, Min);
    MGE_ROW(SWITCH_GT0, 2, SwitchGt0);
    MGE_ROW(FUSE_ADD_RELU, 2, AddRelu);
    MGE_BITS(FUSE_MUL_ADD3, 3, MulAdd3);
    MGE_BITS(FUSE_MUL_ADD4, 4, MulAdd4);
    MGE_ROW(COND_LEQ_MOV, 3, CondLeqMov);
    MGE_ROW(COND_LT_MOV, 3, CondLtMov);
    MGE_ROW(CLIP, 3, Clip);
    MGE_BITS(SHL, 2, ShiftLeft);
    MGE_ROW(SHR, 2, ShiftRight);
    MGE_ROW(RMULH, 2, RoundedMulHigh);
    MGE_TRUTH(LT, 2, Less);
    MGE_TRUTH(LEQ, 2, LessEqual);
    MGE_BITS_TRUTH(EQ, 2, Equal);
    MGE_BITS_TRUTH(NEQ, 2, NotEqual);
    MGE_BITS_TRUTH(ISNAN, 1, IsNaN);
    MGE_BITS_TRUTH(ISINF, 1, IsInf);
    default:
      return nullptr;
  }
}

// The modes that bool has; its bytes are 0 or 1.
inline ElementRun bool_loop(ElementMode mode) {
  using namespace element;
  using M = ElementMode;
  using T = Truth;
  switch (mode) {
    MGE_ROW(AND, 2, And);
    MGE_ROW(OR, 2, Or);
    MGE_ROW(XOR, 2, Xor);
    MGE_ROW(NOT, 1, Not);
    MGE_ROW(LT, 2, Less);
    MGE_ROW(LEQ, 2, LessEqual);
    MGE_ROW(EQ, 2, Equal);
    MGE_ROW(NEQ, 2, NotEqual);
    MGE_ROW(ISNAN, 1, IsNaN);
    MGE_ROW(ISINF, 1, IsInf);
    default:
      return nullptr;
  }
}
#undef MGE_ROW
#undef MGE_TRUTH
#undef MGE_BITS
#undef MGE_BITS_TRUTH

// mask ? a : b, for any type of this width.
template <class T>
void select_loop(const void* const* in, void* out, std::int64_t n) {
  const element::Truth* mask = static_cast<const element::Truth*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* o = static_cast<T*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) o[i] = mask[i] != 0 ? a[i] : b[i];
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
