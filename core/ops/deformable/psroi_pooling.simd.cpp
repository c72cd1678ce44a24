// Channels are the lanes. The points of a bin form a grid, so that their mean is a weighted sum
// over pixels whose weights are products of one for the row and one for the column.

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/deformable/psroi_pooling.loops.h"
#include "core/ops/detection/blocks.h"
#include "core/ops/detection/lanes.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

// A pixel along one axis: its weight, and how fast that grows as the bin is moved.
struct Tap {
  int64_t at;
  double weight, slope;
};

// A box: where its bins start and how large all is.
struct Box {
  double y, x, height, width;
  bool finite() const {
    return std::isfinite(y) && std::isfinite(x) && std::isfinite(height) && std::isfinite(width);
  }
};
Box box_of(const PsroiLayout& p, int64_t k) {
  const double* b = p.box + 4 * k;
  const auto from = [&](int i) { return std::round(b[i]) * p.scale - 0.5; };
  const auto to = [&](int i) { return (std::round(b[i]) + 1) * p.scale - 0.5; };
  return {from(1), from(0), std::max(to(3) - from(1), 0.1), std::max(to(2) - from(0), 0.1)};
}

// Adds to a list whose pixels ascend: one that is there already is among the last two.
void merge(Tap* list, int64_t& n, int64_t at, double weight, double slope) {
  for (int64_t back = 1; back <= std::min<int64_t>(n, 2); ++back) {
    if (list[n - back].at != at) continue;
    list[n - back].weight += weight, list[n - back].slope += slope;
    return;
  }
  list[n++] = {at, weight, slope};
}

// The taps of `samples` points from `start` on; the number of points that lie on the image.
int64_t fill(double start, double step, int64_t samples, int64_t size, int64_t stride, Tap* list,
             int64_t& n) {
  int64_t inside = 0;
  n = 0;
  const double last = static_cast<double>(size) - 1;
  for (int64_t s = 0; s < samples; ++s) {
    const double position = start + static_cast<double>(s) * step;
    if (!(position >= -0.5 && position <= last + 0.5) || size == 0) continue;
    ++inside;
    const double held = std::clamp(position, 0.0, last);
    const int64_t below = std::min(static_cast<int64_t>(held), std::max<int64_t>(size - 2, 0));
    const double share = held - static_cast<double>(below);
    const double slope = position > 0 && position < last ? 1 : 0;
    merge(list, n, below * stride, 1 - share, -slope);
    if (below + 1 < size) merge(list, n, (below + 1) * stride, share, slope);
  }
  return inside;
}

// One bin of a box, in memory of a thread's own.
struct Bin {
  Tap *y, *x;
  int64_t count_y, count_x;
  int64_t points;  // on the image
  int64_t trans;   // where its move is in trans, or -1
  bool nan;
};

class Bins {
 public:
  explicit Bins(const PsroiLayout& p)
      : p_(p),
        most_(2 * p.samples + 2),
        threads_(num_threads()),
        scratch_(static_cast<std::size_t>(2 * most_ * threads_) * sizeof(Tap)) {}

  Bin at(const Box& box, int64_t k, int64_t i, int64_t j) const {
    Bin bin{};
    bin.y = scratch_.as<Tap>() + omp_get_thread_num() % threads_ * 2 * most_;
    bin.x = bin.y + most_;
    bin.trans = -1;
    double right = 0, down = 0;
    if (p_.trans_h > 0) {
      const int64_t plane = p_.trans_h * p_.trans_w;
      bin.trans =
          2 * k * plane + i * p_.trans_h / p_.out_h * p_.trans_w + j * p_.trans_w / p_.out_w;
      right = p_.trans[bin.trans] * p_.trans_std;
      down = p_.trans[bin.trans + plane] * p_.trans_std;
    }
    const double bin_h = box.height / static_cast<double>(p_.out_h);
    const double bin_w = box.width / static_cast<double>(p_.out_w);
    const double y = static_cast<double>(i) * bin_h + box.y + down * box.height;
    const double x = static_cast<double>(j) * bin_w + box.x + right * box.width;
    const double samples = static_cast<double>(p_.samples);
    bin.nan = std::isnan(y) || std::isnan(x);
    bin.points = fill(y, bin_h / samples, p_.samples, p_.h, p_.w * p_.c, bin.y, bin.count_y);
    bin.points *= fill(x, bin_w / samples, p_.samples, p_.w, p_.c, bin.x, bin.count_x);
    return bin;
  }

 private:
  const PsroiLayout& p_;
  int64_t most_;
  int threads_;
  Scratch scratch_;
};

// Calls f(offset of the pixel, y, x) for the pixels of a bin that count.
template <class F>
[[gnu::always_inline]] inline void each_pixel(const Bin& bin, F&& f) {
  for (int64_t a = 0; a < bin.count_y; ++a) {
    for (int64_t b = 0; b < bin.count_x; ++b) f(bin.y[a].at + bin.x[b].at, bin.y[a], bin.x[b]);
  }
}

