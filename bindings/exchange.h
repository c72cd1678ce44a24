// Sharing memory with other libraries: the buffer protocol and DLPack.
#pragma once

#include "bindings/tensor.h"

namespace mge::py {

// Slots of Tensor.
int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags);
void tensor_release_buffer(PyObject* self, Py_buffer* view);

void bind_exchange(nb::module_& m);

}  // namespace mge::py
