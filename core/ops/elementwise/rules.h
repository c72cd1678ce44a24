// What is known of each elementwise mode.
#pragma once

#include "core/ops/elementwise/elementwise.h"

namespace mge {

enum class Takes : std::uint8_t { all, numbers, floats, integers, bools, where };
enum class Gives : std::uint8_t { same, boolean };

struct ElemwiseRule {
  int arity;
  Takes takes;
  Gives gives;
  Keep keep;                        // for the gradient
  Values (*grad)(const GradArgs&);  // nullptr: not differentiable
  Amp amp = Amp::promote;
  // Whether its arithmetic may take longer than its memory: of 16 million numbers GELU takes 4
  // times as long as a sum, EXP 1.3 times.
  bool heavy = false;
};

const ElemwiseRule& elemwise_rule(Elemwise::Mode mode);

// The memory format of the first operand that has the output's shape; a dense one is preferred.
Strides elemwise_strides(const Shape& shape, const Specs& in);

}  // namespace mge
