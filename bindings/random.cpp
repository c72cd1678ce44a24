// The state of random generators.

#include <nanobind/stl/pair.h>

#include "bindings/tensor.h"
#include "core/ops/random/state.h"

namespace mge::py {

void bind_random(nb::module_& m) {
  m.def("new_generator", &new_generator, nb::arg("seed"), "A new generator: its handle.");
  m.def("delete_generator", &delete_generator, nb::arg("handle"));
  m.def(
      "generator_state",
      [](std::int64_t handle) {
        const GeneratorState s = generator_state(handle);
        return std::pair(s.seed, s.offset);
      },
      nb::arg("handle"), "(seed, counters used)");
  m.def(
      "set_generator_state",
      [](std::int64_t handle, std::uint64_t seed, std::uint64_t offset) {
        set_generator_state(handle, {seed, offset});
      },
      nb::arg("handle"), nb::arg("seed"), nb::arg("offset"));
}

}  // namespace mge::py
