// Index arrays: IndexingMultiAxisVec and its writing forms.
#include "core/kernels/cpu/indexing.h"
#include "core/ops/complex/complex.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/basic.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

void check_vec(const char* op, const VecItems& items, std::size_t arrays, int ndim) {
  if (arrays == 0 || static_cast<std::size_t>(items.vec_axis.size()) != arrays) {
    fail_type(op, "expected an index array for each of the axes ", items.vec_axis, ", got ",
              arrays);
  }
  std::uint32_t used = 0;
  for (std::int64_t axis : items.vec_axis) {
    if (axis < 0 || axis >= ndim) {
      fail_index(op, "too many indices: an index array for axis ", axis, " of ", ndim,
                 " dimensions");
    }
    if (used >> axis & 1u) fail_value(op, "axis ", axis, " appears twice in ", items.vec_axis);
    used |= 1u << axis;
  }
  if (items.at < 0 || items.at > ndim - items.vec_axis.size()) {
    fail_value(op, "expected a place among the ", ndim - items.vec_axis.size(), " other axes, got ",
               items.at);
  }
}

// The arrays as the loops take them, on the part that the basic indices leave.
cpu::AxisIndices axis_indices(const char* op, const VecItems& items, const BasicPart& part,
                              Views arrays) {
  check_vec(op, items, arrays.size(), part.shape.size());
  Dims names;
  for (std::int64_t axis : items.vec_axis) names.push_back(part.axes[static_cast<int>(axis)]);
  return {op, items.vec_axis, names, arrays, static_cast<int>(items.at)};
}

std::vector<View> views_from(const Values& in, std::size_t first) {
  std::vector<View> out;
  for (std::size_t i = first; i < in.size(); ++i) out.push_back(in[i].view());
  return out;
}

Values indices_of(const GradArgs& g, std::size_t first) {
  Values out;
  for (std::size_t i = first; i < g.inputs.size(); ++i) out.push_back(g.inputs[i]);
  return out;
}

Values joined(Values head, const Values& tail) {
  for (const Value& v : tail) head.push_back(v);
  return head;
}

template <class F>
Values write_part(const char* op, const VecItems& items, Values& in, F&& write) {
  if (in.size() < 3)
    fail_type(op, "expected a tensor, a value and index arrays, got ", in.size(), " inputs");
  const std::vector<View> arrays = views_from(in, 2);
  const BasicPart part = basic_part(op, items, in[0].shape(), in[0].strides());
  const Shape taken = cpu::taken_shape(axis_indices(op, items, part, arrays), part.shape);
  check_assignable(op, in[1].shape(), taken);
  Value out = writable(in[0], 0);
  const BasicPart to = basic_part(op, items, out.shape(), out.strides());
  const MutView target{static_cast<char*>(out.mut().data) + to.offset * size_of(out.dtype()),
                       out.dtype(), to.shape, to.strides};
  write(axis_indices(op, items, to, arrays), target, as_assigned(in[1].view(), taken.size()));
  return {std::move(out)};
}

// True where a write is the last to its position; broadcasts to `taken`, the shape of a read. Found
// by writing the numbers of the writes and reading back which one stayed.
Value last_writes(const VecItems& items, const Spec& x, const Values& indices, const Shape& taken) {
  const BasicPart part = basic_part("IndexingSetMultiAxisVec", items, x.shape, x.strides);
  const int at = static_cast<int>(items.at), arrays = items.vec_axis.size();
  const int index_dims = taken.size() - (part.shape.size() - arrays);
  Spec keys(DType::int32, {});
  VecItems on_keys;
  for (int i = 0; i < arrays; ++i) {
    keys.shape.push_back(part.shape[static_cast<int>(items.vec_axis[i])]);
    on_keys.vec_axis.push_back(i);
  }
  keys.strides = row_major(keys.shape);
  keys.device = x.device;
  const Shape index_shape(std::span(taken.begin() + at, static_cast<std::size_t>(index_dims)));
  const Value order = reshape(arange(count(index_shape), DType::int32, x.device), index_shape);
  Values set;
  set.push_back(zeros(keys));
  set.push_back(order);
  const Value written =
      call_all(IndexingSetMultiAxisVec{on_keys}, joined(std::move(set), indices))[0];
  const Value seen = call_all(IndexingMultiAxisVec{on_keys}, joined({written}, indices))[0];
  Shape shape = Dims::filled(taken.size(), 1);
  std::copy(index_shape.begin(), index_shape.end(), shape.begin() + at);
  return reshape(equal(seen, order), shape);
}

