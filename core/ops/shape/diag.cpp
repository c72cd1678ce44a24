#include "core/kernels/cpu/copy.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/indexing.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/fill.h"

namespace mge {
namespace {

// Where the k-th diagonal of a matrix lies: its first element and how many it has.
struct Line {
  std::int64_t row, column, size;
};
Line diagonal(std::int64_t k, const Shape& shape) {
  const std::int64_t row = k < 0 ? -k : 0, column = k < 0 ? 0 : k;
  return {row, column, std::max<std::int64_t>(0, std::min(shape[0] - row, shape[1] - column))};
}

Value view_of_diagonal(const Value& x, const Line& line) {
  const Strides& s = x.strides();
  return x.alias({line.size}, {s[0] + s[1]}, line.size ? line.row * s[0] + line.column * s[1] : 0);
}

Shape square_shape(std::int64_t size, std::int64_t k) {
  if (k < -(std::int64_t{1} << 31) || k > (std::int64_t{1} << 31)) {
    fail_value("Diag", "expected a diagonal within 2^31 of the main one, got ", k);
  }
  const std::int64_t n = size + std::abs(k);
  return {n, n};
}

}  // namespace

Values execute(const Diag& op, Values& in) {
  if (in.size() != 1) fail_type("Diag", "expected 1 input, got ", in.size());
  const Value& x = in[0];
  if (x.ndim() != 1 && x.ndim() != 2)
    fail_value("Diag", "expected 1 or 2 dimensions, got shape ", x.shape());
  square_shape(0, op.k);
  if (x.ndim() == 2) return {view_of_diagonal(x, diagonal(op.k, x.shape()))};
  Spec spec(x.dtype(), square_shape(x.size(), op.k));
  spec.device = x.device();
  Value out = full(spec, 0);
  if (x.size() > 0) cpu::copy(x.view(), view_of_diagonal(out, diagonal(op.k, spec.shape)).mut());
  return {std::move(out)};
}
Values grad(const Diag& op, const GradArgs& g) {
  const Spec& x = g.in_specs[0];
  if (x.ndim() == 1) return {call(Diag{op}, g.dy[0])};
  // The diagonal is every (columns + 1)-th element of the matrix as a vector.
  const Line line = diagonal(op.k, x.shape);
  const std::int64_t columns = x.shape[1], first = line.row * columns + line.column;
  Spec flat(x.dtype, {x.size()});
  flat.device = x.device;
  SetSubtensor set;
  if (line.size > 0) {
    set.add_slice(0, first, first + (line.size - 1) * (columns + 1) + 1, columns + 1);
  } else {
    set.add_slice(0, 0, 0, 1);
  }
  Values in;
  in.push_back(zeros(flat));
  in.push_back(g.dy[0]);
  return {reshape(call_all(std::move(set), std::move(in))[0], x.shape)};
}
Keep keep(const Diag&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Diag);

}  // namespace mge
