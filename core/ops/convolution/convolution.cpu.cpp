#include <memory>
#include <mutex>
#include <optional>

#include "core/dispatch/dispatch.h"
#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/im2col.h"
#include "core/kernels/cpu/onednn.h"
#include "core/kernels/cpu/packed_weights.h"
#include "core/ops/convolution/convolution.h"
#include "core/ops/convolution/depthwise.loops.h"
#include "core/ops/convolution/pointwise.loops.h"
#include "core/ops/convolution/winograd.loops.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

using cpu::dnn::Conv;

// A view in the dtype and layout that a kernel wants: itself, or a copy.
class Prepared {
 public:
  enum class Layout { row_major, channels_last };

  Prepared(const View& v, DType dtype, Layout layout) : view_(v) {
    const bool fits =
        layout == Layout::channels_last ? is_channels_last(v.shape, v.strides) : v.row_major();
    if (fits && v.dtype == dtype) return;
    scratch_ = std::make_unique<Scratch>(static_cast<std::size_t>(v.size() * size_of(dtype)));
    const MutView to{scratch_->as<void>(), dtype, v.shape,
                     layout == Layout::channels_last ? channels_last(v.shape) : row_major(v.shape)};
    cpu::copy(v, to);
    view_ = to;
  }
  const View& view() const { return view_; }
  bool copied() const { return scratch_ != nullptr; }

 private:
  View view_;
  std::unique_ptr<Scratch> scratch_;
};
constexpr auto kRowMajor = Prepared::Layout::row_major;
constexpr auto kChannelsLast = Prepared::Layout::channels_last;

// A channels-last copy of an input, which stays with the value from a convolution that a tape
// follows to the gradient of the weights, which takes it: otherwise both would make one.
struct KeptInput final : Companion {
  explicit KeptInput(Prepared p) : copy(std::move(p)) {}
  Prepared copy;
};
// Copies of a few channels cost next to nothing.
constexpr std::int64_t kFewestKept = 8;

void keep_input(const Value& x, Prepared copy) {
  if (!copy.copied() || x.shape()[1] < kFewestKept || dispatch_state().tapes.empty()) return;
  const std::lock_guard lock(cpu::companion_mutex());
  if (!x.impl()->companion) x.impl()->companion = std::make_unique<KeptInput>(std::move(copy));
}

Prepared take_input(const Value& x, DType dtype) {
  {
    const std::lock_guard lock(cpu::companion_mutex());
    auto* kept = dynamic_cast<KeptInput*>(x.impl()->companion.get());
    if (kept && kept->copy.view().dtype == dtype) {
      Prepared copy = std::move(kept->copy);
      x.impl()->companion.reset();
      return copy;
    }
  }
  return Prepared(x.view(), dtype, kChannelsLast);
}

// An output in the dtype of the computation; goes to `wanted` at the end, rounded, and into its
// layout where that is not dense.
class Result {
 public:
  Result(const MutView& wanted, DType dtype) : wanted_(wanted), view_(wanted) {
    const bool dense = is_dense(wanted.shape, wanted.strides);
    if (wanted.dtype == dtype && dense) return;
    scratch_.emplace(static_cast<std::size_t>(wanted.size() * size_of(dtype)));
    view_.data = scratch_->as<void>();
    view_.dtype = dtype;
    if (!dense) view_.strides = row_major(wanted.shape);
  }
  const MutView& view() const { return view_; }
  bool copied() const { return scratch_.has_value(); }
  void finish() {
    if (scratch_) cpu::copy(view_, wanted_);
  }

 private:
  MutView wanted_, view_;
  std::optional<Scratch> scratch_;
};

// What to compute in: 16-bit floats in float32 where oneDNN has not got them, small integers in
// int32.
DType compute_dtype(DType out) {
  return is_low_float(out) && !cpu::dnn::computes(out) ? DType::float32 : out;
}
// Smaller outputs have too few tiles for weights that are 16/9 as large.
constexpr std::int64_t kWinogradSide = 7;
// Filters that are transformed for one use are so for no fewer tiles.
constexpr std::int64_t kWinogradTiles = 48;
// Of so many channels, half a register more or less hardly counts.
constexpr std::int64_t kWideChannels = 112;

bool for_onednn(DType dtype) { return cpu::dnn::computes(dtype); }

Conv conv_of(const ConvAttrs& attrs, const Shape& weight) {
  Conv c;
  c.spatial = attrs.spatial;
  c.groups = weight.size() - attrs.spatial == 3 ? weight[0] : 1;
  c.stride = attrs.stride;
  c.pad = attrs.pad;
  c.dilate = attrs.dilate;
  return c;
}

