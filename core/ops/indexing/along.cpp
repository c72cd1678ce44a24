// Positions along one axis: Gather, Scatter, ScatterAdd, and the one-hot forms made of them.
#include "core/kernels/cpu/indexing.h"
#include "core/ops/complex/complex.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/basic.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

int check_along(const char* op, std::int64_t axis, const Shape& x, DType index_dtype,
                const Shape& index) {
  if (!is_integer(index_dtype)) fail_type(op, "expected an integer index, got ", index_dtype);
  if (x.empty()) fail_value(op, "expected a tensor of at least one dimension");
  const int a = normalize_axis(op, axis, x.size());
  bool fits = index.size() == x.size();
  for (int i = 0; fits && i < x.size(); ++i) fits = i == a || index[i] <= x[i];
  if (!fits) {
    fail_value(
        op,
        "expected an index of as many dimensions as the tensor and of no larger sizes but on axis ",
        a, ", got ", index, " for ", x);
  }
  return a;
}

template <class F>
Values write_along(const char* op, std::int64_t axis, Values& in, F&& write) {
  if (in.size() != 3)
    fail_type(op, "expected a tensor, an index and values, got ", in.size(), " inputs");
  const int a = check_along(op, axis, in[0].shape(), in[1].dtype(), in[1].shape());
  check_assignable(op, in[2].shape(), in[1].shape());
  const Value index = in[1], v = in[2];
  Value out = writable(in[0], 0);
  write(a, out.mut(), index.view(), as_assigned(v.view(), index.ndim()));
  return {std::move(out)};
}

// The index with the axis that it lacks.
Value with_axis(const char* op, std::int64_t axis, const Spec& x, const Value& index) {
  const int a = normalize_axis(op, axis, x.ndim());
  if (index.ndim() != x.ndim() - 1) {
    fail_value(op, "expected an index of ", x.ndim() - 1, " dimensions, got shape ", index.shape());
  }
  return expand_dims(index, {a});
}

// The shape of the index with its axis; raises where it does not fit.
Shape one_hot_shape(const char* op, std::int64_t axis, const Spec& x, const Spec& index) {
  const int a = normalize_axis(op, axis, x.ndim());
  Shape want = x.shape;
  want.erase(a);
  if (index.shape != want) {
    fail_value(op, "expected an index of shape ", want, " (the tensor's without axis ", a,
               "), got ", index.shape);
  }
  if (!is_integer(index.dtype)) fail_type(op, "expected an integer index, got ", index.dtype);
  want.insert(a, 1);
  return want;
}

}  // namespace

// ---- Gather
// ---------------------------------------------------------------------------------------

Specs infer(const Gather& op, const Specs& in) {
  if (in.size() != 2)
    fail_type("Gather", "expected a tensor and an index, got ", in.size(), " inputs");
  check_along("Gather", op.axis, in[0].shape, in[1].dtype, in[1].shape);
  Spec out(in[0].dtype, in[1].shape);
  out.device = in[0].device;
  return {out};
}
Values grad(const Gather& op, const GradArgs& g) {
  Values out(2);
  if (g.need(0)) out[0] = scatter_add(zeros(g.in_specs[0]), op.axis, g.inputs[1], g.dy[0]);
  return out;
}
Keep keep(const Gather&, std::uint32_t) { return {.inputs = 2, .outputs = 0}; }
REGISTER_OP(Gather);

// ---- Scatter
// --------------------------------------------------------------------------------------

Values execute(const Scatter& op, Values& in) {
  return write_along("Scatter", op.axis, in,
                     [](int axis, const MutView& x, const View& index, const View& v) {
                       cpu::put_along({"Scatter", axis, index}, x, v);
                     });
}
Values grad(const Scatter& op, const GradArgs& g) {
  Values out(3);
  const Value& index = g.inputs[1];
  if (g.need(0)) out[0] = call(Scatter{op}, g.dy[0], index, scalar_like(g.dy[0], 0));
  if (g.need(2)) {
    // Only the last write to a position reached the output.
    const int axis = normalize_axis("Scatter", op.axis, index.ndim());
    Spec spec(DType::int32, g.in_specs[0].shape);
    spec.device = index.device();
    Shape along = Dims::filled(index.ndim(), 1);
    along[axis] = index.shape()[axis];
    const Value order = broadcast_to(
        reshape(arange(along[axis], DType::int32, index.device()), along), index.shape());
    const Value written = scatter(zeros(spec), axis, index, order);
    const Value part = where(equal(gather(written, axis, index), order),
                             gather(g.dy[0], axis, index), scalar_like(g.dy[0], 0));
    out[2] = take_back(part, g.in_specs[2]);
  }
  return out;
}
Keep keep(const Scatter&, std::uint32_t) { return {.inputs = 2, .outputs = 0}; }
REGISTER_OP(Scatter);

