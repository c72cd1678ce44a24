#pragma once

#include <nanobind/nanobind.h>

namespace mge::py {

void bind_pixels(nanobind::module_& m);

}  // namespace mge::py
