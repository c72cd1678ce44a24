#include "core/ops/sampling/warp.h"

#include "core/kernels/cpu/packed.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

void check_inputs(const char* op, const Values& in, std::size_t least, std::size_t most) {
  if (in.size() >= least && in.size() <= most) return;
  if (least == most) fail_type(op, "expected ", least, " inputs, got ", in.size());
  fail_type(op, "expected ", least, " or ", most, " inputs, got ", in.size());
}

Value images(const char* op, const Value& x, ImageFormat format) {
  if (x.ndim() != 4) fail_value(op, "expected images of 4 dimensions, got shape ", x.shape());
  return format == ImageFormat::NHWC ? channels_first(x) : x;
}
Value formatted(const Value& y, ImageFormat format) {
  return format == ImageFormat::NHWC ? channels_behind(y) : y;
}

// Matrices or positions in the dtype that goes with the images.
Value positions(const char* op, const Value& v, const Value& x) {
  if (!is_float(v.dtype())) {
    fail_type(op, "expected matrices and maps of a float dtype, got ", v.dtype());
  }
  return cast(v, cpu::compute_dtype(x.dtype()));
}

Value sampled(const Sample& op, const Value& x, const Value& map, const Value* image) {
  return image ? call(op, x, map, *image) : call(op, x, map);
}

}  // namespace

Values decompose(const Remap& op, const Values& in) {
  check_inputs("Remap", in, 2, 2);
  const Value x = images("Remap", in[0], op.format);
  const Sample inner{op.imode, op.border_type, op.scalar};
  return {formatted(call(inner, x, positions("Remap", in[1], x)), op.format)};
}
Values execute(const Remap& op, Values& in) { return decompose(op, in); }
REGISTER_OP(Remap);

Values decompose(const WarpAffine& op, const Values& in) {
  check_inputs("WarpAffine", in, 3, 3);
  const Value x = images("WarpAffine", in[0], op.format);
  const Value mat = positions("WarpAffine", in[1], x);
  if (mat.ndim() != 3 || mat.shape()[1] != 2 || mat.shape()[2] != 3) {
    fail_value("WarpAffine", "expected matrices of shape (N, 2, 3), got ", mat.shape());
  }
  const Dims size = size_input("WarpAffine", in[2], 2);
  // The third row of a matrix that projects nothing: 0 0 1.
  const Value ends = broadcast_to(scalar_like(mat, 1), {mat.shape()[0], 1, 1});
  const Value blank = broadcast_to(scalar_like(mat, 0), {mat.shape()[0], 1, 2});
  const Value whole = concat({mat, concat({blank, ends}, 2)}, 1);
  const Value map = call(PerspectiveGrid{size[0], size[1]}, whole);
  return {formatted(call(Sample{op.imode, op.border_mode, op.border_val}, x, map), op.format)};
}
Values execute(const WarpAffine& op, Values& in) { return decompose(op, in); }
REGISTER_OP(WarpAffine);

Values decompose(const WarpPerspective& op, const Values& in) {
  check_inputs("WarpPerspective", in, 3, 4);
  const Value x = images("WarpPerspective", in[0], op.format);
  const Dims size = size_input("WarpPerspective", in[in.size() - 1], 2);
  const Value map = call(PerspectiveGrid{size[0], size[1]}, positions("WarpPerspective", in[1], x));
  const Sample inner{op.imode, op.bmode, op.border_val};
  return {formatted(sampled(inner, x, map, in.size() > 3 ? &in[2] : nullptr), op.format)};
}
Values execute(const WarpPerspective& op, Values& in) { return decompose(op, in); }
REGISTER_OP(WarpPerspective);

Values decompose(const WarpPerspectiveBackwardData& op, const Values& in) {
  constexpr const char* name = "WarpPerspectiveBackwardData";
  check_inputs(name, in, 3, 4);
  const Value dy = images(name, in[in.size() - 2], op.format);
  const Value x = images(name, in[in.size() - 1], op.format);
  const Value map = call(PerspectiveGrid{dy.shape()[2], dy.shape()[3]}, positions(name, in[0], dy));
  const SampleBackwardData inner{op.imode, op.bmode, x.shape()[0], x.shape()[2], x.shape()[3]};
  const Value dx = in.size() > 3 ? call(inner, dy, map, in[1]) : call(inner, dy, map);
  return {formatted(dx, op.format)};
}
Values execute(const WarpPerspectiveBackwardData& op, Values& in) { return decompose(op, in); }
REGISTER_OP(WarpPerspectiveBackwardData);

Values decompose(const WarpPerspectiveBackwardMat& op, const Values& in) {
  constexpr const char* name = "WarpPerspectiveBackwardMat";
  check_inputs(name, in, 3, 4);
  const Value x = images(name, in[0], op.format);
  const Value dy = images(name, in[in.size() - 1], op.format);
  const Value mat = positions(name, in[1], x);
  const Value map = call(PerspectiveGrid{dy.shape()[2], dy.shape()[3]}, mat);
  const SampleBackwardMap inner{op.imode, op.bmode, op.border_val};
  const Value dmap = in.size() > 3 ? call(inner, x, map, dy, in[2]) : call(inner, x, map, dy);
  return {cast(call(PerspectiveGridBackward{}, mat, dmap), in[1].dtype())};
}
Values execute(const WarpPerspectiveBackwardMat& op, Values& in) { return decompose(op, in); }
REGISTER_OP(WarpPerspectiveBackwardMat);

}  // namespace mge
