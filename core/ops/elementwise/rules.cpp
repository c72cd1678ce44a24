#include "core/ops/elementwise/rules.h"

#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using Mode = Elemwise::Mode;

// The parts that a rule needs kept.
constexpr Keep kNothing{0, 0};
constexpr Keep kInputs{kAll, 0};
constexpr Keep kOutput{0, kAll};
constexpr Keep kBoth{kAll, kAll};

// ---- shorthand
// ----------------------------------------------------------------------------------------

// What a rule reads: inputs a, b, c, d; output y; upstream dy.
struct Args {
  const GradArgs& g;
  const Value& in(std::size_t i) const { return g.inputs[i]; }
  const Value& y() const { return g.outputs[0]; }
  const Value& dy() const { return g.dy[0]; }
  // The gradient of input i, summed over the axes along which it was broadcast.
  template <class F>
  Value of(std::size_t i, F make) const {
    return g.need(i) ? sum_to(make(), g.in_specs[i].shape) : Value{};
  }
};

Value one_minus(const Value& x) { return sub(scalar_like(x, 1), x); }
Value scaled(const Value& x, double factor) { return mul(x, factor); }

// The gradient of a unary op, or of a binary one whose inputs enter as a sum.
template <class F>
Values unary(const GradArgs& g, F make) {
  return {make(Args{g})};
}
template <class F>
Values of_sum(const GradArgs& g, F make) {
  const Value d = make(Args{g});
  const Args a{g};
  return {a.of(0, [&] { return d; }), a.of(1, [&] { return d; })};
}
// A gradient mode (x, upstream), whose own gradient in the upstream is the mode itself; slope(args)
// gives the one in x, or there is none (nullptr).
template <Mode mode>
Values linear_in_upstream(const GradArgs& g, Value (*slope)(const Args&)) {
  const Args a{g};
  Value dx;
  if (slope) dx = a.of(0, [&] { return slope(a); });
  return {dx, a.of(1, [&] { return elemwise(mode, a.in(0), a.dy()); })};
}

#define MGE_UNARY(expression) \
  [](const GradArgs& g) { return unary(g, [](const Args& a) { return expression; }); }
#define MGE_OF_SUM(expression) \
  [](const GradArgs& g) { return of_sum(g, [](const Args& a) { return expression; }); }
#define MGE_SLOPE(mode, expression)                                                              \
  [](const GradArgs& g) {                                                                        \
    return linear_in_upstream<Mode::mode>(g, [](const Args& a) -> Value { return expression; }); \
  }
#define MGE_STEP(mode) [](const GradArgs& g) { return linear_in_upstream<Mode::mode>(g, nullptr); }

// ---- rules that need more than a line
// ---------------------------------------------------------------

Values grad_sub(const GradArgs& g) {
  const Args a{g};
  return {a.of(0, [&] { return a.dy(); }), a.of(1, [&] { return neg(a.dy()); })};
}
Values grad_mul(const GradArgs& g) {
  const Args a{g};
  return {a.of(0, [&] { return mul(a.dy(), a.in(1)); }),
          a.of(1, [&] { return mul(a.dy(), a.in(0)); })};
}
Values grad_true_div(const GradArgs& g) {
  const Args a{g};
  const Value quotient = div(a.dy(), a.in(1));
  return {a.of(0, [&] { return quotient; }),
          a.of(1, [&] { return neg(mul(quotient, div(a.in(0), a.in(1)))); })};
}
Values grad_mod(const GradArgs& g) {
  const Args a{g};
  return {a.of(0, [&] { return a.dy(); }),
          a.of(1, [&] { return neg(mul(a.dy(), elemwise(Mode::FLOOR_DIV, a.in(0), a.in(1)))); })};
}

// Where the operands tie, each gets half.
template <bool larger>
Values grad_extreme(const GradArgs& g) {
  const Args a{g};
  const Value& low = larger ? a.in(1) : a.in(0);
  const Value& high = larger ? a.in(0) : a.in(1);
  const Value half = scaled(a.dy(), 0.5);
  // low < high gives both halves to the first operand, low == high one.
  const Value first = add(elemwise(Mode::COND_LT_MOV, low, high, half),
                          elemwise(Mode::COND_LEQ_MOV, low, high, half));
  return {a.of(0, [&] { return first; }), a.of(1, [&] { return sub(a.dy(), first); })};
}

