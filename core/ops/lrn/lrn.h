// Local response normalisation (Krizhevsky, Sutskever and Hinton, ImageNet Classification, 2012).
#pragma once

#include "core/op/op.h"

namespace mge {

// (x) of (N, C, H, W) -> x (k + alpha s)^-beta, where s is the sum of the squares of x over the n
// channels around each one, n odd. The memory format stays.
struct LRN {
  std::int64_t n = 5;
  double k = 2.0, alpha = 1e-4, beta = 0.75;
  static constexpr OpTraits traits{.name = "LRN", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("n", &LRN::n), field("k", &LRN::k),
                                            field("alpha", &LRN::alpha), field("beta", &LRN::beta));
};
Specs infer(const LRN& op, const Specs& in);
Values decompose(const LRN& op, const Values& in);
Values grad(const LRN& op, const GradArgs& g);
Keep keep(const LRN& op, std::uint32_t needs);
void kernel(const LRN& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LRN);

// (dy, x) -> dx.
struct LRNBackward {
  std::int64_t n = 5;
  double k = 2.0, alpha = 1e-4, beta = 0.75;
  static constexpr OpTraits traits{
      .name = "LRNBackward", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("n", &LRNBackward::n), field("k", &LRNBackward::k),
                 field("alpha", &LRNBackward::alpha), field("beta", &LRNBackward::beta));
};
Specs infer(const LRNBackward& op, const Specs& in);
Values decompose(const LRNBackward& op, const Values& in);
void kernel(const LRNBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LRNBackward);

}  // namespace mge
