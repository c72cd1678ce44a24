#include "core/kernels/cpu/element_lanes.h"

namespace mge::cpu::MGE_SIMD_NS {

ElementRun float32_loop(ElementMode mode) { return float_loop<float>(mode); }

}  // namespace mge::cpu::MGE_SIMD_NS
