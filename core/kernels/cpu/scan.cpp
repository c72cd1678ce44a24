#include "core/kernels/cpu/scan.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/scan_loops.h"

namespace mge::cpu {
namespace {

constexpr std::int64_t kThreadElements = 1 << 14;

// The other axis whose lines lie closest together.
int lane_axis(const View& in, const MutView& out, int axis) {
  int best = -1;
  for (int i = 0; i < in.ndim(); ++i) {
    if (i == axis || in.shape[i] == 1) continue;
    if (best < 0 || std::abs(out.strides[i]) < std::abs(out.strides[best])) best = i;
  }
  return best;
}

}  // namespace

void cumsum(const View& in, int axis, bool exclusive, bool reverse, const MutView& out) {
  if (in.size() == 0) return;
  const std::int64_t n = in.shape[axis], item = size_of(in.dtype);
  const int lane = lane_axis(in, out, axis);
  const std::int64_t lanes = lane < 0 ? 1 : in.shape[lane];
  // Few enough lanes at a time that several threads find work.
  const std::int64_t width = std::clamp<std::int64_t>(kThreadElements / n, 16, kScanLanes);
  const std::int64_t tiles = (lanes + width - 1) / width;
  ScanRun line{};
  line.n = n;
  line.in_step = reverse ? -in.strides[axis] : in.strides[axis];
  line.out_step = reverse ? -out.strides[axis] : out.strides[axis];
  line.in_lane = lane < 0 ? 0 : in.strides[lane];
  line.out_lane = lane < 0 ? 0 : out.strides[lane];
  line.exclusive = exclusive;
  const auto one = [&](std::int64_t task) {
    const std::int64_t first = task % tiles * width;
    std::int64_t rest = task / tiles;
    std::int64_t from = first * line.in_lane, to = first * line.out_lane;
    if (reverse) {
      from += (n - 1) * in.strides[axis];
      to += (n - 1) * out.strides[axis];
    }
    for (int i = in.ndim() - 1; i >= 0; --i) {
      if (i == axis || i == lane) continue;
      from += rest % in.shape[i] * in.strides[i];
      to += rest % in.shape[i] * out.strides[i];
      rest /= in.shape[i];
    }
    ScanRun run = line;
    run.in = in.ptr<std::byte>() + from * item;
    run.out = out.ptr<std::byte>() + to * item;
    run.lanes = std::min(width, lanes - first);
    MGE_DISPATCH(cumsum_run)(in.dtype, run);
  };
  const std::int64_t tasks = in.size() / n / lanes * tiles;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kThreadElements / (n * std::min(width, lanes)));
  parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) one(i);
  });
}

}  // namespace mge::cpu
