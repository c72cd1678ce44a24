// Channels are the lanes: where a tap reads is worked out once for all channels of a part. Each
// point is four pixels, of which those outside of the image are a row of zeros.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/ops/deformable/deformable_conv.loops.h"
#include "core/ops/detection/blocks.h"
#include "core/ops/detection/lanes.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

// Channels that lie in one group and in one part.
struct Segment {
  int64_t first, count;
  int64_t column;  // of tap 0, in the columns of a row; taps are `pitch` apart
};

// Calls f(segment) for the segments of a part.
template <class F>
[[gnu::always_inline]] inline void each_segment(const DeformLayout& p, int64_t part, F&& f) {
  const int64_t width = p.c / p.parts, group = p.c / p.groups;
  for (int64_t c = part * width; c < (part + 1) * width;) {
    const int64_t g = c / group;
    const int64_t end = std::min((part + 1) * width, (g + 1) * group);
    f(Segment{c, end - c, g * group * p.taps() + c - g * group});
    c = end;
  }
}

// A row of the output: an image and a position.
struct Row {
  int64_t n, y, x;
  Row(const DeformLayout& p, int64_t row)
      : n(row / (p.out_h * p.out_w)), y(row / p.out_w % p.out_h), x(row % p.out_w) {}
};

// Where a tap reads. NaN makes all weights NaN; a place outside of the image has none.
template <class A>
DeformPoint point_of(const DeformLayout& p, const Row& row, int64_t tap, const A* offset) {
  const double y =
      static_cast<double>(row.y * p.stride_h - p.pad_h + tap / p.kernel_w * p.dilate_h) +
      static_cast<double>(offset[0]);
  const double x =
      static_cast<double>(row.x * p.stride_w - p.pad_w + tap % p.kernel_w * p.dilate_w) +
      static_cast<double>(offset[1]);
  DeformPoint out{{-1, -1, -1, -1}, {0, 0, 0, 0}, 0, 0};
  if (std::isnan(y) || std::isnan(x)) {
    out.down = out.right = std::numeric_limits<double>::quiet_NaN();
    std::fill_n(out.weight, 4, out.down);
    return out;
  }
  if (!(y > -1 && y < static_cast<double>(p.h) && x > -1 && x < static_cast<double>(p.w))) {
    return out;
  }
  const double fy = std::floor(y), fx = std::floor(x);
  const int64_t top = static_cast<int64_t>(fy), left = static_cast<int64_t>(fx);
  out.down = y - fy, out.right = x - fx;
  const auto put = [&](int i, int64_t r, int64_t c, double weight) {
    out.weight[i] = weight;
    if (r >= 0 && r < p.h && c >= 0 && c < p.w) out.at[i] = ((row.n * p.h + r) * p.w + c) * p.c;
  };
  put(0, top, left, (1 - out.down) * (1 - out.right));
  put(1, top, left + 1, (1 - out.down) * out.right);
  put(2, top + 1, left, out.down * (1 - out.right));
  put(3, top + 1, left + 1, out.down * out.right);
  return out;
}

// The four pixels of a point.
template <class A>
struct Corners {
  const A* at[4];
  A weight[4];
  Corners(const DeformPoint& point, const A* x, const A* zeros, double scale) {
    for (int i = 0; i < 4; ++i) {
      at[i] = point.at[i] < 0 ? zeros : x + point.at[i];
      weight[i] = static_cast<A>(point.weight[i] * scale);
    }
  }
};

template <class A>
[[gnu::always_inline]] inline void read(const Corners<A>& from, int64_t first, A* __restrict to,
                                        int64_t n) {
  const A* a = from.at[0] + first;
  const A* b = from.at[1] + first;
  const A* c = from.at[2] + first;
  const A* d = from.at[3] + first;
  const A wa = from.weight[0], wb = from.weight[1], wc = from.weight[2], wd = from.weight[3];
  for (int64_t i = 0; i < n; ++i) to[i] = wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i];
}

template <class A>
class Zeros {
 public:
  explicit Zeros(int64_t n) : scratch_(static_cast<std::size_t>(n) * sizeof(A)) {
    std::fill_n(scratch_.as<A>(), n, A(0));
  }
  const A* data() const { return scratch_.as<A>(); }

 private:
  Scratch scratch_;
};

template <class A>
void fill_columns(const DeformLayout& p, const A* x, const A* offset, const A* mask, A* columns,
                  int64_t begin, int64_t end) {
  const Zeros<A> zeros(p.c);
  const int64_t taps = p.taps(), points = p.parts * taps, pitch = p.c / p.groups;
  parallel_for(end - begin, grain_of(p.columns() * 4), [&](int64_t from, int64_t to) {
    for (int64_t r = from; r < to; ++r) {
      const int64_t row = begin + r;
      const Row place(p, row);
      A* const line = columns + r * p.columns();
      for (int64_t part = 0; part < p.parts; ++part) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t k = row * points + part * taps + tap;
          const Corners<A> corners(point_of(p, place, tap, offset + 2 * k), x, zeros.data(),
                                   static_cast<double>(mask[k]));
          each_segment(p, part, [&](const Segment& s) {
            read(corners, s.first, line + s.column + tap * pitch, s.count);
          });
        }
      }
    }
  });
}