Values grad_pow(const GradArgs& g) {
  const Args a{g};
  const Value &x = a.in(0), &y = a.in(1);
  const Value zero = scalar_like(x, 0), one = scalar_like(x, 1);
  return {a.of(0,
               [&] {
                 // y x^(y - 1); x^0 is flat, which 0 * 0^-1 would not say. Where the second
                 // derivative in y matters too, only the point 0^0 is an exception.
                 Value flat = equal(y, zero);
                 if (g.need(1)) flat = elemwise(Mode::AND, flat, equal(x, zero));
                 const Value power = sub(where(flat, one, y), one);
                 return mul(a.dy(), mul(y, pow(x, power)));
               }),
          a.of(1, [&] {
            // x^y log x, whose limit at x = 0 is 0.
            const Value base = where(equal(x, zero), one, x);
            return mul(a.dy(), mul(pow(x, y), log(base)));
          })};
}

Values grad_log_sum_exp(const GradArgs& g) {
  const Args a{g};
  const Value gap = sub(a.in(0), a.in(1));
  // Two equal infinities share alike; their difference is NaN.
  const Value same = elemwise(Mode::AND, elemwise(Mode::ISNAN, gap), equal(a.in(0), a.in(1)));
  const Value d = where(same, scalar_like(gap, 0), gap);
  return {a.of(0, [&] { return mul(a.dy(), elemwise(Mode::SIGMOID, d)); }),
          a.of(1, [&] { return mul(a.dy(), elemwise(Mode::SIGMOID, neg(d))); })};
}

Values grad_mul_add3(const GradArgs& g) {
  const Args a{g};
  return {a.of(0, [&] { return mul(a.dy(), a.in(1)); }),
          a.of(1, [&] { return mul(a.dy(), a.in(0)); }), a.of(2, [&] { return a.dy(); })};
}
Values grad_mul_add4(const GradArgs& g) {
  const Args a{g};
  return {
      a.of(0, [&] { return mul(a.dy(), a.in(1)); }), a.of(1, [&] { return mul(a.dy(), a.in(0)); }),
      a.of(2, [&] { return mul(a.dy(), a.in(3)); }), a.of(3, [&] { return mul(a.dy(), a.in(2)); })};
}

Values grad_atan2(const GradArgs& g) {
  const Args a{g};
  const Value scale = div(a.dy(), add(square(a.in(0)), square(a.in(1))));
  return {a.of(0, [&] { return mul(scale, a.in(1)); }),
          a.of(1, [&] { return neg(mul(scale, a.in(0))); })};
}

template <Mode mode>
Values grad_cond_mov(const GradArgs& g) {
  const Args a{g};
  return {Value{}, Value{}, a.of(2, [&] { return elemwise(mode, a.in(0), a.in(1), a.dy()); })};
}

Values grad_prelu(const GradArgs& g) {
  const Args a{g};
  return {
      a.of(0, [&] { return elemwise(Mode::PRELU_GRAD, a.in(0), a.dy(), a.in(1)); }), a.of(1, [&] {
        return elemwise(Mode::COND_LT_MOV, a.in(0), scalar_like(a.dy(), 0), mul(a.dy(), a.in(0)));
      })};
}
Values grad_prelu_grad(const GradArgs& g) {
  const Args a{g};
  return {Value{}, a.of(1, [&] { return elemwise(Mode::PRELU_GRAD, a.in(0), a.dy(), a.in(2)); }),
          a.of(2, [&] {
            return elemwise(Mode::COND_LT_MOV, a.in(0), scalar_like(a.dy(), 0),
                            mul(a.dy(), a.in(1)));
          })};
}

// x gets the gradient on the closed interval, a bound where it is what comes out.
Values grad_clip(const GradArgs& g) {
  const Args a{g};
  const Value &x = a.in(0), &low = a.in(1), &high = a.in(2);
  // Not below `low`, which is looked at first.
  const auto not_below = [&](const Value& dy) { return elemwise(Mode::COND_LEQ_MOV, low, x, dy); };
  return {a.of(0, [&] { return not_below(elemwise(Mode::COND_LEQ_MOV, x, high, a.dy())); }),
          a.of(1, [&] { return elemwise(Mode::COND_LT_MOV, x, low, a.dy()); }),
          a.of(2, [&] { return not_below(elemwise(Mode::COND_LT_MOV, high, x, a.dy())); })};
}

