// Forward and backward variables in the logarithm, where probabilities of thousands of frames fit.
// States that end in a blank and states that end in a label are kept apart, so that each step is a
// loop over neighbours. Sums are in double: a difference of two large logarithms is the gradient.

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernels/cpu/lanes.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/ctc_loss/ctc_loss.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

// The logarithm of 0. Finite, so that differences of two of them are no NaN.
constexpr double kNever = -1e300;
constexpr double kImpossible = -1e290;  // sums below this are of nothing else

// Logarithms of float32 need 2^-34 only; those of float64 are libm's.
template <class T>
constexpr bool kExact = std::is_same_v<T, double>;
template <bool Exact>
[[gnu::always_inline]] inline double exp_of(double x) {
  if constexpr (Exact) return std::exp(x);
  return lanes::wide_exp(x);
}
template <bool Exact>
[[gnu::always_inline]] inline double log_of(double x) {
  if constexpr (Exact) return std::log(x);
  return lanes::wide_log(x);
}
// log(e^a + e^b)
template <bool Exact>
[[gnu::always_inline]] inline double log_sum(double a, double b) {
  const double most = a > b ? a : b, least = a > b ? b : a;
  return most + log_of<Exact>(1 + exp_of<Exact>(least - most));
}
template <bool Exact>
[[gnu::always_inline]] inline double log_sum(double a, double b, double c) {
  double most = a > b ? a : b;
  most = most > c ? most : c;
  const double sum = exp_of<Exact>(a - most) + exp_of<Exact>(b - most) + exp_of<Exact>(c - most);
  return most + log_of<Exact>(sum);
}

template <class T>
constexpr double kTiny = std::numeric_limits<ComputeType<T>>::min();

// One sample, and the scratch of the thread that has it.
template <class T>
struct Sample {
  const CTCBatch& batch;
  int64_t n, frames, size;  // size: labels
  const int64_t* labels;
  double* alpha;
  // of `size` + 1 elements each: log probabilities of a frame, those of the blank first; what a
  // label may not follow (0 or kNever)
  double *frame, *barrier;

  static int64_t scratch_size(const CTCBatch& b) { return 8 * (b.most_labels + 2); }
  Sample(const CTCBatch& b, int64_t sample, double* scratch)
      : batch(b),
        n(sample),
        frames(b.input_lengths[sample]),
        size(b.label_lengths[sample]),
        labels(b.labels[sample]),
        alpha(b.alpha[sample]),
        frame(scratch),
        barrier(scratch + (b.most_labels + 2)) {
    // A label follows another without a blank in between unless they are the same.
    for (int64_t i = 0; i < size; ++i) {
      barrier[i] = i > 0 && labels[i] != labels[i - 1] ? 0 : kNever;
    }
  }
  double* extra(int64_t i) const { return frame + (2 + i) * (batch.most_labels + 2); }
  double* row(int64_t t) const { return alpha + t * (2 * size + 1); }
  const T* probs(int64_t t) const {
    return static_cast<const T*>(batch.probs) + (t * batch.samples + n) * batch.classes;
  }
  void read_frame(int64_t t) const {
    const T* p = probs(t);
    frame[0] = static_cast<double>(ComputeType<T>(p[batch.blank]));
    for (int64_t i = 0; i < size; ++i) {
      frame[1 + i] = static_cast<double>(ComputeType<T>(p[labels[i]]));
    }
#pragma omp simd
    for (int64_t i = 0; i < size + 1; ++i) {
      const double v = frame[i] < kTiny<T> ? kTiny<T> : frame[i];
      frame[i] = log_of<kExact<T>>(v);
    }
  }
  // The log probability of all ways, from the last row.
  double total() const {
    const double* last = row(frames - 1);
    if (size == 0) return last[0];
    return log_sum<true>(last[size], last[2 * size]);
  }
};

template <class T>
void forward_step(const Sample<T>& s, const double* __restrict old, double* __restrict now) {
  constexpr bool exact = kExact<T>;
  const int64_t size = s.size;
  const double *blank = old, *label = old + size + 1, *frame = s.frame, *barrier = s.barrier;
  double *to_blank = now, *to_label = now + size + 1;
  const double p = frame[0];
  to_blank[0] = blank[0] + p;
  if (size == 0) return;
  to_label[0] = log_sum<exact>(label[0], blank[0]) + frame[1];
#pragma omp simd
  for (int64_t i = 1; i < size; ++i) {
    to_blank[i] = log_sum<exact>(blank[i], label[i - 1]) + p;
    to_label[i] = log_sum<exact>(label[i], blank[i], label[i - 1] + barrier[i]) + frame[1 + i];
  }
  to_blank[size] = log_sum<exact>(blank[size], label[size - 1]) + p;
}

template <class T>
double forward(const Sample<T>& s) {
  const double impossible = -std::log(kTiny<T>);
  if (s.frames == 0) return s.size == 0 ? 0.0 : impossible;
  s.read_frame(0);
  double* const first = s.row(0);
  std::fill_n(first, 2 * s.size + 1, kNever);
  first[0] = s.frame[0];
  if (s.size > 0) first[s.size + 1] = s.frame[1];
  for (int64_t t = 1; t < s.frames; ++t) {
    s.read_frame(t);
    forward_step(s, s.row(t - 1), s.row(t));
  }
  const double total = s.total();
  return total < kImpossible ? impossible : -total;
}

