#include "core/ops/elementwise/elementwise.h"

#include "core/kernels/cpu/elementwise.h"
#include "core/ops/complex/complex.h"
#include "core/ops/elementwise/rules.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/fill.h"

namespace mge {
namespace {

using Mode = Elemwise::Mode;

const char* wanted(Takes takes) {
  switch (takes) {
    case Takes::numbers:
      return "numbers (not bool)";
    case Takes::floats:
      return "a float dtype";
    case Takes::integers:
      return "an integer dtype";
    case Takes::bools:
      return "bool tensors";
    default:
      return "any dtype";
  }
}
bool accepts(Takes takes, DType dtype) {
  switch (takes) {
    case Takes::numbers:
      return !is_bool(dtype);
    case Takes::floats:
      return is_float(dtype);
    case Takes::integers:
      return is_integer(dtype);
    case Takes::bools:
      return is_bool(dtype);
    default:
      return true;
  }
}

DType check_dtypes(const char* op, const ElemwiseRule& rule, const Specs& in) {
  const DType dtype = in.back().dtype;
  std::size_t first = 0;
  if (rule.takes == Takes::where) {
    if (!is_bool(in[0].dtype)) fail_type(op, "expected a bool condition, got ", in[0].dtype);
    first = 1;
  }
  for (std::size_t i = first; i < in.size(); ++i) {
    if (in[i].dtype != dtype) {
      fail_type(op, "expected operands of one dtype, got ", in[first].dtype, " and ", dtype);
    }
  }
  if (!accepts(rule.takes, dtype)) fail_type(op, "expected ", wanted(rule.takes), ", got ", dtype);
  return dtype;
}

}  // namespace

Strides elemwise_strides(const Shape& shape, const Specs& in) {
  const Spec* model = nullptr;
  for (const Spec& s : in) {
    if (s.shape != shape) continue;
    if (is_dense(shape, s.strides)) return s.strides;
    if (!model) model = &s;
  }
  return model ? dense_like(shape, model->strides) : row_major(shape);
}

// ---- Elemwise
// ------------------------------------------------------------------------------------

Specs infer(const Elemwise& op, const Specs& in) {
  const ElemwiseRule& rule = elemwise_rule(op.mode);
  const char* name = elemwise_name(op.mode);
  if (static_cast<int>(in.size()) != rule.arity) {
    fail_type(name, "expected ", rule.arity, " operands, got ", in.size());
  }
  const DType dtype = check_dtypes(name, rule, in);
  Shape shape = in[0].shape;
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i].shape != shape) shape = broadcast(name, shape, in[i].shape);
  }
  count(shape);  // raises where it overflows
  return {Spec(rule.gives == Gives::boolean ? DType::boolean : dtype, shape,
               elemwise_strides(shape, in))};
}

namespace {

// The result may take over the buffer of an operand that nobody else holds.
Value result(const Spec& want, Values& in) {
  for (Value& v : in) {
    if (v.dtype() == want.dtype && v.shape() == want.shape && v.strides() == want.strides &&
        v.unique()) {
      return v.detached();
    }
  }
  return Value::empty(want);
}

// Operands of one dtype and one row-major shape, which the loop takes as they are.
bool run_flat(const Elemwise& op, const ElemwiseRule& rule, Values& in, Value& out) {
  const Spec& first = in[0].spec();
  const cpu::ElementRun run = cpu::find_element_run(op.mode, first.dtype);
  if (!run || is_low_float(first.dtype) || op.mode == Mode::WHERE || !in[0].row_major()) {
    return false;
  }
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i].dtype() != first.dtype || in[i].shape() != first.shape || !in[i].row_major()) {
      return false;
    }
  }
  Spec spec = first;
  if (rule.gives == Gives::boolean) spec.dtype = DType::boolean;
  out = result(spec, in);
  const void* data[cpu::kMaxOperands];
  for (std::size_t i = 0; i < in.size(); ++i) data[i] = in[i].ptr<void>();
  cpu::elementwise_flat(run, op.mode, data, rule.arity, out.mut().data, first.dtype, spec.dtype,
                        first.size());
  return true;
}

}  // namespace

Values execute(const Elemwise& op, Values& in) {
  const ElemwiseRule& rule = elemwise_rule(op.mode);
  Values out(1);
  if (static_cast<int>(in.size()) == rule.arity && run_flat(op, rule, in, out[0])) return out;
  Specs specs;
  specs.reserve(in.size());
  for (const Value& v : in) specs.push_back(v.spec());
  Specs wanted = infer(op, specs);
  wanted[0].device = in[0].device();
  out[0] = result(wanted[0], in);
  View views[cpu::kMaxOperands];
  for (std::size_t i = 0; i < in.size(); ++i) views[i] = in[i].view();
  cpu::elementwise(op.mode, Views(views, in.size()), out[0].mut());
  return out;
}