Values grad_where(const GradArgs& g) {
  const Args a{g};
  const Value zero = scalar_like(a.dy(), 0);
  return {Value{}, a.of(1, [&] { return where(a.in(0), a.dy(), zero); }),
          a.of(2, [&] { return where(a.in(0), zero, a.dy()); })};
}

// ---- slopes of the gradient modes: upstream of upstream is dy, b the first upstream
// --------------------

Value both_upstreams(const Args& a) { return mul(a.in(1), a.dy()); }
Value slope_of_silu_grad(const Args& a) {
  const Value &x = a.in(0), s = elemwise(Mode::SIGMOID, x);
  // s (1 - s) (2 + x (1 - 2 s))
  const Value inner = add(mul(x, add(scaled(s, -2), 1.0)), 2.0);
  return mul(elemwise(Mode::SIGMOID_GRAD, s, both_upstreams(a)), inner);
}
Value slope_of_gelu_grad(const Args& a) {
  const Value u = square(a.in(0));
  // (2 - x^2) times the density
  const Value density = scaled(exp(scaled(u, -0.5)), 0.39894228040143268);
  return mul(both_upstreams(a), mul(sub(scalar_like(u, 2), u), density));
}
Value slope_of_fast_tanh_grad(const Args& a) {
  const Value &x = a.in(0), u = square(x), low = add(u, 3.0);
  const Value ratio = div(sub(scalar_like(u, 9), u), low);
  return mul(both_upstreams(a), scaled(div(mul(x, ratio), square(low)), -48.0 / 9));
}
Value slope_of_hswish_grad(const Args& a) {
  return elemwise(Mode::COND_LEQ_MOV, abs(a.in(0)), scalar_like(a.in(0), 3),
                  scaled(both_upstreams(a), 1.0 / 3));
}
// -x (x^2 + sign)^(-3/2)
Value slope_of_root(const Args& a, double sign) {
  const Value r = rsqrt(add(square(a.in(0)), sign));
  return neg(mul(both_upstreams(a), mul(a.in(0), mul(r, square(r)))));
}
Value slope_of_atanh_grad(const Args& a) {
  const Value &x = a.in(0), w = mul(one_minus(x), add(x, 1.0));
  return mul(both_upstreams(a), div(scaled(x, 2), square(w)));
}
Value one_minus_square(const Value& x) { return mul(one_minus(x), add(x, 1.0)); }
Value gaussian(const Value& x) { return exp(neg(square(x))); }

constexpr double kTwoOverRootPi = 1.1283791670955126, kHalfRootPi = 0.88622692545275801;

// ---- the table
// -----------------------------------------------------------------------------------------

ElemwiseRule heavy(ElemwiseRule rule) {
  rule.heavy = true;
  return rule;
}

