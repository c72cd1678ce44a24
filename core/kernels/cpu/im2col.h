// Convolutions as matrix products of unfolded patches: for the dtypes and shapes that oneDNN has
// not got.
#pragma once

#include <array>
#include <cstdint>

#include "core/kernels/cpu/onednn.h"

namespace mge::cpu::im2col {

// float32, float64, int32 or int64, all operands of one dtype. Activations (N, C, spatial...): the
// one that is unfolded, or folded into, may have any strides; the other side's spatial axes step as
// one (row-major, channels-last). Weights are row-major. Nothing may be empty. out += the
// convolution: the caller fills it with the bias or zeros.
void convolution(const dnn::Conv& conv, const View& src, const View& weight, const MutView& out);
void backward_data(const dnn::Conv& conv, const View& weight, const View& diff, const MutView& out);
void backward_filter(const dnn::Conv& conv, const View& src, const View& diff, const MutView& out);

}  // namespace mge::cpu::im2col
