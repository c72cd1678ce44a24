// The loops: memory bound, so one pass that reads and writes each number once.
#include <cmath>

#include "core/ops/optimizer_step/kernel.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

template <class T>
struct Numbers {
  T lr, momentum, weight_decay, beta1, beta2, one_less_beta1, one_less_beta2, eps, root_scale;
  T mean_scale;
  explicit Numbers(const StepNumbers& n)
      : lr(static_cast<T>(n.lr)),
        momentum(static_cast<T>(n.momentum)),
        weight_decay(static_cast<T>(n.weight_decay)),
        beta1(static_cast<T>(n.beta1)),
        beta2(static_cast<T>(n.beta2)),
        one_less_beta1(static_cast<T>(1 - n.beta1)),
        one_less_beta2(static_cast<T>(1 - n.beta2)),
        eps(static_cast<T>(n.eps)),
        root_scale(static_cast<T>(n.root_scale)),
        mean_scale(static_cast<T>(n.mean_scale)) {}
};

// One element. a and b are the state before, and after.
template <StepRule rule, class T>
inline __attribute__((always_inline)) T step(const Numbers<T>& n, T p, T g, T& a, T& b) {
  if constexpr (rule == StepRule::adamw) {
    p -= n.weight_decay * p;
  } else {
    g += n.weight_decay * p;
  }
  if constexpr (rule == StepRule::sgd) return p - n.lr * g;
  if constexpr (rule == StepRule::sgd_momentum) {
    a = n.momentum * a + g;
    return p - n.lr * a;
  }
  if constexpr (rule == StepRule::sgd_nesterov) {
    a = n.momentum * a + g;
    return p - n.lr * (g + n.momentum * a);
  }
  if constexpr (rule == StepRule::adam || rule == StepRule::adamw) {
    a = n.beta1 * a + n.one_less_beta1 * g;
    b = n.beta2 * b + n.one_less_beta2 * (g * g);
    return p - n.lr * a / (std::sqrt(b) * n.root_scale + n.eps);
  }
  if constexpr (rule == StepRule::adagrad) {
    a += g * g;
    return p - n.lr * g / std::sqrt(a + n.eps);
  }
  if constexpr (rule == StepRule::adadelta) {
    a = n.beta1 * a + n.one_less_beta1 * (g * g);
    const T u = std::sqrt((b + n.eps) / (a + n.eps)) * g;
    b = n.beta1 * b + n.one_less_beta1 * (u * u);
    return p - n.lr * u;
  }
}

constexpr int states_of(StepRule rule) {
  if (rule == StepRule::sgd) return 0;
  if (rule == StepRule::sgd_momentum || rule == StepRule::sgd_nesterov) return 1;
  return rule == StepRule::adagrad ? 1 : 2;
}

// An output pointer is its input pointer or does not overlap it, so iterations are independent.
template <StepRule rule, class T>
void loop(const Numbers<T>& numbers, const T* p, const T* g, const T* a, const T* b, T* p_out,
          T* a_out, T* b_out, std::int64_t count) {
  const Numbers<T> n = numbers;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    T ai{}, bi{};
    if constexpr (states_of(rule) > 0) ai = a[i];
    if constexpr (states_of(rule) > 1) bi = b[i];
    p_out[i] = step<rule>(n, p[i], g[i], ai, bi);
    if constexpr (states_of(rule) > 0) a_out[i] = ai;
    if constexpr (states_of(rule) > 1) b_out[i] = bi;
  }
}

template <class From, class T>
void widen(const void* in, std::int64_t begin, std::int64_t n, T* out) {
  const From* from = static_cast<const From*>(in) + begin;
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<T>(static_cast<ComputeType<From>>(from[i]));
}

template <class T>
void load(const void* in, DType dtype, std::int64_t begin, std::int64_t n, T* out) {
  switch (dtype) {
    case DType::float16:
      return widen<Half>(in, begin, n, out);
    case DType::bfloat16:
      return widen<BFloat16>(in, begin, n, out);
    case DType::float64:
      return widen<double>(in, begin, n, out);
    default:
      return widen<float>(in, begin, n, out);
  }
}

