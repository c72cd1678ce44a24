// Elementwise ops: one op, Elemwise{mode}, with a row for each mode in elementwise.cpp; and
// TypeCvt.
#pragma once

#include <array>

#include "core/kernels/element_mode.h"
#include "core/op/op.h"

namespace mge {

struct Elemwise {
  using Mode = ElementMode;
  Mode mode = Mode::ADD;
  static constexpr OpTraits traits{
      .name = "Elemwise", .amp = Amp::promote, .fuse = Fuse::elementwise};
  static constexpr auto fields = field_list(field("mode", &Elemwise::mode));
};
template <>
struct EnumNames<Elemwise::Mode> {
  static constexpr auto names = std::to_array<const char*>({
#define MGE_X(name) #name,
      MGE_ELEMWISE_MODES(MGE_X)
#undef MGE_X
  });
};
Specs infer(const Elemwise& op, const Specs& in);
Values grad(const Elemwise& op, const GradArgs& g);
Keep keep(const Elemwise& op, std::uint32_t needs);
bool differentiable(const Elemwise& op);
Amp amp(const Elemwise& op);
void kernel(const Elemwise& op, CpuContext& context, Views in, MutViews out);
// The same as infer and kernel, without what small tensors would spend on them.
Values execute(const Elemwise& op, Values& in);
Values decompose_complex(const Elemwise& op, const Values& in);
DECLARE_OP(Elemwise);

// Converts to another dtype.
struct TypeCvt {
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "TypeCvt", .fuse = Fuse::elementwise, .complex = true};
  static constexpr auto fields = field_list(field("dtype", &TypeCvt::dtype));
};
Specs infer(const TypeCvt& op, const Specs& in);
Values grad(const TypeCvt& op, const GradArgs& g);
Keep keep(const TypeCvt& op, std::uint32_t needs);
void kernel(const TypeCvt& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(TypeCvt);

// The op object of a mode, made once.
const OpRef& elemwise_op(Elemwise::Mode mode);
inline const char* elemwise_name(Elemwise::Mode mode) {
  return EnumNames<Elemwise::Mode>::names[static_cast<std::size_t>(mode)];
}
// Modes whose integer and bool operands become float32 first: exp, log, true division, ...
bool elemwise_needs_float(Elemwise::Mode mode);
// a (mode) b for operands of one dtype, one shape and one row-major or other dense layout that the
// mode takes as they are; false, with nothing done, for all others. Not recorded: only where no
// layer is on.
bool elemwise_fast(Elemwise::Mode mode, const Value& a, const Value& b, Value& out);

// Calls in C++; operands have one dtype and broadcast.
Value elemwise(Elemwise::Mode mode, const Value& a);
Value elemwise(Elemwise::Mode mode, const Value& a, const Value& b);
Value elemwise(Elemwise::Mode mode, const Value& a, const Value& b, const Value& c);
inline Value add(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::ADD, a, b); }
inline Value sub(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::SUB, a, b); }
inline Value mul(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::MUL, a, b); }
inline Value div(const Value& a, const Value& b) {
  return elemwise(Elemwise::Mode::TRUE_DIV, a, b);
}
inline Value pow(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::POW, a, b); }
inline Value maximum(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::MAX, a, b); }
inline Value minimum(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::MIN, a, b); }
inline Value equal(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::EQ, a, b); }
inline Value less(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::LT, a, b); }
inline Value less_equal(const Value& a, const Value& b) {
  return elemwise(Elemwise::Mode::LEQ, a, b);
}
inline Value neg(const Value& a) { return elemwise(Elemwise::Mode::NEGATE, a); }
inline Value exp(const Value& a) { return elemwise(Elemwise::Mode::EXP, a); }
inline Value log(const Value& a) { return elemwise(Elemwise::Mode::LOG, a); }
inline Value sqrt(const Value& a) { return elemwise(Elemwise::Mode::SQRT, a); }
inline Value rsqrt(const Value& a) { return elemwise(Elemwise::Mode::RSQRT, a); }
inline Value square(const Value& a) { return elemwise(Elemwise::Mode::SQUARE, a); }
inline Value tanh(const Value& a) { return elemwise(Elemwise::Mode::TANH, a); }
inline Value abs(const Value& a) { return elemwise(Elemwise::Mode::ABS, a); }
// condition (bool) ? a : b
Value where(const Value& condition, const Value& a, const Value& b);
// x itself where it has this dtype.
Value cast(const Value& x, DType dtype);
// A 0-d constant of x's dtype and device.
Value scalar_like(const Value& x, double value);
inline Value add(const Value& a, double b) { return add(a, scalar_like(a, b)); }
inline Value mul(const Value& a, double b) { return mul(a, scalar_like(a, b)); }

}  // namespace mge
