#include "core/ops/detection/correlation.h"

#include "core/ops/detection/rois.h"

namespace mge {
namespace {

// The shape of the output for images of shape `image`; raises for attributes that do not fit it.
template <class Op>
Shape output_shape(const Op& op, const Shape& image) {
  const char* name = Op::traits.name;
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const auto check = [&](const char* what, std::int64_t value, std::int64_t least) {
    if (value < least || value > most) {
      fail_value(name, "expected ", what, " of ", least, " to 2^30, got ", value);
    }
  };
  check("kernel_size", op.kernel_size, 1);
  check("max_displacement", op.max_displacement, 0);
  check("stride1", op.stride1, 1);
  check("stride2", op.stride2, 1);
  check("pad_size", op.pad_size, 0);
  if (op.kernel_size % 2 == 0)
    fail_value(name, "expected an odd kernel_size, got ", op.kernel_size);
  const std::int64_t border = op.max_displacement + op.kernel_size / 2;
  const std::int64_t across = 2 * (op.max_displacement / op.stride2) + 1;
  Shape out{image[0], across * across};
  for (int i = 2; i < 4; ++i) {
    const std::int64_t inner = image[i] + 2 * op.pad_size - 2 * border;
    if (inner < 1) {
      fail_value(name, "expected images that are larger, padded by ", op.pad_size,
                 ", than twice max_displacement + kernel_size / 2 = ", border, ", got shape ",
                 image);
    }
    out.push_back((inner + op.stride1 - 1) / op.stride1);
  }
  count(out);
  return out;
}

void check_pair(const char* op, const Spec& a, const Spec& b) {
  detection::check_image(op, "data1", a);
  detection::check_image(op, "data2", b);
  if (a.shape != b.shape) {
    fail_value(op, "expected images of one shape, got ", a.shape, " and ", b.shape);
  }
  if (a.dtype != b.dtype) {
    fail_type(op, "expected images of one dtype, got ", a.dtype, " and ", b.dtype);
  }
}

template <class To, class From>
To same_attrs(const From& from) {
  To to;
  to.format = from.format, to.kernel_size = from.kernel_size;
  to.max_displacement = from.max_displacement, to.pad_size = from.pad_size;
  to.stride1 = from.stride1, to.stride2 = from.stride2, to.is_multiply = from.is_multiply;
  return to;
}

template <class From>
CorrelationBackward backward_of(const From& from, bool second) {
  auto to = same_attrs<CorrelationBackward>(from);
  to.second = second;
  return to;
}

}  // namespace

Specs infer(const Correlation& op, const Specs& in) {
  if (in.size() != 2) fail_type("Correlation", "expected 2 inputs, got ", in.size());
  check_pair("Correlation", in[0], in[1]);
  return {Spec(in[0].dtype, output_shape(op, in[0].shape))};
}

Keep keep(const Correlation&, std::uint32_t) { return {0b11, 0}; }

Values grad(const Correlation& op, const GradArgs& g) {
  Values out(2);
  if (!g.dy[0]) return out;
  for (int i = 0; i < 2; ++i) {
    if (g.need(static_cast<std::size_t>(i))) {
      out[static_cast<std::size_t>(i)] =
          call(backward_of(op, i == 1), g.dy[0], g.inputs[0], g.inputs[1]);
    }
  }
  return out;
}

REGISTER_OP(Correlation);

Specs infer(const CorrelationBackward& op, const Specs& in) {
  const char* name = "CorrelationBackward";
  if (in.size() != 3) fail_type(name, "expected 3 inputs, got ", in.size());
  check_pair(name, in[1], in[2]);
  const Shape shape = output_shape(op, in[1].shape);
  if (in[0].shape != shape || in[0].dtype != in[1].dtype) {
    fail_value(name, "expected a gradient of ", in[1].dtype, " and shape ", shape, ", got ",
               in[0].dtype, " and ", in[0].shape);
  }
  return {Spec(in[1].dtype, in[1].shape, channels_last(in[1].shape))};
}

// Of a: the output is sum(dy b), so dy gets a(u, b) and b gets the gradient of b at (dy, u). Of b
// likewise.
Values grad(const CorrelationBackward& op, const GradArgs& g) {
  if (!op.is_multiply) {
    fail(ErrorKind::not_implemented, "Correlation",
         "second derivatives need is_multiply=True; write |a - b| out of functions that have them");
  }
  const Value &u = g.dy[0], &dy = g.inputs[0], &a = g.inputs[1], &b = g.inputs[2];
  Values out(3);
  if (!u) return out;
  if (g.need(0)) {
    const auto forward = same_attrs<Correlation>(op);
    out[0] = op.second ? call(forward, a, u) : call(forward, u, b);
  }
  if (!op.second && g.need(2)) out[2] = call(backward_of(op, true), dy, u, b);
  if (op.second && g.need(1)) out[1] = call(backward_of(op, false), dy, a, u);
  return out;
}

REGISTER_OP(CorrelationBackward);

}  // namespace mge
