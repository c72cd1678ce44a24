#include "core/ops/random/state.h"

#include <mutex>
#include <unordered_map>

#include "core/kernels/cpu/philox.h"
#include "core/runtime/error.h"

namespace mge {
namespace {

class Generators {
 public:
  std::int64_t add(std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    const std::int64_t handle = next_++;
    states_[handle] = {seed, 0};
    return handle;
  }
  void remove(std::int64_t handle) {
    const std::lock_guard lock(mutex_);
    if (handle != kGlobalGenerator) states_.erase(handle);
  }
  // Calls f(state) under the lock.
  template <class F>
  GeneratorState with(std::int64_t handle, F&& f) {
    const std::lock_guard lock(mutex_);
    const auto it = states_.find(handle);
    if (it == states_.end()) fail_value("random", "there is no generator ", handle);
    const GeneratorState before = it->second;
    f(it->second);
    return before;
  }

 private:
  std::mutex mutex_;
  std::int64_t next_ = kGlobalGenerator + 1;
  std::unordered_map<std::int64_t, GeneratorState> states_{{kGlobalGenerator, {}}};
};

Generators& generators() {
  static auto* all = new Generators;
  return *all;
}

}  // namespace

std::int64_t new_generator(std::uint64_t seed) { return generators().add(seed); }
std::int64_t new_generator() {
  const GeneratorState from = take_counters(kGlobalGenerator, 1);
  const cpu::PhiloxWords words = cpu::philox(from.seed, from.offset, 0);
  return new_generator(static_cast<std::uint64_t>(words[0]) << 32 | words[1]);
}
void delete_generator(std::int64_t handle) { generators().remove(handle); }

GeneratorState generator_state(std::int64_t handle) {
  return generators().with(handle, [](GeneratorState&) {});
}
void set_generator_state(std::int64_t handle, const GeneratorState& state) {
  generators().with(handle, [&](GeneratorState& s) { s = state; });
}
GeneratorState take_counters(std::int64_t handle, std::uint64_t count) {
  return generators().with(handle, [&](GeneratorState& s) { s.offset += count; });
}

}  // namespace mge