Values grad(const Elemwise& op, const GradArgs& g) { return elemwise_rule(op.mode).grad(g); }
Keep keep(const Elemwise& op, std::uint32_t needs) {
  Keep k = elemwise_rule(op.mode).keep;
  // A product needs the other factor only.
  if (op.mode == Mode::MUL) k.inputs = (needs & 1 ? 2u : 0u) | (needs & 2 ? 1u : 0u);
  return k;
}
bool differentiable(const Elemwise& op) { return elemwise_rule(op.mode).grad != nullptr; }
Amp amp(const Elemwise& op) { return elemwise_rule(op.mode).amp; }
REGISTER_OP(Elemwise);

// ---- TypeCvt
// --------------------------------------------------------------------------------------

Specs infer(const TypeCvt& op, const Specs& in) {
  if (in.size() != 1) fail_type("TypeCvt", "expected 1 operand, got ", in.size());
  if (is_complex(in[0].dtype) && !is_complex(op.dtype)) {
    fail_type("TypeCvt", in[0].dtype, " does not convert to ", op.dtype,
              ", which would drop its imaginary part; take F.real or F.imag");
  }
  return {Spec(op.dtype, in[0].shape, elemwise_strides(in[0].shape, in))};
}
Values grad(const TypeCvt& op, const GradArgs& g) {
  // Through an integer or a bool no gradient passes.
  const DType from = g.in_specs[0].dtype;
  if (is_float(from) && is_complex(op.dtype)) return {cast(real(g.dy[0]), from)};
  if (is_complex(from) != is_complex(op.dtype) || is_float(from) != is_float(op.dtype) ||
      !(is_float(from) || is_complex(from))) {
    return {Value{}};
  }
  return {cast(g.dy[0], from)};
}
Keep keep(const TypeCvt&, std::uint32_t) { return {0, 0}; }
REGISTER_OP(TypeCvt);

// ---- as functions
// --------------------------------------------------------------------------------

const OpRef& elemwise_op(Mode mode) {
  static const auto ops = [] {
    std::array<OpRef, kElementModes> all;
    for (int m = 0; m < kElementModes; ++m) {
      all[static_cast<std::size_t>(m)] = make_op(Elemwise{static_cast<Mode>(m)});
    }
    return all;
  }();
  return ops[static_cast<std::size_t>(mode)];
}

bool elemwise_needs_float(Mode mode) { return elemwise_rule(mode).takes == Takes::floats; }

bool elemwise_fast(Mode mode, const Value& a, const Value& b, Value& out) {
  const Spec &x = a.spec(), &y = b.spec();
  if (x.dtype != y.dtype || x.shape != y.shape) return false;
  const bool row_major = a.row_major() && b.row_major();
  if (!row_major && !(x.strides == y.strides && is_dense(x.shape, x.strides))) return false;
  const cpu::ElementRun run = cpu::find_element_run(mode, x.dtype);
  if (!run) return false;
  Spec spec = x;
  if (elemwise_rule(mode).gives == Gives::boolean) spec.dtype = DType::boolean;
  out = Value::empty(spec);
  if (is_low_float(x.dtype)) {
    const View in[] = {a.view(), b.view()};
    cpu::elementwise(mode, in, out.mut());
    return true;
  }
  const void* in[] = {a.ptr<void>(), b.ptr<void>()};
  cpu::elementwise_flat(run, mode, in, 2, out.mut().data, x.dtype, spec.dtype, x.size());
  return true;
}

Value elemwise(Mode mode, const Value& a) {
  return std::move(apply(elemwise_op(mode), Values{a})[0]);
}
Value elemwise(Mode mode, const Value& a, const Value& b) {
  return std::move(apply(elemwise_op(mode), Values{a, b})[0]);
}
Value elemwise(Mode mode, const Value& a, const Value& b, const Value& c) {
  return std::move(apply(elemwise_op(mode), Values{a, b, c})[0]);
}

Value where(const Value& condition, const Value& a, const Value& b) {
  return elemwise(Mode::WHERE, condition, a, b);
}

Value cast(const Value& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return call(TypeCvt{dtype}, x);
}

Value scalar_like(const Value& x, double value) {
  if (is_complex(x.dtype())) return scalar(x.dtype(), value, x.device());
  Value out = Value::empty(x.dtype(), Shape{}, x.device());
  visit_dtype(x.dtype(), [&]<class T>(Tag<T>) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      *out.mut().template ptr<T>() = T(static_cast<float>(value));
    } else {
      *out.mut().template ptr<T>() = static_cast<T>(value);
    }
  });
  return out;
}

}  // namespace mge