template <class To, class T>
void narrow(const T* in, void* out, std::int64_t begin, std::int64_t n) {
  To* to = static_cast<To*>(out) + begin;
  for (std::int64_t i = 0; i < n; ++i) to[i] = To(static_cast<float>(in[i]));
}

template <class T>
void store(const T* in, void* out, DType dtype, std::int64_t begin, std::int64_t n) {
  if (dtype == DType::float16) {
    narrow<Half>(in, out, begin, n);
  } else {
    narrow<BFloat16>(in, out, begin, n);
  }
}

constexpr std::int64_t kBlock = 512;

// Parameters or gradients of another dtype than that of the arithmetic pass through blocks that
// stay in L1.
template <StepRule rule, class T>
void staged(const Numbers<T>& numbers, const StepSpan& s) {
  alignas(64) T p[kBlock];
  alignas(64) T g[kBlock];
  const auto* a = static_cast<const T*>(s.state_in[0]);
  const auto* b = static_cast<const T*>(s.state_in[1]);
  auto* a_out = static_cast<T*>(s.state[0]);
  auto* b_out = static_cast<T*>(s.state[1]);
  for (std::int64_t at = 0; at < s.count; at += kBlock) {
    const std::int64_t n = s.count - at < kBlock ? s.count - at : kBlock;
    load(s.param_in, s.param_dtype, at, n, p);
    load(s.grad, s.grad_dtype, at, n, g);
    const auto from = [&](auto* x) { return x ? x + at : x; };
    if (s.param_dtype == dtype_of<T>) {
      loop<rule, T>(numbers, p, g, from(a), from(b), static_cast<T*>(s.param) + at, from(a_out),
                    from(b_out), n);
      continue;
    }
    loop<rule, T>(numbers, p, g, from(a), from(b), p, from(a_out), from(b_out), n);
    store(p, s.param, s.param_dtype, at, n);
  }
}

template <StepRule rule, class T>
void run(const StepNumbers& numbers, const StepSpan& s) {
  const Numbers<T> n(numbers);
  if (s.param_dtype != dtype_of<T> || s.grad_dtype != dtype_of<T>) return staged<rule, T>(n, s);
  loop<rule, T>(n, static_cast<const T*>(s.param_in), static_cast<const T*>(s.grad),
                static_cast<const T*>(s.state_in[0]), static_cast<const T*>(s.state_in[1]),
                static_cast<T*>(s.param), static_cast<T*>(s.state[0]), static_cast<T*>(s.state[1]),
                s.count);
}

template <class T>
void pick(StepRule rule, const StepNumbers& n, const StepSpan& s) {
  switch (rule) {
    case StepRule::sgd:
      return run<StepRule::sgd, T>(n, s);
    case StepRule::sgd_momentum:
      return run<StepRule::sgd_momentum, T>(n, s);
    case StepRule::sgd_nesterov:
      return run<StepRule::sgd_nesterov, T>(n, s);
    case StepRule::adam:
      return run<StepRule::adam, T>(n, s);
    case StepRule::adamw:
      return run<StepRule::adamw, T>(n, s);
    case StepRule::adagrad:
      return run<StepRule::adagrad, T>(n, s);
    case StepRule::adadelta:
      return run<StepRule::adadelta, T>(n, s);
    case StepRule::lamb:
      return;  // takes two passes, below
  }
}

// ---- LAMB ---------------------------------------------------------------------------------------

template <class T>
inline __attribute__((always_inline)) T lamb_update(const Numbers<T>& n, T p, T a, T b) {
  return a * n.mean_scale / (std::sqrt(b) * n.root_scale + n.eps) + n.weight_decay * p;
}

