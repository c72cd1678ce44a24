#include "core/kernels/cpu/parallel.h"

#include <pthread.h>

#include <cstdlib>

#include "core/runtime/error.h"

namespace mge::cpu {
namespace {

int initial_threads() {
  // The CPUs that the process may use. (This thread's own mask has one where OMP_PROC_BIND binds
  // it.) omp_get_max_threads() reflects OMP_NUM_THREADS.
  return std::max(1, std::min(omp_get_num_procs(), omp_get_max_threads()));
}

int g_threads = [] {
  const int n = initial_threads();
  omp_set_num_threads(n);
#ifdef __linux__
  // A forked child has none of its parent's OpenMP threads and would wait for them for ever:
  // it computes on one thread.
  pthread_atfork(nullptr, nullptr, [] { set_num_threads(1); });
#endif
  return n;
}();

}  // namespace

int num_threads() { return g_threads; }

void set_num_threads(int n) {
  if (n < 1) fail_value("set_num_threads", "expected a positive number, got ", n);
  g_threads = n;
  omp_set_num_threads(n);
}

}  // namespace mge::cpu
