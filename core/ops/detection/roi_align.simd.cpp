// Channels are the lanes. The mean over the points of a bin is a weighted sum over pixels whose
// weights are products of one for the row and one for the column: points that share pixels merge.
// The backward pass adds into the image, a block of channels of one image at a time, in the order
// of the boxes: no two threads meet, and the sums do not depend on how many there are.

#include <algorithm>
#include <limits>

#include "core/ops/detection/blocks.h"
#include "core/ops/detection/lanes.h"
#include "core/ops/detection/roi_align.loops.h"
#include "core/ops/detection/taps.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;
using taps::Axis;
using taps::Point;
using taps::Tap;

constexpr int64_t kBlock = 64;  // channels that a maximum is taken over at a time

struct Box {
  Axis y, x;
  bool finite() const { return y.finite() && x.finite(); }
};
Box box_of(const RoiAlignLayout& p, int64_t k) {
  const double* b = p.box + 4 * k;
  const auto side = [&](int i) { return b[i] * p.scale - p.offset; };
  return {Axis(side(1), side(3), p.out_h, p.samples_h, p.h),
          Axis(side(0), side(2), p.out_w, p.samples_w, p.w)};
}

// ---- means -------------------------------------------------------------------------------------

// How many taps all bins of an axis have at most: two a point, and a bin of b pixels reads at most
// b + 2 of them.
int64_t most_taps(int64_t bins, int64_t samples, int64_t size) {
  return samples > 0 ? bins * std::min(2 * samples, size) : size + 3 * bins;
}

// The taps of all bins of an axis, those of bin i from begin[i] to begin[i + 1]. Weights are
// divided by the number of points.
template <class A>
void fill_taps(const Axis& axis, int64_t bins, int64_t stride, Tap<A>* list, int64_t* begin) {
  int64_t n = 0;
  begin[0] = 0;
  for (int64_t i = 0; i < bins; ++i) {
    Tap<A>* const mine = list + n;
    int64_t count = 0;
    axis.each_point(i, [&](double position) {
      const Point<A> p = taps::point_at<A>(position, axis.size);
      for (int t = 0; t < p.count; ++t) {
        taps::merge(mine, count, p.at[t] * stride, p.weight[t]);
      }
    });
    n += count;
    begin[i + 1] = n;
  }
}

// The taps of one box, in memory of a thread's own.
template <class A>
class BoxTaps {
 public:
  BoxTaps(const RoiAlignLayout& p)
      : p_(p),
        tap_y_(most_taps(p.out_h, p.samples_h, p.h)),
        tap_x_(most_taps(p.out_w, p.samples_w, p.w)),
        bytes_((tap_y_ + tap_x_) * sizeof(Tap<A>) + (p.out_h + p.out_w + 2) * sizeof(int64_t)),
        threads_(num_threads()),
        scratch_(static_cast<std::size_t>(bytes_ * threads_)) {}

  struct Lists {
    Tap<A>*y, *x;
    int64_t *begin_y, *begin_x;
  };
  Lists lists() const {
    char* at = scratch_.as<char>() + omp_get_thread_num() % threads_ * bytes_;
    Tap<A>* y = reinterpret_cast<Tap<A>*>(at);
    Tap<A>* x = y + tap_y_;
    int64_t* begin = reinterpret_cast<int64_t*>(x + tap_x_);
    return {y, x, begin, begin + p_.out_h + 1};
  }
  void fill(const Box& box, const Lists& to) const {
    fill_taps(box.y, p_.out_h, p_.w * p_.c, to.y, to.begin_y);
    fill_taps(box.x, p_.out_w, p_.c, to.x, to.begin_x);
  }

 private:
  const RoiAlignLayout& p_;
  int64_t tap_y_, tap_x_, bytes_;
  int threads_;
  Scratch scratch_;
};

template <class A>
struct Bin {
  const Tap<A>*y, *y_end, *x, *x_end;
  A share;  // one by the number of points
};

