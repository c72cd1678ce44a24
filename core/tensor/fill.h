// Constant tensors.
#pragma once

#include "core/tensor/value.h"

namespace mge {

// A tensor of this spec (dense or not: the result is dense in the same order of axes) in which
// every element is `value` (integers saturate, bool: value != 0).
Value full(const Spec& spec, double value);
// A 0-d integer, exact for every int64.
Value scalar_int(DType dtype, std::int64_t value, const Device& device);
inline Value scalar(DType dtype, double value, const Device& device) {
  Spec spec(dtype, {});
  spec.device = device;
  return full(spec, value);
}

}  // namespace mge