void fill_zeros(const MutView& out) {
  const std::int64_t zero = 0;
  const View v{&zero, DType::int64, Shape{}, Strides{}};
  cpu::copy(v, out);
}

// Weights as a correlation has them: reversed along the spatial axes in mode CONVOLUTION.
template <class V>
V correlated(V weight, const ConvAttrs& attrs) {
  if (attrs.mode == ConvMode::CROSS_CORRELATION) return weight;
  std::int64_t start = 0;
  for (int i = weight.ndim() - attrs.spatial; i < weight.ndim(); ++i) {
    start += (weight.shape[i] - 1) * weight.strides[i];
    weight.strides[i] = -weight.strides[i];
  }
  const std::int64_t bytes = start * size_of(weight.dtype);
  if constexpr (std::is_same_v<V, View>) {
    weight.data = static_cast<const char*>(weight.data) + bytes;
  } else {
    weight.data = static_cast<char*>(weight.data) + bytes;
  }
  return weight;
}

// Bias seen as (1, C, 1, ...).
View bias_view(const View& bias, int ndim) {
  View v = bias;
  const std::int64_t step = bias.ndim() == 1 ? bias.strides[0] : bias.strides[1];
  const std::int64_t channels = bias.size();
  v.shape = Dims::filled(ndim, 1);
  v.strides = Dims::filled(ndim, 0);
  v.shape[1] = channels;
  v.strides[1] = step;
  return v;
}

void fill(const MutView& out, const View* bias) {
  if (bias) {
    cpu::copy(bias_view(*bias, out.ndim()), out);
  } else {
    fill_zeros(out);
  }
}

// The spatial axes step as one in both layouts.
bool steps_as_one(const View& v) { return v.row_major() || is_channels_last(v.shape, v.strides); }

}  // namespace

namespace {

// Through oneDNN; false where that has no fast way, and nothing was written.
bool try_onednn(const char* op, const Conv& conv, const Value& x, const Prepared& weight,
                const View* bias, ValueImpl* owner, const MutView& out,
                const cpu::dnn::PostOps& post = {}) {
  const DType dtype = weight.view().dtype;
  if (!for_onednn(dtype)) return false;
  Prepared src(x.view(), dtype, kChannelsLast);
  std::optional<Prepared> flat;
  if (bias) flat.emplace(*bias, dtype, kRowMajor);
  if (!cpu::dnn::convolution(op, conv, src.view(), weight.view(), bias ? &flat->view() : nullptr,
                             out, owner, post)) {
    return false;
  }
  keep_input(x, std::move(src));
  return true;
}

}  // namespace

