#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/philox.h"
#include "core/ops/random/multinomial.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

using std::int64_t;

// Number i of a stream, in (0, 1), with 53 random bits; a counter holds two.
double number_of(const cpu::PhiloxWords& words, int64_t i) {
  const std::size_t at = i % 2 ? 2 : 0;
  const std::uint64_t bits = (std::uint64_t{words[at]} << 32 | words[at + 1]) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}
class Numbers {
 public:
  Numbers(const GeneratorState& state, int64_t counter)
      : seed_(state.seed), first_(state.offset + static_cast<std::uint64_t>(counter)) {}
  // Numbers come in order.
  double next() {
    const int64_t i = count_++;
    if (i % 2 == 0) words_ = cpu::philox(seed_, first_ + static_cast<std::uint64_t>(i / 2), 0);
    return number_of(words_, i);
  }

 private:
  std::uint64_t seed_, first_;
  int64_t count_ = 0;
  cpu::PhiloxWords words_{};
};

// How many of n ascending numbers are at most x, without a branch that could be guessed wrongly.
int64_t count_up_to(const double* ascending, int64_t n, double x) {
  const double* from = ascending;
  while (n > 1) {
    const int64_t half = n / 2;
    from = from[half - 1] <= x ? from + half : from;
    n -= half;
  }
  return from - ascending + (*from <= x);
}

// Raises where a row of weights names no distribution.
void check_row(const double* w, int64_t n, int64_t row, const MultinomialRNG& op) {
  const char* name = "MultinomialRNG";
  int64_t positive = 0;
  double total = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!(w[i] >= 0 && std::isfinite(w[i]))) {
      fail_value(name, "expected finite weights >= 0, got ", w[i], " in row ", row);
    }
    positive += w[i] > 0;
    total += w[i];
  }
  if (!std::isfinite(total)) fail_value(name, "the weights of row ", row, " sum to infinity");
  const int64_t need = op.replacement ? 1 : op.num_samples;
  if (positive < need) {
    fail_value(name, "expected ", need, " or more positive weights, got ", positive, " in row ",
               row);
  }
}

// Binary search in the running sums, which replace the weights.
void draw_again(const GeneratorState& state, int64_t counter, double* w, int64_t n, int64_t samples,
                std::int32_t* out) {
  for (int64_t i = 1; i < n; ++i) w[i] += w[i - 1];
  // A number just below the total may round to it: the last position with a weight takes it.
  const int64_t last = std::lower_bound(w, w + n, w[n - 1]) - w;
  Numbers numbers(state, counter);
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t found = count_up_to(w, n, numbers.next() * w[n - 1]);
    out[s] = static_cast<std::int32_t>(std::min(found, last));
  }
}

// A race of exponential clocks, of which the weights are the rates: they ring in the order of draws
// without replacement (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
void draw_once(const GeneratorState& state, int64_t counter, const double* w, int64_t n,
               int64_t samples, std::pair<double, std::int32_t>* clocks, std::int32_t* out) {
  int64_t some = 0;
  Numbers numbers(state, counter);
  for (int64_t i = 0; i < n; ++i) {
    const double number = numbers.next();
    if (w[i] == 0) continue;
    const double time = -std::log(number) / w[i];
    clocks[some++] = {time, static_cast<std::int32_t>(i)};
  }
  std::partial_sort(clocks, clocks + samples, clocks + some);
  for (int64_t s = 0; s < samples; ++s) out[s] = clocks[s].second;
}

}  // namespace

void kernel(const MultinomialRNG& op, CpuContext&, Views in, MutViews out) {
  const View& w = in[0];
  const int64_t n = w.shape.back(), samples = op.num_samples, rows = n ? w.size() / n : 0;
  if (out[0].size() == 0) return;
  if (n == 0) fail_value("MultinomialRNG", "cannot draw from no weights");
  const Scratch memory(static_cast<std::size_t>(w.size()) * sizeof(double));
  double* const weights = memory.as<double>();
  cpu::copy(w, {weights, DType::float64, w.shape, row_major(w.shape)});
  for (int64_t r = 0; r < rows; ++r) check_row(weights + r * n, n, r, op);
  const int64_t each = ((op.replacement ? samples : n) + 1) / 2;  // counters of a row
  const GeneratorState state = take_counters(op.handle, static_cast<std::uint64_t>(rows * each));
  std::int32_t* const to = out[0].ptr<std::int32_t>();
  using Clock = std::pair<double, std::int32_t>;
  const int64_t threads = op.replacement ? 0 : std::min<int64_t>(cpu::num_threads(), rows);
  std::vector<Clock> all_clocks(static_cast<std::size_t>(threads * n));
  cpu::parallel_for(rows, 1 + 4096 / std::max(n, samples), [&](int64_t begin, int64_t end) {
    Clock* const clocks =
        threads ? all_clocks.data() + omp_get_thread_num() % threads * n : nullptr;
    for (int64_t r = begin; r < end; ++r) {
      if (op.replacement) {
        draw_again(state, r * each, weights + r * n, n, samples, to + r * samples);
      } else {
        draw_once(state, r * each, weights + r * n, n, samples, clocks, to + r * samples);
      }
    }
  });
}
REGISTER_KERNEL(MultinomialRNG, cpu);

}  // namespace mge
