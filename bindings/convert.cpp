// Conversions between Python's and NumPy's objects and ours.
#include <nanobind/ndarray.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "bindings/sizes.h"
#include "bindings/tensor.h"
#include "core/dispatch/amp.h"
#include "core/graph/trace.h"
#include "core/kernels/cpu/copy.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/tensor/fill.h"

namespace mge::py {
namespace {

// Borrowed for the life of the process: np.dtype instances and scalar types by dtype.
std::array<PyObject*, kDTypeCount> g_dtypes{};
std::array<PyObject*, kDTypeCount> g_scalar_types{};
PyObject* g_numpy = nullptr;          // the numpy module
PyObject* g_prepare_array = nullptr;  // megengine.core.tensor.dtype: an object -> a plain ndarray

nb::handle numpy() { return g_numpy; }

struct Buffer {
  Py_buffer view{};
  explicit Buffer(PyObject* o) {
    if (PyObject_GetBuffer(o, &view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view); }
};

// The dtype of a plain ndarray that prepare_array() has seen; bfloat16 is passed on beside it.
DType dtype_of_buffer(const Py_buffer& b) {
  if (b.format && std::strchr(b.format, 'Z')) {
    return b.itemsize == 16 ? DType::complex128 : DType::complex64;
  }
  const char code = b.format ? b.format[std::strlen(b.format) - 1] : 'B';
  switch (code) {
    case 'f':
      return DType::float32;
    case 'd':
      return DType::float64;
    case 'e':
      return DType::float16;
    case '?':
      return DType::boolean;
    case 'b':
      return DType::int8;
    case 'B':
      return DType::uint8;
    case 'h':
      return DType::int16;
    case 'H':
      return DType::uint16;
    case 'i':
      return DType::int32;
    case 'I':
      return DType::uint32;
    case 'l':
    case 'q':
      return b.itemsize == 8 ? DType::int64 : DType::int32;
    case 'L':
    case 'Q':
      return b.itemsize == 8 ? DType::uint64 : DType::uint32;
    default:
      fail_type("tensor", "unsupported array format '", b.format, "'");
  }
}

// Copies a plain ndarray (any strides).
Value from_array(PyObject* array, bool bfloat16, const Device& device) {
  const Buffer buffer(array);
  const Py_buffer& b = buffer.view;
  const DType dtype = bfloat16 ? DType::bfloat16 : dtype_of_buffer(b);
  View source{b.buf, dtype, {}, {}};
  for (int i = 0; i < b.ndim; ++i) {
    source.shape.push_back(b.shape[i]);
    source.strides.push_back(b.strides[i] / static_cast<std::int64_t>(b.itemsize));
  }
  Value out = Value::empty(dtype, source.shape, device);
  if (out.size() > 0) cpu::copy(source, out.mut());
  return out;
}

// What tensor() makes of 64-bit data (and of complex numbers of two such) when no dtype is asked
// for.
DType default_dtype(DType dtype) {
  if (dtype == DType::float64) return DType::float32;
  if (dtype == DType::complex128) return DType::complex64;
  if (dtype == DType::int64) return DType::int32;
  return dtype;
}

bool fits_int32(const Value& v) {
  const auto* p = v.ptr<std::int64_t>();
  for (std::int64_t i = 0, n = v.size(); i < n; ++i) {
    if (p[i] != static_cast<std::int32_t>(p[i])) return false;
  }
  return true;
}

Value narrowed(Value v) {
  if (v.dtype() == DType::int64 && !fits_int32(v)) {
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "tensor: 64-bit integers that do not fit int32 were cut to 32 bits; pass "
                     "dtype='int64' to keep them",
                     1) != 0) {
      throw nb::python_error();
    }
  }
  const DType want = default_dtype(v.dtype());
  return want == v.dtype() ? v : cast(v, want);
}

Value from_complex(PyObject* o, DType dtype, const Device& device) {
  const std::complex<double> z(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
  Value out = Value::empty(dtype, Shape{}, device);
  if (dtype == DType::complex128) {
    *out.mut().ptr<std::complex<double>>() = z;
  } else if (dtype == DType::complex64) {
    *out.mut().ptr<std::complex<float>>() = std::complex<float>(z);
  } else {
    fail_type("tensor", "a complex number does not convert to ", dtype);
  }
  return out;
}

// A number that whole_number() gave, in another dtype; integers wrap.
Value number_as(const Value& whole, DType dtype) {
  if (whole.dtype() == DType::uint64 && !is_integer(dtype)) {
    return scalar(dtype, static_cast<double>(*whole.ptr<std::uint64_t>()), whole.device());
  }
  return scalar_int(dtype, *whole.ptr<std::int64_t>(), whole.device());
}

Value from_int(PyObject* o, std::optional<DType> dtype, const Device& device) {
  const Value whole = whole_number(o, device);
  return dtype ? number_as(whole, *dtype) : narrowed(whole);
}

}  // namespace

Value whole_number(PyObject* o, const Device& device) {
  int overflow = 0;
  const long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (n == -1 && PyErr_Occurred()) throw nb::python_error();
  if (!overflow) return scalar_int(DType::int64, n, device);
  const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    fail_value("tensor", "integer does not fit 64 bits");
  }
  return scalar_int(DType::uint64, static_cast<std::int64_t>(large), device);
}

