// Convolutions over two and three spatial axes. The three ops of each rank are closed under
// differentiation: the gradient of each is made of the other two.
//
// Activations are (N, C, spatial...), weights (out, in, kernel...) or, in groups, (groups, out /
// groups, in / groups, kernel...): the number of axes of the weight tells. Correlation, as in all
// networks, unless the mode says CONVOLUTION: that reverses the kernel along its spatial axes.
// Floats keep their dtype (16-bit ones accumulate in float32), integers give int32. Activations of
// float32 and 16-bit floats come out channels-last.
#pragma once

#include <array>
#include <cstdint>

#include "core/op/op.h"

namespace mge::cpu::dnn {
struct PostOps;
}

namespace mge {

enum class ConvMode : std::uint8_t { CROSS_CORRELATION, CONVOLUTION };
template <>
struct EnumNames<ConvMode> {
  static constexpr auto names = std::to_array<const char*>({"CROSS_CORRELATION", "CONVOLUTION"});
};
enum class ConvSparse : std::uint8_t { DENSE, GROUP };
template <>
struct EnumNames<ConvSparse> {
  static constexpr auto names = std::to_array<const char*>({"DENSE", "GROUP"});
};

// What the ops of both ranks have in common.
struct ConvAttrs {
  int spatial;
  std::array<std::int64_t, 3> stride, pad, dilate;
  ConvMode mode;
  ConvSparse sparse;
};

#define MGE_CONV_2D_MEMBERS                    \
  std::int64_t stride_h = 1, stride_w = 1;     \
  std::int64_t pad_h = 0, pad_w = 0;           \
  std::int64_t dilate_h = 1, dilate_w = 1;     \
  ConvMode mode = ConvMode::CROSS_CORRELATION; \
  ConvSparse sparse = ConvSparse::DENSE;
#define MGE_CONV_2D_FIELDS(T)                                                                      \
  field("stride_h", &T::stride_h), field("stride_w", &T::stride_w), field("pad_h", &T::pad_h),     \
      field("pad_w", &T::pad_w), field("dilate_h", &T::dilate_h), field("dilate_w", &T::dilate_w), \
      field("mode", &T::mode), field("sparse", &T::sparse)
#define MGE_CONV_3D_MEMBERS                              \
  std::int64_t stride_d = 1, stride_h = 1, stride_w = 1; \
  std::int64_t pad_d = 0, pad_h = 0, pad_w = 0;          \
  std::int64_t dilate_d = 1, dilate_h = 1, dilate_w = 1; \
  ConvMode mode = ConvMode::CROSS_CORRELATION;           \
  ConvSparse sparse = ConvSparse::DENSE;
#define MGE_CONV_3D_FIELDS(T)                                                                      \
  field("stride_d", &T::stride_d), field("stride_h", &T::stride_h),                                \
      field("stride_w", &T::stride_w), field("pad_d", &T::pad_d), field("pad_h", &T::pad_h),       \
      field("pad_w", &T::pad_w), field("dilate_d", &T::dilate_d), field("dilate_h", &T::dilate_h), \
      field("dilate_w", &T::dilate_w), field("mode", &T::mode), field("sparse", &T::sparse)

// (x, weight[, bias of (C,) or (1, C, 1, 1)]) -> y.
struct Convolution {
  MGE_CONV_2D_MEMBERS
  static constexpr OpTraits traits{
      .name = "Convolution", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CONV_2D_FIELDS(Convolution));
};
struct Convolution3D {
  MGE_CONV_3D_MEMBERS
  static constexpr OpTraits traits{
      .name = "Convolution3D", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CONV_3D_FIELDS(Convolution3D));
};

// (weight, dy) -> the gradient of x: a transposed convolution. Several sizes of x give one size of
// y: `output_size` names the spatial one that is wanted, or is empty for the least.
struct ConvolutionBackwardData {
  MGE_CONV_2D_MEMBERS
  Dims output_size;
  static constexpr OpTraits traits{
      .name = "ConvolutionBackwardData", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(ConvolutionBackwardData),
                 field("output_size", &ConvolutionBackwardData::output_size));
};
struct Convolution3DBackwardData {
  MGE_CONV_3D_MEMBERS
  Dims output_size;
  static constexpr OpTraits traits{
      .name = "Convolution3DBackwardData", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_3D_FIELDS(Convolution3DBackwardData),
                 field("output_size", &Convolution3DBackwardData::output_size));
};

// (x, dy) -> the gradient of a weight of `weight_shape`, row-major.
struct ConvolutionBackwardFilter {
  MGE_CONV_2D_MEMBERS
  Dims weight_shape;
  static constexpr OpTraits traits{
      .name = "ConvolutionBackwardFilter", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(ConvolutionBackwardFilter),
                 field("weight_shape", &ConvolutionBackwardFilter::weight_shape));
};
struct Convolution3DBackwardFilter {
  MGE_CONV_3D_MEMBERS
  Dims weight_shape;
  static constexpr OpTraits traits{
      .name = "Convolution3DBackwardFilter", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_3D_FIELDS(Convolution3DBackwardFilter),
                 field("weight_shape", &Convolution3DBackwardFilter::weight_shape));
};

#define MGE_DECLARE_CONV(T)                    \
  Specs infer(const T& op, const Specs& in);   \
  Values execute(const T& op, Values& in);     \
  Values grad(const T& op, const GradArgs& g); \
  Keep keep(const T& op, std::uint32_t needs); \
  DECLARE_OP(T)
MGE_DECLARE_CONV(Convolution);
MGE_DECLARE_CONV(Convolution3D);
MGE_DECLARE_CONV(ConvolutionBackwardData);
MGE_DECLARE_CONV(Convolution3DBackwardData);
MGE_DECLARE_CONV(ConvolutionBackwardFilter);
MGE_DECLARE_CONV(Convolution3DBackwardFilter);
#undef MGE_DECLARE_CONV

// The attributes of an op of two spatial axes.
template <class T>
ConvAttrs conv_attrs_2d(const T& op) {
  return {2,
          {op.stride_h, op.stride_w, 1},
          {op.pad_h, op.pad_w, 0},
          {op.dilate_h, op.dilate_w, 1},
          op.mode,
          op.sparse};
}
// The output of a convolution of (x, weight[, bias]); raises where they do not fit.
Spec infer_convolution(const char* op, const ConvAttrs& attrs, const Specs& in);

// The kernels (convolution.cpu.cpp); shapes have been checked.
void run_convolution(const char* op, const ConvAttrs& attrs, const Values& in, const MutView& out);
// Whether weights that stay are worth a layout of their own (winograd.loops.h, pointwise.loops.h).
bool packs_weights(const ConvAttrs& attrs, const Spec& x, const Spec& weight);
// With what follows it, for weights that stay; false where there is no kernel for that, and nothing
// was written.
bool run_convolution_with(const char* op, const ConvAttrs& attrs, const Values& in,
                          const cpu::dnn::PostOps& post, const MutView& out);
void run_backward_data(const char* op, const ConvAttrs& attrs, const Value& weight,
                       const Value& diff, const MutView& out);
void run_backward_filter(const char* op, const ConvAttrs& attrs, const Value& src,
                         const Value& diff, const MutView& out);

}  // namespace mge
