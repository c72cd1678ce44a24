// Masks: NonZero and CondTake.
#include <algorithm>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/indexing.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/basic.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

constexpr std::int64_t kInt32Positions = std::int64_t{1} << 31;

void check_mask(const char* op, const Value& mask) {
  if (!is_bool(mask.dtype())) fail_type(op, "expected a bool mask, got ", mask.dtype());
}

Value row_major_value(const Value& v) {
  if (v.row_major()) return v;
  Value out = Value::empty(v.dtype(), v.shape(), v.device());
  if (v.size() > 0) cpu::copy(v.view(), out.mut());
  return out;
}

// Row-major positions of the true elements, int32 where those are enough.
Value flat_positions(const Value& mask) {
  const Value m = row_major_value(mask);
  const DType dtype = m.size() <= kInt32Positions ? DType::int32 : DType::int64;
  Value out = Value::empty(dtype, {cpu::count_true(m.view())}, m.device());
  if (out.size() > 0) cpu::true_positions(m.view(), out.mut());
  return out;
}

// Position / inner % size for every position: the part of it that belongs to one axis.
void axis_positions(const Value& flat, std::int64_t inner, std::int64_t size, const MutView& out) {
  const auto run = [&](const auto* in, auto* to) {
    cpu::parallel_for(flat.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      using I = std::remove_reference_t<decltype(*to)>;
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<I>(in[i] / inner % size);
    });
  };
  if (flat.dtype() == DType::int32) {
    run(flat.ptr<std::int32_t>(), out.ptr<std::int32_t>());
  } else {
    run(flat.ptr<std::int64_t>(), out.ptr<std::int64_t>());
  }
}

}  // namespace

Values execute(const NonZero&, Values& in) {
  if (in.size() != 1) fail_type("NonZero", "expected 1 input, got ", in.size());
  const Value& mask = in[0];
  check_mask("NonZero", mask);
  const Value flat = flat_positions(mask);
  if (mask.ndim() == 1) return {flat};
  Values out;
  std::int64_t inner = std::max<std::int64_t>(mask.size(), 1);
  for (std::int64_t size : mask.shape()) {
    Value v = Value::empty(flat.dtype(), flat.shape(), flat.device());
    if (flat.size() > 0) {
      inner /= size;
      axis_positions(flat, inner, size, v.mut());
    }
    out.push_back(std::move(v));
  }
  return out;
}
REGISTER_OP(NonZero);

Values execute(const CondTake&, Values& in) {
  if (in.size() != 2)
    fail_type("CondTake", "expected a mask and a tensor, got ", in.size(), " inputs");
  const Value &mask = in[0], &x = in[1];
  check_mask("CondTake", mask);
  if (mask.shape() != x.shape()) {
    fail_value("CondTake", "expected a mask of the tensor's shape ", x.shape(), ", got ",
               mask.shape());
  }
  const Value flat = flat_positions(mask);
  const Value from = row_major_value(x);
  Value out = Value::empty(x.dtype(), flat.shape(), x.device());
  const View line{from.view().data, x.dtype(), {x.size()}, {1}};
  const View positions = flat.view();
  cpu::take({"CondTake", {0}, {0}, {&positions, 1}, 0}, line, out.mut());
  return {std::move(out), flat};
}
Values grad(const CondTake&, const GradArgs& g) {
  Values out(2);
  if (!g.need(1) || !g.dy[0]) return out;
  Spec flat(g.in_specs[1].dtype, {g.in_specs[1].size()});
  flat.device = g.in_specs[1].device;
  IndexingSetMultiAxisVec set;
  set.vec_axis = {0};
  Values in;
  in.push_back(zeros(flat));
  in.push_back(g.dy[0]);
  in.push_back(g.outputs[1]);
  out[1] = reshape(call_all(std::move(set), std::move(in))[0], g.in_specs[1].shape);
  return out;
}
Keep keep(const CondTake&, std::uint32_t) { return {.inputs = 0, .outputs = 2}; }
REGISTER_OP(CondTake);

}  // namespace mge
