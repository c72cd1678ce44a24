// The Tensor type: construction, attributes, conversions. Operators and indexing have files of
// their own.
#include "bindings/tensor.h"

#include "bindings/exchange.h"
#include "bindings/sizes.h"
#include "bindings/symbol.h"
#include "core/dispatch/dispatch.h"
#include "core/kernels/cpu/copy.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/fill.h"

namespace mge::py {

PyTypeObject* tensor_base = nullptr;
PyTypeObject* tensor_class = nullptr;

nb::object wrapped_as(PyTypeObject* type, Value v) {
  nb::object o = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(type)));
  new (nb::inst_ptr<PyTensor>(o)) PyTensor(std::move(v));
  nb::inst_mark_ready(o);
  return o;
}

PyObject* wrap(Value v) {
  if (const Symbol* symbol = symbol_of(v)) [[unlikely]]
    return wrap_symbol(v, *symbol);
  return wrapped_as(tensor_class, std::move(v)).release().ptr();
}

const Value& value_of(const char* op, PyObject* o) {
  if (!is_tensor(o)) fail_type(op, "expected a Tensor, got ", Py_TYPE(o)->tp_name);
  return tensor_of(o).value;
}

namespace {

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(nb::handle(self))) Py_VISIT(tensor_of(self).grad);
  return 0;
}
int clear(PyObject* self) {
  if (nb::inst_ready(nb::handle(self))) Py_CLEAR(tensor_of(self).grad);
  return 0;
}

Py_ssize_t length(PyObject* self) {
  return guarded<Py_ssize_t>(-1, [&]() -> Py_ssize_t {
    const Value& v = tensor_of(self).value;
    if (v.ndim() == 0) fail_type("Tensor", "a Tensor of no dimensions has no len()");
    return v.shape()[0];
  });
}

Py_hash_t hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(self) >> 4);
}

// The same elements in memory of their own, which no tape follows: for copy.deepcopy.
Value copied(const Value& v) {
  Value out = Value::empty(v.dtype(), v.shape(), v.device());
  if (v.size() > 0) cpu::copy(v.view(), out.mut());
  return out;
}

// The same contents, which no tape follows. A traced call has that as an op: the contents may not
// be there yet.
Value detached(const Value& v) {
  if (!dispatch_state().trace) return v.detached();
  const PauseGrad pause;
  const Value out = call(Identity{}, v);
  return out == v ? v.detached() : out;
}

void init(PyTensor* self, nb::object data, nb::object dtype, nb::object device, bool, bool,
          nb::object name, const std::string& format) {
  if (format != "default" && format != "nhwc" && format != "nchw") {
    fail_value("Tensor", "unknown format '", format, "'");
  }
  const std::optional<DType> want =
      dtype.is_none() ? std::nullopt : std::optional(dtype_from_python(dtype.ptr()));
  Value v;
  if (data.is_none()) {
    v = Value::empty(want.value_or(DType::float32), Shape{0}, device_from_python(device.ptr()));
  } else if (is_tensor(data.ptr())) {
    const Value& source = tensor_of(data.ptr()).value;
    const Device place = device.is_none() ? source.device() : device_from_python(device.ptr());
    // By an op, so that gradients go through it and traced calls see where the elements come from.
    v = want && *want != source.dtype() ? cast(source, *want) : source;
    v = call(Copy{place}, v);
  } else {
    v = to_value(data.ptr(), want, device_from_python(device.ptr()));
  }
  new (self) PyTensor(std::move(v));
  if (!name.is_none()) self->name = nb::cast<std::string>(name);
}

}  // namespace

