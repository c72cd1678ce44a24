// Reductions over any set of axes, for any strides and dtypes.
//
// Results do not depend on the number of threads: how the input is cut follows from its shape and
// strides alone. Sums, products and means of floats, and means of integers, accumulate in float64
// and are rounded once.
#pragma once

#include "core/tensor/view.h"

namespace mge::cpu {

enum class ReduceMode : std::uint8_t { sum, product, max, min, sum_squares };

struct ReduceFinish {
  bool mean = false;       // divide by the number of elements
  bool root = false;       // then take the square root
  std::int64_t count = 0;  // where not 0, that number in place of the input's
};

// The dtype of a sum, product or sum of squares: int32 for bool and integers below 32 bits.
constexpr DType sum_dtype(DType dtype) {
  return is_bool(dtype) || (is_integer(dtype) && size_of(dtype) < 4) ? DType::int32 : dtype;
}

// out has the axes of `in` with those that are reduced at length 1; its dtype is sum_dtype of in's
// for sums (or float64 for those of floats), in's for max and min, a float dtype where `finish`
// asks for one. max and min need at least one element to reduce; NaN wins.
void reduce(ReduceMode mode, ReduceFinish finish, const View& in, const MutView& out);

// The population variance, or its root, in two passes. out is a float tensor as above.
void variance(bool root, const View& in, const MutView& out);

// The position of the first largest (smallest) element, counted in row-major order of the reduced
// axes; the first NaN wins. out is int32, as above; at least one element is needed.
void arg_reduce(bool largest, const View& in, const MutView& out);

}  // namespace mge::cpu
