// The state of random generators.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "bindings/tensor.h"
#include "core/dispatch/dispatch.h"
#include "core/ops/random/state.h"

namespace mge::py {

// Each of these lets a traced call draw first what it has pending.
void bind_random(nb::module_& m) {
  m.def(
      "new_generator",
      [](std::optional<std::uint64_t> seed) {
        flush_trace();
        return seed ? new_generator(*seed) : new_generator();
      },
      nb::arg("seed") = nb::none(), "A new generator: its handle.");
  m.def(
      "delete_generator",
      [](std::int64_t handle) {
        flush_trace();
        delete_generator(handle);
      },
      nb::arg("handle"));
  m.def(
      "generator_state",
      [](std::int64_t handle) {
        flush_trace();
        const GeneratorState s = generator_state(handle);
        return std::pair(s.seed, s.offset);
      },
      nb::arg("handle"), "(seed, counters used)");
  m.def(
      "set_generator_state",
      [](std::int64_t handle, std::uint64_t seed, std::uint64_t offset) {
        flush_trace();
        set_generator_state(handle, {seed, offset});
      },
      nb::arg("handle"), nb::arg("seed"), nb::arg("offset"));
}

}  // namespace mge::py
