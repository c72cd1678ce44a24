// Which elements of an axis each element of a resized axis is made of.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/op/op.h"

namespace mge {

enum class InterpolationMode : std::uint8_t { NEAREST, LINEAR, AREA, CUBIC, LANCZOS4 };
template <>
struct EnumNames<InterpolationMode> {
  static constexpr auto names =
      std::to_array<const char*>({"NEAREST", "LINEAR", "AREA", "CUBIC", "LANCZOS4"});
};

// out[o] = sum over k < count[o] of weight[o * taps + k] * in[index[o * taps + k]]. Further entries
// of a row of `taps` hold weight 0 and an index that the row names anyway, so that 0 * infinity
// does not come in; in a row without entries that index is `in`, which is outside.
struct AxisTaps {
  std::int64_t in = 1, out = 1, taps = 1;
  std::vector<std::int32_t> index{0}, count{1};
  std::vector<double> weight{1};
};

// Pixel centres are at whole numbers + 1/2 and the borders of the images coincide; with
// align_corners the centres of the first and of the last pixels coincide. Elements outside of the
// axis are those at its end. AREA is the mean over what an element of the output covers. CUBIC is
// the convolution of Keys with a = -3/4 (IEEE TASSP 29, 1981), LANCZOS4 the windowed sinc over 8
// elements. Sizes are below 2^31, and in > 0 where out > 0.
AxisTaps axis_taps(InterpolationMode mode, std::int64_t in, std::int64_t out, bool align_corners);
// The transposed map, from `out` to `in`.
AxisTaps transposed(const AxisTaps& a);

}  // namespace mge
