// The state of random generators: a seed, and how many counters have been used.
//
// Numbers come from a counter-based generator (Philox4x32-10), so the state is two integers: every
// call takes the counters that it needs, and what it draws depends on them alone, whatever the
// number of threads.
#pragma once

#include <cstdint>

namespace mge {

struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // the next counter
};

// The generator that functions use without being told of another. Starts with seed 0.
inline constexpr std::int64_t kGlobalGenerator = 0;

// A new generator; its handle is never used again.
std::int64_t new_generator(std::uint64_t seed);
// The same, with a seed that is drawn from the global one.
std::int64_t new_generator();
void delete_generator(std::int64_t handle);

// All raise ValueError for a handle that names no generator.
GeneratorState generator_state(std::int64_t handle);
void set_generator_state(std::int64_t handle, const GeneratorState& state);
// Takes `count` counters: the state before, whose offset is the first of them.
GeneratorState take_counters(std::int64_t handle, std::uint64_t count);

}  // namespace mge
