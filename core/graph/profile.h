// How long ops took: those of a traced function, or all of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace mge {

// Ops on several threads may write to it.
class Profile {
 public:
  struct Sample {
    OpRef op;
    Specs in, out;
    double start, end;        // seconds since it began
    int thread;               // of this_thread_number()
    std::uint64_t allocated;  // bytes in live buffers after the op
    const char* place;        // where the user's code called it; null where that is unknown
  };
  using Clock = std::chrono::steady_clock;

  // The samples of before go.
  Clock::time_point begin();
  void add(const OpRef& op, Specs in, Specs out, Clock::time_point start, const char* place);
  std::vector<Sample> samples() const;

  // The one that notes the ops of all threads, traced or not; null while nobody asks for it.
  static Profile* of_everything() { return of_everything_.load(std::memory_order_relaxed); }
  // Its lifetime is that of the program, since ops that run now may write to it.
  static Profile& everything();
  static void note_everything(bool on);

 private:
  static std::atomic<Profile*> of_everything_;
  mutable std::mutex lock_;
  Clock::time_point began_{};
  std::vector<Sample> samples_;
};

// execute_now() of an op that is noted.
Values execute_profiled(const OpRef& op, Values& inputs, Profile& profile);

// A small number for each thread that asks.
int this_thread_number();

}  // namespace mge