// From the log probabilities of what follows frame t to those of what follows the frame before.
template <class T>
void backward_step(const Sample<T>& s, double* __restrict blank, double* __restrict label) {
  constexpr bool exact = kExact<T>;
  const int64_t size = s.size;
  const double *frame = s.frame, *barrier = s.barrier;
  const double p = frame[0];
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    blank[i] += p;
    label[i] += frame[1 + i];
  }
  blank[size] += p;
  if (size == 0) return;
  // In place, from the front: an element needs those behind it only.
  double* __restrict blank_out = s.extra(0);
  double* __restrict label_out = s.extra(1);
#pragma omp simd
  for (int64_t i = 0; i < size - 1; ++i) {
    blank_out[i] = log_sum<exact>(blank[i], label[i]);
    label_out[i] = log_sum<exact>(label[i], blank[i + 1], label[i + 1] + barrier[i + 1]);
  }
  blank_out[size - 1] = log_sum<exact>(blank[size - 1], label[size - 1]);
  label_out[size - 1] = log_sum<exact>(label[size - 1], blank[size]);
  std::copy_n(blank_out, size, blank);
  std::copy_n(label_out, size, label);
}

// shares[i] = the probability that frame t is in state i, for the labels; returns the blanks'.
template <class T>
double occupation(const Sample<T>& s, const double* row, const double* blank, const double* label,
                  double total, double* shares) {
  constexpr bool exact = kExact<T>;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < s.size + 1; ++i) sum += exp_of<exact>(row[i] + blank[i] - total);
  const double* mine = row + s.size + 1;
#pragma omp simd
  for (int64_t i = 0; i < s.size; ++i) shares[i] = exp_of<exact>(mine[i] + label[i] - total);
  return sum;
}

// d loss / d p[k] = -(the probability that frame t is in a state of class k) / p[k]
template <class T>
void put_gradient(const Sample<T>& s, int64_t t, double dloss, double of_blank,
                  const double* shares, double* by_class, T* out) {
  const T* p = s.probs(t);
  by_class[s.batch.blank] = of_blank;
  for (int64_t i = 0; i < s.size; ++i) by_class[s.labels[i]] += shares[i];
  const auto put = [&](int64_t k) {
    using A = ComputeType<T>;
    const double v = static_cast<double>(A(p[k]));
    out[k] = T(A(v < kTiny<T> ? 0.0 : -dloss * by_class[k] / v));
  };
  put(s.batch.blank);
  for (int64_t i = 0; i < s.size; ++i) put(s.labels[i]);
  by_class[s.batch.blank] = 0;
  for (int64_t i = 0; i < s.size; ++i) by_class[s.labels[i]] = 0;
}

template <class T>
void backward(const Sample<T>& s, double dloss, double* by_class, T* dprobs) {
  const CTCBatch& b = s.batch;
  const auto out = [&](int64_t t) { return dprobs + (t * b.samples + s.n) * b.classes; };
  for (int64_t t = 0; t < b.frames; ++t) std::fill_n(out(t), b.classes, T(0.0f));
  if (s.frames == 0) return;
  const double total = s.total();
  if (total < kImpossible) return;
  double *blank = s.extra(2), *label = s.extra(3), *shares = s.extra(4);
  std::fill_n(blank, s.size + 1, kNever);
  std::fill_n(label, s.size, kNever);
  blank[s.size] = 0;
  if (s.size > 0) label[s.size - 1] = 0;
  for (int64_t t = s.frames; t-- > 0;) {
    const double of_blank = occupation(s, s.row(t), blank, label, total, shares);
    put_gradient(s, t, dloss, of_blank, shares, by_class, out(t));
    if (t == 0) break;
    s.read_frame(t);
    backward_step(s, blank, label);
  }
}

// Calls work(sample, scratch of `need` doubles, zeros at first) for each sample, on all threads.
template <class F>
void each_sample(const CTCBatch& b, int64_t need, F&& work) {
  const int64_t states = b.frames * (2 * b.most_labels + 1);
  const int64_t grain = std::max<int64_t>(1, 2000 / std::max<int64_t>(1, states));
  const bool alone = omp_in_parallel() || b.samples <= grain;
  const int64_t threads = alone ? 1 : num_threads();
  const Scratch scratch(static_cast<std::size_t>(threads * need) * sizeof(double));
  std::fill_n(scratch.as<double>(), threads * need, 0.0);
  const auto range = [&](int64_t begin, int64_t end) {
    double* mine = scratch.as<double>() + (alone ? 0 : omp_get_thread_num() * need);
    for (int64_t n = begin; n < end; ++n) work(n, mine);
  };
  alone ? range(0, b.samples) : parallel_for(b.samples, grain, range);
}

}  // namespace

void ctc_loss(const CTCBatch& b, double* loss) {
  visit_float("CTCLoss", b.dtype, [&]<class T>(Tag<T>) {
    each_sample(b, Sample<T>::scratch_size(b),
                [&](int64_t n, double* scratch) { loss[n] = forward(Sample<T>(b, n, scratch)); });
  });
}

void ctc_loss_backward(const CTCBatch& b, const double* dloss, void* dprobs) {
  visit_float("CTCLossBackward", b.dtype, [&]<class T>(Tag<T>) {
    const int64_t own = Sample<T>::scratch_size(b);
    each_sample(b, own + b.classes, [&](int64_t n, double* scratch) {
      backward(Sample<T>(b, n, scratch), dloss[n], scratch + own, static_cast<T*>(dprobs));
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
