// What layer norm and group norm share: rows of a row-major tensor are normalised on their own,
// then each channel is scaled and shifted.
#pragma once

#include "core/op/op.h"
#include "core/ops/layer_norm/row_norm.loops.h"

namespace mge {

// Forward:  (x) or (x, scale, shift) -> (y, mean, rstd), rstd = 1 / sqrt(var + eps); mean and rstd
//           have the shape `rows`, and are float32 (float64 for float64).
// Backward: (dy, x, mean, rstd) -> (dx,), or with scale at the end -> (dx, dscale, dshift).
struct RowNorm {
  const char* op;
  cpu::RowLayout at;
  Shape rows;
  double eps;
  bool affine;
};

void check_row_norm_input(const char* op, const Specs& in, std::size_t x, std::size_t plain,
                          bool affine);
Specs infer_forward(const RowNorm& n, const Specs& in);
Specs infer_backward(const RowNorm& n, const Specs& in);
Values decompose_forward(const RowNorm& n, const Values& in);
Values decompose_backward(const RowNorm& n, const Values& in);
void run_forward(const RowNorm& n, Views in, MutViews out);
void run_backward(const RowNorm& n, Views in, MutViews out);
// The inputs of the backward op, and its outputs as gradients of the forward's inputs.
Values backward_inputs(const RowNorm& n, const GradArgs& g);
Values forward_grads(const RowNorm& n, const GradArgs& g, Values d);

}  // namespace mge
