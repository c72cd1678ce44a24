// Running sums along an axis.
#pragma once

#include "core/tensor/view.h"

namespace mge::cpu {

// out[i] = in[0] + ... + in[i] along `axis`; `exclusive` leaves in[i] out, `reverse` starts at the
// end. out has in's shape and dtype and any strides. Floats accumulate in float64, integers wrap.
void cumsum(const View& in, int axis, bool exclusive, bool reverse, const MutView& out);

}  // namespace mge::cpu
