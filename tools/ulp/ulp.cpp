// Checks float32 elementwise functions against float64 ones: ulp NAME STEP [START] prints the
// largest error in units in the last place over the inputs whose bit patterns are START, START +
// STEP, ... Binary functions (pow, atan2, mod, floor_div) take STEP random pairs instead.
#include <omp.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/kernels/cpu/elementwise.h"

namespace {

using mge::ElementMode;

double log1pexp(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752440); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double inverse_erfc(double y) {
  if (y == 0 || y == 2) return y == 0 ? HUGE_VAL : -HUGE_VAL;
  if (!(y > 0 && y < 2)) return std::nan("");
  const double p = y > 1 ? 2 - y : y;
  double low = 0, high = 12;
  for (int i = 0; i < 70; ++i) {
    const double middle = 0.5 * (low + high);
    (std::erfc(middle) > p ? low : high) = middle;
  }
  return y > 1 ? -low : low;
}
double inverse_erf(double x) {
  const double z = std::fabs(x);
  if (z > 0.5) return std::copysign(inverse_erfc(1 - z), x);
  double r = x * 0.886226925452758;
  for (int i = 0; i < 8; ++i) r -= (std::erf(r) - x) / (1.1283791670955126 * std::exp(-r * r));
  return r;
}

struct Unary {
  const char* name;
  ElementMode mode;
  double (*exact)(double);
};
const Unary kUnary[] = {
    {"exp", ElementMode::EXP, [](double x) { return std::exp(x); }},
    {"expm1", ElementMode::EXPM1, [](double x) { return std::expm1(x); }},
    {"log", ElementMode::LOG, [](double x) { return std::log(x); }},
    {"log1p", ElementMode::LOG1P, [](double x) { return std::log1p(x); }},
    {"sqrt", ElementMode::SQRT, [](double x) { return std::sqrt(x); }},
    {"rsqrt", ElementMode::RSQRT, [](double x) { return 1 / std::sqrt(x); }},
    {"sin", ElementMode::SIN, [](double x) { return std::sin(x); }},
    {"cos", ElementMode::COS, [](double x) { return std::cos(x); }},
    {"tan", ElementMode::TAN, [](double x) { return std::tan(x); }},
    {"asin", ElementMode::ASIN, [](double x) { return std::asin(x); }},
    {"acos", ElementMode::ACOS, [](double x) { return std::acos(x); }},
    {"atan", ElementMode::ATAN, [](double x) { return std::atan(x); }},
    {"sinh", ElementMode::SINH, [](double x) { return std::sinh(x); }},
    {"cosh", ElementMode::COSH, [](double x) { return std::cosh(x); }},
    {"tanh", ElementMode::TANH, [](double x) { return std::tanh(x); }},
    {"asinh", ElementMode::ASINH, [](double x) { return std::asinh(x); }},
    {"acosh", ElementMode::ACOSH, [](double x) { return std::acosh(x); }},
    {"atanh", ElementMode::ATANH, [](double x) { return std::atanh(x); }},
    {"erf", ElementMode::ERF, [](double x) { return std::erf(x); }},
    {"erfc", ElementMode::ERFC, [](double x) { return std::erfc(x); }},
    {"erfinv", ElementMode::ERFINV, inverse_erf},
    {"erfcinv", ElementMode::ERFCINV, inverse_erfc},
    {"sigmoid", ElementMode::SIGMOID, sigmoid},
    {"logsigmoid", ElementMode::LOGSIGMOID, [](double x) { return -log1pexp(-x); }},
    {"softplus", ElementMode::SOFTPLUS, log1pexp},
    {"silu", ElementMode::SILU,
     [](double x) { return std::isinf(x) ? (x > 0 ? x : 0.0) : x * sigmoid(x); }},
    {"gelu", ElementMode::GELU,
     [](double x) { return std::isinf(x) ? (x > 0 ? x : 0.0) : x * normal_cdf(x); }},
    {"round", ElementMode::ROUND, [](double x) { return std::round(x); }},
    {"floor", ElementMode::FLOOR, [](double x) { return std::floor(x); }},
    {"ceil", ElementMode::CEIL, [](double x) { return std::ceil(x); }},
};

double python_mod(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
struct Binary {
  const char* name;
  ElementMode mode;
  double (*exact)(double, double);
};
const Binary kBinary[] = {
    {"pow", ElementMode::POW, [](double a, double b) { return std::pow(a, b); }},
    {"atan2", ElementMode::ATAN2, [](double a, double b) { return std::atan2(a, b); }},
    {"mod", ElementMode::MOD, python_mod},
};

double unit(double exact) {
  const double size = std::fabs(exact);
  if (size < 0x1p-126) return 0x1p-149;
  return std::ldexp(1.0, std::min(std::ilogb(size), 127) - 23);
}
// The error of `got` in units in the last place; 0 where both are NaN or the same infinity.
double error(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) == std::isnan(got) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(exact)) {
    return static_cast<float>(exact) == got ? 0 : 1e30;
  }
  return std::fabs(got - exact) / unit(exact);
}