namespace {

cpu::WinogradLayout winograd_layout(const Shape& x, const Shape& y, std::int64_t pad_h,
                                    std::int64_t pad_w) {
  return {.batch = x[0],
          .channels = x[1],
          .h = x[2],
          .w = x[3],
          .out_channels = y[1],
          .out_h = y[2],
          .out_w = y[3],
          .pad_h = pad_h,
          .pad_w = pad_w};
}

// Whether Winograd's way is faster than oneDNN's with this kernel, once it is transformed.
bool winograd_fits(const ConvAttrs& attrs, const Spec& weight, const cpu::WinogradLayout& at) {
  const Shape& w = weight.shape;
  return attrs.spatial == 2 && w.size() == 4 && w[2] == 3 && w[3] == 3 &&
         attrs.mode == ConvMode::CROSS_CORRELATION && weight.dtype == DType::float32 &&
         weight.strides == row_major(w) && attrs.stride[0] == 1 && attrs.stride[1] == 1 &&
         attrs.dilate[0] == 1 && attrs.dilate[1] == 1 &&
         at.channels % cpu::kWinogradChannels == 0 &&
         at.out_channels % cpu::kWinogradOutChannels == 0 && at.out_h >= kWinogradSide &&
         at.out_w >= kWinogradSide;
}
// Whether it is worth that for one use.
bool worth_transforming(const cpu::WinogradLayout& at) {
  return at.batch * ((at.out_h + 1) / 2) * ((at.out_w + 1) / 2) >= kWinogradTiles;
}

// `x` and `out` are channels-last.
void run_winograd(const View& x, const Value& weight, cpu::WinogradFilters filters,
                  cpu::KeepWeights keep, const float* bias, const cpu::WinogradLayout& at,
                  const cpu::dnn::PostOps& post, const MutView& out) {
  const auto layout =
      cpu::layout_for(filters == cpu::WinogradFilters::forward ? cpu::OwnLayout::winograd
                                                               : cpu::OwnLayout::winograd_reversed);
  const auto packed = cpu::packed_weights(*weight.impl(), layout, keep, [&] {
    const std::int64_t size = 16 * at.channels * at.out_channels;
    auto made = std::make_shared<Scratch>(sizeof(float) * static_cast<std::size_t>(size));
    MGE_DISPATCH(winograd_pack)(static_cast<const float*>(weight.view().data), at.channels,
                                at.out_channels, filters, made->as<float>());
    return made;
  });
  MGE_DISPATCH(winograd_convolution)(static_cast<const float*>(x.data), packed->as<float>(), bias,
                                     static_cast<float*>(out.data), at, post);
}

// Which of our kernels for weights that stay is faster than oneDNN, if any is.
enum class Own : std::uint8_t { none, winograd, pointwise };

// `y` is the shape of the result.
Own own_kernel(const ConvAttrs& attrs, const Spec& x, const Spec& weight, const Shape& y) {
  const Shape& w = weight.shape;
  if (x.dtype != DType::float32 || w.size() != 4) return Own::none;
  if (winograd_fits(attrs, weight, winograd_layout(x.shape, y, attrs.pad[0], attrs.pad[1]))) {
    return Own::winograd;
  }
  // oneDNN computes whole registers, which half of the last one is wasted on.
  const bool halves = cpu::isa() == cpu::Isa::avx512 && w[0] % 16 == 8 && w[0] < kWideChannels;
  const bool plain = w[2] == 1 && w[3] == 1 && attrs.pad[0] == 0 && attrs.pad[1] == 0 &&
                     attrs.stride[0] == 1 && attrs.stride[1] == 1 &&
                     weight.dtype == DType::float32 && weight.strides == row_major(w);
  return plain && halves ? Own::pointwise : Own::none;
}

void run_own(Own own, cpu::KeepWeights keep, const ConvAttrs& attrs, const Values& in,
             const cpu::dnn::PostOps& post, const MutView& out) {
  Prepared src(in[0].view(), DType::float32, kChannelsLast);
  std::optional<Prepared> bias_copy;
  if (in.size() > 2) bias_copy.emplace(in[2].view(), DType::float32, kRowMajor);
  const auto* const bias = bias_copy ? static_cast<const float*>(bias_copy->view().data) : nullptr;
  if (own == Own::winograd) {
    run_winograd(src.view(), in[1], cpu::WinogradFilters::forward, keep, bias,
                 winograd_layout(in[0].shape(), out.shape, attrs.pad[0], attrs.pad[1]), post, out);
    keep_input(in[0], std::move(src));
    return;
  }
  const std::int64_t channels = in[1].shape()[1], out_channels = in[1].shape()[0];
  const auto packed =
      cpu::packed_weights(*in[1].impl(), cpu::layout_for(cpu::OwnLayout::pointwise), keep, [&] {
        const std::int64_t size = channels * out_channels;
        auto made = std::make_shared<Scratch>(sizeof(float) * static_cast<std::size_t>(size));
        MGE_DISPATCH(pointwise_pack)(static_cast<const float*>(in[1].view().data), channels,
                                     out_channels, made->as<float>());
        return made;
      });
  MGE_DISPATCH(pointwise_convolution)(static_cast<const float*>(src.view().data),
                                      packed->as<float>(), bias, static_cast<float*>(out.data),
                                      {out.size() / out_channels, channels, out_channels}, post);
}

}  // namespace

bool packs_weights(const ConvAttrs& attrs, const Spec& x, const Spec& weight) {
  const Shape y = infer_convolution("Convolution", attrs, {x, weight}).shape;
  return own_kernel(attrs, x, weight, y) != Own::none;
}

bool run_convolution_with(const char* op, const ConvAttrs& attrs, const Values& in,
                          const cpu::dnn::PostOps& post, const MutView& out) {
  if (out.size() == 0 || in[0].size() == 0 || in[1].size() == 0) return false;
  const Own own = own_kernel(attrs, in[0].spec(), in[1].spec(), out.shape);
  if (own != Own::none && is_channels_last(out.shape, out.strides)) {
    run_own(own, cpu::KeepWeights::at_once, attrs, in, post, out);
    return true;
  }
  const View w = correlated(in[1].view(), attrs), b = in.size() > 2 ? in[2].view() : View{};
  const DType dtype = compute_dtype(out.dtype);
  const Prepared weight(w, dtype, kRowMajor);
  Result result(out, dtype);
  if (post.add != cpu::dnn::PostOps::Add::none && result.copied()) return false;
  if (!try_onednn(op, conv_of(attrs, w.shape), in[0], weight, in.size() > 2 ? &b : nullptr,
                  weight.copied() ? nullptr : in[1].impl(), result.view(), post)) {
    return false;
  }
  result.finish();
  return true;
}

