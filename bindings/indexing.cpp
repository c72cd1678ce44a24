// Tensor.__getitem__ and __setitem__: what an index expression of Python means, as ops.
//
// An expression is brought to one item for each axis of the tensor, after axes of size 1 were added
// where it has None or a bool. Ints and slices become the basic part of an op, arrays its index
// arrays.
#include "core/ops/indexing/indexing.h"

#include "bindings/tensor.h"
#include "core/dispatch/dispatch.h"
#include "core/graph/symbol.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/fill.h"

namespace mge::py {
namespace {

constexpr const char* kName = "Tensor index";

bool tracing() { return dispatch_state().trace != nullptr; }
bool nothing_records() { return !tracing() && dispatch_state().tapes.empty(); }

// ---- reading an expression
// ------------------------------------------------------------------------

struct Item {
  enum class Kind { integer, slice, new_axis, ellipsis, boolean, array, mask };
  Kind kind;
  std::int64_t start = 0, stop = 0, step = 0;
  Value array{};

  // How many axes of the tensor it stands for; an ellipsis takes what is left.
  int axes() const {
    switch (kind) {
      case Kind::new_axis:
      case Kind::ellipsis:
      case Kind::boolean:
        return 0;
      case Kind::mask:
        return array.ndim();
      default:
        return 1;
    }
  }
  // What NumPy counts among the advanced indices where there is an array.
  bool advanced() const {
    return kind == Kind::integer || kind == Kind::boolean || kind == Kind::array ||
           kind == Kind::mask;
  }
};
using Kind = Item::Kind;

// NumPy's types, for telling its arrays and scalars from other sequences and numbers.
struct NumpyTypes {
  nb::object asarray, ndarray, boolean;
};
const NumpyTypes& numpy_types() {
  static const auto* types = [] {
    const nb::module_ np = nb::module_::import_("numpy");
    return new NumpyTypes{np.attr("asarray"), np.attr("ndarray"), np.attr("bool_")};
  }();
  return *types;
}
bool is_instance(PyObject* o, const nb::object& type) {
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(type.ptr()));
}

std::int64_t to_int64(PyObject* o) {
  const nb::object n = nb::steal(PyNumber_Index(o));
  if (!n.is_valid()) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(n.ptr(), &overflow);
  if (overflow) fail_index(kName, "an index does not fit 64 bits");
  return value;
}

Item slice_item(PyObject* o) {
  Item item{.kind = Kind::slice};
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(o, &start, &stop, &step) < 0) {
    const bool zero = PyErr_ExceptionMatches(PyExc_ValueError);
    PyErr_Clear();
    if (zero) fail_value(kName, "the step of a slice may not be 0");
    fail_type(kName, "the bounds of a slice are integers or None");
  }
  const auto* s = reinterpret_cast<PySliceObject*>(o);
  item.start = s->start == Py_None ? kNoBound : start;
  item.stop = s->stop == Py_None ? kNoBound : stop;
  item.step = step;
  return item;
}

Item value_item(Value v) {
  if (is_bool(v.dtype())) {
    if (v.ndim() == 0) return {.kind = Kind::boolean, .start = *v.ptr<bool>()};
    return {.kind = Kind::mask, .array = std::move(v)};
  }
  if (!is_integer(v.dtype()))
    fail_index(kName, "expected integer or bool indices, got ", v.dtype());
  // A trace keeps the tensor: its value may be another one in the next call.
  if (v.ndim() == 0 && !tracing()) {
    return {.kind = Kind::integer, .start = to_int64(nb::steal(to_scalar(kName, v)).ptr())};
  }
  return {.kind = Kind::array, .array = std::move(v)};
}

// A list, array or NumPy scalar.
Item array_item(PyObject* o, const Device& device) {
  nb::object array = numpy_types().asarray(nb::handle(o));
  const std::string kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  if (kind == "b") return value_item(to_value(array.ptr(), DType::boolean, device));
  const bool empty = nb::cast<std::int64_t>(array.attr("size")) == 0;
  if (kind != "i" && kind != "u" && !(empty && PyList_Check(o))) {
    fail_index(kName, "expected ints, slices, None, Ellipsis, integer or bool arrays, got ",
               Py_TYPE(o)->tp_name, " of ", nb::str(array.attr("dtype")).c_str());
  }
  const bool large = kind == "u" && nb::cast<int>(array.attr("itemsize")) == 8;
  return value_item(to_value(array.ptr(), large ? DType::uint64 : DType::int64, device));
}

