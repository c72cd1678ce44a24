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
// AVERAGE: (x) -> (y,). MAX: (x) -> (y, index), where index tells which position of its window each
// maximum came from, in row-major order (uint8, or int32 where a window has more than 256
// positions). Outputs keep the memory format of x. Maxima also of int8 and uint8.
struct Pooling {
  PoolMode mode = PoolMode::MAX;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t window_h = 2, window_w = 2;
  static constexpr OpTraits traits{.name = "Pooling", .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("mode", &Pooling::mode), field("pad_h", &Pooling::pad_h),
                 field("pad_w", &Pooling::pad_w), field("stride_h", &Pooling::stride_h),
                 field("stride_w", &Pooling::stride_w), field("window_h", &Pooling::window_h),
                 field("window_w", &Pooling::window_w));
};
Specs infer(const Pooling& op, const Specs& in);
Values grad(const Pooling& op, const GradArgs& g);
Keep keep(const Pooling& op, std::uint32_t needs);
void kernel(const Pooling& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Pooling);

template <class Op>
constexpr auto pool_grad_fields() {
  return field_list(field("mode", &Op::mode), field("pad_h", &Op::pad_h),
                    field("pad_w", &Op::pad_w), field("stride_h", &Op::stride_h),
                    field("stride_w", &Op::stride_w), field("window_h", &Op::window_h),
                    field("window_w", &Op::window_w), field("height", &Op::height),
                    field("width", &Op::width));
}

// AVERAGE: (dy) -> (dx,). MAX: (dy, index) -> (dx,). height and width are those of dx.
struct PoolingBackward {
  PoolMode mode = PoolMode::MAX;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t window_h = 2, window_w = 2;
  std::int64_t height = 0, width = 0;
  static constexpr OpTraits traits{.name = "PoolingBackward", .fuse = Fuse::reduction};
  static constexpr auto fields = pool_grad_fields<PoolingBackward>();
};
Specs infer(const PoolingBackward& op, const Specs& in);
Values grad(const PoolingBackward& op, const GradArgs& g);
Keep keep(const PoolingBackward& op, std::uint32_t needs);
void kernel(const PoolingBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PoolingBackward);

// (g, index) -> (out,): g where each window has its maximum; what PoolingBackward does the other
// way round.
struct MaxPoolPick {
  PoolMode mode = PoolMode::MAX;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t window_h = 2, window_w = 2;
  std::int64_t height = 0, width = 0;
  static constexpr OpTraits traits{.name = "MaxPoolPick", .fuse = Fuse::reduction};
  static constexpr auto fields = pool_grad_fields<MaxPoolPick>();
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