// Products of the gradient of what a tap read with each of its four pixels.
template <class A>
[[gnu::always_inline]] inline void add_products(const A* g, const Corners<A>& from, int64_t first,
                                                int64_t n, double* total) {
  constexpr int64_t lanes = kLanes<A>;
  Vec<A> sum[4] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec<A> v = load(g + i);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sum[k] += v * load(from.at[k] + first + i);
  }
  for (int k = 0; k < 4; ++k) {
    A s = 0;
    for (int64_t l = 0; l < lanes; ++l) s += sum[k][l];
    for (int64_t j = i; j < n; ++j) s += g[j] * from.at[k][first + j];
    total[k] += static_cast<double>(s);
  }
}

template <class A>
void columns_backward(const DeformLayout& p, const A* x, const A* offset, const A* mask,
                      const A* dcolumns, A* columns, A* doffset, A* dmask, DeformPoint* points,
                      int64_t begin, int64_t end) {
  const Zeros<A> zeros(p.c);
  const int64_t taps = p.taps(), per_row = p.parts * taps, pitch = p.c / p.groups;
  parallel_for(end - begin, grain_of(p.columns() * 8), [&](int64_t from, int64_t to) {
    for (int64_t r = from; r < to; ++r) {
      const int64_t row = begin + r;
      const Row place(p, row);
      for (int64_t part = 0; part < p.parts; ++part) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t at = part * taps + tap, k = row * per_row + at;
          const DeformPoint point = point_of(p, place, tap, offset + 2 * k);
          points[r * per_row + at] = point;
          const double m = static_cast<double>(mask[k]);
          const Corners<A> corners(point, x, zeros.data(), m);
          double dot[4] = {0, 0, 0, 0};
          each_segment(p, part, [&](const Segment& s) {
            const int64_t column = r * p.columns() + s.column + tap * pitch;
            read(corners, s.first, columns + column, s.count);
            add_products(dcolumns + column, corners, s.first, s.count, dot);
          });
          double value = 0;
          for (int i = 0; i < 4; ++i) value += point.weight[i] * dot[i];
          const double left = dot[2] - dot[0], right = dot[3] - dot[1];
          const double top = dot[1] - dot[0], bottom = dot[3] - dot[2];
          dmask[k] = static_cast<A>(value);
          doffset[2 * k] = static_cast<A>(m * (left + point.right * (right - left)));
          doffset[2 * k + 1] = static_cast<A>(m * (top + point.down * (bottom - top)));
        }
      }
    }
  });
}

template <class A>
void scatter(const DeformLayout& p, const A* dcolumns, const A* mask, const DeformPoint* points,
             A* dx, int64_t begin, int64_t end) {
  const int64_t taps = p.taps(), per_row = p.parts * taps, pitch = p.c / p.groups;
  const int64_t image = p.out_h * p.out_w;
  const int64_t first_image = begin / image, images = (end - 1) / image - first_image + 1;
  each_channel_block(
      images, p.c, (end - begin) * p.columns() * 4, [&](int64_t n, int64_t first, int64_t count) {
        const int64_t from = std::max(begin, (first_image + n) * image);
        const int64_t to = std::min(end, (first_image + n + 1) * image);
        for (int64_t row = from; row < to; ++row) {
          for (int64_t at = 0; at < per_row; ++at) {
            const DeformPoint& point = points[(row - begin) * per_row + at];
            const double m = static_cast<double>(mask[row * per_row + at]);
            each_segment(p, at / taps, [&](const Segment& s) {
              const int64_t c = std::max(first, s.first);
              const int64_t n_channels = std::min(first + count, s.first + s.count) - c;
              if (n_channels <= 0) return;
              const A* g = dcolumns + (row - begin) * p.columns() + s.column + at % taps * pitch +
                           c - s.first;
              for (int i = 0; i < 4; ++i) {
                if (point.at[i] < 0) continue;
                channels::add_scaled(dx + point.at[i] + c, g, static_cast<A>(point.weight[i] * m),
                                     n_channels);
              }
            });
          }
        }
      });
}

}  // namespace

void deform_columns(DType dtype, const void* x, const void* offset, const void* mask, void* columns,
                    std::int64_t begin, std::int64_t end, const DeformLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    fill_columns(at, static_cast<const A*>(x), static_cast<const A*>(offset),
                 static_cast<const A*>(mask), static_cast<A*>(columns), begin, end);
  });
}

void deform_columns_backward(DType dtype, const void* x, const void* offset, const void* mask,
                             const void* dcolumns, void* columns, void* doffset, void* dmask,
                             DeformPoint* points, std::int64_t begin, std::int64_t end,
                             const DeformLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    columns_backward(at, static_cast<const A*>(x), static_cast<const A*>(offset),
                     static_cast<const A*>(mask), static_cast<const A*>(dcolumns),
                     static_cast<A*>(columns), static_cast<A*>(doffset), static_cast<A*>(dmask),
                     points, begin, end);
  });
}

void deform_scatter(DType dtype, const void* dcolumns, const void* mask, const DeformPoint* points,
                    void* dx, std::int64_t begin, std::int64_t end, const DeformLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    scatter(at, static_cast<const A*>(dcolumns), static_cast<const A*>(mask), points,
            static_cast<A*>(dx), begin, end);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