Item item_from_python(PyObject* o, const Device& device) {
  if (PySlice_Check(o)) return slice_item(o);
  if (o == Py_None) return {.kind = Kind::new_axis};
  if (o == Py_Ellipsis) return {.kind = Kind::ellipsis};
  if (PyBool_Check(o)) return {.kind = Kind::boolean, .start = o == Py_True};
  if (PyLong_Check(o)) return {.kind = Kind::integer, .start = to_int64(o)};
  if (is_tensor(o)) return value_item(tensor_of(o).value);
  const NumpyTypes& types = numpy_types();
  const bool is_array = is_instance(o, types.ndarray) || is_instance(o, types.boolean);
  if (!is_array && PyIndex_Check(o)) return {.kind = Kind::integer, .start = to_int64(o)};
  return array_item(o, device);
}

// x[[[0, 1], [1, 0]]] means x[[0, 1], [1, 0]]: a list of what a list of numbers cannot hold is read
// as a tuple.
bool reads_as_tuple(PyObject* list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* o = PyList_GET_ITEM(list, i);
    if (PyList_Check(o) || PyTuple_Check(o) || PySlice_Check(o) || o == Py_None ||
        o == Py_Ellipsis || is_tensor(o) ||
        (!PyLong_Check(o) && is_instance(o, numpy_types().ndarray))) {
      return true;
    }
  }
  return false;
}

std::vector<Item> read_items(PyObject* key, const Device& device) {
  std::vector<Item> items;
  if (PyTuple_Check(key) || (PyList_Check(key) && reads_as_tuple(key))) {
    const nb::object all = nb::steal(PySequence_Tuple(key));
    for (nb::handle o : nb::borrow<nb::tuple>(all))
      items.push_back(item_from_python(o.ptr(), device));
  } else {
    items.push_back(item_from_python(key, device));
  }
  return items;
}

// ---- what it means for a tensor
// -------------------------------------------------------------------

struct Expression {
  Dims new_axes;  // added to the tensor first, counted in the result
  VecItems items;
  Values arrays;  // for items.vec_axis
  Value mask;     // the only index, and as large as the tensor
};

// Positions that pick all (true) or nothing (false) of an axis of size 1.
Value bool_positions(bool value, const Device& device) {
  Spec spec(DType::int32, {value ? 1 : 0});
  spec.device = device;
  return full(spec, 0);
}

void add_mask(Expression& e, const Value& mask, const Shape& shape, int axis, int view_axis) {
  for (int i = 0; i < mask.ndim(); ++i) {
    if (mask.shape()[i] != shape[axis + i]) {
      fail_index(kName, "expected a mask of size ", shape[axis + i], " for axis ", axis + i,
                 ", got shape ", mask.shape());
    }
  }
  for (Value& positions : call_all(NonZero{}, {mask})) {
    e.arrays.push_back(std::move(positions));
    e.items.vec_axis.push_back(view_axis++);
  }
}

Expression resolve(std::vector<Item> items, const Value& x) {
  int axes = 0, ellipses = 0;
  bool has_array = false;
  for (const Item& item : items) {
    axes += item.axes();
    ellipses += item.kind == Kind::ellipsis;
    has_array = has_array || item.kind == Kind::array || item.kind == Kind::mask ||
                item.kind == Kind::boolean;
  }
  if (axes > x.ndim())
    fail_index(kName, "too many indices: ", axes, " for ", x.ndim(), " dimensions");
  if (ellipses > 1) fail_index(kName, "more than one Ellipsis");

  Expression e;
  if (items.size() == 1 && items[0].kind == Kind::mask && items[0].array.shape() == x.shape()) {
    e.mask = std::move(items[0].array);
    return e;
  }
  // `axis` counts in the tensor with its new axes, `old` in the tensor, `view` after ints went.
  int axis = 0, old = 0, view = 0;
  // Index arrays side by side leave their axes in place; apart, they go to the front.
  int runs = 0, first = 0;
  bool in_run = false;
  for (Item& item : items) {
    if (has_array && item.advanced()) {
      if (!in_run && runs++ == 0) first = view;
      in_run = true;
    } else {
      in_run = false;
    }
    switch (item.kind) {
      case Kind::integer:
        e.items.add_int(axis, item.start);
        --view;
        break;
      case Kind::slice:
        if (item.start != kNoBound || item.stop != kNoBound || item.step != 1) {
          e.items.add_slice(axis, item.start, item.stop, item.step);
        }
        break;
      case Kind::new_axis:
        e.new_axes.push_back(axis);
        break;
      case Kind::ellipsis:
        axis += x.ndim() - axes;
        old += x.ndim() - axes;
        view += x.ndim() - axes;
        continue;
      case Kind::boolean:
        e.new_axes.push_back(axis);
        e.items.vec_axis.push_back(view);
        e.arrays.push_back(bool_positions(item.start != 0, x.device()));
        break;
      case Kind::array:
        e.items.vec_axis.push_back(view);
        e.arrays.push_back(std::move(item.array));
        break;
      case Kind::mask:
        add_mask(e, item.array, x.shape(), old, view);
        axis += item.axes();
        old += item.axes();
        view += item.axes();
        continue;
    }
    old += item.axes();
    ++axis;
    ++view;
  }
  e.items.at = runs == 1 ? first : 0;
  return e;
}

