// Reading and writing at positions that other tensors give. Every function checks all positions
// before it writes anything; a negative position counts from the end of its axis.
#pragma once

#include <cstdint>

#include "core/tensor/view.h"

namespace mge::cpu {

// Axes `axes` of a tensor addressed by integer tensors, which broadcast together. The result of a
// read has the other axes in order, and the axes of the positions in front of the `at`-th of them.
struct AxisIndices {
  const char* op;  // for messages
  Dims axes;
  Dims names;  // what a message calls the axes
  Views indices;
  int at = 0;
};

// The shape of x at the indices, and the strides that a read is fastest with.
Shape taken_shape(const AxisIndices& at, const Shape& x);
Strides taken_strides(const AxisIndices& at, const Shape& x, const Strides& strides);

// out = x[indices]; out has taken_strides.
void take(const AxisIndices& at, const View& x, const MutView& out);
// x[indices] = v, of which the shape broadcasts to taken_shape; where positions repeat the last
// wins.
void put(const AxisIndices& at, const MutView& x, const View& v);
// x[indices] += v, where repeated positions add up (floats in double, rounded once).
void add_at(const AxisIndices& at, const MutView& x, const View& v);

// Along one axis, as NumPy's take_along_axis: out[i][j] = x[index[i][j]][j] for axis 0. The other
// sizes of index may be smaller than those of x; out has the shape of index, v broadcasts to it.
struct AlongIndex {
  const char* op;  // for messages
  int axis;
  View index;
  bool wrap = true;  // false: a negative position is out of range
};
void take_along(const AlongIndex& at, const View& x, const MutView& out);
void put_along(const AlongIndex& at, const MutView& x, const View& v);
void add_along(const AlongIndex& at, const MutView& x, const View& v);

// The number of true elements of a row-major mask.
std::int64_t count_true(const View& mask);
// Their row-major positions in order; out is 1-d, int32 or int64, of count_true elements.
void true_positions(const View& mask, const MutView& out);

}  // namespace mge::cpu
