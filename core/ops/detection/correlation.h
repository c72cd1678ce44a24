// The correlation layer of FlowNet (Dosovitskiy et al., 2015): patches of one image against patches
// of another that are moved by up to max_displacement.
#pragma once

#include "core/op/op.h"
#include "core/ops/detection/roi_align.h"

namespace mge {

#define MGE_CORRELATION_MEMBERS                                                               \
  NchwFormat format = NchwFormat::NCHW;                                                       \
  std::int64_t kernel_size = 1, max_displacement = 1, stride1 = 1, stride2 = 1, pad_size = 0; \
  bool is_multiply = true;
#define MGE_CORRELATION_FIELDS(T)                                                     \
  field("format", &T::format), field("kernel_size", &T::kernel_size),                 \
      field("max_displacement", &T::max_displacement), field("stride1", &T::stride1), \
      field("stride2", &T::stride2), field("pad_size", &T::pad_size),                 \
      field("is_multiply", &T::is_multiply)

// (a, b), both (N, C, H, W) -> (N, D^2, H', W') with D = 2 (max_displacement / stride2) + 1.
// Channel (dy, dx) of an output is the mean over a kernel_size^2 window and all channels of a(p)
// b(p + d), or of |a(p) - b(p + d)|; both images have pad_size zeros around them.
struct Correlation {
  MGE_CORRELATION_MEMBERS
  static constexpr OpTraits traits{
      .name = "Correlation", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CORRELATION_FIELDS(Correlation));
};
Specs infer(const Correlation& op, const Specs& in);
Values grad(const Correlation& op, const GradArgs& g);
void kernel(const Correlation& op, CpuContext& context, Views in, MutViews out);
Keep keep(const Correlation& op, std::uint32_t needs);
DECLARE_OP(Correlation);

// (dy, a, b) -> the gradient of a or, with `second`, of b. Channels-last in memory. Products are
// closed under differentiation; absolute differences are differentiated only once.
struct CorrelationBackward {
  MGE_CORRELATION_MEMBERS
  bool second = false;
  static constexpr OpTraits traits{.name = "CorrelationBackward", .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CORRELATION_FIELDS(CorrelationBackward),
                                            field("second", &CorrelationBackward::second));
};
Specs infer(const CorrelationBackward& op, const Specs& in);
Values grad(const CorrelationBackward& op, const GradArgs& g);
void kernel(const CorrelationBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(CorrelationBackward);

}  // namespace mge
