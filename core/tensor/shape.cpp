#include "core/tensor/shape.h"

#include <numeric>
#include <string_view>

#include "core/tensor/dtype.h"

namespace mge {

DType dtype_from_name(const char* op, std::string_view wanted) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (wanted == kDTypeInfo[i].name) return static_cast<DType>(i);
  }
  fail_type(op, "unsupported dtype '", wanted, "'");
}

std::int64_t count(const Shape& shape) {
  std::int64_t n = 1;
  bool zero = false, overflow = false;
  for (std::int64_t d : shape) {
    if (d < 0) fail_value("Tensor", "negative size in shape ", shape);
    if (d == 0) zero = true;
    if (!zero) overflow |= __builtin_mul_overflow(n, d, &n) || n > (std::int64_t{1} << 62);
  }
  if (zero) return 0;
  if (overflow) fail_value("Tensor", "shape ", shape, " has more than 2^62 elements");
  return n;
}

namespace {
// The step past an axis of this size. Wraps around where it does not fit, which only happens in
// empty tensors: nobody follows those strides.
std::int64_t times(std::int64_t step, std::int64_t size) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(step) *
                                   static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)));
}
}  // namespace

Strides row_major(const Shape& shape) {
  Strides out = shape;
  std::int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    out[i] = step;
    step = times(step, shape[i]);
  }
  return out;
}

bool is_row_major(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  bool match = true;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] == 1) continue;
    match &= strides[i] == step;
    step = times(step, shape[i]);
  }
  return match;
}

namespace {
// The axes by falling stride, row-major order among equals; size-1 axes keep their place.
std::array<int, kMaxDims> order_by_stride(const Shape& shape, const Strides& strides) {
  std::array<int, kMaxDims> order{};
  std::iota(order.begin(), order.end(), 0);
  for (int i = 1; i < shape.size(); ++i) {
    const int axis = order[static_cast<std::size_t>(i)];
    if (shape[axis] == 1) continue;
    int place = i;
    for (int j = i - 1; j >= 0; --j) {
      const int other = order[static_cast<std::size_t>(j)];
      if (shape[other] == 1) continue;
      if (strides[other] >= strides[axis]) break;
      place = j;
    }
    std::rotate(order.begin() + place, order.begin() + i, order.begin() + i + 1);
  }
  return order;
}
}  // namespace

bool is_dense(const Shape& shape, const Strides& strides) {
  if (is_row_major(shape, strides)) return true;
  const auto order = order_by_stride(shape, strides);
  std::int64_t step = 1;
  for (int k = shape.size() - 1; k >= 0; --k) {
    const int axis = order[static_cast<std::size_t>(k)];
    if (shape[axis] == 1) continue;
    if (strides[axis] != step) return false;
    step = times(step, shape[axis]);
  }
  return true;
}

Strides dense_like(const Shape& shape, const Strides& like) {
  const auto order = order_by_stride(shape, like);
  Strides out = shape;
  std::int64_t step = 1;
  for (int k = shape.size() - 1; k >= 0; --k) {
    const int axis = order[static_cast<std::size_t>(k)];
    out[axis] = step;
    step = times(step, shape[axis]);
  }
  return out;
}

Strides channels_last(const Shape& shape) {
  if (shape.size() < 3) return row_major(shape);
  Strides out = shape;
  std::int64_t step = 1;
  out[1] = step;
  step = times(step, shape[1]);
  for (int i = shape.size() - 1; i >= 2; --i) {
    out[i] = step;
    step = times(step, shape[i]);
  }
  out[0] = step;
  return out;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  if (shape.size() < 3) return false;
  const Strides want = channels_last(shape);
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != want[i]) return false;
  }
  return true;
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  const int n = std::max(a.size(), b.size());
  Shape out = Dims::filled(n, 1);
  for (int i = 1; i <= n; ++i) {
    const std::int64_t da = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t db = i <= b.size() ? b[b.size() - i] : 1;
    if (da != db && da != 1 && db != 1) {
      fail_value(op, "shapes ", a, " and ", b, " do not broadcast");
    }
    out[n - i] = da == 1 ? db : da;
  }
  return out;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  Strides out = Dims::filled(to.size(), 0);
  const int lead = to.size() - shape.size();
  for (int i = 0; i < shape.size(); ++i) {
    out[lead + i] = shape[i] == 1 && to[lead + i] != 1 ? 0 : strides[i];
  }
  return out;
}

int normalize_axis(const char* op, std::int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim) {
    fail_value(op, "axis ", axis, " is out of range for ", ndim, " dimensions");
  }
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

Dims normalize_axes(const char* op, const Dims& axes, int ndim) {
  Dims out;
  for (std::int64_t axis : axes) {
    const int a = normalize_axis(op, axis, ndim);
    if (out.contains(a)) fail_value(op, "axis ", axis, " appears twice in ", axes);
    out.push_back(a);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace mge
