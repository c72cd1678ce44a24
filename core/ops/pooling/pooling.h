// Max and average pooling of (N, C, H, W).
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

enum class PoolMode : std::uint8_t { MAX, AVERAGE, AVERAGE_COUNT_EXCLUDE_PADDING };
template <>
struct EnumNames<PoolMode> {
  static constexpr auto names =
      std::to_array<const char*>({"MAX", "AVERAGE", "AVERAGE_COUNT_EXCLUDE_PADDING"});
};

// What all ops of the family have in common: AVERAGE divides by the whole window, padding included.
// Padding never wins a maximum, NaN does; of equal maxima the first has the gradient.
template <class Op>
constexpr auto pool_fields() {
  return field_list(field("mode", &Op::mode), field("pad_h", &Op::pad_h),
                    field("pad_w", &Op::pad_w), field("stride_h", &Op::stride_h),
                    field("stride_w", &Op::stride_w), field("window_h", &Op::window_h),
                    field("window_w", &Op::window_w));
}

// (x) -> (y,), in the memory format of x. Maxima also of int8 and uint8.
struct Pooling {
  PoolMode mode = PoolMode::MAX;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t window_h = 2, window_w = 2;
  static constexpr OpTraits traits{.name = "Pooling", .fuse = Fuse::reduction};
  static constexpr auto fields = pool_fields<Pooling>();
};
Specs infer(const Pooling& op, const Specs& in);
Values grad(const Pooling& op, const GradArgs& g);
Keep keep(const Pooling& op, std::uint32_t needs);
void kernel(const Pooling& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Pooling);

// (dy, x, y) -> (dx,). An average looks at the shape of x only, and takes (dy, x).
struct PoolingBackward {
  PoolMode mode = PoolMode::MAX;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t window_h = 2, window_w = 2;
  static constexpr OpTraits traits{.name = "PoolingBackward", .fuse = Fuse::reduction};
  static constexpr auto fields = pool_fields<PoolingBackward>();
};
Specs infer(const PoolingBackward& op, const Specs& in);
Values grad(const PoolingBackward& op, const GradArgs& g);
Keep keep(const PoolingBackward& op, std::uint32_t needs);
void kernel(const PoolingBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PoolingBackward);

// (g, x, y) -> (out,): g where x has the maximum of each window; what PoolingBackward does the
// other way round.
struct MaxPoolPick {
  PoolMode mode = PoolMode::MAX;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t window_h = 2, window_w = 2;
  static constexpr OpTraits traits{.name = "MaxPoolPick", .fuse = Fuse::reduction};
  static constexpr auto fields = pool_fields<MaxPoolPick>();
};
Specs infer(const MaxPoolPick& op, const Specs& in);
Values grad(const MaxPoolPick& op, const GradArgs& g);
Keep keep(const MaxPoolPick& op, std::uint32_t needs);
void kernel(const MaxPoolPick& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(MaxPoolPick);

// Pooling to out_h x out_w: stride in // out, window in - (out - 1) * stride.
struct AdaptivePooling {
  PoolMode mode = PoolMode::MAX;
  Dims shape{1, 1};
  static constexpr OpTraits traits{.name = "AdaptivePooling", .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("mode", &AdaptivePooling::mode), field("shape", &AdaptivePooling::shape));
};
Specs infer(const AdaptivePooling& op, const Specs& in);
Values decompose(const AdaptivePooling& op, const Values& in);
DECLARE_OP(AdaptivePooling);

}  // namespace mge
