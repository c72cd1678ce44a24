// The singular value decomposition of one matrix: QR of a tall one, Householder bidiagonalisation
// of the square factor, and the implicit QR iteration on the two diagonals (Golub and Van Loan,
// "Matrix Computations", 8.6; the sweep with shift 0 is from Demmel and Kahan, "Accurate Singular
// Values of Bidiagonal Matrices", 1990). The diagonals are iterated in double; the rotations of
// many sweeps are kept and applied to the singular vectors together, a slab of columns at a time.
#include <limits>
#include <numeric>

#include "core/ops/linalg/dense.h"
#include "core/ops/linalg/linalg.loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

constexpr int64_t kSmall = 40;  // below, reflectors are applied one by one
// Elements of a pass over the matrix for which a thread is worth waking.
constexpr int64_t kPassElements = 1 << 19;
constexpr int64_t kRows = 64;  // of a chunk of a pass: sums do not depend on the threads

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
// The singular vectors are rotated in slabs of so many columns.
template <class T>
constexpr int64_t kSlab = 256 / sizeof(T);
// They lie in rows of whole slabs, an odd number of cache lines apart: at a power of two the rows
// of a slab would evict one another.
template <class T>
int64_t row_length(int64_t n) {
  constexpr int64_t line = 64 / sizeof(T);
  if (n < kSlab<T>) return round_up(n, line);
  return (round_up(n, kSlab<T>) / line | 1) * line;
}

struct Rotation {
  double c, s;
};
// c f + s g = r, c g - s f = 0.
Rotation rotation(double f, double g, double& r) {
  if (g == 0) {
    r = f;
    return {1, 0};
  }
  if (f == 0) {
    r = g;
    return {0, 1};
  }
  r = std::copysign(std::sqrt(f * f + g * g), f);
  return {f / r, g / r};
}

// Rotations of neighbouring rows: of (first, first + step), (first + step, first + 2 step), ...
struct Sweep {
  int64_t first, step, count, at;  // its rotations are number at, at + 1, ... of the list
};

// Sweeps that are yet to be applied to the rows of both sets of singular vectors.
template <class T>
struct Rotations {
  int64_t capacity;
  T* left;  // (c, s) pairs
  T* right;
  Sweep* sweeps;
  int64_t used = 0, count = 0;
};
constexpr int64_t kMaxSweeps = 256;

template <class T>
void rotate_slab(const Rotations<T>& list, const T* pairs, T* rows, int64_t row, int64_t width) {
  for (int64_t i = 0; i < list.count; ++i) {
    const Sweep& sweep = list.sweeps[i];
    T* at = rows + sweep.first * row;
    const int64_t step = sweep.step * row;
    const T* pair = pairs + 2 * sweep.at;
    for (int64_t r = 0; r < sweep.count; ++r, at += step, pair += 2) {
      const T c = pair[0], s = pair[1];
      T* const next = at + step;
      if (c == 1 && s == 0) continue;
      for (int64_t j = 0; j < width; ++j) {
        const T a = at[j], b = next[j];
        at[j] = c * a + s * b;
        next[j] = c * b - s * a;
      }
    }
  }
}
// The same for a whole slab: the row that a sweep carries along stays in registers.
template <class T>
void rotate_full_slab(const Rotations<T>& list, const T* pairs, T* rows, int64_t row) {
  constexpr int64_t width = kSlab<T>;
  for (int64_t i = 0; i < list.count; ++i) {
    const Sweep& sweep = list.sweeps[i];
    T* at = rows + sweep.first * row;
    const int64_t step = sweep.step * row;
    const T* pair = pairs + 2 * sweep.at;
    T carried[width];
    for (int64_t j = 0; j < width; ++j) carried[j] = at[j];
    for (int64_t r = 0; r < sweep.count; ++r, at += step, pair += 2) {
      const T c = pair[0], s = pair[1];
      const T* const next = at + step;
      for (int64_t j = 0; j < width; ++j) {
        const T a = carried[j], b = next[j];
        at[j] = c * a + s * b;
        carried[j] = c * b - s * a;
      }
    }
    for (int64_t j = 0; j < width; ++j) at[j] = carried[j];
  }
}