Values with_arrays(Values head, const Expression& e) {
  for (const Value& v : e.arrays) head.push_back(v);
  return head;
}

Value get(const Value& whole, const Expression& e) {
  if (e.mask) return std::move(call_all(CondTake{}, {e.mask, whole})[0]);
  const Value x = expand_dims(whole, e.new_axes);
  if (!e.arrays.empty())
    return std::move(call_all(IndexingMultiAxisVec{e.items}, with_arrays({x}, e))[0]);
  if (!nothing_records() || symbol_of(x)) return call(Subtensor{e.items}, x);
  Values in{x};
  return std::move(execute(Subtensor{e.items}, in)[0]);
}

// ---- writing
// --------------------------------------------------------------------------------------

// The written value; a number keeps its full width until it is cast to the tensor's dtype.
Value written_value(PyObject* v, const Value& x) {
  if (PyFloat_Check(v)) return scalar(DType::float64, PyFloat_AS_DOUBLE(v), x.device());
  if (PyLong_Check(v) && !PyBool_Check(v)) return whole_number(v, x.device());
  if (is_tensor(v)) return tensor_of(v).value;
  return to_value(v, x.dtype(), x.device());
}

// Runs a write. Where nothing records, the tensor's only reference goes to the op, which may then
// use its buffer; an error leaves the tensor as it was.
template <class T>
Value write(const T& op, Value& slot, const Value& v, const Expression& e) {
  Values in;
  if (!nothing_records() || symbol_of(slot) || symbol_of(v) || has_symbols(e.arrays)) {
    in.push_back(slot);
    in.push_back(v);
    return std::move(call_all(op, with_arrays(std::move(in), e))[0]);
  }
  in.push_back(std::move(slot));
  in.push_back(v);
  in = with_arrays(std::move(in), e);
  try {
    return std::move(execute(op, in)[0]);
  } catch (...) {
    slot = std::move(in[0]);
    throw;
  }
}

// x[mask] = a number needs no positions.
Value write_where(const Value& mask, const Value& x, const Value& v) {
  return where(mask, cast(reshape(v, {}), x.dtype()), x);
}

void set(Value& slot, Expression e, const Value& v) {
  if (e.mask && v.size() == 1) {
    slot = write_where(e.mask, slot, v);
    return;
  }
  if (e.mask) {
    const Value mask = std::move(e.mask);
    e = {};
    add_mask(e, mask, slot.shape(), 0, 0);
  }
  const Shape shape = slot.shape();
  Value expanded = e.new_axes.empty() ? Value() : expand_dims(slot, e.new_axes);
  Value& target = expanded ? expanded : slot;
  Value out = e.arrays.empty() ? write(SetSubtensor{e.items}, target, v, e)
                               : write(IndexingSetMultiAxisVec{e.items}, target, v, e);
  slot = reshape(out, shape);
}

const Value& bool_mask(const char* op, nb::handle mask) {
  const Value& m = value_of(op, mask.ptr());
  if (!is_bool(m.dtype())) fail_value(op, "expected a bool mask, got ", m.dtype());
  return m;
}

