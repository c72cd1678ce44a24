// The Python objects of symbols (core/graph/symbol.h).
#pragma once

#include "bindings/tensor.h"
#include "core/graph/symbol.h"

namespace mge::py {

// The one object of a symbol; a new reference.
PyObject* wrap_symbol(Value v, const Symbol& symbol);
// A new Tensor of a given subclass.
nb::object wrapped_as(PyTypeObject* type, Value v);
void bind_symbol(nb::module_& m);

}  // namespace mge::py
