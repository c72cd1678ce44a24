#include "core/ops/creation/creation.h"

#include <algorithm>

#include "core/kernels/cpu/copy.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/fill.h"

namespace mge {
namespace {

Spec vector_spec(const char* op, std::int64_t num, DType dtype, const Device& device) {
  if (num < 0) fail_value(op, "expected a number of elements >= 0, got ", num);
  Spec out(dtype, {num});
  count(out.shape);  // raises where it is too large to count
  out.device = device;
  return out;
}

void expect_no_inputs(const char* op, const Specs& in) {
  if (in.size() > 0) {
    fail_type(op, "expected its numbers as fields and no inputs, got ", in.size(), " inputs");
  }
}

}  // namespace

// ---- Fill, FillLike
// -------------------------------------------------------------------------------

namespace {

Spec fill_spec(const Fill& op, const Shape& shape) {
  for (std::int64_t n : shape) {
    if (n < 0) fail_value("Fill", "expected sizes >= 0, got shape ", shape);
  }
  Spec out(op.dtype, shape);
  out.device = op.comp_node;
  return out;
}

}  // namespace

Specs infer(const Fill& op, const Specs& in) {
  if (!in.empty()) return {};
  return {fill_spec(op, op.shape)};
}

Values execute(const Fill& op, Values& in) {
  Shape shape = op.shape;
  if (!in.empty()) {
    const Value& v = in[0];
    if (v.ndim() > 1 || !is_integer(v.dtype()) || v.size() > kMaxDims) {
      fail_type("Fill", "expected the shape as a 1-d integer tensor, got ", v.dtype(), " of shape ",
                v.shape());
    }
    shape = Dims::filled(static_cast<int>(v.size()), 0);
    cpu::copy(v.view(), {shape.begin(), DType::int64, v.shape(), row_major(v.shape())});
  }
  return {full(fill_spec(op, shape), op.value)};
}
REGISTER_OP(Fill);

Specs infer(const FillLike&, const Specs& in) {
  if (in.size() != 1) fail_type("FillLike", "expected 1 input, got ", in.size());
  return {in[0]};
}

Values execute(const FillLike& op, Values& in) {
  Specs specs;
  for (const Value& v : in) specs.push_back(v.spec());
  return {full(infer(op, specs)[0], op.value)};
}
REGISTER_OP(FillLike);

// ---- Linspace, Arange, Eye
// ------------------------------------------------------------------------

Specs infer(const Linspace& op, const Specs& in) {
  expect_no_inputs("Linspace", in);
  return {vector_spec("Linspace", op.num, op.dtype, op.comp_node)};
}
REGISTER_OP(Linspace);

Specs infer(const Arange& op, const Specs& in) {
  expect_no_inputs("Arange", in);
  return {vector_spec("Arange", op.num, op.dtype, op.comp_node)};
}
REGISTER_OP(Arange);

Specs infer(const Eye& op, const Specs& in) {
  expect_no_inputs("Eye", in);
  if (op.rows < 0 || op.columns < 0) {
    fail_value("Eye", "expected sizes >= 0, got ", op.rows, " and ", op.columns);
  }
  Spec out(op.dtype, {op.rows, op.columns});
  count(out.shape);
  out.device = op.comp_node;
  return {out};
}
REGISTER_OP(Eye);

// ---- as functions
// ---------------------------------------------------------------------------------

Value filled(const Spec& spec, double value) {
  // A new value of that format through ops, so that a trace sees where it comes from: row-major,
  // with the axes in the order that they have in memory, and then as a view of their own order.
  const int n = spec.ndim();
  const Strides strides = dense_like(spec.shape, spec.strides);
  Fill op{.shape = spec.shape, .value = value, .dtype = spec.dtype, .comp_node = spec.device};
  if (is_row_major(spec.shape, strides)) return std::move(call_all(op, {})[0]);
  Dims order;  // axes, the outermost first
  for (int axis = 0; axis < n; ++axis) order.push_back(axis);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return strides[static_cast<int>(a)] > strides[static_cast<int>(b)];
  });
  Dims place = order;
  for (int i = 0; i < n; ++i) {
    op.shape[i] = spec.shape[static_cast<int>(order[i])];
    place[static_cast<int>(order[i])] = i;
  }
  return call(Dimshuffle{place}, call_all(op, {})[0]);
}

Value arange(std::int64_t n, DType dtype, const Device& device) {
  return std::move(call_all(Arange{.num = n, .dtype = dtype, .comp_node = device}, {})[0]);
}

}  // namespace mge
