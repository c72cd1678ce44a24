// Joining tensors along an axis.
#pragma once

#include "core/tensor/view.h"

namespace mge::cpu {

// out = the inputs side by side along `axis`. All of one dtype; the other sizes are equal; out is
// dense.
void concat(Views in, const MutView& out, int axis);

}  // namespace mge::cpu
