// oneDNN behind one small layer: primitives are made once for each combination of shapes, strides
// and dtypes and found again by hash, so that a call costs little more than its work.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/kernels/element_mode.h"
#include "core/tensor/value.h"

namespace mge::cpu::dnn {

// Whether oneDNN computes in this dtype on this machine. For the other floats convert to float32.
bool computes(DType dtype);

// What becomes of each result before it is written.
struct PostOps {
  enum class Add : std::uint8_t { none, before_activation, after_activation };
  Add add = Add::none;  // adds what the destination holds
  std::optional<ElementMode> activation{};
  float alpha = 0, beta = 0;   // PRELU: the slope; CLIP: the bounds
  float scale = 1, shift = 0;  // after the activation: scale * y + shift
};
// Whether PostOps may hold this mode. RELU6, CLIP and HSIGMOID make a bound of NaN, and RELU makes
// NaN of minus infinity.
bool is_activation(ElementMode mode);

// c = a @ b (+ bias, one number for each column). All of one rank, at least 2; leading axes of a
// and b may be 1 and repeat. One of the last two strides of each operand must be 1 and the other no
// less than that axis. With an `owner`, the value that b belongs to, b is kept in oneDNN's own
// layout, as the weights of convolutions are. False where oneDNN has no fast way: nothing was
// written then.
bool matmul(const char* op, const View& a, const View& b, const View* bias, const MutView& c,
            const PostOps& post = {}, ValueImpl* owner = nullptr);

struct Conv {
  int spatial = 2;  // 1 to 3 axes
  std::int64_t groups = 1;
  std::array<std::int64_t, 3> stride{1, 1, 1}, pad{0, 0, 0}, dilate{1, 1, 1};
};

// Activations are channels-last and weights row-major, (o, i, ...) or (groups, o, i, ...), all of
// one dtype. oneDNN wants weights in a layout of its own. It is kept with `owner`, the value that
// the weights belong to (or nullptr), from the second time on that it is asked for: training uses
// one only once. False where oneDNN has no fast way: nothing was written then.
bool convolution(const char* op, const Conv& conv, const View& src, const View& weight,
                 const View* bias, const MutView& dst, ValueImpl* owner, const PostOps& post = {});
bool convolution_backward_data(const char* op, const Conv& conv, const View& weight,
                               const View& diff, const MutView& out, ValueImpl* owner);
bool convolution_backward_filter(const char* op, const Conv& conv, const View& src,
                                 const View& diff, const MutView& out);

}  // namespace mge::cpu::dnn