bool may_repeat(const Values& indices) {
  for (const Value& v : indices) {
    if (v.size() > 1) return true;
  }
  return false;
}

}  // namespace

// ---- IndexingMultiAxisVec
// -------------------------------------------------------------------------

Specs infer(const IndexingMultiAxisVec& op, const Specs& in) {
  if (in.size() < 2) fail_type("IndexingMultiAxisVec", "expected a tensor and index arrays");
  const BasicPart part = basic_part("IndexingMultiAxisVec", op, in[0].shape, in[0].strides);
  std::vector<View> arrays;
  for (std::size_t i = 1; i < in.size(); ++i) {
    arrays.push_back({nullptr, in[i].dtype, in[i].shape, in[i].strides});
  }
  const auto at = axis_indices("IndexingMultiAxisVec", op, part, arrays);
  Spec out(in[0].dtype, cpu::taken_shape(at, part.shape),
           cpu::taken_strides(at, part.shape, part.strides));
  out.device = in[0].device;
  return {out};
}
Values grad(const IndexingMultiAxisVec& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (!g.need(0)) return out;
  Values in;
  in.push_back(zeros(g.in_specs[0]));
  in.push_back(g.dy[0]);
  out[0] = call_all(IndexingIncrMultiAxisVec{op}, joined(std::move(in), indices_of(g, 1)))[0];
  return out;
}
Keep keep(const IndexingMultiAxisVec&, std::uint32_t) { return {.inputs = ~1u, .outputs = 0}; }
REGISTER_OP(IndexingMultiAxisVec);

// ---- IndexingSetMultiAxisVec
// ----------------------------------------------------------------------

Values execute(const IndexingSetMultiAxisVec& op, Values& in) {
  return write_part("IndexingSetMultiAxisVec", op, in,
                    [](const auto& at, const MutView& x, const View& v) { cpu::put(at, x, v); });
}
Values grad(const IndexingSetMultiAxisVec& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  const Values indices = indices_of(g, 2);
  if (g.need(0)) {
    out[0] = call_all(op, joined({g.dy[0], scalar_like(g.dy[0], 0)}, indices))[0];
  }
  if (g.need(1)) {
    Value part = call_all(IndexingMultiAxisVec{op}, joined({g.dy[0]}, indices))[0];
    if (may_repeat(indices)) {
      const Value last = last_writes(op, g.in_specs[0], indices, part.shape());
      part = where(last, part, scalar_like(part, 0));
    }
    out[1] = take_back(part, g.in_specs[1]);
  }
  return out;
}
Keep keep(const IndexingSetMultiAxisVec&, std::uint32_t) { return {.inputs = ~3u, .outputs = 0}; }
REGISTER_OP(IndexingSetMultiAxisVec);

// ---- IndexingIncrMultiAxisVec
// ---------------------------------------------------------------------

Values execute(const IndexingIncrMultiAxisVec& op, Values& in) {
  return write_part("IndexingIncrMultiAxisVec", op, in,
                    [](const auto& at, const MutView& x, const View& v) { cpu::add_at(at, x, v); });
}
Values grad(const IndexingIncrMultiAxisVec& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (g.need(0)) out[0] = g.dy[0];
  if (g.need(1)) {
    const Value part = call_all(IndexingMultiAxisVec{op}, joined({g.dy[0]}, indices_of(g, 2)))[0];
    out[1] = take_back(part, g.in_specs[1]);
  }
  return out;
}
Keep keep(const IndexingIncrMultiAxisVec&, std::uint32_t) { return {.inputs = ~3u, .outputs = 0}; }
Values decompose_complex(const IndexingIncrMultiAxisVec& op, const Values& in) {
  return by_parts(op, in);
}
REGISTER_OP(IndexingIncrMultiAxisVec);

// ---- as functions
// ---------------------------------------------------------------------------------

Value take(const Value& x, const Value& index, std::int64_t axis) {
  IndexingMultiAxisVec op;
  op.at = normalize_axis("IndexingMultiAxisVec", axis, x.ndim());
  op.vec_axis = {op.at};
  return call(std::move(op), x, index);
}

}  // namespace mge
