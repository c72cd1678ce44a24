#include "core/kernels/cpu/element_lanes.h"

namespace mge::cpu::MGE_SIMD_NS {

ElementRun float32_loop(ElementMode mode) { return float_loop<float>(mode); }
ElementRun float32_power(double exponent) { return short_power<float>(exponent); }

}  // namespace mge::cpu::MGE_SIMD_NS