// ---- dtypes
// -------------------------------------------------------------------------------------------

DType dtype_from_python(PyObject* o) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (o == g_dtypes[static_cast<std::size_t>(i)] ||
        o == g_scalar_types[static_cast<std::size_t>(i)]) {
      return static_cast<DType>(i);
    }
  }
  if (PyUnicode_Check(o)) {
    const char* s = PyUnicode_AsUTF8(o);
    if (!s) throw nb::python_error();
    for (int i = 0; i < kDTypeCount; ++i) {
      if (std::strcmp(s, kDTypeInfo[i].name) == 0) return static_cast<DType>(i);
    }
  }
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::float32;
  if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) return DType::complex64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::int32;
  nb::object dtype;
  try {
    dtype = numpy().attr("dtype")(nb::handle(o));
  } catch (nb::python_error& e) {
    fail_type("dtype", nb::cast<std::string>(nb::str(e.value())));
  }
  // What such a dtype's integers stand for is in its metadata (core/tensor/dtype.py).
  const nb::object metadata = dtype.attr("metadata");
  if (!metadata.is_none() && nb::cast<bool>(metadata.attr("__contains__")("mgb_dtype"))) {
    fail(ErrorKind::not_implemented, "dtype",
         "quantised tensors are not supported yet; keep floats, quantised arrays of NumPy "
         "(core.tensor.dtype.convert_to_qint8) or the integers (dtype='int8')");
  }
  return dtype_from_name("dtype", nb::cast<std::string>(dtype.attr("name")));
}

nb::object dtype_to_python(DType dtype) {
  return nb::borrow(g_dtypes[static_cast<std::size_t>(dtype)]);
}

Device device_from_python(PyObject* o) {
  if (o == Py_None) return default_device();
  if (PyUnicode_Check(o)) {
    const char* s = PyUnicode_AsUTF8(o);
    if (!s) throw nb::python_error();
    return parse_device(s);
  }
  Device* d = nullptr;
  if (nb::try_cast<Device*>(nb::handle(o), d) && d) return *d;
  nb::object text = nb::steal(PyObject_Str(o));
  if (!text.is_valid()) throw nb::python_error();
  return parse_device(nb::cast<std::string>(text));
}

// ---- shapes
// ---------------------------------------------------------------------------------------------

PyObject* shape_to_python(const Dims& dims) {
  PyObject* out = PyTuple_New(dims.size());
  if (!out) throw nb::python_error();
  for (int i = 0; i < dims.size(); ++i) {
    PyObject* n = PyLong_FromLongLong(dims[i]);
    if (!n) {
      Py_DECREF(out);
      throw nb::python_error();
    }
    PyTuple_SET_ITEM(out, i, n);
  }
  return out;
}

namespace {
std::int64_t int_from_python(const char* op, PyObject* o) {
  if (is_tensor(o)) {
    const Value& v = tensor_of(o).value;
    if (v.size() != 1 || !is_integer(v.dtype())) {
      fail_type(op, "expected an integer, got a ", v.dtype(), " Tensor of shape ", v.shape());
    }
  }
  nb::object index =
      nb::steal(is_tensor(o) ? to_scalar(op, tensor_of(o).value) : PyNumber_Index(o));
  if (!index.is_valid()) {
    PyErr_Clear();
    fail_type(op, "expected an integer, got ", Py_TYPE(o)->tp_name);
  }
  const long long n = PyLong_AsLongLong(index.ptr());
  if (n == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    fail_value(op, "integer does not fit 64 bits");
  }
  return n;
}
}  // namespace

