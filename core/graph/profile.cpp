#include "core/graph/profile.h"

#include "core/dispatch/dispatch.h"
#include "core/graph/trace.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

double seconds(Profile::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

std::atomic<Profile*> Profile::of_everything_{nullptr};

Profile& Profile::everything() {
  static auto* profile = new Profile;
  return *profile;
}

void Profile::note_everything(bool on) { of_everything_ = on ? &everything() : nullptr; }

Profile::Clock::time_point Profile::begin() {
  const std::lock_guard guard(lock_);
  samples_.clear();
  return began_ = Clock::now();
}

void Profile::add(const OpRef& op, Specs in, Specs out, Clock::time_point start,
                  const char* place) {
  const Clock::time_point end = Clock::now();
  const std::uint64_t allocated = memory_stats().allocated;
  const std::lock_guard guard(lock_);
  samples_.push_back({op, std::move(in), std::move(out), seconds(start - began_),
                      seconds(end - began_), this_thread_number(), allocated, place});
}

std::vector<Profile::Sample> Profile::samples() const {
  const std::lock_guard guard(lock_);
  return samples_;
}

Values execute_profiled(const OpRef& op, Values& inputs, Profile& profile) {
  const char* place = caller_place();
  Specs in, out;
  for (const Value& v : inputs) in.push_back(v.spec());
  const auto start = Profile::Clock::now();
  Values outputs = execute_now(op, inputs);
  for (const Value& v : outputs) out.push_back(v.spec());
  profile.add(op, std::move(in), std::move(out), start, place);
  return outputs;
}

int this_thread_number() {
  static std::atomic<int> threads{0};
  thread_local const int number = threads++;
  return number;
}

}  // namespace mge
