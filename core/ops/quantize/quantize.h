// Fake quantisation: values rounded to the steps of a quantised dtype, and kept as floats.
//
// Operands of one float dtype; scale, zero point and gradient scale broadcast to x. round() goes
// half away from zero, and clip() is to [qmin, qmax]. Gradients pass straight through the rounding
// of what lies inside the range.
#pragma once

#include <limits>

#include "core/op/op.h"

namespace mge {

struct QuantRange {
  std::int64_t qmin = std::numeric_limits<std::int32_t>::min();
  std::int64_t qmax = std::numeric_limits<std::int32_t>::max();
};

#define MGE_QUANT_FIELDS(T) field_list(field("qmin", &T::qmin), field("qmax", &T::qmax))

// (x, scale, zero_point): (clip(round(x / scale) + zero_point) - zero_point) * scale. Only x has a
// gradient.
struct FakeQuant : QuantRange {
  static constexpr OpTraits traits{.name = "FakeQuant", .amp = Amp::promote};
  static constexpr auto fields = MGE_QUANT_FIELDS(FakeQuant);
};
Specs infer(const FakeQuant& op, const Specs& in);
Values decompose(const FakeQuant& op, const Values& in);
Values grad(const FakeQuant& op, const GradArgs& g);
Keep keep(const FakeQuant& op, std::uint32_t needs);
void kernel(const FakeQuant& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(FakeQuant);

// (dy, x, scale, zero_point) -> dx.
struct FakeQuantBackward : QuantRange {
  static constexpr OpTraits traits{.name = "FakeQuantBackward", .amp = Amp::promote};
  static constexpr auto fields = MGE_QUANT_FIELDS(FakeQuantBackward);
};
Specs infer(const FakeQuantBackward& op, const Specs& in);
Values decompose(const FakeQuantBackward& op, const Values& in);
void kernel(const FakeQuantBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(FakeQuantBackward);

// Trained quantisation thresholds (Jain et al., 2019): (x, scale) with steps of s = 2^scale,
// clip(round(x / s)) * s.
struct TQT : QuantRange {
  static constexpr OpTraits traits{.name = "TQT", .amp = Amp::promote};
  static constexpr auto fields = MGE_QUANT_FIELDS(TQT);
};
Specs infer(const TQT& op, const Specs& in);
Values decompose(const TQT& op, const Values& in);
Values grad(const TQT& op, const GradArgs& g);
Keep keep(const TQT& op, std::uint32_t needs);
void kernel(const TQT& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(TQT);

// (dy, x, scale) -> dx and what each element adds to the gradient of the scale.
struct TQTBackward : QuantRange {
  static constexpr OpTraits traits{.name = "TQTBackward", .amp = Amp::promote};
  static constexpr auto fields = MGE_QUANT_FIELDS(TQTBackward);
};
Specs infer(const TQTBackward& op, const Specs& in);
Values decompose(const TQTBackward& op, const Values& in);
void kernel(const TQTBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(TQTBackward);

// Learned step size quantisation (Esser et al., 2020): (x, scale, zero_point, grad_scale),
// (clip(round(x / scale + zero_point)) - zero_point) * scale. The gradient of the scale is
// multiplied by grad_scale.
struct LSQ : QuantRange {
  static constexpr OpTraits traits{.name = "LSQ", .amp = Amp::promote};
  static constexpr auto fields = MGE_QUANT_FIELDS(LSQ);
};
Specs infer(const LSQ& op, const Specs& in);
Values decompose(const LSQ& op, const Values& in);
Values grad(const LSQ& op, const GradArgs& g);
Keep keep(const LSQ& op, std::uint32_t needs);
void kernel(const LSQ& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LSQ);

// (dy, x, scale, zero_point, grad_scale) -> dx and what each element adds to the gradient of the
// scale.
struct LSQBackward : QuantRange {
  static constexpr OpTraits traits{.name = "LSQBackward", .amp = Amp::promote};
  static constexpr auto fields = MGE_QUANT_FIELDS(LSQBackward);
};
Specs infer(const LSQBackward& op, const Specs& in);
Values decompose(const LSQBackward& op, const Values& in);
void kernel(const LSQBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LSQBackward);

#undef MGE_QUANT_FIELDS

}  // namespace mge