Dims dims_from_python(const char* op, PyObject* o) {
  Dims out;
  if (is_tensor(o)) {
    const Value& v = tensor_of(o).value;
    if (v.ndim() > 1 || !is_integer(v.dtype())) {
      fail_type(op, "expected a 1-d integer Tensor of sizes, got ", v.dtype(), " of shape ",
                v.shape());
    }
    const Value wide = cast(v, DType::int64);
    for (std::int64_t i = 0, n = v.size(); i < n; ++i) {
      out.push_back(wide.ptr<std::int64_t>()[v.ndim() ? i * wide.strides()[0] : 0]);
    }
    return out;
  }
  // An ndarray of more than no dimensions has __index__ too, which raises; it is a sequence.
  if (PyLong_Check(o) || (PyIndex_Check(o) && !PySequence_Check(o))) {
    return Dims{int_from_python(op, o)};
  }
  nb::object fast = nb::steal(PySequence_Fast(o, ""));
  if (!fast.is_valid()) {
    PyErr_Clear();
    fail_type(op, "expected an int or a sequence of ints, got ", Py_TYPE(o)->tp_name);
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.ptr());
  for (Py_ssize_t i = 0; i < n; ++i) {
    out.push_back(int_from_python(op, PySequence_Fast_GET_ITEM(fast.ptr(), i)));
  }
  return out;
}

// ---- values
// ---------------------------------------------------------------------------------------------

Value to_value(PyObject* data, std::optional<DType> dtype, const Device& device) {
  if (is_tensor(data)) {
    const Value& v = tensor_of(data).value;
    return dtype && *dtype != v.dtype() ? cast(v, *dtype) : v;
  }
  if (PyBool_Check(data)) return scalar(dtype.value_or(DType::boolean), data == Py_True, device);
  if (PyFloat_Check(data)) {
    return scalar(dtype.value_or(DType::float32), PyFloat_AS_DOUBLE(data), device);
  }
  if (PyLong_Check(data)) return from_int(data, dtype, device);
  if (PyComplex_Check(data)) {
    return from_complex(data, dtype.value_or(DType::complex64), device);
  }
  // Everything else through NumPy; the helper gives (a plain array, whether it holds bfloat16
  // bits).
  nb::object prepared =
      nb::handle(g_prepare_array)(nb::handle(data), dtype && *dtype == DType::uint64);
  nb::tuple pair = nb::cast<nb::tuple>(prepared);
  Value v = from_array(nb::object(pair[0]).ptr(), nb::cast<bool>(pair[1]), device);
  if (!dtype) return narrowed(std::move(v));
  return *dtype == v.dtype() ? v : cast(v, *dtype);
}

namespace {
// What a NumPy array needs: the value's storage stays alive as long as the array.
struct ArrayOwner {
  Value value;
};
template <class T>
PyObject* array_of(const Value& v) {
  std::array<std::size_t, kMaxDims> shape{};
  std::array<std::int64_t, kMaxDims> strides{};
  for (int i = 0; i < v.ndim(); ++i) {
    shape[static_cast<std::size_t>(i)] = static_cast<std::size_t>(v.shape()[i]);
    strides[static_cast<std::size_t>(i)] = v.strides()[i];
  }
  nb::capsule owner(new ArrayOwner{v},
                    [](void* p) noexcept { delete static_cast<ArrayOwner*>(p); });
  nb::ndarray<nb::numpy, const T, nb::ro> array(v.ptr<T>(), static_cast<std::size_t>(v.ndim()),
                                                shape.data(), owner, strides.data());
  return array.cast(nb::rv_policy::reference).release().ptr();
}
struct HalfTag {};

void note_read(const Value& v) {
  if (TraceSession* session = TraceSession::current()) session->note_read(v);
}
}  // namespace

PyObject* to_numpy(const Value& slot) {
  const Value v = slot;  // another thread may rebind the slot while a traced call computes this
  note_read(v);
  switch (v.dtype()) {
    case DType::float32:
      return array_of<float>(v);
    case DType::float64:
      return array_of<double>(v);
    case DType::int8:
      return array_of<std::int8_t>(v);
    case DType::uint8:
      return array_of<std::uint8_t>(v);
    case DType::int16:
      return array_of<std::int16_t>(v);
    case DType::uint16:
      return array_of<std::uint16_t>(v);
    case DType::int32:
      return array_of<std::int32_t>(v);
    case DType::uint32:
      return array_of<std::uint32_t>(v);
    case DType::int64:
      return array_of<std::int64_t>(v);
    case DType::uint64:
      return array_of<std::uint64_t>(v);
    case DType::boolean:
      return array_of<bool>(v);
    case DType::complex64:
      return array_of<std::complex<float>>(v);
    case DType::complex128:
      return array_of<std::complex<double>>(v);
    case DType::float16:
    case DType::bfloat16: {
      // The bits, seen as the 16-bit type.
      nb::object bits = nb::steal(array_of<std::uint16_t>(v));
      return bits.attr("view")(dtype_to_python(v.dtype())).release().ptr();
    }
  }
  fail_type("numpy", "unknown dtype");
}

