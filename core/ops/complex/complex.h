// Complex numbers: made of two real tensors, taken apart again, and their arithmetic.
//
// Gradients treat the two parts as independent real numbers: the gradient of z is
// dL/d(real z) + i dL/d(imag z), so that of a product z w is dy conj(w).
#pragma once

#include "core/op/op.h"

namespace mge {

// (real, imag), two float32 or two float64 tensors that broadcast: complex64 or complex128.
struct Complex {
  static constexpr OpTraits traits{.name = "Complex", .complex = true};
  static constexpr auto fields = field_list();
};
Specs infer(const Complex& op, const Specs& in);
Values grad(const Complex& op, const GradArgs& g);
Keep keep(const Complex& op, std::uint32_t needs);
void kernel(const Complex& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Complex);

// The parts of complex numbers, as views. A real tensor is its own real part; its imaginary part is
// zeros.
struct RealPart {
  static constexpr OpTraits traits{.name = "RealPart", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list();
};
Values execute(const RealPart& op, Values& in);
Values grad(const RealPart& op, const GradArgs& g);
Keep keep(const RealPart& op, std::uint32_t needs);
DECLARE_OP(RealPart);

struct ImagPart {
  static constexpr OpTraits traits{.name = "ImagPart", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list();
};
Values execute(const ImagPart& op, Values& in);
Values grad(const ImagPart& op, const GradArgs& g);
Keep keep(const ImagPart& op, std::uint32_t needs);
DECLARE_OP(ImagPart);

// Arithmetic of complex tensors of one dtype, which broadcast. ABS gives the real dtype and neither
// overflows nor underflows on the way; division is Smith's, which does not either, and divides both
// parts by 0 where the divisor is 0.
struct ComplexElemwise {
  enum class Mode : std::uint8_t { ADD, SUB, MUL, TRUE_DIV, NEGATE, CONJ, ABS };
  Mode mode = Mode::ADD;
  static constexpr OpTraits traits{
      .name = "ComplexElemwise", .fuse = Fuse::elementwise, .complex = true};
  static constexpr auto fields = field_list(field("mode", &ComplexElemwise::mode));
};
template <>
struct EnumNames<ComplexElemwise::Mode> {
  static constexpr std::array<const char*, 7> names = {"ADD",    "SUB",  "MUL", "TRUE_DIV",
                                                       "NEGATE", "CONJ", "ABS"};
};
Specs infer(const ComplexElemwise& op, const Specs& in);
Values grad(const ComplexElemwise& op, const GradArgs& g);
Keep keep(const ComplexElemwise& op, std::uint32_t needs);
void kernel(const ComplexElemwise& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ComplexElemwise);

// ---- as functions -------------------------------------------------------------------------------

Value complex(const Value& real, const Value& imag);
Value real(const Value& z);
Value imag(const Value& z);
Value conj(const Value& z);

// A linear op with one output, on the real parts of its inputs and on the imaginary ones. Inputs
// that are no numbers (indices, masks) go to both as they are: integers and bools do.
Values by_parts_of(const OpRef& op, const Values& in);
template <class T>
Values by_parts(const T& op, const Values& in) {
  return by_parts_of(make_op(op), in);
}

}  // namespace mge