template <class T>
class Decomposition {
 public:
  Decomposition(int64_t rows, int64_t cols, T* a, bool full, T* u, T* s, T* vt, T* scratch)
      : p_(rows),
        q_(cols),
        row_(row_length<T>(cols)),
        a_(a),
        full_(full),
        alone_(rows * cols < kThreadedElements),
        u_(u),
        s_(s),
        vt_(vt) {
    const auto take = [&](int64_t n) {
      T* const out = scratch ? scratch + size_ : nullptr;
      size_ += round_up(n, 64 / sizeof(T));
      return out;
    };
    const int64_t chunks = (q_ + kRows - 1) / kRows;
    d_ = reinterpret_cast<double*>(take(q_ * 8 / sizeof(T)));
    e_ = reinterpret_cast<double*>(take((q_ + 1) * 8 / sizeof(T)));
    order_ = reinterpret_cast<int64_t*>(take(q_ * 8 / sizeof(T)));
    square_ = p_ > q_ ? take(q_ * q_) : a_;
    left_ = take(q_ * q_);
    right_ = take(q_ * q_);
    tau_left_ = take(q_);
    tau_right_ = take(q_);
    tau_ = take(q_);
    for (T** v : {&w_, &x_, &next_w_}) *v = take(q_);
    partial_ = take(chunks * q_);
    work_ = take(2 * kReflectors * std::max(q_, row_) + 2 * kReflectors * (full_ ? p_ : q_));
    panel_ = take(q_ * kReflectors);
    lu_ = take(q_ * row_);
    lv_ = take(q_ * row_);
    rotations_.capacity = std::max<int64_t>(q_ * 16, 64);
    rotations_.left = take(2 * rotations_.capacity);
    rotations_.right = take(2 * rotations_.capacity);
    rotations_.sweeps = reinterpret_cast<Sweep*>(
        take(kMaxSweeps * static_cast<int64_t>(sizeof(Sweep) / sizeof(T))));
  }
  // Bytes of scratch that this takes.
  int64_t size() const { return size_ * static_cast<int64_t>(sizeof(T)); }

  SvdResult run() {
    if (!rescale()) return SvdResult::not_finite;
    if (p_ > q_) factor_tall();
    bidiagonalize();
    if (u_) {
      form_vectors(left_, tau_left_, 0, lu_);
      form_vectors(right_, tau_right_, 1, lv_);
    }
    if (!iterate()) return SvdResult::no_convergence;
    finish();
    return SvdResult::done;
  }

