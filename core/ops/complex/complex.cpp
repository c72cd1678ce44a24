#include "core/ops/complex/complex.h"

#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/elementwise/rules.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using Mode = ComplexElemwise::Mode;

Value arithmetic(Mode mode, const Value& a) { return call(ComplexElemwise{mode}, a); }
Value arithmetic(Mode mode, const Value& a, const Value& b) {
  return call(ComplexElemwise{mode}, a, b);
}

const char* name(Mode mode) { return EnumNames<Mode>::names[static_cast<std::size_t>(mode)]; }
bool is_binary(Mode mode) { return mode <= Mode::TRUE_DIV; }

// The broadcast shape in the memory format of the first operand that has it.
Spec joined(const char* op, const Specs& in, DType dtype) {
  Shape shape = in[0].shape;
  for (std::size_t i = 1; i < in.size(); ++i) shape = broadcast(op, shape, in[i].shape);
  count(shape);  // raises where it overflows
  for (const Spec& s : in) {
    if (s.shape == shape) return {dtype, shape, dense_like(shape, s.strides)};
  }
  return {dtype, shape};
}

// A view of every second number of z's storage.
Value part(const Value& z, std::int64_t which) {
  const DType dtype = part_dtype(z.dtype());
  Strides strides = z.strides();
  for (std::int64_t& s : strides) s *= 2;
  Value out = z.alias(z.shape(), strides);
  out.impl()->spec.dtype = dtype;
  out.impl()->data = static_cast<char*>(out.impl()->data) + which * size_of(dtype);
  return out;
}

void check_part_input(const char* op, const Values& in) {
  if (in.size() != 1) fail_type(op, "expected 1 input, got ", in.size());
}

Value zero_like(const Value& x) { return scalar_like(x, 0); }

}  // namespace

// ---- Complex, RealPart, ImagPart
// ------------------------------------------------------------------

Specs infer(const Complex&, const Specs& in) {
  if (in.size() != 2) fail_type("Complex", "expected 2 inputs, got ", in.size());
  const DType dtype = in[0].dtype;
  if (dtype != in[1].dtype || (dtype != DType::float32 && dtype != DType::float64)) {
    fail_type("Complex", "expected two float32 or two float64 tensors, got ", dtype, " and ",
              in[1].dtype);
  }
  return {joined("Complex", in, complex_dtype(dtype))};
}
Values grad(const Complex&, const GradArgs& g) {
  Values out(2);
  if (g.need(0)) out[0] = sum_to(real(g.dy[0]), g.in_specs[0].shape);
  if (g.need(1)) out[1] = sum_to(imag(g.dy[0]), g.in_specs[1].shape);
  return out;
}
Keep keep(const Complex&, std::uint32_t) { return {0, 0}; }
REGISTER_OP(Complex);

Values execute(const RealPart&, Values& in) {
  check_part_input("RealPart", in);
  return {is_complex(in[0].dtype()) ? part(in[0], 0) : in[0].detached()};
}
Values grad(const RealPart&, const GradArgs& g) {
  if (!is_complex(g.in_specs[0].dtype)) return {g.dy[0]};
  return {complex(g.dy[0], zero_like(g.dy[0]))};
}
Keep keep(const RealPart&, std::uint32_t) { return {0, 0}; }
REGISTER_OP(RealPart);

Values execute(const ImagPart&, Values& in) {
  check_part_input("ImagPart", in);
  return {is_complex(in[0].dtype()) ? part(in[0], 1) : zeros(in[0].spec())};
}
Values grad(const ImagPart&, const GradArgs& g) {
  if (!is_complex(g.in_specs[0].dtype)) return {Value{}};
  return {complex(zero_like(g.dy[0]), g.dy[0])};
}
Keep keep(const ImagPart&, std::uint32_t) { return {0, 0}; }
REGISTER_OP(ImagPart);

// ---- ComplexElemwise
// ------------------------------------------------------------------------------

Specs infer(const ComplexElemwise& op, const Specs& in) {
  const std::size_t arity = is_binary(op.mode) ? 2 : 1;
  if (in.size() != arity) {
    fail_type(name(op.mode), "expected ", arity, " operands, got ", in.size());
  }
  for (const Spec& s : in) {
    if (!is_complex(s.dtype) || s.dtype != in[0].dtype) {
      fail_type(name(op.mode), "expected complex operands of one dtype, got ", in[0].dtype, " and ",
                s.dtype);
    }
  }
  const DType dtype = op.mode == Mode::ABS ? part_dtype(in[0].dtype) : in[0].dtype;
  return {joined(name(op.mode), in, dtype)};
}

Keep keep(const ComplexElemwise& op, std::uint32_t needs) {
  switch (op.mode) {
    case Mode::MUL:
      return {(needs & 1u ? 2u : 0u) | (needs & 2u ? 1u : 0u), 0};
    case Mode::TRUE_DIV:
      return {2u, needs & 2u ? 1u : 0u};
    case Mode::ABS:
      return {1, 1};
    default:
      return {0, 0};
  }
}