template <class A>
void pool(const PsroiLayout& p, const A* x, A* y) {
  const Bins bins(p);
  const int64_t plane = p.out_h * p.out_w;
  parallel_for(p.rois, grain_of(plane * p.c * p.samples * p.samples),
               [&](int64_t begin, int64_t end) {
                 for (int64_t k = begin; k < end; ++k) {
                   const Box box = box_of(p, k);
                   const A* image = x + p.image[k] * p.h * p.w * p.c;
                   for (int64_t b = 0; b < plane; ++b) {
                     A* to = y + (k * plane + b) * p.c;
                     const Bin bin = bins.at(box, k, b / p.out_w, b % p.out_w);
                     if (!box.finite() || bin.nan) {
                       std::fill_n(to, p.c, std::numeric_limits<A>::quiet_NaN());
                       continue;
                     }
                     std::fill_n(to, p.c, A(0));
                     if (bin.points == 0) continue;
                     const double share = 1 / static_cast<double>(bin.points);
                     each_pixel(bin, [&](int64_t at, const Tap& ty, const Tap& tx) {
                       const double weight = ty.weight * tx.weight * share;
                       if (weight != 0)
                         channels::add_scaled(to, image + at, static_cast<A>(weight), p.c);
                     });
                   }
                 }
               });
}

template <class A>
void backward_data(const PsroiLayout& p, const A* dy, A* dx) {
  const Bins bins(p);
  const int64_t plane = p.out_h * p.out_w;
  clear(dx, p.n * p.h * p.w * p.c);
  each_channel_block(p.n, p.c, p.rois * plane * p.c * 9,
                     [&](int64_t n, int64_t first, int64_t count) {
                       A* image = dx + n * p.h * p.w * p.c + first;
                       for (int64_t k = 0; k < p.rois; ++k) {
                         const Box box = box_of(p, k);
                         if (p.image[k] != n || !box.finite()) continue;
                         for (int64_t b = 0; b < plane; ++b) {
                           const Bin bin = bins.at(box, k, b / p.out_w, b % p.out_w);
                           if (bin.points == 0) continue;
                           const double share = 1 / static_cast<double>(bin.points);
                           const A* g = dy + (k * plane + b) * p.c + first;
                           each_pixel(bin, [&](int64_t at, const Tap& ty, const Tap& tx) {
                             const double weight = ty.weight * tx.weight * share;
                             channels::add_scaled(image + at, g, static_cast<A>(weight), count);
                           });
                         }
                       }
                     });
}

template <class A>
double dot(const A* a, const A* b, int64_t n) {
  constexpr int64_t lanes = kLanes<A>;
  Vec<A> sum = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sum += load(a + i) * load(b + i);
  A total = 0;
  for (int64_t l = 0; l < lanes; ++l) total += sum[l];
  for (; i < n; ++i) total += a[i] * b[i];
  return static_cast<double>(total);
}

template <class A>
void backward_trans(const PsroiLayout& p, const A* x, const A* dy, double* dtrans) {
  const Bins bins(p);
  const int64_t plane = p.out_h * p.out_w, moves = p.trans_h * p.trans_w;
  parallel_for(p.rois, grain_of(plane * p.c * 9), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const Box box = box_of(p, k);
      if (!box.finite()) continue;
      const A* image = x + p.image[k] * p.h * p.w * p.c;
      for (int64_t b = 0; b < plane; ++b) {
        const Bin bin = bins.at(box, k, b / p.out_w, b % p.out_w);
        if (bin.points == 0) continue;
        const A* g = dy + (k * plane + b) * p.c;
        double right = 0, down = 0;
        each_pixel(bin, [&](int64_t at, const Tap& ty, const Tap& tx) {
          const double product = dot(image + at, g, p.c);
          right += ty.weight * tx.slope * product;
          down += ty.slope * tx.weight * product;
        });
        const double share = p.trans_std / static_cast<double>(bin.points);
        dtrans[bin.trans] += right * share * box.width;
        dtrans[bin.trans + moves] += down * share * box.height;
      }
    }
  });
}

}  // namespace

void psroi_pool(DType dtype, const void* x, void* y, const PsroiLayout& at) {
  with_type(dtype,
            [&]<class A>(Tag<A>) { pool(at, static_cast<const A*>(x), static_cast<A*>(y)); });
}

void psroi_pool_backward_data(DType dtype, const void* dy, void* dx, const PsroiLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    backward_data(at, static_cast<const A*>(dy), static_cast<A*>(dx));
  });
}

void psroi_pool_backward_trans(DType dtype, const void* x, const void* dy, double* dtrans,
                               const PsroiLayout& at) {
  with_type(dtype, [&]<class A>(Tag<A>) {
    backward_trans(at, static_cast<const A*>(x), static_cast<const A*>(dy), dtrans);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