// out = the weighted sum of the pixels of a bin, V vectors of channels.
template <int V, class A>
[[gnu::always_inline]] inline void sum_bin(const A* image, const Bin<A>& bin, A* out) {
  if constexpr (V == 0) {
    A sum = 0;
    for (const Tap<A>* y = bin.y; y != bin.y_end; ++y) {
      A row = 0;
      for (const Tap<A>* x = bin.x; x != bin.x_end; ++x) row += x->weight * image[y->at + x->at];
      sum += y->weight * row;
    }
    *out = sum * bin.share;
  } else {
    constexpr int64_t lanes = kLanes<A>;
    Vec<A> sum[V] = {};
    for (const Tap<A>* y = bin.y; y != bin.y_end; ++y) {
      Vec<A> row[V] = {};
      for (const Tap<A>* x = bin.x; x != bin.x_end; ++x) {
        const A* from = image + y->at + x->at;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) row[v] += x->weight * load(from + v * lanes);
      }
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[v] += y->weight * row[v];
    }
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(out + v * lanes, sum[v] * bin.share);
  }
}

// image += weight * g over the pixels of a bin.
template <int V, class A>
[[gnu::always_inline]] inline void spread_bin(A* image, const Bin<A>& bin, const A* g) {
  constexpr int64_t lanes = kLanes<A>;
  for (const Tap<A>* y = bin.y; y != bin.y_end; ++y) {
    for (const Tap<A>* x = bin.x; x != bin.x_end; ++x) {
      const A weight = y->weight * x->weight * bin.share;
      A* to = image + y->at + x->at;
      if constexpr (V == 0) {
        *to += weight * *g;
      } else {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          store(to + v * lanes, load(to + v * lanes) + weight * load(g + v * lanes));
        }
      }
    }
  }
}

template <class A, class Lists>
Bin<A> bin_of(const Box& box, const Lists& lists, int64_t i, int64_t j) {
  return {lists.y + lists.begin_y[i], lists.y + lists.begin_y[i + 1], lists.x + lists.begin_x[j],
          lists.x + lists.begin_x[j + 1],
          static_cast<A>(1 / (std::max(box.y.grid, 1.0) * std::max(box.x.grid, 1.0)))};
}

template <class A>
void average(const RoiAlignLayout& p, const A* x, A* y) {
  const BoxTaps<A> box_taps(p);
  const int64_t bins = p.out_h * p.out_w;
  parallel_for(p.rois, grain_of(bins * p.c * 9), [&](int64_t begin, int64_t end) {
    const auto lists = box_taps.lists();
    for (int64_t k = begin; k < end; ++k) {
      const Box box = box_of(p, k);
      A* to = y + k * bins * p.c;
      if (!box.finite()) {
        std::fill_n(to, bins * p.c, std::numeric_limits<A>::quiet_NaN());
        continue;
      }
      box_taps.fill(box, lists);
      const A* image = x + p.image[k] * p.h * p.w * p.c;
      for (int64_t i = 0; i < p.out_h; ++i) {
        for (int64_t j = 0; j < p.out_w; ++j, to += p.c) {
          const Bin<A> bin = bin_of<A>(box, lists, i, j);
          channels::each_block<A>(p.c,
                                  [&]<int V>(int64_t c) { sum_bin<V>(image + c, bin, to + c); });
        }
      }
    }
  });
}

template <class A>
void average_backward(const RoiAlignLayout& p, const A* dy, A* dx) {
  const int64_t bins = p.out_h * p.out_w;
  const BoxTaps<A> box_taps(p);
  clear(dx, p.n * p.h * p.w * p.c);
  each_channel_block(
      p.n, p.c, p.rois * bins * p.c * 9, [&](int64_t n, int64_t first, int64_t count) {
        const auto lists = box_taps.lists();
        A* image = dx + n * p.h * p.w * p.c + first;
        for (int64_t k = 0; k < p.rois; ++k) {
          const Box box = box_of(p, k);
          if (p.image[k] != n || !box.finite()) continue;
          box_taps.fill(box, lists);
          const A* g = dy + k * bins * p.c + first;
          for (int64_t i = 0; i < p.out_h; ++i) {
            for (int64_t j = 0; j < p.out_w; ++j, g += p.c) {
              const Bin<A> bin = bin_of<A>(box, lists, i, j);
              channels::each_block<A>(
                  count, [&]<int V>(int64_t c) { spread_bin<V>(image + c, bin, g + c); });
            }
          }
        }
      });
}