Values grad(const ComplexElemwise& op, const GradArgs& g) {
  const Value& dy = g.dy[0];
  Values out(g.in_specs.size());
  const auto set = [&](std::size_t i, auto make) {
    if (g.need(i)) out[i] = sum_to(make(), g.in_specs[i].shape);
  };
  switch (op.mode) {
    case Mode::ADD:
      set(0, [&] { return dy; });
      set(1, [&] { return dy; });
      break;
    case Mode::SUB:
      set(0, [&] { return dy; });
      set(1, [&] { return arithmetic(Mode::NEGATE, dy); });
      break;
    case Mode::MUL:
      set(0, [&] { return arithmetic(Mode::MUL, dy, conj(g.inputs[1])); });
      set(1, [&] { return arithmetic(Mode::MUL, dy, conj(g.inputs[0])); });
      break;
    case Mode::TRUE_DIV: {
      const Value over = arithmetic(Mode::TRUE_DIV, dy, conj(g.inputs[1]));
      set(0, [&] { return over; });
      set(1, [&] {
        return arithmetic(Mode::NEGATE, arithmetic(Mode::MUL, over, conj(g.outputs[0])));
      });
      break;
    }
    case Mode::NEGATE:
      set(0, [&] { return arithmetic(Mode::NEGATE, dy); });
      break;
    case Mode::CONJ:
      set(0, [&] { return conj(dy); });
      break;
    case Mode::ABS:
      set(0, [&] {
        // dy z / |z|; 0 where z is.
        const Value &z = g.inputs[0], &r = g.outputs[0], zero = zero_like(r);
        const Value positive = less(zero, r);
        const Value scale = where(positive, div(dy, where(positive, r, scalar_like(r, 1))), zero);
        return complex(mul(real(z), scale), mul(imag(z), scale));
      });
      break;
  }
  return out;
}
REGISTER_OP(ComplexElemwise);

// ---- the elementwise modes
// ------------------------------------------------------------------------

namespace {

Value either(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::OR, a, b); }

Value elemwise_by_parts(Elemwise::Mode mode, const Values& in) {
  using enum Elemwise::Mode;
  const auto parts = [&](Elemwise::Mode m, std::size_t i) {
    return Values{elemwise(m, real(in[i])), elemwise(m, imag(in[i]))};
  };
  switch (mode) {
    case ADD:
      return arithmetic(Mode::ADD, in[0], in[1]);
    case SUB:
      return arithmetic(Mode::SUB, in[0], in[1]);
    case MUL:
      return arithmetic(Mode::MUL, in[0], in[1]);
    case TRUE_DIV:
      return arithmetic(Mode::TRUE_DIV, in[0], in[1]);
    case NEGATE:
      return arithmetic(Mode::NEGATE, in[0]);
    case ABS:
      return arithmetic(Mode::ABS, in[0]);
    case SQUARE:
      return mul(in[0], in[0]);
    case FUSE_MUL_ADD3:
      return add(mul(in[0], in[1]), in[2]);
    case FUSE_MUL_ADD4:
      return add(mul(in[0], in[1]), mul(in[2], in[3]));
    case EQ:
      return elemwise(AND, equal(real(in[0]), real(in[1])), equal(imag(in[0]), imag(in[1])));
    case NEQ:
      return either(elemwise(NEQ, real(in[0]), real(in[1])),
                    elemwise(NEQ, imag(in[0]), imag(in[1])));
    case ISNAN:
    case ISINF: {
      const Values found = parts(mode, 0);
      return either(found[0], found[1]);
    }
    case EXP: {
      const Value size = exp(real(in[0])), angle = imag(in[0]);
      return complex(mul(size, elemwise(COS, angle)), mul(size, elemwise(SIN, angle)));
    }
    case LOG:
      return complex(log(arithmetic(Mode::ABS, in[0])), elemwise(ATAN2, imag(in[0]), real(in[0])));
    case WHERE:
      if (!is_bool(in[0].dtype())) {
        fail_type("WHERE", "expected a bool condition, got ", in[0].dtype());
      }
      return complex(where(in[0], real(in[1]), real(in[2])),
                     where(in[0], imag(in[1]), imag(in[2])));
    default:
      fail_type(elemwise_name(mode), in.back().dtype(),
                " is not supported; take F.real and F.imag");
  }
}

}  // namespace

Values decompose_complex(const Elemwise& op, const Values& in) {
  const int arity = elemwise_rule(op.mode).arity;
  if (static_cast<int>(in.size()) != arity) {
    fail_type(elemwise_name(op.mode), "expected ", arity, " operands, got ", in.size());
  }
  return {elemwise_by_parts(op.mode, in)};
}

// ---- as functions
// ---------------------------------------------------------------------------------

Value complex(const Value& real, const Value& imag) { return call(Complex{}, real, imag); }
Value real(const Value& z) { return call(RealPart{}, z); }
Value imag(const Value& z) { return call(ImagPart{}, z); }
Value conj(const Value& z) { return arithmetic(Mode::CONJ, z); }

Values by_parts_of(const OpRef& op, const Values& in) {
  const auto run = [&](Value (*take)(const Value&)) {
    Values parts;
    for (const Value& v : in) {
      parts.push_back(is_complex(v.dtype()) || is_float(v.dtype()) ? take(v) : v);
    }
    return std::move(apply(op, std::move(parts))[0]);
  };
  return {complex(run(real), run(imag))};
}

}  // namespace mge