// The dtype of a choice. Integers and bools give way to 16-bit floats here, where arithmetic
// widens, and signed and unsigned integers mix, since they are not computed with.
DType where_dtype(const Operands& in) {
  const bool numbers = in.weak[0] || in.weak[1];
  const DType a = in.values[0].dtype(), b = in.values[1].dtype();
  if (!numbers && is_low_float(a) && !is_float(b)) return a;
  if (!numbers && is_low_float(b) && !is_float(a)) return b;
  const auto whole = [](DType t) { return is_integer(t) || is_bool(t); };
  if (!numbers && whole(a) && whole(b)) return holding(a, b);
  return in.common("where");
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* key) {
  return guarded<PyObject*>(nullptr, [&] {
    const Value x = tensor_of(self).value;
    return wrap(get(x, resolve(read_items(key, x.device()), x)));
  });
}

int tensor_setitem(PyObject* self, PyObject* key, PyObject* value) {
  return guarded<int>(-1, [&] {
    if (!value) fail_type(kName, "elements of a Tensor cannot be deleted");
    Value& slot = tensor_of(self).value;
    // Conversions may run Python code, so they come before the slot is touched.
    Expression e = resolve(read_items(key, slot.device()), slot);
    set(slot, std::move(e), written_value(value, slot));
    return 0;
  });
}

void bind_indexing(nb::module_& m) {
  m.def(
      "gather",
      [](nb::handle inp, std::int64_t axis, nb::handle index) {
        return wrapped(
            gather(value_of("gather", inp.ptr()), axis, value_of("gather", index.ptr())));
      },
      "The elements of inp along axis at the positions in index.");
  m.def(
      "scatter_",
      [](nb::handle inp, std::int64_t axis, nb::handle index, nb::handle source) {
        value_of("scatter", inp.ptr());
        Expression e;  // its arrays are the other inputs
        e.arrays.push_back(value_of("scatter", source.ptr()));
        Value& slot = tensor_of(inp.ptr()).value;
        slot = write(Scatter{.axis = axis}, slot, value_of("scatter", index.ptr()), e);
        return nb::borrow(inp);
      },
      "Puts source into inp along axis at the positions in index; returns inp.");
  m.def(
      "nonzero",
      [](nb::handle mask) {
        nb::list out;
        for (Value& v : call_all(NonZero{}, {value_of("nonzero", mask.ptr())})) {
          out.append(wrapped(std::move(v)));
        }
        return out;
      },
      "The positions of the true elements of a mask, an integer vector for each axis.");
  m.def(
      "where",
      [](nb::handle mask, nb::handle x, nb::handle y) {
        PyObject* const args[] = {x.ptr(), y.ptr()};
        const Value& m = bool_mask("where", mask);
        Operands in = operands_from_python("where", args, 2);
        in.cast_all(where_dtype(in));
        return wrapped(where(m, in.values[0], in.values[1]));
      },
      "x where mask is true, y elsewhere.");
  m.def(
      "cond_take",
      [](nb::handle mask, nb::handle x) {
        Values out =
            call_all(CondTake{}, {bool_mask("cond_take", mask), value_of("cond_take", x.ptr())});
        return nb::make_tuple(wrapped(std::move(out[0])), wrapped(std::move(out[1])));
      },
      "The elements of x where mask is true, and their places in the flattened x.");
  m.def(
      "one_hot",
      [](nb::handle inp, nb::handle num_classes) {
        const Value& labels = value_of("one_hot", inp.ptr());
        if (!is_integer(labels.dtype()))
          fail_type("one_hot", "expected integer labels, got ", labels.dtype());
        const Dims classes = dims_from_python("one_hot", num_classes.ptr());
        if (classes.size() != 1 || classes[0] < 0)
          fail_value("one_hot", "expected a number of classes, got ", classes);
        Spec spec(labels.dtype(), labels.shape());
        spec.shape.push_back(classes[0]);
        spec.strides = row_major(spec.shape);
        spec.device = labels.device();
        Values in;
        in.push_back(zeros(spec));
        in.push_back(labels);
        in.push_back(scalar_like(labels, 1));
        return wrapped(
            std::move(call_all(IndexingSetOneHot{.axis = labels.ndim()}, std::move(in))[0]));
      },
      "Ones at the places of the labels on a new last axis.");
  m.def(
      "indexing_one_hot",
      [](nb::handle src, nb::handle index, std::int64_t axis, bool keepdims) {
        const Value& x = value_of("indexing_one_hot", src.ptr());
        const Value out = indexing_one_hot(x, value_of("indexing_one_hot", index.ptr()), axis);
        return wrapped(keepdims ? out : squeeze(out, {axis}));
      },
      "One element along an axis for each position of the others.");
}

}  // namespace mge::py