ElemwiseRule make_rule(Mode mode) {
  using enum Takes;
  constexpr Gives same = Gives::same, boolean = Gives::boolean;
  switch (mode) {
    case Mode::RELU:
      return {1, numbers, same, kOutput, MGE_UNARY(elemwise(Mode::SWITCH_GT0, a.y(), a.dy()))};
    case Mode::ABS:
      return {1, numbers, same, kInputs, MGE_UNARY(elemwise(Mode::ABS_GRAD, a.in(0), a.dy()))};
    case Mode::ACOS:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(neg(mul(a.dy(), rsqrt(one_minus_square(a.in(0)))))), Amp::high});
    case Mode::ASIN:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(mul(a.dy(), rsqrt(one_minus_square(a.in(0))))), Amp::high});
    case Mode::ATAN:
      return heavy(
          {1, floats, same, kInputs, MGE_UNARY(div(a.dy(), add(square(a.in(0)), 1.0))), Amp::high});
    case Mode::CEIL:
      return {1, numbers, same, kNothing, nullptr};
    case Mode::FLOOR:
      return {1, numbers, same, kNothing, nullptr};
    case Mode::ROUND:
      return {1, numbers, same, kNothing, nullptr};
    case Mode::SIGN:
      return {1, numbers, same, kNothing, nullptr};
    case Mode::COS:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(neg(mul(a.dy(), elemwise(Mode::SIN, a.in(0))))), Amp::high});
    case Mode::SIN:
      return heavy({1, floats, same, kInputs, MGE_UNARY(mul(a.dy(), elemwise(Mode::COS, a.in(0)))),
                    Amp::high});
    case Mode::TAN:
      return heavy(
          {1, floats, same, kOutput, MGE_UNARY(mul(a.dy(), add(square(a.y()), 1.0))), Amp::high});
    case Mode::EXP:
      return heavy({1, floats, same, kOutput, MGE_UNARY(mul(a.dy(), a.y())), Amp::high});
    case Mode::EXPM1:
      return heavy({1, floats, same, kInputs, MGE_UNARY(mul(a.dy(), exp(a.in(0)))), Amp::high});
    case Mode::LOG:
      return heavy({1, floats, same, kInputs, MGE_UNARY(div(a.dy(), a.in(0))), Amp::high});
    case Mode::LOG1P:
      return heavy(
          {1, floats, same, kInputs, MGE_UNARY(div(a.dy(), add(a.in(0), 1.0))), Amp::high});
    case Mode::NEGATE:
      return {1, numbers, same, kNothing, MGE_UNARY(neg(a.dy()))};
    case Mode::SQRT:
      return {1, floats, same, kOutput, MGE_UNARY(div(scaled(a.dy(), 0.5), a.y())), Amp::high};
    case Mode::RSQRT:
      return {1,
              floats,
              same,
              kOutput,
              MGE_UNARY(mul(scaled(a.dy(), -0.5), mul(a.y(), square(a.y())))),
              Amp::high};
    case Mode::SQUARE:
      return {1, numbers, same, kInputs, MGE_UNARY(mul(a.dy(), scaled(a.in(0), 2)))};
    case Mode::SINH:
      return heavy({1, floats, same, kInputs, MGE_UNARY(mul(a.dy(), elemwise(Mode::COSH, a.in(0)))),
                    Amp::high});
    case Mode::COSH:
      return heavy({1, floats, same, kInputs, MGE_UNARY(mul(a.dy(), elemwise(Mode::SINH, a.in(0)))),
                    Amp::high});
    case Mode::TANH:
      return heavy({1, floats, same, kOutput, MGE_UNARY(elemwise(Mode::TANH_GRAD, a.y(), a.dy()))});
    case Mode::ASINH:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(elemwise(Mode::ASINH_GRAD, a.in(0), a.dy())), Amp::high});
    case Mode::ACOSH:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(elemwise(Mode::ACOSH_GRAD, a.in(0), a.dy())), Amp::high});
    case Mode::ATANH:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(elemwise(Mode::ATANH_GRAD, a.in(0), a.dy())), Amp::high});
    case Mode::ERF:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(mul(a.dy(), scaled(gaussian(a.in(0)), kTwoOverRootPi)))});
    case Mode::ERFC:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(mul(a.dy(), scaled(gaussian(a.in(0)), -kTwoOverRootPi)))});
    case Mode::ERFINV:
      return heavy({1, floats, same, kOutput,
                    MGE_UNARY(mul(a.dy(), scaled(exp(square(a.y())), kHalfRootPi)))});
    case Mode::ERFCINV:
      return heavy({1, floats, same, kOutput,
                    MGE_UNARY(mul(a.dy(), scaled(exp(square(a.y())), -kHalfRootPi)))});
    case Mode::SIGMOID:
      return heavy(
          {1, floats, same, kOutput, MGE_UNARY(elemwise(Mode::SIGMOID_GRAD, a.y(), a.dy()))});
    case Mode::LOGSIGMOID:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(elemwise(Mode::SOFTPLUS_GRAD, neg(a.in(0)), a.dy())), Amp::high});
    case Mode::SOFTPLUS:
      return heavy({1, floats, same, kInputs,
                    MGE_UNARY(elemwise(Mode::SOFTPLUS_GRAD, a.in(0), a.dy())), Amp::high});
    case Mode::SILU:
      return heavy(
          {1, floats, same, kInputs, MGE_UNARY(elemwise(Mode::SILU_GRAD, a.in(0), a.dy()))});
    case Mode::GELU:
      return heavy(
          {1, floats, same, kInputs, MGE_UNARY(elemwise(Mode::GELU_GRAD, a.in(0), a.dy()))});
    case Mode::FAST_GELU:
      return {1, floats, same, kInputs, MGE_UNARY(elemwise(Mode::FAST_GELU_GRAD, a.in(0), a.dy()))};
    case Mode::RELU6:
      return {1, numbers, same, kInputs, MGE_UNARY(elemwise(Mode::RELU6_GRAD, a.in(0), a.dy()))};
    case Mode::HSIGMOID:
      return {1,
              floats,
              same,
              kInputs,
              MGE_UNARY(elemwise(Mode::HSIGMOID_GRAD, a.in(0), a.dy())),
              Amp::high};
    case Mode::H_SWISH:
      return {1, floats, same, kInputs, MGE_UNARY(elemwise(Mode::H_SWISH_GRAD, a.in(0), a.dy()))};
    case Mode::FAST_TANH:
      return {1, floats, same, kInputs, MGE_UNARY(elemwise(Mode::FAST_TANH_GRAD, a.in(0), a.dy()))};
    case Mode::NOT:
      return {1, bools, same, kNothing, nullptr};
    case Mode::ISNAN:
      return {1, all, boolean, kNothing, nullptr};
    case Mode::ISINF:
      return {1, all, boolean, kNothing, nullptr};

    case Mode::ADD:
      return {2, numbers, same, kNothing, MGE_OF_SUM(a.dy())};
    case Mode::SUB:
      return {2, numbers, same, kNothing, grad_sub};
    case Mode::MUL:
      return {2, numbers, same, kInputs, grad_mul};
    case Mode::TRUE_DIV:
      return {2, floats, same, kInputs, grad_true_div, Amp::high};
    case Mode::FLOOR_DIV:
      return {2, numbers, same, kNothing, nullptr};
    case Mode::MOD:
      return {2, numbers, same, kInputs, grad_mod};
    case Mode::POW:
      return heavy({2, floats, same, kInputs, grad_pow, Amp::high});
    case Mode::MAX:
      return {2, numbers, same, kInputs, grad_extreme<true>};
    case Mode::MIN:
      return {2, numbers, same, kInputs, grad_extreme<false>};
    case Mode::ATAN2:
      return heavy({2, floats, same, kInputs, grad_atan2, Amp::high});
    case Mode::LOG_SUM_EXP:
      return heavy({2, floats, same, kInputs, grad_log_sum_exp, Amp::high});
    case Mode::SWITCH_GT0:
      return {2, numbers, same, {1, 0}, MGE_STEP(SWITCH_GT0)};
    case Mode::PRELU:
      return {2, floats, same, kInputs, grad_prelu};
    case Mode::FUSE_ADD_RELU:
      return {2, numbers, same, kOutput, MGE_OF_SUM(elemwise(Mode::SWITCH_GT0, a.y(), a.dy()))};
    case Mode::FUSE_ADD_SIGMOID:
      return {2, floats, same, kOutput, MGE_OF_SUM(elemwise(Mode::SIGMOID_GRAD, a.y(), a.dy()))};
    case Mode::FUSE_ADD_TANH:
      return {2, floats, same, kOutput, MGE_OF_SUM(elemwise(Mode::TANH_GRAD, a.y(), a.dy()))};
    case Mode::FUSE_ADD_H_SWISH:
      return {2, floats, same, kInputs,
              MGE_OF_SUM(elemwise(Mode::H_SWISH_GRAD, add(a.in(0), a.in(1)), a.dy()))};
    case Mode::LT:
      return {2, all, boolean, kNothing, nullptr};
    case Mode::LEQ:
      return {2, all, boolean, kNothing, nullptr};
    case Mode::EQ:
      return {2, all, boolean, kNothing, nullptr};
    case Mode::NEQ:
      return {2, all, boolean, kNothing, nullptr};
    case Mode::AND:
      return {2, bools, same, kNothing, nullptr};
    case Mode::OR:
      return {2, bools, same, kNothing, nullptr};
    case Mode::XOR:
      return {2, bools, same, kNothing, nullptr};
    case Mode::SHL:
      return {2, integers, same, kNothing, nullptr};
    case Mode::SHR:
      return {2, integers, same, kNothing, nullptr};
    case Mode::RMULH:
      return {2, integers, same, kNothing, nullptr};

    case Mode::ABS_GRAD:
      return {2, floats, same, {1, 0}, MGE_STEP(ABS_GRAD)};
    case Mode::RELU6_GRAD:
      return {2, floats, same, {1, 0}, MGE_STEP(RELU6_GRAD)};
    case Mode::HSIGMOID_GRAD:
      return {2, floats, same, {1, 0}, MGE_STEP(HSIGMOID_GRAD)};
    case Mode::SIGMOID_GRAD:
      return {2, floats, same, kInputs,
              MGE_SLOPE(SIGMOID_GRAD, mul(both_upstreams(a), add(scaled(a.in(0), -2), 1.0)))};
    case Mode::TANH_GRAD:
      return {2, floats, same, kInputs,
              MGE_SLOPE(TANH_GRAD, mul(both_upstreams(a), scaled(a.in(0), -2)))};
    case Mode::SOFTPLUS_GRAD:
      return {
          2, floats, same, kInputs,
          MGE_SLOPE(SOFTPLUS_GRAD, elemwise(Mode::SIGMOID_GRAD, elemwise(Mode::SIGMOID, a.in(0)),
                                            both_upstreams(a)))};
    case Mode::SILU_GRAD:
      return heavy({2, floats, same, kInputs, MGE_SLOPE(SILU_GRAD, slope_of_silu_grad(a))});
    case Mode::GELU_GRAD:
      return heavy({2, floats, same, kInputs, MGE_SLOPE(GELU_GRAD, slope_of_gelu_grad(a))});
    case Mode::FAST_GELU_GRAD:
      return {2, floats, same, kInputs, MGE_SLOPE(FAST_GELU_GRAD, slope_of_gelu_grad(a))};
    case Mode::FAST_TANH_GRAD:
      return {2, floats, same, kInputs, MGE_SLOPE(FAST_TANH_GRAD, slope_of_fast_tanh_grad(a))};
    case Mode::H_SWISH_GRAD:
      return {2, floats, same, kInputs, MGE_SLOPE(H_SWISH_GRAD, slope_of_hswish_grad(a))};
    case Mode::ASINH_GRAD:
      return {2, floats, same, kInputs, MGE_SLOPE(ASINH_GRAD, slope_of_root(a, 1))};
    case Mode::ACOSH_GRAD:
      return {2, floats, same, kInputs, MGE_SLOPE(ACOSH_GRAD, slope_of_root(a, -1))};
    case Mode::ATANH_GRAD:
      return {2, floats, same, kInputs, MGE_SLOPE(ATANH_GRAD, slope_of_atanh_grad(a))};

    case Mode::COND_LEQ_MOV:
      return {3, numbers, same, {3, 0}, grad_cond_mov<Mode::COND_LEQ_MOV>};
    case Mode::COND_LT_MOV:
      return {3, numbers, same, {3, 0}, grad_cond_mov<Mode::COND_LT_MOV>};
    case Mode::FUSE_MUL_ADD3:
      return {3, numbers, same, {3, 0}, grad_mul_add3};
    case Mode::FUSE_MUL_ADD4:
      return {4, numbers, same, kInputs, grad_mul_add4};
    case Mode::CLIP:
      return {3, numbers, same, kInputs, grad_clip};
    case Mode::PRELU_GRAD:
      return {3, floats, same, kInputs, grad_prelu_grad};
    case Mode::WHERE:
      return {3, where, same, {1, 0}, grad_where};
  }
  fail_value("Elemwise", "unknown mode ", static_cast<int>(mode));
}

}  // namespace

const ElemwiseRule& elemwise_rule(Mode mode) {
  static const auto rules = [] {
    std::array<ElemwiseRule, kElementModes> all;
    for (int m = 0; m < kElementModes; ++m) {
      all[static_cast<std::size_t>(m)] = make_rule(static_cast<Mode>(m));
    }
    return all;
  }();
  return rules[static_cast<std::size_t>(mode)];
}

}  // namespace mge