// ---- ScatterAdd
// -----------------------------------------------------------------------------------

Values execute(const ScatterAdd& op, Values& in) {
  return write_along("ScatterAdd", op.axis, in,
                     [](int axis, const MutView& x, const View& index, const View& v) {
                       cpu::add_along({"ScatterAdd", axis, index}, x, v);
                     });
}
Values grad(const ScatterAdd& op, const GradArgs& g) {
  Values out(3);
  if (g.need(0)) out[0] = g.dy[0];
  if (g.need(2)) out[2] = take_back(gather(g.dy[0], op.axis, g.inputs[1]), g.in_specs[2]);
  return out;
}
Values decompose_complex(const ScatterAdd& op, const Values& in) { return by_parts(op, in); }
Keep keep(const ScatterAdd&, std::uint32_t) { return {.inputs = 2, .outputs = 0}; }
REGISTER_OP(ScatterAdd);

// ---- IndexingOneHot, IndexingSetOneHot
// ------------------------------------------------------------

Specs infer(const IndexingOneHot& op, const Specs& in) {
  if (in.size() != 2) {
    fail_type("IndexingOneHot", "expected a tensor and an index, got ", in.size(), " inputs");
  }
  Spec out(in[0].dtype, one_hot_shape("IndexingOneHot", op.axis, in[0], in[1]));
  out.device = in[0].device;
  return {out};
}
Values decompose(const IndexingOneHot& op, const Values& in) {
  return {gather(in[0], op.axis, with_axis("IndexingOneHot", op.axis, in[0].spec(), in[1]))};
}
REGISTER_OP(IndexingOneHot);

Values execute(const IndexingSetOneHot& op, Values& in) {
  const char* name = IndexingSetOneHot::traits.name;
  if (in.size() != 3) fail_type(name, "expected 3 inputs, got ", in.size());
  const Shape shape = one_hot_shape(name, op.axis, in[0].spec(), in[1].spec());
  check_assignable(name, in[2].shape(), shape);
  View index = in[1].view();
  const int axis = normalize_axis(name, op.axis, in[0].ndim());
  index.shape.insert(axis, 1);
  index.strides.insert(axis, 1);
  Value out = writable(in[0], 0);
  cpu::put_along({name, axis, index, false}, out.mut(), as_assigned(in[2].view(), shape.size()));
  return {std::move(out)};
}
Values decompose(const IndexingSetOneHot& op, const Values& in) {
  return {
      scatter(in[0], op.axis, with_axis("IndexingSetOneHot", op.axis, in[0].spec(), in[1]), in[2])};
}
REGISTER_OP(IndexingSetOneHot);

// ---- as functions
// ---------------------------------------------------------------------------------

Value gather(const Value& x, std::int64_t axis, const Value& index) {
  return call(Gather{.axis = axis}, x, index);
}
Value indexing_one_hot(const Value& x, const Value& index, std::int64_t axis) {
  return call(IndexingOneHot{.axis = axis}, x, index);
}
Value scatter(Value x, std::int64_t axis, const Value& index, const Value& v) {
  Values in;
  in.push_back(std::move(x));
  in.push_back(index);
  in.push_back(v);
  return std::move(call_all(Scatter{.axis = axis}, std::move(in))[0]);
}
Value scatter_add(Value x, std::int64_t axis, const Value& index, const Value& v) {
  Values in;
  in.push_back(std::move(x));
  in.push_back(index);
  in.push_back(v);
  return std::move(call_all(ScatterAdd{.axis = axis}, std::move(in))[0]);
}

}  // namespace mge
