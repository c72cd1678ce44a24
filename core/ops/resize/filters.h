// The weights of the elements around a position, as functions of t in [0, 1), its distance from the
// element on its left. The first of them is the one taps / 2 - 1 to the left of that.
#pragma once

#include <cmath>

namespace mge {

template <class A>
inline void linear_weights(A t, A* w) {
  w[0] = 1 - t, w[1] = t;
}

// Keys' cubic convolution with a = -3/4.
template <class A>
inline void cubic_weights(A t, A* w) {
  constexpr A a = A(-0.75);
  const auto near = [](A d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](A d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  w[0] = far(1 + t), w[1] = near(t), w[2] = near(1 - t), w[3] = far(2 - t);
}
// Their derivatives by t.
template <class A>
inline void cubic_slopes(A t, A* w) {
  constexpr A a = A(-0.75);
  const auto near = [](A d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
  const auto far = [](A d) { return (3 * a * d - 10 * a) * d + 8 * a; };
  w[0] = far(1 + t), w[1] = near(t), w[2] = -near(1 - t), w[3] = -far(2 - t);
}

// sinc(d) sinc(d / 4) for |d| < 4, made to add up to 1.
template <class A>
inline void lanczos4_weights(A t, A* w) {
  constexpr double pi = 3.14159265358979324;
  if (t == 0) {
    for (int k = 0; k < 8; ++k) w[k] = k == 3;
    return;
  }
  double v[8], total = 0;
  for (int k = 0; k < 8; ++k) {
    const double d = pi * (static_cast<double>(t) + 3 - k);
    v[k] = std::sin(d) * std::sin(d / 4) / (d * d);
    total += v[k];
  }
  for (int k = 0; k < 8; ++k) w[k] = static_cast<A>(v[k] / total);
}

}  // namespace mge