// A block's moments. Squares are summed in double: no parameter is too large for its norm.
template <class T>
LambNorms moments(const Numbers<T>& numbers, const T* p, const T* g, const T* a, const T* b,
                  T* a_out, T* b_out, std::int64_t count) {
  const Numbers<T> n = numbers;
  constexpr int kLanes = 16;
  double param[kLanes] = {}, update[kLanes] = {};
  const auto one = [&](std::int64_t i, int lane) __attribute__((always_inline)) {
    a_out[i] = n.beta1 * a[i] + n.one_less_beta1 * g[i];
    b_out[i] = n.beta2 * b[i] + n.one_less_beta2 * (g[i] * g[i]);
    const double pi = p[i], ui = lamb_update(n, p[i], a_out[i], b_out[i]);
    param[lane] += pi * pi;
    update[lane] += ui * ui;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) one(i + lane, lane);
  }
  for (; i < count; ++i) one(i, 0);
  LambNorms norms;
  for (int lane = 0; lane < kLanes; ++lane) {
    norms.param += param[lane];
    norms.update += update[lane];
  }
  return norms;
}

template <class T>
void move_params(const Numbers<T>& numbers, const T* p, const T* a, const T* b, T* p_out,
                 std::int64_t count) {
  const Numbers<T> n = numbers;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    p_out[i] = p[i] - n.lr * lamb_update(n, p[i], a[i], b[i]);
  }
}

// Elements from `at` on as T: where they lie, or in `block` for another dtype.
template <class T>
const T* block_of(const void* in, DType dtype, std::int64_t at, std::int64_t n, T* block) {
  if (dtype == dtype_of<T>) return static_cast<const T*>(in) + at;
  load(in, dtype, at, n, block);
  return block;
}

template <class T>
LambNorms lamb_moments(const StepNumbers& numbers, const StepSpan& s) {
  alignas(64) T p_block[kBlock];
  alignas(64) T g_block[kBlock];
  const Numbers<T> n(numbers);
  LambNorms norms;
  for (std::int64_t at = 0; at < s.count; at += kBlock) {
    const std::int64_t count = s.count - at < kBlock ? s.count - at : kBlock;
    const LambNorms block = moments(
        n, block_of(s.param_in, s.param_dtype, at, count, p_block),
        block_of(s.grad, s.grad_dtype, at, count, g_block),
        static_cast<const T*>(s.state_in[0]) + at, static_cast<const T*>(s.state_in[1]) + at,
        static_cast<T*>(s.state[0]) + at, static_cast<T*>(s.state[1]) + at, count);
    norms.param += block.param;
    norms.update += block.update;
  }
  return norms;
}

template <class T>
void lamb_step(const StepNumbers& numbers, const StepSpan& s) {
  alignas(64) T p_block[kBlock];
  const Numbers<T> n(numbers);
  for (std::int64_t at = 0; at < s.count; at += kBlock) {
    const std::int64_t count = s.count - at < kBlock ? s.count - at : kBlock;
    const T* p = block_of(s.param_in, s.param_dtype, at, count, p_block);
    const T* a = static_cast<const T*>(s.state[0]) + at;
    const T* b = static_cast<const T*>(s.state[1]) + at;
    if (s.param_dtype == dtype_of<T>) {
      move_params(n, p, a, b, static_cast<T*>(s.param) + at, count);
    } else {
      move_params(n, p, a, b, p_block, count);
      store(p_block, s.param, s.param_dtype, at, count);
    }
  }
}

}  // namespace

void optimizer_step_f32(StepRule rule, const StepNumbers& numbers, const StepSpan& span) {
  pick<float>(rule, numbers, span);
}
void optimizer_step_f64(StepRule rule, const StepNumbers& numbers, const StepSpan& span) {
  pick<double>(rule, numbers, span);
}

LambNorms lamb_moments_f32(const StepNumbers& numbers, const StepSpan& span) {
  return lamb_moments<float>(numbers, span);
}
LambNorms lamb_moments_f64(const StepNumbers& numbers, const StepSpan& span) {
  return lamb_moments<double>(numbers, span);
}
void lamb_update_f32(const StepNumbers& numbers, const StepSpan& span) {
  lamb_step<float>(numbers, span);
}
void lamb_update_f64(const StepNumbers& numbers, const StepSpan& span) {
  lamb_step<double>(numbers, span);
}

}  // namespace mge::cpu::MGE_SIMD_NS
