// Softmax, its logarithm, and the logarithm of its denominator, along one axis.
//
// Rows whose values are all -inf (fully masked) give softmax 0, logsoftmax -inf and logsumexp -inf,
// with finite gradients, so that one of them does not spoil a whole batch.
#pragma once

#include "core/op/op.h"

namespace mge {

// (x) -> (y,), in the memory format of x.
struct Softmax {
  std::int64_t axis = -1;
  static constexpr OpTraits traits{.name = "Softmax", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("axis", &Softmax::axis));
};
Specs infer(const Softmax& op, const Specs& in);
Values decompose(const Softmax& op, const Values& in);
Values grad(const Softmax& op, const GradArgs& g);
Keep keep(const Softmax& op, std::uint32_t needs);
void kernel(const Softmax& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Softmax);

// (dy, y) -> (dx,)
struct SoftmaxBackward {
  std::int64_t axis = -1;
  static constexpr OpTraits traits{.name = "SoftmaxBackward", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("axis", &SoftmaxBackward::axis));
};
Specs infer(const SoftmaxBackward& op, const Specs& in);
Values decompose(const SoftmaxBackward& op, const Values& in);
void kernel(const SoftmaxBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(SoftmaxBackward);

// (x) -> (y,), in the memory format of x.
struct LogSoftmax {
  std::int64_t axis = -1;
  static constexpr OpTraits traits{.name = "LogSoftmax", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("axis", &LogSoftmax::axis));
};
Specs infer(const LogSoftmax& op, const Specs& in);
Values decompose(const LogSoftmax& op, const Values& in);
Values grad(const LogSoftmax& op, const GradArgs& g);
Keep keep(const LogSoftmax& op, std::uint32_t needs);
void kernel(const LogSoftmax& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LogSoftmax);

// (dy, y) -> (dx,)
struct LogSoftmaxBackward {
  std::int64_t axis = -1;
  static constexpr OpTraits traits{
      .name = "LogSoftmaxBackward", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("axis", &LogSoftmaxBackward::axis));
};
Specs infer(const LogSoftmaxBackward& op, const Specs& in);
Values decompose(const LogSoftmaxBackward& op, const Values& in);
void kernel(const LogSoftmaxBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LogSoftmaxBackward);

// (x) -> (y,), without the axis.
struct LogSumExp {
  std::int64_t axis = -1;
  static constexpr OpTraits traits{.name = "LogSumExp", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("axis", &LogSumExp::axis));
};
Specs infer(const LogSumExp& op, const Specs& in);
Values decompose(const LogSumExp& op, const Values& in);
Values grad(const LogSumExp& op, const GradArgs& g);
Keep keep(const LogSumExp& op, std::uint32_t needs);
void kernel(const LogSumExp& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LogSumExp);

// (dy, y, x) -> (dx,)
struct LogSumExpBackward {
  std::int64_t axis = -1;
  static constexpr OpTraits traits{
      .name = "LogSumExpBackward", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("axis", &LogSumExpBackward::axis));
};
Specs infer(const LogSumExpBackward& op, const Specs& in);
Values decompose(const LogSumExpBackward& op, const Values& in);
void kernel(const LogSumExpBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LogSumExpBackward);

inline Value softmax(const Value& x, std::int64_t axis) { return call(Softmax{axis}, x); }
inline Value logsoftmax(const Value& x, std::int64_t axis) { return call(LogSoftmax{axis}, x); }

}  // namespace mge