// ---- maxima ------------------------------------------------------------------------------------

// The points of one bin, in memory of a thread's own.
template <class A>
class BinPoints {
 public:
  BinPoints(const RoiAlignLayout& p)
      : most_y_(most_points(p.samples_h, p.h)),
        most_x_(most_points(p.samples_w, p.w)),
        threads_(num_threads()),
        scratch_(static_cast<std::size_t>((most_y_ + most_x_) * threads_) * sizeof(Point<A>)) {}

  struct Lists {
    Point<A>*y, *x;
    int64_t count_y, count_x;
    bool outside;  // whether a point of the bin lies outside of the image, where zeros are
    const Point<A>& y_of(int64_t id) const { return y[id / count_x]; }
    const Point<A>& x_of(int64_t id) const { return x[id % count_x]; }
    bool has(int64_t id) const { return id >= 0 && id < count_y * count_x; }
  };
  Lists fill(const Box& box, int64_t i, int64_t j, int64_t stride_y, int64_t stride_x) const {
    Lists to;
    to.y = scratch_.template as<Point<A>>() + omp_get_thread_num() % threads_ * (most_y_ + most_x_);
    to.x = to.y + most_y_;
    to.count_y = points(box.y, i, stride_y, to.y);
    to.count_x = points(box.x, j, stride_x, to.x);
    to.outside = static_cast<double>(to.count_y) < box.y.grid ||
                 static_cast<double>(to.count_x) < box.x.grid;
    return to;
  }

 private:
  static int64_t most_points(int64_t samples, int64_t size) {
    return samples > 0 ? samples : 2 * size + 1024;
  }
  static int64_t points(const Axis& axis, int64_t i, int64_t stride, Point<A>* to) {
    return axis.each_point(i, [&](double position) {
      *to = taps::point_at<A>(position, axis.size);
      for (int64_t& at : to->at) at *= stride;
      ++to;
    });
  }
  int64_t most_y_, most_x_;
  int threads_;
  Scratch scratch_;
};

template <class A>
[[gnu::always_inline]] inline void read_point(const A* image, const Point<A>& y, const Point<A>& x,
                                              A* __restrict out, int64_t n) {
  std::fill_n(out, n, A(0));
  for (int a = 0; a < y.count; ++a) {
    for (int b = 0; b < x.count; ++b) {
      channels::add_scaled(out, image + y.at[a] + x.at[b], y.weight[a] * x.weight[b], n);
    }
  }
}

// The maximum over the points of a bin, and which of them it is; NaN wins.
template <class A, class Lists>
void max_bin(const A* image, const Lists& points, A* __restrict best, std::int32_t* __restrict id,
             int64_t n) {
  A value[kBlock];
  // Of a bin without points on the image, and of one with points outside, the zeros are the start.
  const bool zeros = points.outside || points.count_y == 0 || points.count_x == 0;
  std::fill_n(best, n, zeros ? A(0) : -std::numeric_limits<A>::infinity());
  std::fill_n(id, n, zeros ? -1 : 0);
  std::int32_t k = 0;
  for (int64_t a = 0; a < points.count_y; ++a) {
    for (int64_t b = 0; b < points.count_x; ++b, ++k) {
      read_point(image, points.y[a], points.x[b], value, n);
      for (int64_t l = 0; l < n; ++l) {
        const bool take = (value[l] > best[l]) | (value[l] != value[l]);
        best[l] = take ? value[l] : best[l];
        id[l] = take ? k : id[l];
      }
    }
  }
}

