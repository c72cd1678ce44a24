#include "core/kernels/cpu/parallel.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/kernels/cpu/simd.h"
#include "tests/cpp/check.h"

namespace {

using mge::cpu::num_threads;
using mge::cpu::parallel_for;
using mge::cpu::set_num_threads;

TEST(covers_each_index_once) {
  const int before = num_threads();
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    for (std::int64_t n : {0, 1, 5, 64, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(n));
      parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (int times : seen) CHECK(times == 1);
    }
  }
  set_num_threads(before);
}

TEST(small_work_stays_on_one_thread) {
  const int before = num_threads();
  set_num_threads(4);
  std::atomic<int> calls = 0;
  parallel_for(100, 1000, [&](std::int64_t, std::int64_t) { ++calls; });
  CHECK(calls == 1);
  set_num_threads(before);
}

TEST(isa) {
  CHECK(mge::cpu::isa() == mge::cpu::isa());
  CHECK(mge::cpu::isa_name(mge::cpu::Isa::avx2) == std::string("avx2"));
}

}  // namespace
