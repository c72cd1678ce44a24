// Joining and cutting: Concat, Stack, Split.
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

void check_some(const char* op, const Specs& in) {
  if (in.empty()) fail_value(op, "expected at least one input, got none");
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i].dtype != in[0].dtype) {
      fail_type(op, "expected inputs of one dtype, got ", in[0].dtype, " and ", in[i].dtype);
    }
  }
}

bool all_channels_last(const Specs& in) {
  bool all = true, some_only_that = false;
  for (const Spec& s : in) {
    all = all && is_channels_last(s.shape, s.strides);
    some_only_that = some_only_that || !is_row_major(s.shape, s.strides);
  }
  return all && some_only_that;
}

Values cut(const Value& x, int axis, std::span<const std::int64_t> sizes) {
  Values out;
  Shape shape = x.shape();
  std::int64_t at = 0;
  for (std::int64_t size : sizes) {
    shape[axis] = size;
    // An empty part past the end must not point outside the buffer.
    out.push_back(x.alias(shape, x.strides(), count(shape) == 0 ? 0 : at * x.strides()[axis]));
    at += size;
  }
  return out;
}

}  // namespace

// ---- Concat
// ---------------------------------------------------------------------------------------

Specs infer(const Concat& op, const Specs& in) {
  check_some("Concat", in);
  const int axis = normalize_axis("Concat", op.axis, in[0].ndim());
  Shape shape = in[0].shape;
  for (std::size_t i = 1; i < in.size(); ++i) {
    bool same = in[i].ndim() == shape.size();
    for (int k = 0; same && k < shape.size(); ++k) same = k == axis || in[i].shape[k] == shape[k];
    if (!same) {
      fail_value("Concat", "expected shapes that differ on axis ", axis, " only, got ", in[0].shape,
                 " and ", in[i].shape);
    }
    if (__builtin_add_overflow(shape[axis], in[i].shape[axis], &shape[axis])) {
      fail_value("Concat", "the result has too many elements");
    }
  }
  Spec out(in[0].dtype, shape);
  if (all_channels_last(in)) out.strides = channels_last(shape);
  out.device = op.comp_node.value_or(in[0].device);
  return {out};
}
Values grad(const Concat& op, const GradArgs& g) {
  const int axis = normalize_axis("Concat", op.axis, g.in_specs[0].ndim());
  std::vector<std::int64_t> sizes;
  for (const Spec& s : g.in_specs) sizes.push_back(s.shape[axis]);
  return split(g.dy[0], axis, sizes);
}
Keep keep(const Concat&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Concat);

// ---- Stack
// ----------------------------------------------------------------------------------------

Specs infer(const Stack& op, const Specs& in) {
  check_some("Stack", in);
  const int axis = normalize_axis("Stack", op.axis, in[0].ndim() + 1);
  for (const Spec& s : in) {
    if (s.shape != in[0].shape) {
      fail_value("Stack", "expected inputs of one shape, got ", in[0].shape, " and ", s.shape);
    }
  }
  Shape shape = in[0].shape;
  shape.insert(axis, static_cast<std::int64_t>(in.size()));
  Spec out(in[0].dtype, shape);
  out.device = op.comp_node.value_or(in[0].device);
  return {out};
}
Values grad(const Stack& op, const GradArgs& g) {
  const int axis = normalize_axis("Stack", op.axis, g.in_specs[0].ndim() + 1);
  Values out = call_all(
      Split{.axis = axis, .nsections = static_cast<std::int64_t>(g.in_specs.size())}, {g.dy[0]});
  for (Value& v : out) v = squeeze(v, {axis});
  return out;
}
Keep keep(const Stack&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Stack);

// ---- Split
// ----------------------------------------------------------------------------------------

Values execute(const Split& op, Values& in) {
  if (in.size() != 1) fail_type("Split", "expected 1 input, got ", in.size());
  const Value& x = in[0];
  const int axis = normalize_axis("Split", op.axis, x.ndim());
  const std::int64_t size = x.shape()[axis];
  if (!op.sizes.empty()) {
    std::int64_t total = 0;
    for (std::int64_t s : op.sizes) {
      if (s < 0 || s > size)
        fail_value("Split", "sizes ", op.sizes, " do not cut an axis of size ", size);
      total += s;
    }
    if (total != size)
      fail_value("Split", "sizes ", op.sizes, " do not add up to the ", size, " of axis ", axis);
    return cut(x, axis, {op.sizes.begin(), op.sizes.end()});
  }
  if (op.nsections < 1 || size % op.nsections != 0 || op.nsections > (std::int64_t{1} << 24)) {
    fail_value("Split", "cannot cut an axis of size ", size, " into ", op.nsections,
               " equal parts");
  }
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(op.nsections),
                                        size / op.nsections);
  return cut(x, axis, sizes);
}
Values grad(const Split& op, const GradArgs& g) {
  Values parts;
  for (std::size_t i = 0; i < g.dy.size(); ++i) parts.push_back(g.dy_or_zeros(i));
  return {concat(std::move(parts), op.axis)};
}
Keep keep(const Split&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Split);

// ---- as functions
// ---------------------------------------------------------------------------------

Value concat(Values inputs, std::int64_t axis) {
  return std::move(call_all(Concat{.axis = axis}, std::move(inputs))[0]);
}
Value stack(Values inputs, std::int64_t axis) {
  return std::move(call_all(Stack{.axis = axis}, std::move(inputs))[0]);
}

// The op holds kMaxDims sizes; more are cut in two steps, so that the gradient stays a few concats.
Values split(const Value& x, std::int64_t axis, std::span<const std::int64_t> sizes) {
  if (sizes.size() <= kMaxDims) {
    if (sizes.empty()) fail_value("Split", "expected at least one size, got none");
    return call_all(Split{.axis = axis, .sizes = Dims(sizes)}, {x});
  }
  std::size_t group = kMaxDims;
  while (group * kMaxDims < sizes.size()) group *= kMaxDims;
  std::vector<std::int64_t> totals;
  for (std::size_t i = 0; i < sizes.size(); i += group) {
    const auto part = sizes.subspan(i, std::min(group, sizes.size() - i));
    std::int64_t total = 0;
    for (std::int64_t s : part) {
      if (s < 0 || __builtin_add_overflow(total, s, &total))
        fail_value("Split", "size ", s, " of a part");
    }
    totals.push_back(total);
  }
  Values out;
  const Values groups = split(x, axis, totals);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t at = i * group;
    for (Value& v : split(groups[i], axis, sizes.subspan(at, std::min(group, sizes.size() - at)))) {
      out.push_back(std::move(v));
    }
  }
  return out;
}

}  // namespace mge
