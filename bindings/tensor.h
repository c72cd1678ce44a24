// What every binding file shares: the Python Tensor and the conversions to and from Values.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "core/op/op.h"

namespace mge::py {

namespace nb = nanobind;

// A slot that holds a Value. megengine.tensor.Tensor is a Python class on top of this one.
struct PyTensor {
  Value value;
  PyObject* grad = nullptr;  // a Tensor, or null for None
  std::string name;

  PyTensor() = default;
  explicit PyTensor(Value v) : value(std::move(v)) {}
  ~PyTensor() { Py_XDECREF(grad); }
  PyTensor(const PyTensor&) = delete;
  PyTensor& operator=(const PyTensor&) = delete;
};

// The bound base class and the Python class of new results.
extern PyTypeObject* tensor_base;
extern PyTypeObject* tensor_class;

inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_class || PyObject_TypeCheck(o, tensor_base);
}
inline PyTensor& tensor_of(PyObject* o) { return *nb::inst_ptr<PyTensor>(nb::handle(o)); }
// The value of a Tensor; raises TypeError for anything else.
const Value& value_of(const char* op, PyObject* o);

// Whether arithmetic on this dtype gives fractions: floats and complex numbers.
inline bool has_fractions(DType dtype) { return is_float(dtype) || is_complex(dtype); }

// A new Tensor; a new reference.
PyObject* wrap(Value v);
inline nb::object wrapped(Value v) { return nb::steal(wrap(std::move(v))); }

// ---- dtypes, devices, shapes (convert.cpp)
// -----------------------------------------------------------

DType dtype_from_python(PyObject* o);  // a name, a NumPy dtype or scalar type, bool/int/float
nb::object dtype_to_python(DType dtype);
Device device_from_python(PyObject* o);  // a name, a CompNode, or None for the default
// A tuple of a shape; new reference.
PyObject* shape_to_python(const Dims& dims);
// A shape or axes given as an int, a sequence of ints (Python's, NumPy's or one-element Tensors),
// or a 1-d Tensor or array.
Dims dims_from_python(const char* op, PyObject* o);

// ---- values
// ---------------------------------------------------------------------------------------------

// Any data (Tensor, number, array, nested lists) as a Value, by the rules of mge.tensor(): without
// a dtype, float64 becomes float32 and int64 becomes int32.
Value to_value(PyObject* data, std::optional<DType> dtype, const Device& device);
// A Python int at full width: an int64, or a uint64 where it is too large for that.
Value whole_number(PyObject* o, const Device& device);
// A read-only NumPy array that shares the value's memory; new reference.
PyObject* to_numpy(const Value& v);
// A one-element value as a Python number; new reference.
PyObject* to_scalar(const char* op, const Value& v);

// How a Python number asks for a dtype: 'b', 'i', 'f', 'c'; 0 for what is no Python number.
inline char weak_kind(PyObject* o) {
  return PyBool_Check(o)      ? 'b'
         : PyLong_Check(o)    ? 'i'
         : PyFloat_Check(o)   ? 'f'
         : PyComplex_Check(o) ? 'c'
                              : '\0';
}
// The dtype of an operation on a Tensor of dtype `strong` and a number of this kind.
inline DType dtype_beside(DType strong, char kind) {
  if (is_complex(strong)) return strong;
  if (kind == 'c') return complex_dtype(strong);
  if (kind == 'f' && !is_float(strong)) return DType::float32;
  if (kind == 'i' && is_bool(strong)) return DType::float32;
  return strong;
}

// The smallest dtype that holds all values of two integer or bool ones, as NumPy has it: float64
// for uint64 and a signed one.
DType holding(DType a, DType b);

// A function's operands: Tensors, and what converts to them. A Python bool, int or float is weak:
// it takes a dtype from the others.
struct Operands {
  explicit Operands(std::size_t n) : values(n), weak(n, '\0') {}
  Values values;
  std::vector<char> weak;  // weak_kind() of each

  // The dtype that all go to.
  DType common(const char* op) const;
  // With `left_to_autocast`, Tensors of a dtype that autocast takes stay as they are.
  void cast_all(DType dtype, bool left_to_autocast = false);
};
// Reads operands; numbers and arrays become Values on the device of the first Tensor.
Operands operands_from_python(const char* op, PyObject* const* args, std::size_t n);

// ---- ops (ops.cpp)
// -------------------------------------------------------------------------------------------

// The core's op of an OpDef; raises TypeError for anything else and for ops written in Python.
OpRef op_from_python(PyObject* o);
nb::object op_to_python(const OpRef& op);
// Its fields, by name.
nb::dict fields_to_python(const Op& op);

// ---- errors
// -----------------------------------------------------------------------------------------------

// megengine.jit.TraceError.
extern PyObject* trace_error;
// Sets the Python exception that belongs to the C++ one in flight.
void set_python_error() noexcept;
// For C-level slots: runs f, turns exceptions into Python's and returns `failed`.
template <class R, class F>
R guarded(R failed, F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return failed;
  }
}

// ---- slots that live in files of their own
// ------------------------------------------------------------

PyObject* tensor_getitem(PyObject* self, PyObject* key);             // indexing.cpp
int tensor_setitem(PyObject* self, PyObject* key, PyObject* value);  // indexing.cpp
const PyType_Slot* operator_slots(std::size_t& count);               // operators.cpp

void bind_tensor(nb::module_& m);
void bind_convert(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_shape(nb::module_& m);
void bind_indexing(nb::module_& m);
void bind_autodiff(nb::module_& m);
void bind_amp(nb::module_& m);
void bind_optimizer(nb::module_& m);
void bind_runtime(nb::module_& m);
void bind_random(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_trace(nb::module_& m);

}  // namespace mge::py
