#include "core/graph/profile.h"

namespace mge {
namespace {

double seconds(Profile::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void Profile::begin() {
  const std::lock_guard guard(lock_);
  samples_.clear();
  began_ = Clock::now();
}

void Profile::add(const OpRef& op, Specs in, Specs out, Clock::time_point start) {
  const Clock::time_point end = Clock::now();
  const std::lock_guard guard(lock_);
  samples_.push_back(
      {op, std::move(in), std::move(out), seconds(start - began_), seconds(end - began_)});
}

std::vector<Profile::Sample> Profile::samples() const {
  const std::lock_guard guard(lock_);
  return samples_;
}

}  // namespace mge