 private:
  // Brings the largest element near 1, so that squares neither overflow nor vanish.
  bool rescale() {
    T largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < p_ * q_; ++i) {
      const T v = std::abs(a_[i]);
      finite = finite && v <= std::numeric_limits<T>::max();
      largest = v > largest ? v : largest;
    }
    if (!finite) return false;
    std::frexp(static_cast<double>(largest), &exponent_);
    if (largest > 0 && exponent_ != 0) {
      // In two steps: the power itself may be out of range.
      const T half = static_cast<T>(std::ldexp(1.0, -exponent_ / 2));
      const T other = static_cast<T>(std::ldexp(1.0, -exponent_ - (-exponent_ / 2)));
      for (int64_t i = 0; i < p_ * q_; ++i) a_[i] = a_[i] * half * other;
    }
    return true;
  }

  // ---- QR of a tall matrix, whose columns are the rows of a_, of p_ numbers: they become the
  // reflectors, and R goes to square_
  void factor_tall() {
    for (int64_t k = 0; k < q_; k += kReflectors) {
      const int64_t end = std::min(q_, k + kReflectors), count = end - k;
      for (int64_t j = k; j < end; ++j) {
        T* const v = a_ + j * p_ + j;
        const Reflection<T> h = reflect(v, p_ - j);
        tau_[j] = h.tau;
        for (int64_t c = j + 1; c < end && h.tau != 0; ++c) {
          T* const column = a_ + c * p_ + j;
          axpy(-h.tau * dot(v, column, p_ - j), v, column, p_ - j);
        }
        for (int64_t i = 0; i < j; ++i) square_[i * q_ + j] = a_[j * p_ + i];
        square_[j * q_ + j] = h.beta;
        std::fill(square_ + (j * q_), square_ + (j * q_ + j), T(0));
        std::fill(a_ + j * p_ + k, v, T(0));
      }
      if (end == q_) break;
      T t[kReflectors * kReflectors];
      const Block<T> v = tall_block(k), c{a_ + end * p_ + k, 1, p_};
      block_factor(p_ - k, count, v, tau_ + k, t, alone_);
      apply_block_turned<T>(p_ - k, q_ - end, count, v, t, true, c, work_, alone_);
    }
  }
  // The reflectors from k on as columns.
  Block<T> tall_block(int64_t k) const { return {a_ + k * p_ + k, 1, p_}; }

  // ---- bidiagonalisation: reflectors in the rows of left_ and right_
  void bidiagonalize() {
    const T *u = nullptr, *v = nullptr;  // of the step before: square_ lacks - u w' - x v'
    for (int64_t k = 0; k < q_; ++k) {
      T* const new_u = left_ + k * q_;
      T* const new_v = right_ + k * q_;
      for (int64_t i = k; i < q_; ++i) {
        new_u[i] = square_[i * q_ + k];
        if (u) new_u[i] -= u[i] * w_[k] + x_[i] * v[k];
      }
      const Reflection<T> left = reflect(new_u + k, q_ - k);
      d_[k] = left.beta;
      tau_left_[k] = left.tau;
      const int64_t rest = q_ - k - 1;
      if (rest == 0) {
        tau_right_[k] = 0;
        break;
      }
      update_and_sum(k, u, v, new_u);
      scale(left.tau, next_w_ + k + 1, rest);
      for (int64_t j = k + 1; j < q_; ++j) new_v[j] = square_[k * q_ + j] - next_w_[j];
      const Reflection<T> right = reflect(new_v + k + 1, rest);
      e_[k] = right.beta;
      tau_right_[k] = right.tau;
      const T across = dot(next_w_ + k + 1, new_v + k + 1, rest);
      each_chunk(k + 1, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const T sum = dot(square_ + i * q_ + k + 1, new_v + k + 1, rest);
          x_[i] = right.tau * (sum - new_u[i] * across);
        }
      });
      std::swap(w_, next_w_);
      u = new_u;
      v = new_v;
    }
  }
  // square_ -= u w' + x v' from row k and column k + 1 on, and next_w_ = square_' new_u.
  void update_and_sum(int64_t k, const T* u, const T* v, const T* new_u) {
    const int64_t rest = q_ - k - 1, from = k + 1;
    const int64_t chunks = each_chunk(k, [&](int64_t chunk, int64_t begin, int64_t end) {
      T* const sums = partial_ + chunk * q_ + from;
      std::fill(sums, sums + rest, T(0));
      for (int64_t i = begin; i < end; ++i) {
        T* const r = square_ + i * q_ + from;
        const T b = new_u[i];
        if (!u) {
          axpy(b, r, sums, rest);
          continue;
        }
        const T c = u[i], x = x_[i];
        const T *w = w_ + from, *vv = v + from;
        for (int64_t j = 0; j < rest; ++j) {
          const T y = r[j] - (c * w[j] + x * vv[j]);
          r[j] = y;
          sums[j] += b * y;
        }
      }
    });
    std::copy(partial_ + from, partial_ + q_, next_w_ + from);
    for (int64_t c = 1; c < chunks; ++c) axpy(T(1), partial_ + c * q_ + from, next_w_ + from, rest);
  }
  // Calls f(chunk, begin, end) for rows [k, q); returns the number of chunks.
  template <class F>
  int64_t each_chunk(int64_t k, F&& f) {
    const int64_t rows = q_ - k, chunks = (rows + kRows - 1) / kRows;
    parallel_for(chunks, std::max<int64_t>(1, kPassElements / (kRows * rows)),
                 [&](int64_t first, int64_t last) {
                   for (int64_t c = first; c < last; ++c) {
                     f(c, k + c * kRows, std::min(q_, k + (c + 1) * kRows));
                   }
                 });
    return chunks;
  }

  // The product H_0 H_1 ... of the reflectors in the rows of `v`, the k-th of which starts at
  // column k + shift, transposed, in rows of row_ numbers.
  void form_vectors(const T* v, const T* tau, int64_t shift, T* out) {
    const int64_t count = q_ - shift;
    T* const m = square_;  // which has served
    std::fill(m, m + q_ * q_, T(0));
    for (int64_t i = 0; i < q_; ++i) m[i * q_ + i] = 1;
    if (q_ <= kSmall) {
      for (int64_t k = count - 1; k >= 0; --k) {
        const int64_t at = k + shift;
        apply_one(q_ - at, q_ - at, v + k * q_ + at, 1, tau[k], m + at * q_ + at, q_, work_);
      }
    } else {
      for (int64_t k = (count - 1) / kReflectors * kReflectors; k >= 0; k -= kReflectors) {
        const int64_t some = std::min(kReflectors, count - k), at = k + shift;
        T t[kReflectors * kReflectors];
        for (int64_t j = 0; j < some; ++j) {  // as rows of panel_
          T* to = panel_ + j * (q_ - at);
          std::fill(to, to + j, T(0));
          std::copy(v + (k + j) * q_ + at + j, v + (k + j + 1) * q_, to + j);
        }
        const Block<T> block{panel_, 1, q_ - at};
        block_factor(q_ - at, some, block, tau + k, t, alone_);
        apply_block<T>(q_ - at, q_ - at, some, block, t, false, {m + at * q_ + at, q_, 1}, work_,
                       alone_);
      }
    }
    constexpr int64_t tile = 16;
    for (int64_t i0 = 0; i0 < q_; i0 += tile) {
      for (int64_t j0 = 0; j0 < q_; j0 += tile) {
        for (int64_t i = i0; i < std::min(q_, i0 + tile); ++i) {
          for (int64_t j = j0; j < std::min(q_, j0 + tile); ++j) out[i * row_ + j] = m[j * q_ + i];
        }
      }
    }
    for (int64_t i = 0; i < q_; ++i) std::fill(out + i * row_ + q_, out + (i + 1) * row_, T(0));
  }

  // ---- the iteration on the diagonals
  bool iterate() {
    constexpr double eps = std::numeric_limits<T>::epsilon() / 2;
    double largest = 0;
    for (int64_t i = 0; i < q_; ++i) {
      largest = std::max(largest, std::abs(d_[i]));
      if (i + 1 < q_) largest = std::max(largest, std::abs(e_[i]));
    }
    const auto negligible = [&](int64_t i) {
      const double size = std::abs(e_[i]);
      return size <= eps * (std::abs(d_[i]) + std::abs(d_[i + 1])) || size <= eps * largest / 16;
    };
    int64_t sweeps_left = 40 * q_ + 40;
    for (int64_t high = q_ - 1; high > 0;) {
      if (negligible(high - 1)) {
        e_[--high] = 0;
        continue;
      }
      int64_t low = high - 1;
      while (low > 0 && !negligible(low - 1)) --low;
      if (low > 0) e_[low - 1] = 0;
      if (sweeps_left-- == 0) return false;
      sweep(low, high, eps);
    }
    apply_rotations();
    return true;
  }

  // The chase runs from the larger end to the smaller. Upwards, the block is seen reversed, which
  // exchanges the roles of the two sides.
  void sweep(int64_t low, int64_t high, double eps) {
    const int64_t n = high - low;
    if (u_ && (rotations_.used + n > rotations_.capacity || rotations_.count == kMaxSweeps)) {
      apply_rotations();
    }
    const bool down = std::abs(d_[low]) >= std::abs(d_[high]);
    const int64_t step = down ? 1 : -1;
    double* const d = d_ + (down ? low : high);
    double* const e = e_ + (down ? low : high - 1);
    T* const right = (down ? rotations_.right : rotations_.left) + 2 * rotations_.used;
    T* const left = (down ? rotations_.left : rotations_.right) + 2 * rotations_.used;
    const double shift = smallest_of_last(d[(n - 1) * step], e[(n - 1) * step], d[n * step]);
    const double ratio = d[0] == 0 ? 0 : shift / std::abs(d[0]);
    if (ratio * ratio < eps) {
      sweep_unshifted(n, d, e, step, left, right);
    } else {
      sweep_shifted(n, d, e, step, shift, left, right);
    }
    if (!u_) return;
    rotations_.sweeps[rotations_.count++] = {down ? low : high, step, n, rotations_.used};
    rotations_.used += n;
  }
  // The smaller singular value of ((f, g), (0, h)).
  static double smallest_of_last(double f, double g, double h) {
    f = std::abs(f);
    h = std::abs(h);
    const double larger = (std::hypot(f + h, g) + std::hypot(f - h, g)) / 2;
    return larger == 0 ? 0 : f / larger * h;
  }
  void keep(T* to, int64_t i, Rotation r) const {
    if (!u_) return;
    to[2 * i] = static_cast<T>(r.c);
    to[2 * i + 1] = static_cast<T>(r.s);
  }
  void sweep_shifted(int64_t n, double* d, double* e, int64_t step, double shift, T* left,
                     T* right) const {
    double f = (std::abs(d[0]) - shift) * (std::copysign(1.0, d[0]) + shift / d[0]);
    double g = e[0];
    for (int64_t i = 0; i < n; ++i) {
      double &here = d[i * step], &next = d[(i + 1) * step], &off = e[i * step];
      double r;
      const Rotation a = rotation(f, g, r);
      if (i > 0) e[(i - 1) * step] = r;
      f = a.c * here + a.s * off;
      off = a.c * off - a.s * here;
      g = a.s * next;
      next *= a.c;
      const Rotation b = rotation(f, g, r);
      here = r;
      f = b.c * off + b.s * next;
      next = b.c * next - b.s * off;
      if (i + 1 < n) {
        double& after = e[(i + 1) * step];
        g = b.s * after;
        after *= b.c;
      }
      keep(right, i, a);
      keep(left, i, b);
    }
    e[(n - 1) * step] = f;
  }
  void sweep_unshifted(int64_t n, double* d, double* e, int64_t step, T* left, T* right) const {
    Rotation a{1, 0}, b{1, 0};
    for (int64_t i = 0; i < n; ++i) {
      double r;
      a = rotation(d[i * step] * a.c, e[i * step], r);
      if (i > 0) e[(i - 1) * step] = b.s * r;
      b = rotation(b.c * r, d[(i + 1) * step] * a.s, d[i * step]);
      keep(right, i, a);
      keep(left, i, b);
    }
    const double last = d[n * step] * a.c;
    d[n * step] = last * b.c;
    e[(n - 1) * step] = last * b.s;
  }

  void apply_rotations() {
    if (rotations_.count == 0) return;
    constexpr int64_t width = kSlab<T>;
    const int64_t slabs = (q_ + width - 1) / width;
    parallel_for(2 * slabs, 1 + (1 << 20) / (1 + rotations_.used * width),
                 [&](int64_t b, int64_t e) {
                   for (int64_t i = b; i < e; ++i) {
                     const bool left = i < slabs;
                     const T* const pairs = left ? rotations_.left : rotations_.right;
                     T* const rows = (left ? lu_ : lv_) + i % slabs * width;
                     if (row_ < width) {
                       rotate_slab(rotations_, pairs, rows, row_, row_);
                     } else {
                       rotate_full_slab(rotations_, pairs, rows, row_);
                     }
                   }
                 });
    rotations_.used = rotations_.count = 0;
  }

  // ---- signs, order, and the vectors of a tall matrix
  void finish() {
    std::iota(order_, order_ + q_, int64_t{0});
    std::stable_sort(order_, order_ + q_,
                     [&](int64_t a, int64_t b) { return std::abs(d_[a]) > std::abs(d_[b]); });
    for (int64_t i = 0; i < q_; ++i) {
      s_[i] = static_cast<T>(std::ldexp(std::abs(d_[order_[i]]), exponent_));
    }
    if (!u_) return;
    for (int64_t i = 0; i < q_; ++i) {
      const T sign = std::signbit(d_[order_[i]]) ? T(-1) : T(1);
      const T* from = lv_ + order_[i] * row_;
      for (int64_t j = 0; j < q_; ++j) vt_[i * q_ + j] = sign * from[j];
    }
    const int64_t cols = full_ ? p_ : q_;
    constexpr int64_t tile = 16;
    for (int64_t i0 = 0; i0 < q_; i0 += tile) {
      for (int64_t j0 = 0; j0 < q_; j0 += tile) {
        for (int64_t j = j0; j < std::min(q_, j0 + tile); ++j) {
          const T* from = lu_ + order_[j] * row_;
          for (int64_t i = i0; i < std::min(q_, i0 + tile); ++i) u_[i * cols + j] = from[i];
        }
      }
    }
    if (p_ == q_) return;
    for (int64_t i = 0; i < p_; ++i) {
      std::fill(u_ + i * cols + (i < q_ ? q_ : 0), u_ + (i + 1) * cols, T(0));
      if (i >= q_ && full_) u_[i * cols + i] = 1;
    }
    apply_tall(cols);
  }
  // u_ = H_0 H_1 ... u_
  void apply_tall(int64_t cols) {
    if (p_ * q_ <= kSmall * kSmall) {
      for (int64_t k = q_ - 1; k >= 0; --k) {
        apply_one(p_ - k, cols, a_ + k * p_ + k, 1, tau_[k], u_ + k * cols, cols, work_);
      }
      return;
    }
    for (int64_t k = (q_ - 1) / kReflectors * kReflectors; k >= 0; k -= kReflectors) {
      const int64_t some = std::min(kReflectors, q_ - k);
      T t[kReflectors * kReflectors];
      block_factor(p_ - k, some, tall_block(k), tau_ + k, t, alone_);
      apply_block<T>(p_ - k, cols, some, tall_block(k), t, false, {u_ + k * cols, cols, 1}, work_,
                     alone_);
    }
  }

  int64_t p_, q_, row_;
  T* a_;
  bool full_, alone_;
  T *u_, *s_, *vt_;
  int exponent_ = 0;
  double *d_, *e_;
  int64_t* order_;
  T *square_, *left_, *right_, *tau_left_, *tau_right_, *tau_;
  T *w_, *x_, *next_w_, *partial_, *work_, *panel_;
  T *lu_, *lv_;  // U' and V', in rows of row_ numbers
  Rotations<T> rotations_;
  int64_t size_ = 0;
};

template <class T>
SvdResult svd_of(int64_t rows, int64_t cols, void* a, bool full, void* u, void* s, void* vt,
                 void* scratch) {
  Decomposition<T> d(rows, cols, static_cast<T*>(a), full, static_cast<T*>(u), static_cast<T*>(s),
                     static_cast<T*>(vt), static_cast<T*>(scratch));
  return d.run();
}

}  // namespace

SvdResult svd(DType dtype, int64_t rows, int64_t cols, void* a, bool full, void* u, void* s,
              void* vt, void* scratch) {
  return dtype == DType::float32 ? svd_of<float>(rows, cols, a, full, u, s, vt, scratch)
                                 : svd_of<double>(rows, cols, a, full, u, s, vt, scratch);
}

int64_t svd_workspace(DType dtype, int64_t rows, int64_t cols, bool full) {
  if (dtype == DType::float32) {
    return Decomposition<float>(rows, cols, nullptr, full, nullptr, nullptr, nullptr, nullptr)
        .size();
  }
  return Decomposition<double>(rows, cols, nullptr, full, nullptr, nullptr, nullptr, nullptr)
      .size();
}

}  // namespace mge::cpu::MGE_SIMD_NS
