// How long the ops of traced calls took.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace mge {

// Of one traced function; calls on several threads may write to it.
class Profile {
 public:
  struct Sample {
    OpRef op;
    Specs in, out;
    double start, end;  // seconds since the call began
  };
  using Clock = std::chrono::steady_clock;

  // A call begins: the samples of the one before go.
  void begin();
  void add(const OpRef& op, Specs in, Specs out, Clock::time_point start);
  std::vector<Sample> samples() const;

 private:
  mutable std::mutex lock_;
  Clock::time_point began_{};
  std::vector<Sample> samples_;
};

}  // namespace mge
