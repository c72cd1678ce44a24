// What this machine can do at most: prints `name rate` lines, in bytes or operations a second.
//
//   limits SECONDS          on OMP_NUM_THREADS threads; SECONDS for each figure
//
// copy counts the bytes read and those written; read only reads. The buffers are many times larger
// than any cache. fma_float32 and amx_bfloat16 count a multiplication and an addition as two.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#ifdef __AMX_BF16__
#include <immintrin.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kBytes = std::int64_t{1} << 28;
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
typedef float Floats __attribute__((vector_size(kVectorBytes)));
constexpr int kLanes = kVectorBytes / 4;

// Makes the compiler believe that all of v is used.
void keep(const Floats& v) { asm volatile("" : : "m"(v)); }

// The best rate of `work` runs within `seconds`, at least three: `amount` by the time of a run.
template <class F>
double best_rate(double amount, double seconds, F work) {
  double best = 0;
  const auto started = Clock::now();
  for (int i = 0; i < 3 || std::chrono::duration<double>(Clock::now() - started).count() < seconds;
       ++i) {
    const auto t = Clock::now();
    work();
    best = std::max(best, amount / std::chrono::duration<double>(Clock::now() - t).count());
  }
  return best;
}

float* buffer() {
  void* p = nullptr;
  if (posix_memalign(&p, std::size_t{1} << 21, kBytes) != 0) {
    std::fprintf(stderr, "limits: no memory for %lld bytes\n", static_cast<long long>(kBytes));
    std::exit(1);
  }
#ifdef MADV_HUGEPAGE
  madvise(p, kBytes, MADV_HUGEPAGE);
#endif
#pragma omp parallel
  {
    const std::int64_t share = kBytes / omp_get_num_threads();
    std::memset(static_cast<char*>(p) + share * omp_get_thread_num(), 1,
                static_cast<std::size_t>(share));
  }
  return static_cast<float*>(p);
}

// Stores that pass the caches by: what a large copy of the C library does, too.
double copy_rate(const float* from, float* to, double seconds) {
  return best_rate(2.0 * kBytes, seconds, [&] {
#pragma omp parallel
    {
      const std::int64_t share = kBytes / omp_get_num_threads(), at = share * omp_get_thread_num();
      std::memcpy(reinterpret_cast<char*>(to) + at, reinterpret_cast<const char*>(from) + at,
                  static_cast<std::size_t>(share));
    }
  });
}

double read_rate(const float* from, double seconds) {
  return best_rate(kBytes, seconds, [&] {
#pragma omp parallel
    {
      const std::int64_t n = kBytes / 4 / omp_get_num_threads();
      const float* p = from + n * omp_get_thread_num();
      Floats sums[8] = {};
      for (std::int64_t i = 0; i + 8 * kLanes <= n; i += 8 * kLanes) {
        for (int u = 0; u < 8; ++u) {
          if (u * kVectorBytes % 64 == 0) __builtin_prefetch(p + i + u * kLanes + 1024);
          Floats v;
          std::memcpy(&v, p + i + u * kLanes, sizeof(v));
          sums[u] += v;
        }
      }
      for (const Floats& s : sums) keep(s);
    }
  });
}

double fma_rate(double seconds) {
  constexpr int chains = 12;
  constexpr std::int64_t steps = 1 << 20;
  return best_rate(2.0 * kLanes * chains * steps * omp_get_max_threads(), seconds, [&] {
#pragma omp parallel
    {
      Floats a[chains], x{}, y{};
      x += 0.999f;
      y += 0.001f;
      for (int c = 0; c < chains; ++c) a[c] = y * static_cast<float>(c);
      for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
        for (int c = 0; c < chains; ++c) a[c] = a[c] * x + y;
      }
      for (const auto& v : a) keep(v);
    }
  });
}

#ifdef __AMX_BF16__
// One tile product after another on four accumulators; 0 where the system refuses AMX.
double amx_rate(double seconds) {
  constexpr int request_permission = 0x1023, tile_data = 18;
  if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0) return 0;
  constexpr std::int64_t steps = 1 << 18;
  return best_rate(4.0 * 2 * 16 * 16 * 32 * steps * omp_get_max_threads(), seconds, [&] {
#pragma omp parallel
    {
      alignas(64) std::uint8_t config[64] = {1};
      for (int t = 0; t < 8; ++t) {
        config[16 + 2 * t] = 64;
        config[48 + t] = 16;
      }
      _tile_loadconfig(config);
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      _tile_zero(4);
      _tile_zero(5);
      for (std::int64_t i = 0; i < steps; ++i) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
      }
      _tile_release();
    }
  });
}
#endif

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  float *a = buffer(), *b = buffer();
  std::printf("copy %.4g\n", copy_rate(a, b, seconds));
  std::printf("read %.4g\n", read_rate(a, seconds));
  std::printf("fma_float32 %.4g\n", fma_rate(seconds));
#ifdef __AMX_BF16__
  if (const double rate = amx_rate(seconds); rate > 0) std::printf("amx_bfloat16 %.4g\n", rate);
#endif
  return 0;
}