void bind_tensor(nb::module_& m) {
  std::size_t count = 0;
  const PyType_Slot* operators = operator_slots(count);
  std::vector<PyType_Slot> slots(operators, operators + count);
  slots.push_back({Py_tp_traverse, reinterpret_cast<void*>(traverse)});
  slots.push_back({Py_tp_clear, reinterpret_cast<void*>(clear)});
  slots.push_back({Py_tp_hash, reinterpret_cast<void*>(hash)});
  slots.push_back({Py_mp_length, reinterpret_cast<void*>(length)});
  slots.push_back({Py_mp_subscript, reinterpret_cast<void*>(tensor_getitem)});
  slots.push_back({Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_setitem)});
  slots.push_back({Py_bf_getbuffer, reinterpret_cast<void*>(tensor_get_buffer)});
  slots.push_back({Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_release_buffer)});
  slots.push_back({0, nullptr});

  nb::class_<PyTensor> cls(m, "Tensor", nb::type_slots(slots.data()));
  tensor_base = tensor_class = reinterpret_cast<PyTypeObject*>(cls.ptr());

  cls.def("__init__", init, nb::arg("data").none(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(), nb::arg("is_const") = false, nb::arg("no_cache") = false,
          nb::arg("name") = nb::none(), nb::arg("format") = "default")
      .def_prop_ro("dtype", [](PyTensor& t) { return dtype_to_python(t.value.dtype()); })
      .def_prop_ro("shape", [](PyTensor& t) { return shape_as_seen(t.value); })
      .def_prop_ro("_tuple_shape", [](PyTensor& t) { return shape_as_seen(t.value); })
      .def_prop_ro("ndim", [](PyTensor& t) { return t.value.ndim(); })
      .def_prop_ro("size", [](PyTensor& t) { return size_as_seen(t.value); })
      .def_prop_ro("device", [](PyTensor& t) { return t.value.device(); })
      .def_prop_ro(
          "_strides", [](PyTensor& t) { return nb::steal(shape_to_python(t.value.strides())); },
          "Strides in elements: shows the memory format.")
      .def_prop_rw(
          "name", [](PyTensor& t) { return t.name; },
          [](PyTensor& t, std::string name) { t.name = std::move(name); })
      .def_prop_rw(
          "grad", [](PyTensor& t) { return t.grad ? nb::borrow(t.grad) : nb::none(); },
          [](PyTensor& t, nb::object g) {
            PyObject* old = t.grad;
            if (!g.is_none() && !is_tensor(g.ptr())) {
              g = wrapped(to_value(g.ptr(), t.value.dtype(), t.value.device()));
            }
            t.grad = g.is_none() ? nullptr : g.release().ptr();
            Py_XDECREF(old);
          },
          nb::arg("value").none())
      .def("numpy", [](PyTensor& t) { return nb::steal(to_numpy(t.value)); })
      .def("item", [](PyTensor& t) { return nb::steal(to_scalar("item", t.value)); })
      .def("item", [](nb::handle self,
                      nb::args index) { return self.attr("numpy")().attr("item")(*index); })
      .def("_reset",
           [](PyTensor& t, nb::object other) {
             t.value = is_tensor(other.ptr())
                           ? tensor_of(other.ptr()).value
                           : to_value(other.ptr(), std::nullopt, t.value.device());
           })
      .def("detach", [](PyTensor& t) { return wrapped(detached(t.value)); })
      .def("_astype",
           [](PyTensor& t, nb::object dtype) {
             return wrapped(cast(t.value, dtype_from_python(dtype.ptr())));
           })
      .def("_moved",
           [](PyTensor& t, nb::object device) {
             return wrapped(on_device(t.value, device_from_python(device.ptr())));
           })
      .def(
          "_copied", [](PyTensor& t) { return wrapped(copied(t.value)); },
          "The same contents in memory of their own; not recorded.");

  m.def(
      "set_tensor_class",
      [](nb::type_object type) {
        if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), tensor_base)) {
          fail_type("set_tensor_class", "expected a subclass of Tensor");
        }
        tensor_class = reinterpret_cast<PyTypeObject*>(type.release().ptr());
      },
      "Makes this class the type of every result.");
}

}  // namespace mge::py
