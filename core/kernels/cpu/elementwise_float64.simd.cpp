#include "core/kernels/cpu/element_lanes.h"

namespace mge::cpu::MGE_SIMD_NS {

ElementRun float64_loop(ElementMode mode) { return float_loop<double>(mode); }

}  // namespace mge::cpu::MGE_SIMD_NS
