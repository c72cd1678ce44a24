// Recurrent networks: RNN and LSTM of several layers and directions, their cells, and the op that
// all of them are made of, one layer in one direction.
//
// Elman, Finding structure in time (1990); Hochreiter and Schmidhuber, Long short-term memory
// (1997), with the forget gate of Gers et al. (2000).
#pragma once

#include <array>

#include "core/op/op.h"
#include "core/ops/batch_norm/batch_norm.h"
#include "core/ops/recurrent/recurrent.loops.h"

namespace mge {

using cpu::RecurrentMode;
template <>
struct EnumNames<RecurrentMode> {
  static constexpr auto names = std::to_array<const char*>({"IDENTITY", "RELU", "TANH", "LSTM"});
};

enum class RecurrentNonlinearity : std::uint8_t { IDENTITY, RELU, TANH };
template <>
struct EnumNames<RecurrentNonlinearity> {
  static constexpr auto names = std::to_array<const char*>({"IDENTITY", "RELU", "TANH"});
};

// One layer in one direction over all time steps; N sequences of T steps, I inputs, H hidden units,
// G = H rows of weights (4 H for LSTM: the gates i, f, g, o).
//   (x (T, N, I), h0 (N, H), w_ih (G, I), w_hh (G, H) [, b_ih (G,), b_hh (G,)])
//     -> (y (T, N, H), h_n (N, H))             h_t = f(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh)
//   LSTM: (x, h0, c0, w_ih, ...) -> (y, h_n, c_n, gates (T, N, 4 H), cells (T, N, H))
//     c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g), h_t = sigmoid(o) tanh(c_t)
// All of one float dtype. `gates` (after their activations) and `cells` (the c_t) are what the
// gradient needs, in the dtype of computing (float32 for 16-bit floats); where not `save` they are
// empty, less memory is used, and a gradient computes them again. With `reverse`, time runs from
// the last step to the first; y stays in the order of x.
struct RecurrentLayer {
  RecurrentMode mode = RecurrentMode::TANH;
  bool bias = true, reverse = false, save = true;
  static constexpr OpTraits traits{
      .name = "RecurrentLayer", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(field("mode", &RecurrentLayer::mode), field("bias", &RecurrentLayer::bias),
                 field("reverse", &RecurrentLayer::reverse), field("save", &RecurrentLayer::save));
};
Specs infer(const RecurrentLayer& op, const Specs& in);
Values decompose(const RecurrentLayer& op, const Values& in);
Values grad(const RecurrentLayer& op, const GradArgs& g);
Keep keep(const RecurrentLayer& op, std::uint32_t needs);
void kernel(const RecurrentLayer& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(RecurrentLayer);

// The gradients of the layer's inputs, in their order:
//   (dy, dh_n, x, h0, w_ih, w_hh [, b_ih, b_hh], y) -> (dx, dh0, dw_ih, dw_hh [, db_ih, db_hh])
//   LSTM: (dy, dh_n, dc_n, x, h0, c0, ..., y, gates, cells) -> (dx, dh0, dc0, ...)
// dx is empty without `input_grad`.
struct RecurrentLayerBackward {
  RecurrentMode mode = RecurrentMode::TANH;
  bool bias = true, reverse = false, input_grad = true;
  static constexpr OpTraits traits{
      .name = "RecurrentLayerBackward", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(
      field("mode", &RecurrentLayerBackward::mode), field("bias", &RecurrentLayerBackward::bias),
      field("reverse", &RecurrentLayerBackward::reverse),
      field("input_grad", &RecurrentLayerBackward::input_grad));
};
Specs infer(const RecurrentLayerBackward& op, const Specs& in);
Values decompose(const RecurrentLayerBackward& op, const Values& in);
Values execute(const RecurrentLayerBackward& op, Values& in);
void kernel(const RecurrentLayerBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(RecurrentLayerBackward);

// (x (T, N, I), h (L D, N, H), weights) -> (y (T, N, D H), h_n (L D, N, H), reserve) for L layers
// and D directions, layer by layer with the directions of one next to each other. `weights` holds
// w_ih, w_hh and, with `bias`, b_ih, b_hh of each, one after the other in row-major order. Between
// layers, elements are dropped at the rate `dropout` in TRAINING. `reserve` is empty.
struct RNN {
  std::int64_t num_layers = 1;
  bool bidirectional = false, bias = true;
  std::int64_t hidden_size = 128;
  double dropout = 0;
  RecurrentNonlinearity nonlineMode = RecurrentNonlinearity::IDENTITY;
  BatchNormMode fwd_mode = BatchNormMode::TRAINING;
  static constexpr OpTraits traits{
      .name = "RNN", .amp = Amp::promote, .fuse = Fuse::contraction, .random = true};
  static constexpr auto fields =
      field_list(field("num_layers", &RNN::num_layers), field("bidirectional", &RNN::bidirectional),
                 field("bias", &RNN::bias), field("hidden_size", &RNN::hidden_size),
                 field("dropout", &RNN::dropout), field("nonlineMode", &RNN::nonlineMode),
                 field("fwd_mode", &RNN::fwd_mode));
};
Specs infer(const RNN& op, const Specs& in);
Values decompose(const RNN& op, const Values& in);
DECLARE_OP(RNN);

// (x, h, c, weights) -> (y, h_n, c_n, reserve), as RNN. proj_size must be 0.
struct LSTM {
  std::int64_t num_layers = 1;
  bool bidirectional = false, bias = true;
  std::int64_t hidden_size = 128, proj_size = 0;
  double dropout = 0;
  BatchNormMode fwd_mode = BatchNormMode::TRAINING;
  static constexpr OpTraits traits{
      .name = "LSTM", .amp = Amp::promote, .fuse = Fuse::contraction, .random = true};
  static constexpr auto fields =
      field_list(field("num_layers", &LSTM::num_layers),
                 field("bidirectional", &LSTM::bidirectional), field("bias", &LSTM::bias),
                 field("hidden_size", &LSTM::hidden_size), field("proj_size", &LSTM::proj_size),
                 field("dropout", &LSTM::dropout), field("fwd_mode", &LSTM::fwd_mode));
};
Specs infer(const LSTM& op, const Specs& in);
Values decompose(const LSTM& op, const Values& in);
DECLARE_OP(LSTM);

// One step: (x (N, I), w_ih (H, I), b_ih (H,), h (N, H), w_hh (H, H), b_hh (H,)) -> (h (N, H),)
struct RNNCell {
  RecurrentNonlinearity nonlineMode = RecurrentNonlinearity::IDENTITY;
  static constexpr OpTraits traits{
      .name = "RNNCell", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(field("nonlineMode", &RNNCell::nonlineMode));
};
Specs infer(const RNNCell& op, const Specs& in);
Values decompose(const RNNCell& op, const Values& in);
DECLARE_OP(RNNCell);

// (x (N, I), w_ih (4 H, I), b_ih, h (N, H), w_hh (4 H, H), b_hh, c (N, H))
//   -> (h (N, H), c (N, H), gates (N, 4 H)), the gates after their activations.
struct LSTMCell {
  static constexpr OpTraits traits{
      .name = "LSTMCell", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list();
};
Specs infer(const LSTMCell& op, const Specs& in);
Values decompose(const LSTMCell& op, const Values& in);
DECLARE_OP(LSTMCell);

}  // namespace mge
