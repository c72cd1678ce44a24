// Resizing of (N, C, spatial...), with one to three spatial axes.
#pragma once

#include "core/ops/resize/axis_taps.h"

namespace mge {

// (x) -> (y,): the spatial axes resized to `size`, one axis after the other, in the memory format
// of x. axis_taps.h says where elements come from. NEAREST takes every dtype, the others floats,
// int8 and uint8 (rounded to the nearest, halves away from zero).
struct Interpolate {
  Dims size{};
  InterpolationMode mode = InterpolationMode::LINEAR;
  bool align_corners = false;
  static constexpr OpTraits traits{.name = "Interpolate"};
  static constexpr auto fields =
      field_list(field("size", &Interpolate::size), field("mode", &Interpolate::mode),
                 field("align_corners", &Interpolate::align_corners));
};
Specs infer(const Interpolate& op, const Specs& in);
Values grad(const Interpolate& op, const GradArgs& g);
Keep keep(const Interpolate& op, std::uint32_t needs);
void kernel(const Interpolate& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Interpolate);

// (dy) -> (dx,), where `size` is that of the spatial axes of dx.
struct InterpolateBackward {
  Dims size{};
  InterpolationMode mode = InterpolationMode::LINEAR;
  bool align_corners = false;
  static constexpr OpTraits traits{.name = "InterpolateBackward"};
  static constexpr auto fields = field_list(
      field("size", &InterpolateBackward::size), field("mode", &InterpolateBackward::mode),
      field("align_corners", &InterpolateBackward::align_corners));
};
Specs infer(const InterpolateBackward& op, const Specs& in);
Values grad(const InterpolateBackward& op, const GradArgs& g);
Keep keep(const InterpolateBackward& op, std::uint32_t needs);
void kernel(const InterpolateBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(InterpolateBackward);

enum class ImageFormat : std::uint8_t { NCHW, NHWC };
template <>
struct EnumNames<ImageFormat> {
  static constexpr auto names = std::to_array<const char*>({"NCHW", "NHWC"});
};
enum class VolumeFormat : std::uint8_t { NCDHW, NDHWC };
template <>
struct EnumNames<VolumeFormat> {
  static constexpr auto names = std::to_array<const char*>({"NCDHW", "NDHWC"});
};

// (x, size) -> (y,): as Interpolate, with the height and width in an integer tensor. `format` says
// which axes of x are which.
struct Resize {
  InterpolationMode imode = InterpolationMode::LINEAR;
  ImageFormat format = ImageFormat::NHWC;
  static constexpr OpTraits traits{.name = "Resize", .by_contents = true};
  static constexpr auto fields =
      field_list(field("imode", &Resize::imode), field("format", &Resize::format));
};
Values execute(const Resize& op, Values& in);
Values decompose(const Resize& op, const Values& in);
DECLARE_OP(Resize);

// The same for volumes.
struct Resize3D {
  InterpolationMode imode = InterpolationMode::LINEAR;
  VolumeFormat format = VolumeFormat::NDHWC;
  bool align_corners = false;
  static constexpr OpTraits traits{.name = "Resize3D", .by_contents = true};
  static constexpr auto fields =
      field_list(field("imode", &Resize3D::imode), field("format", &Resize3D::format),
                 field("align_corners", &Resize3D::align_corners));
};
Values execute(const Resize3D& op, Values& in);
Values decompose(const Resize3D& op, const Values& in);
DECLARE_OP(Resize3D);

// The numbers of a 1-d integer tensor of `count` elements, for ops that take a size as an input.
Dims size_input(const char* op, const Value& v, int count);
// Axes (N, spatial..., C) as (N, C, spatial...) and back: views.
Value channels_first(const Value& x);
Value channels_behind(const Value& x);

}  // namespace mge
