// Python's operators on Tensors: C-level slots, because `a + b` on ten numbers should cost what the
// call costs.
#include "bindings/tensor.h"
#include "core/dispatch/amp.h"
#include "core/dispatch/dispatch.h"
#include "core/graph/symbol.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/tensor/fill.h"

namespace mge::py {
namespace {

using Mode = Elemwise::Mode;

bool layers_off() {
  const DispatchState& s = dispatch_state();
  return !s.amp && !s.trace && s.tapes.empty();
}

// How a mode wants its operands.
enum class Want { arithmetic, true_divide, compare, logical };

Value number_as(PyObject* number, DType dtype, const Device& device) {
  if (PyFloat_Check(number)) return scalar(dtype, PyFloat_AS_DOUBLE(number), device);
  return to_value(number, dtype, device);
}

Value elemwise(Mode mode, Want want, PyObject* a, PyObject* b) {
  const char* op = elemwise_name(mode);
  // The usual mixture, without looking for more.
  const bool number_a = weak_kind(a), number_b = weak_kind(b);
  if (number_a != number_b && (number_a ? is_tensor(b) : is_tensor(a)) && want != Want::logical) {
    const Value& tensor = tensor_of(number_a ? b : a).value;
    PyObject* number = number_a ? a : b;
    DType dtype = dtype_beside(tensor.dtype(), weak_kind(number));
    if (want == Want::true_divide && !has_fractions(dtype)) dtype = DType::float32;
    dtype = autocast_dtype(*elemwise_op(mode), dtype);
    Values in(2);
    in[number_a] = cast(tensor, dtype);
    in[number_b] = number_as(number, dtype, tensor.device());
    return std::move(apply(elemwise_op(mode), std::move(in))[0]);
  }
  PyObject* args[] = {a, b};
  Operands in = operands_from_python(op, args, 2);
  DType dtype = in.common(op);
  if (want == Want::true_divide && !has_fractions(dtype)) dtype = DType::float32;
  if (want == Want::logical && !is_bool(dtype)) {
    fail_type(op, "expected two bool tensors, got ", in.values[0].dtype(), " and ",
              in.values[1].dtype());
  }
  in.cast_all(autocast_dtype(*elemwise_op(mode), dtype));
  return std::move(apply(elemwise_op(mode), std::move(in.values))[0]);
}

// What an operator takes beside a Tensor; anything else gets NotImplemented, and so Python's
// TypeError.
bool is_operand(PyObject* o) {
  return is_tensor(o) || weak_kind(o) || PySequence_Check(o) ||
         PyObject_HasAttrString(o, "__array__");
}

template <Mode mode, Want want>
PyObject* binary(PyObject* a, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (is_tensor(a) && is_tensor(b)) {
      const Value &x = tensor_of(a).value, &y = tensor_of(b).value;
      Value out;
      if (layers_off() && !symbol_of(x) && !symbol_of(y) && x.device() == y.device() &&
          elemwise_fast(mode, x, y, out)) {
        return wrap(std::move(out));
      }
    } else if (PyUnicode_Check(a) || PyUnicode_Check(b) || !is_operand(a) || !is_operand(b)) {
      Py_RETURN_NOTIMPLEMENTED;
    }
    return wrap(elemwise(mode, want, a, b));
  });
}

template <Mode mode, Want want>
PyObject* inplace(PyObject* a, PyObject* b) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    if (PyUnicode_Check(b) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
    Value out = elemwise(mode, want, a, b);
    tensor_of(a).value = std::move(out);
    return Py_NewRef(a);
  });
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow(): a Tensor takes no third argument");
    return nullptr;
  }
  return binary<Mode::POW, Want::true_divide>(a, b);
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject*) {
  return inplace<Mode::POW, Want::true_divide>(a, b);
}

template <Mode mode>
PyObject* unary(PyObject* a) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    return wrap(std::move(apply(elemwise_op(mode), Values{tensor_of(a).value})[0]));
  });
}
PyObject* positive(PyObject* a) { return Py_NewRef(a); }

PyObject* compare(PyObject* a, PyObject* b, int how) {
  switch (how) {
    case Py_LT:
      return binary<Mode::LT, Want::compare>(a, b);
    case Py_LE:
      return binary<Mode::LEQ, Want::compare>(a, b);
    case Py_GT:
      return binary<Mode::LT, Want::compare>(b, a);
    case Py_GE:
      return binary<Mode::LEQ, Want::compare>(b, a);
    case Py_EQ:
      return binary<Mode::EQ, Want::compare>(a, b);
    default:
      return binary<Mode::NEQ, Want::compare>(a, b);
  }
}

