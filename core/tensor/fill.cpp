#include "core/tensor/fill.h"

#include <algorithm>
#include <limits>

#include "core/kernels/cpu/parallel.h"

namespace mge {
namespace {
template <class T>
T convert(double value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T>) {
    // A conversion that does not fit is undefined in C++: saturate instead; NaN gives 0.
    if (!(value == value)) return 0;
    if (value <= static_cast<double>(std::numeric_limits<T>::min()))
      return std::numeric_limits<T>::min();
    if (value >= static_cast<double>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
void fill_pairs(T* data, std::int64_t n, T value) {
  cpu::parallel_for(n, 1 << 15, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      data[2 * i] = value;
      data[2 * i + 1] = 0;
    }
  });
}
void fill_complex(const Value& out, double value) {
  const std::int64_t n = out.size();
  if (out.dtype() == DType::complex64) {
    fill_pairs(out.mut().ptr<float>(), n, static_cast<float>(value));
  } else {
    fill_pairs(out.mut().ptr<double>(), n, value);
  }
}
}  // namespace

Value full(const Spec& like, double value) {
  Spec spec(like.dtype, like.shape, dense_like(like.shape, like.strides));
  spec.device = like.device;
  Value out = Value::empty(spec);
  if (is_complex(spec.dtype)) {
    fill_complex(out, value);
    return out;
  }
  visit_dtype(spec.dtype, [&]<class T>(Tag<T>) {
    T* data = out.mut().ptr<T>();
    const T v = convert<T>(value);
    cpu::parallel_for(spec.size(), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
      std::fill(data + begin, data + end, v);
    });
  });
  return out;
}

Value scalar_int(DType dtype, std::int64_t value, const Device& device) {
  Spec spec(dtype, {});
  spec.device = device;
  if (!is_integer(dtype)) return full(spec, static_cast<double>(value));
  Value out = Value::empty(spec);
  visit_dtype(dtype, [&]<class T>(Tag<T>) {
    if constexpr (std::is_integral_v<T>) *out.mut().ptr<T>() = static_cast<T>(value);
  });
  return out;
}

}  // namespace mge