template <class A>
void maximum(const RoiAlignLayout& p, const A* x, A* y, std::int32_t* index) {
  const BinPoints<A> bin_points(p);
  const int64_t bins = p.out_h * p.out_w;
  parallel_for(p.rois, grain_of(bins * p.c * 16), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const Box box = box_of(p, k);
      const int64_t at = k * bins * p.c;
      if (!box.finite()) {
        std::fill_n(y + at, bins * p.c, std::numeric_limits<A>::quiet_NaN());
        std::fill_n(index + at, bins * p.c, -1);
        continue;
      }
      const A* image = x + p.image[k] * p.h * p.w * p.c;
      for (int64_t bin = 0; bin < bins; ++bin) {
        const auto points = bin_points.fill(box, bin / p.out_w, bin % p.out_w, p.w * p.c, p.c);
        const int64_t to = at + bin * p.c;
        for (int64_t c = 0; c < p.c; c += kBlock) {
          max_bin(image + c, points, y + to + c, index + to + c, std::min(kBlock, p.c - c));
        }
      }
    }
  });
}

template <class A>
void maximum_backward(const RoiAlignLayout& p, const A* dy, const std::int32_t* index, A* dx) {
  const BinPoints<A> bin_points(p);
  const int64_t bins = p.out_h * p.out_w;
  clear(dx, p.n * p.h * p.w * p.c);
  each_channel_block(
      p.n, p.c, p.rois * bins * p.c * 16, [&](int64_t n, int64_t first, int64_t count) {
        A* image = dx + n * p.h * p.w * p.c + first;
        for (int64_t k = 0; k < p.rois; ++k) {
          const Box box = box_of(p, k);
          if (p.image[k] != n || !box.finite()) continue;
          for (int64_t bin = 0; bin < bins; ++bin) {
            const auto points = bin_points.fill(box, bin / p.out_w, bin % p.out_w, p.w * p.c, p.c);
            const int64_t at = (k * bins + bin) * p.c + first;
            for (int64_t l = 0; l < count; ++l) {
              const std::int32_t id = index[at + l];
              if (!points.has(id)) continue;
              const Point<A>&y = points.y_of(id), &x = points.x_of(id);
              for (int a = 0; a < y.count; ++a) {
                for (int b = 0; b < x.count; ++b) {
                  image[y.at[a] + x.at[b] + l] += y.weight[a] * x.weight[b] * dy[at + l];
                }
              }
            }
          }
        }
      });
}

template <class A>
void pick(const RoiAlignLayout& p, const A* x, const std::int32_t* index, A* y) {
  const BinPoints<A> bin_points(p);
  const int64_t bins = p.out_h * p.out_w;
  parallel_for(p.rois, grain_of(bins * p.c * 4), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const Box box = box_of(p, k);
      if (!box.finite()) {
        std::fill_n(y + k * bins * p.c, bins * p.c, A(0));
        continue;
      }
      const A* image = x + p.image[k] * p.h * p.w * p.c;
      for (int64_t bin = 0; bin < bins; ++bin) {
        const auto points = bin_points.fill(box, bin / p.out_w, bin % p.out_w, p.w * p.c, p.c);
        const int64_t at = (k * bins + bin) * p.c;
        for (int64_t l = 0; l < p.c; ++l) {
          const std::int32_t id = index[at + l];
          y[at + l] = 0;
          if (points.has(id))
            read_point(image + l, points.y_of(id), points.x_of(id), y + at + l, 1);
        }
      }
    }
  });
}

}  // namespace

void roi_align_average(DType dtype, const void* x, void* y, const RoiAlignLayout& at) {
  with_type(dtype,
            [&]<class A>(Tag<A>) { average(at, static_cast<const A*>(x), static_cast<A*>(y)); });
}

void roi_align_max(DType dtype, const void* x, void* y, std::int32_t* index,
                   const RoiAlignLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    maximum(at, static_cast<const A*>(x), static_cast<A*>(y), index);
  });
}

void roi_align_average_backward(DType dtype, const void* dy, void* dx, const RoiAlignLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    average_backward(at, static_cast<const A*>(dy), static_cast<A*>(dx));
  });
}

void roi_align_max_backward(DType dtype, const void* dy, const std::int32_t* index, void* dx,
                            const RoiAlignLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    maximum_backward(at, static_cast<const A*>(dy), index, static_cast<A*>(dx));
  });
}

void roi_align_pick(DType dtype, const void* x, const std::int32_t* index, void* y,
                    const RoiAlignLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    pick(at, static_cast<const A*>(x), index, static_cast<A*>(y));
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
