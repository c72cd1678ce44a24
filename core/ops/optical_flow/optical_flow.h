// Optical flow on hardware of NVIDIA's.
#pragma once

#include "core/op/op.h"

namespace mge {

// The reference runs a fixed unit of some GPUs here. No device has it so far, so the op raises.
struct NvOf {
  std::int64_t precision = 1;
  static constexpr OpTraits traits{.name = "NvOf", .differentiable = false};
  static constexpr auto fields = field_list(field("precision", &NvOf::precision));
};
Values execute(const NvOf& op, Values& in);
DECLARE_OP(NvOf);

}  // namespace mge
