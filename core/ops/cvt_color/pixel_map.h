// What the rules and the kernel of CvtColor share.
#pragma once

#include "core/ops/cvt_color/cvt_color.h"
#include "core/ops/cvt_color/cvt_color.loops.h"

namespace mge {

bool from_planes(CvtColor::Mode mode);
bool to_gray(CvtColor::Mode mode);
// For the modes that convert pixel by pixel.
cpu::PixelMap pixel_map(CvtColor::Mode mode);

}  // namespace mge