void run_convolution(const char* op, const ConvAttrs& attrs, const Values& in, const MutView& out) {
  const View x = in[0].view(), b = in.size() > 2 ? in[2].view() : View{};
  const View* bias = in.size() > 2 ? &b : nullptr;
  if (out.size() == 0) return;
  if (x.size() == 0 || in[1].size() == 0) return fill(out, bias);
  if (own_kernel(attrs, in[0].spec(), in[1].spec(), out.shape) == Own::winograd &&
      worth_transforming(winograd_layout(x.shape, out.shape, attrs.pad[0], attrs.pad[1])) &&
      is_channels_last(out.shape, out.strides)) {
    return run_own(Own::winograd, cpu::KeepWeights::from_second, attrs, in, {}, out);
  }
  const View w = correlated(in[1].view(), attrs);
  const Conv conv = conv_of(attrs, w.shape);
  const DType dtype = compute_dtype(out.dtype);
  const Prepared weight(w, dtype, kRowMajor);
  Result result(out, dtype);
  ValueImpl* owner = weight.copied() ? nullptr : in[1].impl();
  if (try_onednn(op, conv, in[0], weight, bias, owner, result.view())) return result.finish();
  std::optional<Prepared> src;
  if (x.dtype != dtype) src.emplace(x, dtype, kRowMajor);
  fill(result.view(), bias);
  cpu::im2col::convolution(conv, src ? src->view() : x, weight.view(), result.view());
  result.finish();
}

namespace {

// oneDNN fills the lanes of its registers with the channels of the result: where those are few, the
// matrix product of all taps is 2 to 10 times faster. Its threads share the samples, of which there
// should be some.
bool few_channels(const Conv& conv, const MutView& dx) {
  return dx.dtype == DType::float32 && conv.groups == 1 && dx.shape[1] <= 4 && dx.shape[0] >= 4;
}

// The gradient of one filter for each channel; false, with nothing done, where another way is
// better: oneDNN is as fast up to 3 x 3.
bool depthwise_filter(const Conv& conv, const View& x, const View& dy, const MutView& dw) {
  if (conv.spatial != 2 || conv.groups != x.shape[1] || conv.groups != dy.shape[1]) return false;
  const std::int64_t kernel_h = dw.shape[dw.ndim() - 2], kernel_w = dw.shape[dw.ndim() - 1];
  const bool small = kernel_h <= 3 && kernel_w <= 3;
  if (dw.dtype != DType::float64 && (dw.dtype != DType::float32 || small)) return false;
  // Rows are packed with their padding, which should not be most of them.
  if (conv.pad[1] > x.shape[3] + 64) return false;
  const Prepared src(x, dw.dtype, kChannelsLast), diff(dy, dw.dtype, kChannelsLast);
  const cpu::DepthwiseLayout at{.batch = x.shape[0],
                                .channels = x.shape[1],
                                .h = x.shape[2],
                                .w = x.shape[3],
                                .out_h = dy.shape[2],
                                .out_w = dy.shape[3],
                                .kernel_h = kernel_h,
                                .kernel_w = kernel_w,
                                .stride_h = conv.stride[0],
                                .stride_w = conv.stride[1],
                                .pad_h = conv.pad[0],
                                .pad_w = conv.pad[1],
                                .dilate_h = conv.dilate[0],
                                .dilate_w = conv.dilate[1]};
  MGE_DISPATCH(depthwise_backward_filter)(dw.dtype, src.view().data, diff.view().data, dw.data, at);
  return true;
}

}  // namespace