int truth(PyObject* a) {
  return guarded<int>(-1, [&]() -> int {
    const Value& v = tensor_of(a).value;
    if (v.size() != 1) {
      fail_value("bool", "the truth value of a Tensor of shape ", v.shape(),
                 " is ambiguous; use .all() or .any() of its numpy()");
    }
    nb::object x = nb::steal(to_scalar("bool", v));
    return PyObject_IsTrue(x.ptr());
  });
}
PyObject* to_float(PyObject* a) {
  return guarded<PyObject*>(nullptr, [&] {
    nb::object x = nb::steal(to_scalar("float", tensor_of(a).value));
    return PyNumber_Float(x.ptr());
  });
}
PyObject* to_int(PyObject* a) {
  return guarded<PyObject*>(nullptr, [&] {
    nb::object x = nb::steal(to_scalar("int", tensor_of(a).value));
    return PyNumber_Long(x.ptr());
  });
}
PyObject* to_index(PyObject* a) {
  return guarded<PyObject*>(nullptr, [&] {
    const Value& v = tensor_of(a).value;
    if (has_fractions(v.dtype())) fail_type("index", "expected an integer Tensor, got ", v.dtype());
    nb::object x = nb::steal(to_scalar("index", v));
    return PyNumber_Long(x.ptr());
  });
}

// The address of a function template needs its type named.
PyType_Slot slot(int id, PyObject* (*f)(PyObject*, PyObject*)) {
  return {id, reinterpret_cast<void*>(f)};
}
PyType_Slot slot(int id, PyObject* (*f)(PyObject*)) { return {id, reinterpret_cast<void*>(f)}; }
PyType_Slot slot(int id, PyObject* (*f)(PyObject*, PyObject*, PyObject*)) {
  return {id, reinterpret_cast<void*>(f)};
}
PyType_Slot slot(int id, PyObject* (*f)(PyObject*, PyObject*, int)) {
  return {id, reinterpret_cast<void*>(f)};
}
PyType_Slot slot(int id, int (*f)(PyObject*)) { return {id, reinterpret_cast<void*>(f)}; }

}  // namespace

const PyType_Slot* operator_slots(std::size_t& count) {
  constexpr Want arithmetic = Want::arithmetic, true_divide = Want::true_divide,
                 logical = Want::logical;
  static const PyType_Slot slots[] = {
      slot(Py_nb_add, binary<Mode::ADD, arithmetic>),
      slot(Py_nb_subtract, binary<Mode::SUB, arithmetic>),
      slot(Py_nb_multiply, binary<Mode::MUL, arithmetic>),
      slot(Py_nb_true_divide, binary<Mode::TRUE_DIV, true_divide>),
      slot(Py_nb_floor_divide, binary<Mode::FLOOR_DIV, arithmetic>),
      slot(Py_nb_remainder, binary<Mode::MOD, arithmetic>),
      slot(Py_nb_power, power),
      slot(Py_nb_lshift, binary<Mode::SHL, arithmetic>),
      slot(Py_nb_rshift, binary<Mode::SHR, arithmetic>),
      slot(Py_nb_and, binary<Mode::AND, logical>),
      slot(Py_nb_or, binary<Mode::OR, logical>),
      slot(Py_nb_xor, binary<Mode::XOR, logical>),
      slot(Py_nb_inplace_add, inplace<Mode::ADD, arithmetic>),
      slot(Py_nb_inplace_subtract, inplace<Mode::SUB, arithmetic>),
      slot(Py_nb_inplace_multiply, inplace<Mode::MUL, arithmetic>),
      slot(Py_nb_inplace_true_divide, inplace<Mode::TRUE_DIV, true_divide>),
      slot(Py_nb_inplace_floor_divide, inplace<Mode::FLOOR_DIV, arithmetic>),
      slot(Py_nb_inplace_remainder, inplace<Mode::MOD, arithmetic>),
      slot(Py_nb_inplace_power, inplace_power),
      slot(Py_nb_inplace_lshift, inplace<Mode::SHL, arithmetic>),
      slot(Py_nb_inplace_rshift, inplace<Mode::SHR, arithmetic>),
      slot(Py_nb_inplace_and, inplace<Mode::AND, logical>),
      slot(Py_nb_inplace_or, inplace<Mode::OR, logical>),
      slot(Py_nb_inplace_xor, inplace<Mode::XOR, logical>),
      slot(Py_nb_negative, unary<Mode::NEGATE>),
      slot(Py_nb_positive, positive),
      slot(Py_nb_absolute, unary<Mode::ABS>),
      slot(Py_nb_invert, unary<Mode::NOT>),
      slot(Py_nb_bool, truth),
      slot(Py_nb_float, to_float),
      slot(Py_nb_int, to_int),
      slot(Py_nb_index, to_index),
      slot(Py_tp_richcompare, compare),
  };
  count = std::size(slots);
  return slots;
}

}  // namespace mge::py
