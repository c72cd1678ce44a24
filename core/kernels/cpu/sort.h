// Sorting and selection along the last axis.
//
// The order is NumPy's: NaN is larger than every number, -0 equals 0, and equal elements keep their
// order (also when descending, where NaN comes first).
#pragma once

#include "core/tensor/view.h"

namespace mge::cpu {

// values (in's dtype) and indices (int32) have in's shape and are row-major.
void sort(const View& in, bool descending, const MutView& values, const MutView& indices);

// The first k of sort(), with k in [1, length of the last axis]; values and indices have size k
// along the last axis and are row-major.
void topk(const View& in, std::int64_t k, bool descending, const MutView& values,
          const MutView& indices);

}  // namespace mge::cpu