void run_backward_data(const char* op, const ConvAttrs& attrs, const Value& weight_value,
                       const Value& diff_value, const MutView& out) {
  const View d = diff_value.view();
  if (out.size() == 0) return;
  if (d.size() == 0 || weight_value.size() == 0) return fill_zeros(out);
  // A convolution by the reversed kernels.
  const auto reversed = winograd_layout(d.shape, out.shape, 2 - attrs.pad[0], 2 - attrs.pad[1]);
  if (out.dtype == DType::float32 && is_channels_last(out.shape, out.strides) &&
      winograd_fits(attrs, weight_value.spec(), reversed) && worth_transforming(reversed)) {
    const Prepared diff(d, DType::float32, kChannelsLast);
    return run_winograd(diff.view(), weight_value, cpu::WinogradFilters::reversed,
                        cpu::KeepWeights::from_second, nullptr, reversed, {}, out);
  }
  const View w = correlated(weight_value.view(), attrs);
  const Conv conv = conv_of(attrs, w.shape);
  const DType dtype = compute_dtype(out.dtype);
  const Prepared weight(w, dtype, kRowMajor);
  Result result(out, dtype);
  ValueImpl* owner = weight.copied() ? nullptr : weight_value.impl();
  if (for_onednn(dtype) && !few_channels(conv, result.view())) {
    const Prepared diff(d, dtype, kChannelsLast);
    if (cpu::dnn::convolution_backward_data(op, conv, weight.view(), diff.view(), result.view(),
                                            owner)) {
      return result.finish();
    }
  }
  std::optional<Prepared> diff;
  if (d.dtype != dtype || !steps_as_one(d)) diff.emplace(d, dtype, kRowMajor);
  fill_zeros(result.view());
  cpu::im2col::backward_data(conv, weight.view(), diff ? diff->view() : d, result.view());
  result.finish();
}

namespace {

// Kernels of one element that step over the input. oneDNN's own way to pass over what they do not
// meet writes beyond its memory where it runs on AVX2 (3.2, seen with one thread), so that it is
// given what they meet.
bool only_steps(const Conv& conv, const Shape& weight) {
  bool steps = false;
  for (int i = 0; i < conv.spatial; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    if (weight[weight.size() - conv.spatial + i] != 1 || conv.pad[axis] != 0) return false;
    steps |= conv.stride[axis] != 1;
  }
  return steps;
}
View elements_met(const Conv& conv, const View& x, const Shape& out) {
  View met = x;
  for (int i = 0; i < conv.spatial; ++i) {
    met.shape[2 + i] = out[2 + i];
    met.strides[2 + i] *= conv.stride[static_cast<std::size_t>(i)];
  }
  return met;
}

}  // namespace

void run_backward_filter(const char* op, const ConvAttrs& attrs, const Value& src_value,
                         const Value& diff_value, const MutView& out) {
  const View x = src_value.view(), d = diff_value.view();
  if (out.size() == 0) return;
  if (x.size() == 0 || d.size() == 0) return fill_zeros(out);
  const auto tiled = winograd_layout(x.shape, d.shape, attrs.pad[0], attrs.pad[1]);
  if (d.dtype == DType::float32 && d.shape[1] % cpu::kWinogradChannels == 0 &&
      winograd_fits(attrs, Spec(out.dtype, out.shape, out.strides), tiled) &&
      worth_transforming(tiled)) {
    const Prepared src = take_input(src_value, DType::float32), diff(d, d.dtype, kChannelsLast);
    MGE_DISPATCH(winograd_backward_filter)
    (static_cast<const float*>(src.view().data), static_cast<const float*>(diff.view().data),
     static_cast<float*>(out.data), tiled);
    return;
  }
  const Conv conv = conv_of(attrs, out.shape);
  const DType dtype = compute_dtype(out.dtype);
  Result result(correlated(out, attrs), dtype);
  if (depthwise_filter(conv, x, d, result.view())) return result.finish();
  if (for_onednn(dtype)) {
    const Prepared src = take_input(src_value, dtype), diff(d, dtype, kChannelsLast);
    std::optional<Prepared> met;
    Conv at = conv;
    if (only_steps(conv, out.shape)) {
      met.emplace(elements_met(conv, src.view(), d.shape), dtype, kChannelsLast);
      at.stride.fill(1);
    }
    const View& input = met ? met->view() : src.view();
    if (cpu::dnn::convolution_backward_filter(op, at, input, diff.view(), result.view())) {
      return result.finish();
    }
  }
  std::optional<Prepared> src, diff;
  if (x.dtype != dtype) src.emplace(x, dtype, kRowMajor);
  if (d.dtype != dtype || !steps_as_one(d)) diff.emplace(d, dtype, kRowMajor);
  fill_zeros(result.view());
  cpu::im2col::backward_filter(conv, src ? src->view() : x, diff ? diff->view() : d, result.view());
  result.finish();
}

}  // namespace mge
