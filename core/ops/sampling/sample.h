// Reading images at given positions, and its gradients.
#pragma once

#include "core/ops/resize/resize.h"

namespace mge {

enum class BorderMode : std::uint8_t {
  REPLICATE,
  REFLECT,
  REFLECT_101,
  WRAP,
  CONSTANT,
  TRANSPARENT,
  ISOLATED
};
template <>
struct EnumNames<BorderMode> {
  static constexpr auto names = std::to_array<const char*>(
      {"REPLICATE", "REFLECT", "REFLECT_101", "WRAP", "CONSTANT", "TRANSPARENT", "ISOLATED"});
};

// (x, map) or (x, map, image) -> (y,): x of (N, C, H, W), map of (M, OH, OW, 2), y of
// (M, C, OH, OW) in x's memory format. y[m, :, i, j] is the image number image[m] (m without it)
// at column map[m, i, j, 0] and row map[m, i, j, 1]; pixel centres are at whole numbers.
// NEAREST rounds halves to even; LINEAR, CUBIC (Keys, a = -3/4) and LANCZOS4 weigh 2, 4 and 8
// pixels along each axis. `border` says what stands outside of the image, with a b c inside:
//   REPLICATE a a | a b c | c c   REFLECT b a | a b c | c b   REFLECT_101 c b | a b c | b a
//   WRAP      b c | a b c | a b   CONSTANT: border_value
// A position that is NaN gives NaN (border_value in CONSTANT); so does an infinite one where
// pixels repeat for ever. map is float64 for float64 images and float32 for all others; x may also
// be of int8 and uint8 (rounded to the nearest).
struct Sample {
  InterpolationMode mode = InterpolationMode::LINEAR;
  BorderMode border = BorderMode::REPLICATE;
  double border_value = 0;
  static constexpr OpTraits traits{.name = "Sample"};
  static constexpr auto fields =
      field_list(field("mode", &Sample::mode), field("border", &Sample::border),
                 field("border_value", &Sample::border_value));
};
Specs infer(const Sample& op, const Specs& in);
Values grad(const Sample& op, const GradArgs& g);
Keep keep(const Sample& op, std::uint32_t needs);
void kernel(const Sample& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Sample);

// (dy, map) or (dy, map, image) -> (dx,), of shape (number, C, height, width).
struct SampleBackwardData {
  InterpolationMode mode = InterpolationMode::LINEAR;
  BorderMode border = BorderMode::REPLICATE;
  std::int64_t number = 0, height = 0, width = 0;
  static constexpr OpTraits traits{.name = "SampleBackwardData"};
  static constexpr auto fields = field_list(
      field("mode", &SampleBackwardData::mode), field("border", &SampleBackwardData::border),
      field("number", &SampleBackwardData::number), field("height", &SampleBackwardData::height),
      field("width", &SampleBackwardData::width));
};
Specs infer(const SampleBackwardData& op, const Specs& in);
Values grad(const SampleBackwardData& op, const GradArgs& g);
Keep keep(const SampleBackwardData& op, std::uint32_t needs);
void kernel(const SampleBackwardData& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(SampleBackwardData);

// (x, map, dy) or (x, map, dy, image) -> (dmap,). Not for LANCZOS4.
struct SampleBackwardMap {
  InterpolationMode mode = InterpolationMode::LINEAR;
  BorderMode border = BorderMode::REPLICATE;
  double border_value = 0;
  static constexpr OpTraits traits{.name = "SampleBackwardMap"};
  static constexpr auto fields = field_list(
      field("mode", &SampleBackwardMap::mode), field("border", &SampleBackwardMap::border),
      field("border_value", &SampleBackwardMap::border_value));
};
Specs infer(const SampleBackwardMap& op, const Specs& in);
Values decompose(const SampleBackwardMap& op, const Values& in);
void kernel(const SampleBackwardMap& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(SampleBackwardMap);

// (mat) -> (map,): mat of (M, 3, 3), map of (M, height, width, 2). With (u, v, w) = mat (j, i, 1),
// map[m, i, j] is (u / w, v / w).
struct PerspectiveGrid {
  std::int64_t height = 0, width = 0;
  static constexpr OpTraits traits{.name = "PerspectiveGrid"};
  static constexpr auto fields = field_list(field("height", &PerspectiveGrid::height),
                                            field("width", &PerspectiveGrid::width));
};
Specs infer(const PerspectiveGrid& op, const Specs& in);
Values decompose(const PerspectiveGrid& op, const Values& in);
Values grad(const PerspectiveGrid& op, const GradArgs& g);
Keep keep(const PerspectiveGrid& op, std::uint32_t needs);
void kernel(const PerspectiveGrid& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PerspectiveGrid);

// (mat, dmap) -> (dmat,).
struct PerspectiveGridBackward {
  static constexpr OpTraits traits{.name = "PerspectiveGridBackward"};
  static constexpr auto fields = field_list();
};
Specs infer(const PerspectiveGridBackward& op, const Specs& in);
Values decompose(const PerspectiveGridBackward& op, const Values& in);
void kernel(const PerspectiveGridBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PerspectiveGridBackward);

}  // namespace mge
