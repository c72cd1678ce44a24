#include "core/ops/post_ops/post_ops.h"

#include "core/dispatch/dispatch.h"
#include "core/kernels/cpu/copy.h"
#include "core/ops/matmul/matmul.h"

namespace mge {
namespace {

using cpu::dnn::PostOps;

Specs specs_of(const Values& in) {
  Specs out;
  for (const Value& v : in) out.push_back(v.spec());
  return out;
}

template <class T>
std::size_t product_inputs(const T& op) {
  return op.bias ? 3 : 2;
}

// The inputs of the product alone: x, weight and bias.
template <class T, class List>
List of_product(const T& op, const List& in) {
  List out;
  for (std::size_t i = 0; i < product_inputs(op); ++i) out.push_back(in[i]);
  return out;
}

template <class T>
void check(const char* name, const T& op, const Specs& in) {
  const std::size_t want = product_inputs(op) + (op.residual == Residual::NONE ? 0 : 1);
  if (in.size() != want) fail_type(name, "expected ", want, " inputs, got ", in.size());
  if (op.activation && !cpu::dnn::is_activation(*op.activation)) {
    fail_value(name, "expected an activation, got ", elemwise_name(*op.activation));
  }
}

template <class T>
void check_result(const char* name, const T& op, const Specs& in, const Spec& out) {
  if (!is_float(out.dtype)) fail_type(name, "expected floats, got ", in[0].dtype);
  if (op.residual == Residual::NONE) return;
  const Spec& z = in[in.size() - 1];
  if (z.shape != out.shape || z.dtype != out.dtype) {
    fail_value(name, "expected z of ", out.dtype, " ", out.shape, ", got ", z.dtype, " ", z.shape);
  }
}

template <class T>
PostOps post_ops_of(const T& op) {
  static constexpr PostOps::Add adds[] = {PostOps::Add::none, PostOps::Add::before_activation,
                                          PostOps::Add::after_activation};
  return {.add = adds[static_cast<std::size_t>(op.residual)],
          .activation = op.activation,
          .alpha = static_cast<float>(op.alpha),
          .beta = static_cast<float>(op.beta),
          .scale = static_cast<float>(op.scale),
          .shift = static_cast<float>(op.shift)};
}

// What follows the product, in public ops.
template <class T>
Value with_post_ops(const T& op, Value y, const Values& in) {
  if (op.residual == Residual::BEFORE_ACTIVATION) y = add(y, in[in.size() - 1]);
  if (op.activation == Elemwise::Mode::PRELU) {
    y = elemwise(*op.activation, y, scalar_like(y, op.alpha));
  } else if (op.activation == Elemwise::Mode::CLIP) {
    y = elemwise(*op.activation, y, scalar_like(y, op.alpha), scalar_like(y, op.beta));
  } else if (op.activation) {
    y = elemwise(*op.activation, y);
  }
  if (op.scale != 1) y = mul(y, op.scale);
  if (op.shift != 0) y = add(y, op.shift);
  return op.residual == Residual::AFTER_ACTIVATION ? add(y, in[in.size() - 1]) : y;
}

// Runs the kernel into a result that holds the residual, where there is one: in its own buffer if
// nobody else needs that.
template <class T, class Kernel>
Values run(const T& op, const Spec& spec, Values& in, Kernel&& kernel) {
  Value out;
  if (op.residual == Residual::NONE) {
    out = Value::empty(spec);
  } else if (Value& z = in[in.size() - 1]; z.strides() == spec.strides && z.unique()) {
    out = z.detached();
  } else {
    out = Value::empty(spec);
    cpu::copy(z.view(), out.mut());
  }
  if (kernel(post_ops_of(op), out.mut())) return {out};
  const PauseGrad pause;  // the layer above has recorded this op as one node
  return decompose(op, in);
}

}  // namespace

Specs infer(const FusedConvolution& op, const Specs& in) {
  check("FusedConvolution", op, in);
  const Spec out = infer_convolution("FusedConvolution", conv_attrs_2d(op), of_product(op, in));
  check_result("FusedConvolution", op, in, out);
  return {out};
}

Values decompose(const FusedConvolution& op, const Values& in) {
  Convolution conv;
  conv.stride_h = op.stride_h, conv.stride_w = op.stride_w;
  conv.pad_h = op.pad_h, conv.pad_w = op.pad_w;
  conv.dilate_h = op.dilate_h, conv.dilate_w = op.dilate_w;
  conv.mode = op.mode;
  conv.sparse = op.sparse;
  return {with_post_ops(op, call_all(conv, of_product(op, in))[0], in)};
}

Values execute(const FusedConvolution& op, Values& in) {
  Spec spec = infer(op, specs_of(in))[0];
  spec.device = in[0].device();
  return run(op, spec, in, [&](const PostOps& post, const MutView& out) {
    return run_convolution_with("FusedConvolution", conv_attrs_2d(op), of_product(op, in), post,
                                out);
  });
}
REGISTER_OP(FusedConvolution);

Specs infer(const FusedLinear& op, const Specs& in) {
  check("FusedLinear", op, in);
  const Spec out = infer(Linear{}, of_product(op, in))[0];
  check_result("FusedLinear", op, in, out);
  return {out};
}

Values decompose(const FusedLinear& op, const Values& in) {
  return {with_post_ops(op, call_all(Linear{}, of_product(op, in))[0], in)};
}

Values execute(const FusedLinear& op, Values& in) {
  Spec spec = infer(op, specs_of(in))[0];
  spec.device = in[0].device();
  return run(op, spec, in, [&](const PostOps& post, const MutView& out) {
    return run_linear_with("FusedLinear", of_product(op, in), post, out);
  });
}
REGISTER_OP(FusedLinear);

}  // namespace mge