constexpr std::int64_t kChunk = 8192;
struct Worst {
  double error = 0;
  float x = 0, y = 0, got = 0;
  double exact = 0;
};

template <class Fill, class Exact>
Worst sweep(mge::cpu::ElementRun run, std::int64_t total, Fill fill, Exact exact) {
  Worst worst;
  const std::int64_t chunks = (total + kChunk - 1) / kChunk;
#pragma omp parallel
  {
    Worst mine;
    std::vector<float> x(kChunk), y(kChunk), out(kChunk);
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t c = 0; c < chunks; ++c) {
      const std::int64_t n = std::min(kChunk, total - c * kChunk);
      fill(c, n, x.data(), y.data());
      const void* in[] = {x.data(), y.data()};
      run(in, out.data(), n);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        const double want = exact(x[k], y[k]);
        const double e = error(out[k], want);
        if (e > mine.error) mine = {e, x[k], y[k], out[k], want};
      }
    }
#pragma omp critical
    if (mine.error > worst.error) worst = mine;
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ulp NAME STEP [START]\n");
    return 2;
  }
  const std::string name = argv[1];
  const std::int64_t step = std::atoll(argv[2]), start = argc > 3 ? std::atoll(argv[3]) : 0;
  for (const Unary& f : kUnary) {
    if (name != f.name) continue;
    const std::int64_t total = ((std::int64_t{1} << 32) - start + step - 1) / step;
    const Worst w = sweep(
        mge::cpu::find_element_run(f.mode, mge::DType::float32), total,
        [=](std::int64_t chunk, std::int64_t n, float* x, float*) {
          for (std::int64_t i = 0; i < n; ++i) {
            x[i] = std::bit_cast<float>(
                static_cast<std::uint32_t>(start + (chunk * kChunk + i) * step));
          }
        },
        [&](float x, float) { return f.exact(x); });
    std::printf("%s %.4f at %.9g (%a): got %.9g, exact %.17g\n", f.name, w.error, w.x, w.x, w.got,
                w.exact);
    return 0;
  }
  for (const Binary& f : kBinary) {
    if (name != f.name) continue;
    const Worst w = sweep(
        mge::cpu::find_element_run(f.mode, mge::DType::float32), step,
        [=](std::int64_t chunk, std::int64_t n, float* x, float* y) {
          std::mt19937_64 random(static_cast<std::uint64_t>(chunk + start));
          for (std::int64_t i = 0; i < n; ++i) {
            // Any bit patterns, and numbers of everyday size.
            const std::uint64_t bits = random();
            x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
            y[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32));
            if (i % 2) {
              x[i] = static_cast<float>(bits & 0xffffff) * 0x1p-20f;
              y[i] = static_cast<float>(static_cast<std::int32_t>(bits >> 32)) * 0x1p-27f;
            }
          }
        },
        [&](float x, float y) { return f.exact(x, y); });
    std::printf("%s %.4f at (%.9g, %.9g): got %.9g, exact %.17g\n", f.name, w.error, w.x, w.y,
                w.got, w.exact);
    return 0;
  }
  std::fprintf(stderr, "ulp: unknown function '%s'\n", name.c_str());
  return 2;
}
