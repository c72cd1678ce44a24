#include "core/ops/resize/axis_taps.h"

#include <algorithm>
#include <cmath>

#include "core/ops/resize/filters.h"

namespace mge {
namespace {

using std::int64_t;

// A position on the input axis: whole + part, with part in [0, 1). Exact but for the last rounding.
struct Position {
  int64_t whole;
  double part;
};

Position fraction(int64_t numerator, int64_t denominator) {
  int64_t whole = numerator / denominator, rest = numerator % denominator;
  if (rest < 0) whole -= 1, rest += denominator;
  return {whole, static_cast<double>(rest) / static_cast<double>(denominator)};
}

// Where the centre of output element o lies, in input elements.
Position centre(int64_t o, int64_t in, int64_t out, bool align_corners) {
  if (align_corners) return out == 1 ? Position{0, 0} : fraction(o * (in - 1), out - 1);
  return fraction((2 * o + 1) * in - out, 2 * out);
}

class Builder {
 public:
  Builder(int64_t in, int64_t out, int64_t taps) {
    a_.in = in, a_.out = out, a_.taps = taps;
    a_.index.assign(static_cast<std::size_t>(out * taps), static_cast<std::int32_t>(in));
    a_.weight.assign(static_cast<std::size_t>(out * taps), 0);
    a_.count.assign(static_cast<std::size_t>(out), 0);
  }
  // Adds a tap to element o; taps outside of the axis move to its end, and equal ones join.
  void add(int64_t o, int64_t i, double weight) {
    if (weight == 0) return;
    const auto at = static_cast<std::int32_t>(std::clamp<int64_t>(i, 0, a_.in - 1));
    std::int32_t* index = a_.index.data() + o * a_.taps;
    double* w = a_.weight.data() + o * a_.taps;
    std::int32_t& n = a_.count[static_cast<std::size_t>(o)];
    if (n > 0 && index[n - 1] == at) {
      w[n - 1] += weight;
      return;
    }
    index[n] = at, w[n] = weight;
    ++n;
  }
  // Cuts the rows to the longest and fills what is behind their ends.
  AxisTaps done() {
    std::int32_t most = 1;
    for (const std::int32_t n : a_.count) most = std::max(most, n);
    AxisTaps to = std::move(a_);
    const int64_t from = to.taps;
    to.taps = most;
    for (int64_t o = 0; o < to.out; ++o) {
      const std::int32_t n = to.count[static_cast<std::size_t>(o)];
      for (int64_t k = 0; k < most; ++k) {
        const auto source = static_cast<std::size_t>(o * from + (k < n || n == 0 ? k : n - 1));
        const auto target = static_cast<std::size_t>(o * most + k);
        to.index[target] = to.index[source];
        to.weight[target] = k < n ? to.weight[source] : 0;
      }
    }
    to.index.resize(static_cast<std::size_t>(to.out * most));
    to.weight.resize(static_cast<std::size_t>(to.out * most));
    return to;
  }

 private:
  AxisTaps a_;
};

AxisTaps nearest(int64_t in, int64_t out, bool align_corners) {
  Builder b(in, out, 1);
  for (int64_t o = 0; o < out; ++o) {
    if (align_corners) {
      const Position at = centre(o, in, out, true);
      b.add(o, at.whole + (at.part >= 0.5), 1);
    } else {
      b.add(o, o * in / out, 1);
    }
  }
  return b.done();
}

// The mean over the part of the input axis that an output element covers.
AxisTaps area(int64_t in, int64_t out) {
  Builder b(in, out, (in + out - 1) / out + 1);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t begin = o * in, end = begin + in;  // in units of 1 / out
    for (int64_t i = begin / out; i * out < end; ++i) {
      const int64_t covered = std::min(end, (i + 1) * out) - std::max(begin, i * out);
      b.add(o, i, static_cast<double>(covered) / static_cast<double>(in));
    }
  }
  return b.done();
}

// `taps` elements around the centre, weighted by a filter of the distance from it.
template <int taps, class Filter>
AxisTaps filtered(int64_t in, int64_t out, bool align_corners, Filter&& filter) {
  Builder b(in, out, taps);
  for (int64_t o = 0; o < out; ++o) {
    const Position at = centre(o, in, out, align_corners);
    double w[taps];
    filter(at.part, w);
    for (int k = 0; k < taps; ++k) b.add(o, at.whole + k - (taps / 2 - 1), w[k]);
  }
  return b.done();
}

}  // namespace

AxisTaps axis_taps(InterpolationMode mode, int64_t in, int64_t out, bool align_corners) {
  if (in == out) align_corners = true;  // the identity, without rounding
  switch (mode) {
    case InterpolationMode::NEAREST:
      return nearest(in, out, align_corners);
    case InterpolationMode::AREA:
      return area(in, out);
    case InterpolationMode::CUBIC:
      return filtered<4>(in, out, align_corners, cubic_weights<double>);
    case InterpolationMode::LANCZOS4:
      return filtered<8>(in, out, align_corners, lanczos4_weights<double>);
    case InterpolationMode::LINEAR:
      break;
  }
  return filtered<2>(in, out, align_corners, linear_weights<double>);
}

AxisTaps transposed(const AxisTaps& a) {
  std::vector<int64_t> count(static_cast<std::size_t>(a.in), 0);
  for (int64_t o = 0; o < a.out; ++o) {
    for (int64_t k = 0; k < a.count[static_cast<std::size_t>(o)]; ++k) {
      ++count[static_cast<std::size_t>(a.index[static_cast<std::size_t>(o * a.taps + k)])];
    }
  }
  int64_t most = 1;
  for (const int64_t n : count) most = std::max(most, n);
  Builder b(a.out, a.in, most);
  for (int64_t o = 0; o < a.out; ++o) {
    for (int64_t k = 0; k < a.count[static_cast<std::size_t>(o)]; ++k) {
      const auto at = static_cast<std::size_t>(o * a.taps + k);
      b.add(a.index[at], o, a.weight[at]);
    }
  }
  return b.done();
}

}  // namespace mge
