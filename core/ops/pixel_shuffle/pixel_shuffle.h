// Channels into pixels and back.
#pragma once

#include "core/op/op.h"

namespace mge {

// (..., C * factor^2, H, W) -> (..., C, H * factor, W * factor): pixel (h factor + i, w factor + j)
// of channel c comes from channel c factor^2 + i factor + j. The memory format stays.
struct PixelShuffle {
  std::int64_t factor = 0;
  static constexpr OpTraits traits{.name = "PixelShuffle"};
  static constexpr auto fields = field_list(field("factor", &PixelShuffle::factor));
};
Specs infer(const PixelShuffle& op, const Specs& in);
Values grad(const PixelShuffle& op, const GradArgs& g);
Keep keep(const PixelShuffle& op, std::uint32_t needs);
void kernel(const PixelShuffle& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PixelShuffle);

// The other way round.
struct PixelShuffleBackward {
  std::int64_t factor = 0;
  static constexpr OpTraits traits{.name = "PixelShuffleBackward"};
  static constexpr auto fields = field_list(field("factor", &PixelShuffleBackward::factor));
};
Specs infer(const PixelShuffleBackward& op, const Specs& in);
Values grad(const PixelShuffleBackward& op, const GradArgs& g);
Keep keep(const PixelShuffleBackward& op, std::uint32_t needs);
void kernel(const PixelShuffleBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PixelShuffleBackward);

}  // namespace mge
