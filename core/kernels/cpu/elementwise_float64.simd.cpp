#include "core/kernels/cpu/element_lanes.h"

namespace mge::cpu::MGE_SIMD_NS {

ElementRun float64_loop(ElementMode mode) { return float_loop<double>(mode); }
ElementRun float64_power(double exponent) { return short_power<double>(exponent); }

}  // namespace mge::cpu::MGE_SIMD_NS
