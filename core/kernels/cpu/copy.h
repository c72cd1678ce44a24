// Copies between any two layouts and dtypes.
#pragma once

#include "core/tensor/view.h"

namespace mge::cpu {

// out = in, for any strides of both (in's may be 0 where it repeats) and any
// two dtypes. in.shape must be out.shape or broadcast to it; the buffers must
// not overlap. Runs at memory speed, transposes too. Conversions are NumPy's:
// floats truncate toward 0 on the way to integers (out of range and NaN give
// the lowest int32 or int64, of which narrower types keep the low bits),
// integers wrap, and whatever is not 0 (NaN included) is true.
void copy(const View& in, const MutView& out);

// The same for n elements that lie side by side, on the calling thread.
void convert(const void* in, DType from, void* out, DType to, std::int64_t n);

}  // namespace mge::cpu
