// Shapes, joins and constants: thin functions for megengine.functional.tensor.
#include "core/ops/shape/shape.h"

#include "bindings/tensor.h"
#include "core/dispatch/dispatch.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/tensor/fill.h"

namespace mge::py {
namespace {

// Other Python threads run during an op that is worth the hand-over.
constexpr std::int64_t kReleaseGil = 1 << 17;
template <class F>
auto released(std::int64_t size, F&& f) {
  if (size < kReleaseGil) return f();
  nb::gil_scoped_release release;
  return f();
}

nb::object list_of(Values values) {
  nb::list out;
  for (Value& v : values) out.append(wrapped(std::move(v)));
  return out;
}

DType dtype_or(nb::handle dtype, DType otherwise) {
  return dtype.is_none() ? otherwise : dtype_from_python(dtype.ptr());
}

// ---- shapes
// ---------------------------------------------------------------------------------------

nb::object py_reshape(nb::handle inp, nb::handle shape) {
  const Value& x = value_of("reshape", inp.ptr());
  Reshape op{dims_from_python("reshape", shape.ptr())};
  return wrapped(released(x.row_major() ? 0 : x.size(), [&] { return call(std::move(op), x); }));
}

nb::object py_broadcast_to(nb::handle inp, nb::handle shape) {
  const Value& x = value_of("broadcast_to", inp.ptr());
  return wrapped(call(Broadcast{dims_from_python("broadcast_to", shape.ptr())}, x));
}

// The axes of a pattern, with -1 for its 'x', a new axis.
Dims pattern_from_python(nb::handle pattern, int ndim) {
  Dims out;
  for (nb::handle item : nb::borrow<nb::iterable>(pattern)) {
    if (PyUnicode_Check(item.ptr())) {
      if (nb::cast<std::string>(item) != "x") {
        fail_value("transpose", "expected axes and 'x', got '", nb::cast<std::string>(item), "'");
      }
      out.push_back(-1);
    } else {
      out.push_back(
          normalize_axis("transpose", dims_from_python("transpose", item.ptr())[0], ndim));
    }
  }
  return out;
}

nb::object py_transpose(nb::handle inp, nb::handle pattern) {
  const Value& x = value_of("transpose", inp.ptr());
  return wrapped(call(Dimshuffle{pattern_from_python(pattern, x.ndim())}, x));
}

nb::object py_expand_dims(nb::handle inp, nb::handle axis) {
  const Value& x = value_of("expand_dims", inp.ptr());
  return wrapped(call(AddAxis{dims_from_python("expand_dims", axis.ptr())}, x));
}

nb::object py_squeeze(nb::handle inp, nb::handle axis) {
  const Value& x = value_of("squeeze", inp.ptr());
  RemoveAxis op;
  if (!axis.is_none()) {
    op.axis = dims_from_python("squeeze", axis.ptr());
  } else {
    for (int i = 0; i < x.ndim(); ++i) {
      if (x.shape()[i] == 1) op.axis.push_back(i);
    }
  }
  return wrapped(call(std::move(op), x));
}

nb::object py_copy(nb::handle inp, nb::handle device) {
  const Value& x = value_of("copy", inp.ptr());
  Copy op;
  if (!device.is_none()) op.comp_node = device_from_python(device.ptr());
  return wrapped(released(x.size(), [&] { return call(std::move(op), x); }));
}

// ---- joins
// ----------------------------------------------------------------------------------------

// The tensors of a sequence, brought to one dtype.
Values tensors_from_python(const char* op, nb::handle inps, bool scalars_as_vectors) {
  if (is_tensor(inps.ptr())) fail_type(op, "expected a sequence of Tensors, got one Tensor");
  const nb::object fast = nb::steal(PySequence_Fast(inps.ptr(), ""));
  if (!fast.is_valid()) {
    PyErr_Clear();
    fail_type(op, "expected a sequence of Tensors, got ", Py_TYPE(inps.ptr())->tp_name);
  }
  const auto n = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
  if (n == 0) fail_value(op, "expected at least one Tensor, got none");
  Operands in = operands_from_python(op, PySequence_Fast_ITEMS(fast.ptr()), n);
  in.cast_all(in.common(op));
  for (Value& v : in.values) {
    if (scalars_as_vectors && v.ndim() == 0) v = reshape(v, {1});
  }
  return std::move(in.values);
}

std::int64_t total_size(const Values& values) {
  std::int64_t n = 0;
  for (const Value& v : values) n += v.size();
  return n;
}

nb::object on_device(Value v, nb::handle device) {
  if (!device.is_none()) {
    const Device place = device_from_python(device.ptr());
    if (place != v.device()) v = call(Copy{.comp_node = place}, v);
  }
  return wrapped(std::move(v));
}

nb::object py_concat(nb::handle inps, std::int64_t axis, nb::handle device) {
  Values in = tensors_from_python("concat", inps, true);
  return on_device(released(total_size(in), [&] { return concat(std::move(in), axis); }), device);
}

nb::object py_stack(nb::handle inps, std::int64_t axis, nb::handle device) {
  Values in = tensors_from_python("stack", inps, false);
  return on_device(released(total_size(in), [&] { return stack(std::move(in), axis); }), device);
}

nb::object py_split(nb::handle inp, const std::vector<std::int64_t>& sizes, std::int64_t axis) {
  return list_of(split(value_of("split", inp.ptr()), axis, sizes));
}

// ---- constants
// ------------------------------------------------------------------------------------

// A tensor of this format in which all is one number; nothing is recorded.
Value full_number(const Spec& spec, PyObject* o) {
  if (PyFloat_CheckExact(o) && has_fractions(spec.dtype)) return filled(spec, PyFloat_AS_DOUBLE(o));
  const Value v = to_value(o, spec.dtype, spec.device);
  if (v.size() != 1) fail_value("full", "expected a number, got shape ", v.shape());
  if (is_complex(spec.dtype)) {
    return call(Contiguous{}, broadcast_to(reshape(v, {}), spec.shape));
  }
  const nb::object exact = nb::steal(to_scalar("full", v));
  const double as_double = PyFloat_AsDouble(nb::steal(PyNumber_Float(exact.ptr())).ptr());
  // Doubles hold every value but those of large integers.
  if (is_integer(spec.dtype) && std::abs(as_double) >= 0x1p53) {
    return call(Contiguous{}, broadcast_to(reshape(v, {}), spec.shape));
  }
  return filled(spec, as_double);
}

nb::object py_full(nb::handle shape, nb::handle value, nb::handle dtype, nb::handle device) {
  const Device place = device_from_python(device.ptr());
  const Dims dims = dims_from_python("full", shape.ptr());
  if (is_tensor(value.ptr())) {
    const Value& v = tensor_of(value.ptr()).value;
    return on_device(broadcast_to(cast(v, dtype_or(dtype, v.dtype())), dims), device);
  }
  PyObject* o = value.ptr();
  const DType want =
      dtype.is_none() ? to_value(o, std::nullopt, place).dtype() : dtype_from_python(dtype.ptr());
  for (std::int64_t n : dims) {
    if (n < 0) fail_value("full", "expected sizes >= 0, got shape ", dims);
  }
  Spec spec(want, dims);
  spec.device = place;
  return wrapped(full_number(spec, o));
}

nb::object py_full_like(nb::handle inp, nb::handle value) {
  const Value& x = value_of("full_like", inp.ptr());
  if (is_tensor(value.ptr())) {
    return wrapped(broadcast_to(cast(tensor_of(value.ptr()).value, x.dtype()), x.shape()));
  }
  return wrapped(full_number(x.spec(), value.ptr()));
}

nb::object py_arange(double start, double step, std::int64_t num, nb::handle dtype,
                     nb::handle device) {
  return wrapped(call(Arange{.start = start,
                             .step = step,
                             .num = num,
                             .dtype = dtype_or(dtype, DType::float32),
                             .comp_node = device_from_python(device.ptr())}));
}

nb::object py_linspace(double start, double stop, std::int64_t num, nb::handle dtype,
                       nb::handle device) {
  return wrapped(call(Linspace{.start = start,
                               .stop = stop,
                               .num = num,
                               .dtype = dtype_or(dtype, DType::float32),
                               .comp_node = device_from_python(device.ptr())}));
}

nb::object py_eye(std::int64_t rows, std::int64_t columns, nb::handle dtype, nb::handle device) {
  return wrapped(call(Eye{.rows = rows,
                          .columns = columns,
                          .dtype = dtype_or(dtype, DType::float32),
                          .comp_node = device_from_python(device.ptr())}));
}

}  // namespace

void bind_shape(nb::module_& m) {
  m.def("reshape", py_reshape);
  m.def("broadcast_to", py_broadcast_to);
  m.def("transpose", py_transpose);
  m.def("expand_dims", py_expand_dims);
  m.def("squeeze", py_squeeze, nb::arg("inp"), nb::arg("axis").none());
  m.def("copy", py_copy, nb::arg("inp"), nb::arg("device").none());
  m.def("concat", py_concat, nb::arg("inps"), nb::arg("axis"), nb::arg("device").none());
  m.def("stack", py_stack, nb::arg("inps"), nb::arg("axis"), nb::arg("device").none());
  m.def("split", py_split);
  m.def("full", py_full, nb::arg("shape"), nb::arg("value"), nb::arg("dtype").none(),
        nb::arg("device").none());
  m.def("full_like", py_full_like);
  m.def("arange", py_arange, nb::arg("start"), nb::arg("step"), nb::arg("num"),
        nb::arg("dtype").none(), nb::arg("device").none());
  m.def("linspace", py_linspace, nb::arg("start"), nb::arg("stop"), nb::arg("num"),
        nb::arg("dtype").none(), nb::arg("device").none());
  m.def("eye", py_eye, nb::arg("rows"), nb::arg("columns"), nb::arg("dtype").none(),
        nb::arg("device").none());
}

}  // namespace mge::py