PyObject* to_scalar(const char* op, const Value& slot) {
  const Value v = slot;  // as in to_numpy()
  note_read(v);
  if (v.size() != 1) fail_value(op, "expected one element, got shape ", v.shape());
  if (v.dtype() == DType::complex64) {
    const auto z = *v.ptr<std::complex<float>>();
    return PyComplex_FromDoubles(z.real(), z.imag());
  }
  if (v.dtype() == DType::complex128) {
    const auto z = *v.ptr<std::complex<double>>();
    return PyComplex_FromDoubles(z.real(), z.imag());
  }
  return visit_dtype(v.dtype(), [&]<class T>(Tag<T>) -> PyObject* {
    const T x = *v.ptr<T>();
    if constexpr (std::is_same_v<T, bool>) {
      return PyBool_FromLong(x);
    } else if constexpr (std::is_unsigned_v<T>) {
      return PyLong_FromUnsignedLongLong(x);
    } else if constexpr (std::is_integral_v<T>) {
      return PyLong_FromLongLong(x);
    } else {
      return PyFloat_FromDouble(static_cast<double>(static_cast<ComputeType<T>>(x)));
    }
  });
}

// ---- operands
// -----------------------------------------------------------------------------------------

Operands operands_from_python(const char* op, PyObject* const* args, std::size_t n) {
  Operands out(n);
  const Value* first = nullptr;
  for (std::size_t i = 0; i < n; ++i) {
    if (is_tensor(args[i])) {
      out.values[i] = tensor_of(args[i]).value;
      if (!first) first = &out.values[i];
    }
  }
  const Device device = first ? first->device() : default_device();
  for (std::size_t i = 0; i < n; ++i) {
    PyObject* o = args[i];
    if (out.values[i]) continue;
    if (o == Py_None) fail_type(op, "expected a Tensor, a number or an array, got None");
    out.weak[i] = weak_kind(o);
    if (out.weak[i] == 'i') {
      // Kept at full width until the common dtype is known.
      out.values[i] = whole_number(o, device);
    } else if (out.weak[i] == 'f') {
      out.values[i] = scalar(DType::float64, PyFloat_AS_DOUBLE(o), device);
    } else if (out.weak[i] == 'c') {
      out.values[i] = from_complex(o, DType::complex128, device);
    } else {
      out.values[i] = to_value(o, std::nullopt, device);
    }
  }
  return out;
}

DType holding(DType a, DType b) {
  if (is_bool(a) || a == b) return b;
  if (is_bool(b)) return a;
  if (size_of(a) < size_of(b)) std::swap(a, b);  // a is the wider
  const bool signed_a = info(a).is_signed, signed_b = info(b).is_signed;
  if (signed_a == signed_b || (signed_a && size_of(a) > size_of(b))) return a;
  switch (size_of(a)) {
    case 1:
      return DType::int16;
    case 2:
      return DType::int32;
    case 4:
      return DType::int64;
    default:
      return DType::float64;
  }
}

namespace {
DType promote(const char* op, DType a, DType b) {
  if (a == b) return a;
  const DTypeInfo &x = info(a), &y = info(b);
  if (is_complex(a) || is_complex(b)) {
    const auto wide = [](DType d) { return d == DType::complex128 || d == DType::float64; };
    return wide(a) || wide(b) ? DType::complex128 : DType::complex64;
  }
  if (x.kind == DTypeClass::floating || y.kind == DTypeClass::floating) {
    if (a == DType::float64 || b == DType::float64) return DType::float64;
    return DType::float32;
  }
  if (x.kind == DTypeClass::boolean || y.kind == DTypeClass::boolean) return DType::float32;
  const DTypeInfo& other = x.is_signed ? y : x;
  if (x.is_signed != y.is_signed && other.size >= 4) return holding(a, b);
  if (x.is_signed != y.is_signed) {
    fail_type(op, "signed and unsigned integers do not mix: ", a, " and ", b,
              "; cast one with astype()");
  }
  return x.size >= y.size ? a : b;
}
}  // namespace

