#include "core/ops/cross_entropy/cross_entropy.h"

#include <algorithm>

#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"

namespace mge {
namespace {

DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

// Checks the operands and gives the spec of the loss.
Spec check(const char* op, const Spec& logits, const Spec& labels, std::int64_t axis,
           LossReduction reduction) {
  if (!is_float(logits.dtype)) {
    fail_type(op, "expected predictions of a float dtype, got ", logits.dtype);
  }
  if (!is_integer(labels.dtype)) fail_type(op, "expected integer labels, got ", labels.dtype);
  Shape shape = logits.shape;
  const int at = normalize_axis(op, axis, logits.ndim());
  shape.erase(at);
  if (labels.shape != shape) {
    fail_value(op, "expected labels of shape ", shape, " for predictions of shape ", logits.shape,
               " with the classes on axis ", at, ", got ", labels.shape);
  }
  if (logits.shape[at] == 0 && labels.size() != 0) {
    fail_value(op, "expected at least one class, got predictions of shape ", logits.shape);
  }
  switch (reduction) {
    case LossReduction::NONE:
      return Spec(logits.dtype, shape);
    case LossReduction::SUM:
      return Spec(logits.dtype, {});
    case LossReduction::MEAN:
      return Spec(wide(logits.dtype), {});
  }
  fail_value(op, "unknown reduction");
}

// Where a position along the axis is the label's.
Value own_class(const Value& logits, const Value& labels, int axis) {
  Shape shape = Dims::filled(logits.ndim(), 1);
  shape[axis] = logits.shape()[axis];
  const Value classes = reshape(arange(shape[axis], DType::int64, logits.device()), shape);
  return equal(expand_dims(cast(labels, DType::int64), {axis}), classes);
}

}  // namespace

Specs infer(const CrossEntropy& op, const Specs& in) {
  if (in.size() != 2) fail_type("CrossEntropy", "expected 2 inputs, got ", in.size());
  return {check("CrossEntropy", in[0], in[1], op.axis, op.reduction)};
}

Values decompose(const CrossEntropy& op, const Values& in) {
  const Value x = cast(in[0], wide(in[0].dtype()));
  const int axis = normalize_axis("CrossEntropy", op.axis, x.ndim());
  const Value log_p = logsoftmax(x, axis), own = own_class(x, in[1], axis);
  Value loss = mul(sum(where(own, log_p, scalar_like(x, 0)), {axis}, false), op.label_smooth - 1);
  if (op.label_smooth != 0) {
    loss = sub(loss, mul(mean(log_p, {axis}, false), scalar_like(x, op.label_smooth)));
  }
  if (op.reduction == LossReduction::MEAN) return {mean(loss)};
  return {cast(op.reduction == LossReduction::SUM ? sum(loss) : loss, in[0].dtype())};
}

Keep keep(const CrossEntropy&, std::uint32_t) { return {0b11, 0}; }

Values grad(const CrossEntropy& op, const GradArgs& g) {
  return {call(CrossEntropyBackward{op.axis, op.label_smooth, op.reduction}, g.dy[0], g.inputs[0],
               g.inputs[1]),
          {}};
}

REGISTER_OP(CrossEntropy);

Specs infer(const CrossEntropyBackward& op, const Specs& in) {
  if (in.size() != 3) fail_type("CrossEntropyBackward", "expected 3 inputs, got ", in.size());
  const Spec& x = in[1];
  const Spec loss = check("CrossEntropyBackward", x, in[2], op.axis, op.reduction);
  if (in[0].shape != loss.shape) {
    fail_value("CrossEntropyBackward", "expected dy of shape ", loss.shape, ", got ", in[0].shape);
  }
  return {Spec(x.dtype, x.shape)};
}

Values decompose(const CrossEntropyBackward& op, const Values& in) {
  const Value x = cast(in[1], wide(in[1].dtype()));
  const int axis = normalize_axis("CrossEntropyBackward", op.axis, x.ndim());
  Value dloss = cast(in[0], x.dtype());
  if (op.reduction == LossReduction::NONE) dloss = expand_dims(dloss, {axis});
  if (op.reduction == LossReduction::MEAN) {
    const auto count = std::max<std::int64_t>(in[2].size(), 1);
    dloss = mul(dloss, 1 / static_cast<double>(count));
  }
  const double classes = static_cast<double>(std::max<std::int64_t>(x.shape()[axis], 1));
  const Value own = cast(own_class(x, in[2], axis), x.dtype());
  const Value target = add(mul(own, 1 - op.label_smooth), op.label_smooth / classes);
  return {cast(mul(sub(softmax(x, axis), target), dloss), in[1].dtype())};
}

REGISTER_OP(CrossEntropyBackward);

}  // namespace mge
