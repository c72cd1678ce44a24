// A reduction of a chain of elementwise ops as one op, made by the graph compiler
// (core/graph/passes).
#pragma once

#include "core/ops/fused/fused.h"
#include "core/ops/reduce/reduce.h"

namespace mge {

// (x0, x1, ...) -> Reduce of the one output of FusedElementwise. Sums, products and means of floats
// accumulate in float64 and are rounded once, as Reduce's.
struct FusedReduce {
  std::string program;
  Reduce::Mode mode = Reduce::Mode::SUM;
  std::optional<Dims> axis{};
  bool keepdim = true;
  static constexpr OpTraits traits{.name = "FusedReduce", .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("program", &FusedReduce::program), field("mode", &FusedReduce::mode),
                 field("axis", &FusedReduce::axis), field("keepdim", &FusedReduce::keepdim));
  FusedElementwise chain() const { return {program}; }
  Reduce reduce() const { return {mode, axis, keepdim}; }
};
Specs infer(const FusedReduce& op, const Specs& in);
Values decompose(const FusedReduce& op, const Values& in);
void kernel(const FusedReduce& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(FusedReduce);

}  // namespace mge
