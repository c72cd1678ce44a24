// Threads: one OpenMP team, shared with oneDNN, so that nothing oversubscribes the machine.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace mge::cpu {

// The number of threads that kernels use. Starts as min(OMP_NUM_THREADS, CPUs in the affinity
// mask).
int num_threads();
void set_num_threads(int n);

// Calls f(begin, end) over disjoint ranges that cover [0, n). Ranges of fewer than `grain`
// iterations are not worth a thread. f must not throw: check inputs before.
// How [0, n) is cut depends on the number of threads, so results may not depend on the cut.
template <class F>
void parallel_for(std::int64_t n, std::int64_t grain, F&& f) {
  if (n <= 0) return;
  const std::int64_t most = (n + grain - 1) / std::max<std::int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads(), most));
  if (threads <= 1 || omp_in_parallel()) {
    f(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    // The runtime may grant fewer threads than asked for.
    const std::int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    const std::int64_t begin = n * me / team, end = n * (me + 1) / team;
    if (begin < end) f(begin, end);
  }
}

}  // namespace mge::cpu
