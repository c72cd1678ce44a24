// Boxes go in pieces, best first: those of a piece are held, on all threads, against everything
// that was kept before it, then one after another against each other. What is kept lies side by
// side, coordinate by coordinate, so that a box meets a vector of them at a time and stops at the
// first that suppresses it.

#include <algorithm>

#include "core/ops/detection/blocks.h"
#include "core/ops/detection/lanes.h"
#include "core/ops/detection/nms.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kPiece = 256;

// Boxes, coordinate by coordinate.
template <class A>
struct Boxes {
  A *x1, *y1, *x2, *y2, *area;
  int64_t count = 0;

  static int64_t room(int64_t n) { return (n + 63) / 64 * 64; }
  Boxes(A* memory, int64_t room)
      : x1(memory),
        y1(memory + room),
        x2(memory + 2 * room),
        y2(memory + 3 * room),
        area(memory + 4 * room) {}
  void add(const A* box) {
    x1[count] = box[0], y1[count] = box[1], x2[count] = box[2], y2[count] = box[3];
    area[count++] = (box[2] - box[0]) * (box[3] - box[1]);
  }
};

// Whether one of boxes [0, n) has an intersection over union with `box` above the threshold. A
// quotient that is NaN (two boxes without area) is not above it.
template <class A>
bool suppressed(const Boxes<A>& by, int64_t n, const A* box, A threshold) {
  constexpr int64_t step = 64;  // boxes between two looks at the answer
  const A x1 = box[0], y1 = box[1], x2 = box[2], y2 = box[3], area = (x2 - x1) * (y2 - y1);
  for (int64_t i = 0; i < n; i += step) {
    const int64_t end = std::min(n, i + step);
    int hit = 0;
    for (int64_t k = i; k < end; ++k) {
      const A left = by.x1[k] > x1 ? by.x1[k] : x1, right = by.x2[k] < x2 ? by.x2[k] : x2;
      const A top = by.y1[k] > y1 ? by.y1[k] : y1, bottom = by.y2[k] < y2 ? by.y2[k] : y2;
      const A width = right - left, height = bottom - top;
      const A inner = (width > 0 ? width : A(0)) * (height > 0 ? height : A(0));
      hit |= inner / (by.area[k] + area - inner) > threshold;
    }
    if (hit) return true;
  }
  return false;
}

template <class A>
int64_t run(const A* boxes, int64_t n, A threshold, std::int32_t* kept, int64_t most) {
  const int64_t room = Boxes<A>::room(std::min(n, most));
  Scratch memory(static_cast<std::size_t>(5 * room) * sizeof(A));
  Boxes<A> chosen(memory.as<A>(), room);
  bool out[kPiece];
  for (int64_t first = 0; first < n && chosen.count < most; first += kPiece) {
    const int64_t size = std::min(kPiece, n - first), before = chosen.count;
    parallel_for(size, grain_of(before), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        out[i] = suppressed(chosen, before, boxes + 4 * (first + i), threshold);
      }
    });
    for (int64_t i = 0; i < size && chosen.count < most; ++i) {
      if (out[i]) continue;
      const A* box = boxes + 4 * (first + i);
      const Boxes<A> recent = [&] {
        Boxes<A> r = chosen;
        r.x1 += before, r.y1 += before, r.x2 += before, r.y2 += before, r.area += before;
        return r;
      }();
      if (suppressed(recent, chosen.count - before, box, threshold)) continue;
      kept[chosen.count] = static_cast<std::int32_t>(first + i);
      chosen.add(box);
    }
  }
  return chosen.count;
}

}  // namespace

std::int64_t nms(DType dtype, const void* boxes, std::int64_t n, double threshold,
                 std::int32_t* kept, std::int64_t most) {
  if (dtype == DType::float64) {
    return run(static_cast<const double*>(boxes), n, threshold, kept, most);
  }
  return run(static_cast<const float*>(boxes), n, static_cast<float>(threshold), kept, most);
}

}  // namespace mge::cpu::MGE_SIMD_NS