DType Operands::common(const char* op) const {
  std::optional<DType> strong;
  char weakest = 0;  // 'b' < 'i' < 'f' < 'c'
  const auto rank = [](char c) { return std::string_view("bifc").find(c) + 1; };
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (weak[i]) {
      if (rank(weak[i]) > rank(weakest)) weakest = weak[i];
    } else {
      strong = strong ? promote(op, *strong, values[i].dtype()) : values[i].dtype();
    }
  }
  if (!strong) {
    return weakest == 'c'   ? DType::complex64
           : weakest == 'f' ? DType::float32
           : weakest == 'i' ? DType::int32
                            : DType::boolean;
  }
  return dtype_beside(*strong, weakest);
}

void Operands::cast_all(DType dtype, bool left_to_autocast) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Value& v = values[i];
    if (v.dtype() == dtype) continue;
    if (left_to_autocast && !weak[i] && autocast_takes(v.dtype())) continue;
    if (weak[i]) {
      // A number: no op, so that nothing is recorded for it.
      if (weak[i] == 'c') {
        v = cast(v, dtype);
        continue;
      }
      v = weak[i] == 'i'   ? number_as(v, dtype)
          : weak[i] == 'f' ? scalar(dtype, *v.ptr<double>(), v.device())
                           : scalar(dtype, *v.ptr<bool>(), v.device());
    } else {
      v = cast(v, dtype);
    }
  }
}

// ---- errors
// -----------------------------------------------------------------------------------------------

PyObject* trace_error = nullptr;

void set_python_error() noexcept {
  try {
    throw;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const TraceError& e) {
    PyErr_SetString(trace_error, e.what());
  } catch (const Error& e) {
    PyObject* type = PyExc_RuntimeError;
    switch (e.kind()) {
      case ErrorKind::value:
        type = PyExc_ValueError;
        break;
      case ErrorKind::type:
        type = PyExc_TypeError;
        break;
      case ErrorKind::index:
        type = PyExc_IndexError;
        break;
      case ErrorKind::memory:
        type = PyExc_MemoryError;
        break;
      case ErrorKind::not_implemented:
        type = PyExc_NotImplementedError;
        break;
      case ErrorKind::runtime:
        break;
    }
    PyErr_SetString(type, e.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
}

// What `o` says, with its own ints where they may know where they come from.
static nb::object shape_with_sizes(nb::handle o, const Dims& dims) {
  nb::object shape = nb::steal(shape_to_python(dims));
  if (!sizes_followed.load(std::memory_order_relaxed) || is_tensor(o.ptr())) return shape;
  const bool one = PyLong_Check(o.ptr());
  if (!one && !PyTuple_Check(o.ptr()) && !PyList_Check(o.ptr())) return shape;
  nb::list items;
  for (int i = 0; i < dims.size(); ++i) {
    PyObject* item = one ? o.ptr() : PySequence_Fast_GET_ITEM(o.ptr(), i);
    items.append(PyLong_Check(item) ? nb::handle(item) : nb::handle(shape[i]));
  }
  return nb::tuple(items);
}

void bind_convert(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error&) {
      set_python_error();
    }
  });
  m.def(
      "_set_numpy",
      [](nb::object numpy, nb::object prepare_array, nb::list dtypes) {
        if (dtypes.size() != kDTypeCount)
          fail_value("_set_numpy", "expected a dtype for each of ours");
        g_numpy = numpy.release().ptr();
        g_prepare_array = prepare_array.release().ptr();
        for (std::size_t i = 0; i < kDTypeCount; ++i) {
          nb::object d = dtypes[i];
          g_scalar_types[i] = nb::object(d.attr("type")).release().ptr();
          g_dtypes[i] = d.release().ptr();
        }
      },
      "Tells the core of NumPy: the module, a function that makes plain arrays, and its dtypes in "
      "the "
      "order of dtype_names().");
  m.def("dtype_names", [] {
    nb::list out;
    for (const DTypeInfo& d : kDTypeInfo) out.append(d.name);
    return out;
  });
  m.def(
      "result_type",
      [](nb::args args) {
        std::vector<PyObject*> items;
        for (nb::handle h : args) items.push_back(h.ptr());
        return dtype_to_python(
            operands_from_python("result_type", items.data(), items.size()).common("result_type"));
      },
      "The dtype to which these Tensors, arrays and numbers promote.");
  m.def(
      "make_shape",
      [](nb::object o) { return shape_with_sizes(o, dims_from_python("shape", o.ptr())); },
      "A tuple of ints from an int, a sequence or a 1-d Tensor.");
}

}  // namespace mge::py
