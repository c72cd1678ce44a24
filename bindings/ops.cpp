// Ops as Python objects (builtin.X) and apply().
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "bindings/tensor.h"
#include "core/dispatch/amp.h"
#include "core/dispatch/dispatch.h"
#include "core/ops/elementwise/elementwise.h"

namespace mge::py {
namespace {

struct PyOp {
  OpRef op;  // null in a PyOpBase

  const Op& get() const {
    if (!op) fail_type("OpDef", "an op that is written in Python has no such attribute");
    return *op;
  }
};

// The base of ops that are written in Python: their method `_apply` makes the outputs.
struct PyOpBase : PyOp {};

FieldValue field_from_python(const char* op, const char* field, PyObject* o) {
  if (o == Py_None) return std::monostate{};
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) {
    const long long n = PyLong_AsLongLong(o);
    if (n == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      fail_value(op, "field '", field, "' does not fit 64 bits");
    }
    return static_cast<std::int64_t>(n);
  }
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyUnicode_Check(o)) {
    const char* text = PyUnicode_AsUTF8(o);  // nullptr for lone surrogates
    if (!text) throw nb::python_error();
    return std::string(text);
  }
  if (PyTuple_Check(o) || PyList_Check(o)) return dims_from_python(op, o);
  Device* device = nullptr;
  if (nb::try_cast<Device*>(nb::handle(o), device) && device) return *device;
  nb::handle h(o);
  // A member of one of the op's enums.
  if (nb::hasattr(h, "name") && nb::hasattr(h, "value"))
    return nb::cast<std::string>(h.attr("name"));
  if (PyIndex_Check(o)) {
    const nb::object n = nb::steal(PyNumber_Index(o));
    if (!n.is_valid()) {
      PyErr_Clear();
      fail_type(op, "field '", field, "': expected an integer, got this ", Py_TYPE(o)->tp_name);
    }
    return field_from_python(op, field, n.ptr());
  }
  return dtype_from_python(o);
}

nb::object field_to_python(const FieldValue& v) {
  return std::visit(
      [](const auto& x) -> nb::object {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, Dims>) {
          return nb::steal(shape_to_python(x));
        } else if constexpr (std::is_same_v<T, DType>) {
          return dtype_to_python(x);
        } else {
          return nb::cast(x);
        }
      },
      v);
}

std::size_t field_index(const OpType& type, std::string_view name) {
  for (std::size_t i = 0; i < type.fields.size(); ++i) {
    if (name == type.fields[i].name) return i;
  }
  return type.fields.size();
}

const OpType& type_named(const std::string& name) {
  static auto* by_name = new std::unordered_map<std::string, const OpType*>;
  const auto it = by_name->find(name);
  if (it != by_name->end()) return *it->second;
  const OpType* type = find_op(name);
  if (!type) fail_value(name.c_str(), "there is no such op");
  by_name->emplace(name, type);
  return *type;
}

// Fields of the reference's ops that have nothing to say here: a label, how to choose among
// kernels, and what to accumulate in (always float32 at the least). There is one format: its name
// must be it.
bool changes_nothing(const char* op, const std::string& name, nb::handle value) {
  if (name == "format") {
    const std::string text = nb::cast<std::string>(nb::str(value));
    if (text == "NCHW" || text == "NCDHW" || text == "nchw" || text == "default") return true;
    fail_value(op, "expected format NCHW, got ", text);
  }
  return name == "scope" || name == "strategy" || name == "workspace_limit" ||
         name == "compute_mode" || name == "data_type";
}

OpRef make(const OpType& type, const nb::args& args, const nb::kwargs& kwargs) {
  const char* op = type.traits.name;
  std::vector<FieldValue> values;
  for (const FieldInfo& f : type.fields) values.push_back(f.default_value);
  if (args.size() > values.size()) {
    fail_type(op, "takes at most ", values.size(), " arguments, got ", args.size());
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    values[i] = field_from_python(op, type.fields[i].name, nb::object(args[i]).ptr());
  }
  for (auto [key, value] : kwargs) {
    const std::string name = nb::cast<std::string>(key);
    const std::size_t i = field_index(type, name);
    if (i == values.size() && changes_nothing(op, name, value)) continue;
    if (i == values.size()) fail_type(op, "has no field '", name, "'");
    values[i] = field_from_python(op, type.fields[i].name, value.ptr());
  }
  return type.create(values);
}

// Converts what Python passes: elementwise and promoting ops, matrix products and convolutions take
// numbers and arrays too, and bring their operands to one dtype; other ops take Tensors as they
// are.
Values inputs_of(const Op& op, PyObject* const* args, std::size_t n) {
  const bool elementwise = op.type == &op_type<Elemwise>();
  const OpTraits& traits = op.type->traits;
  const bool alike = ~traits.amp_inputs == 0;
  if (!elementwise && traits.amp != Amp::promote && !(traits.amp == Amp::low && alike)) {
    Values in(n);
    for (std::size_t i = 0; i < n; ++i) in[i] = value_of(op.name(), args[i]);
    return in;
  }
  // The condition of `where` is no number: it stays what it is.
  const bool where = elementwise && n && detail::attrs<Elemwise>(op).mode == Elemwise::Mode::WHERE;
  Operands in = operands_from_python(op.name(), args + where, n - where);
  DType dtype = in.common(op.name());
  if (elementwise && !has_fractions(dtype) &&
      elemwise_needs_float(detail::attrs<Elemwise>(op).mode)) {
    dtype = DType::float32;
  }
  in.cast_all(autocast_dtype(op, dtype), dispatch_state().amp != nullptr);
  if (!where) return std::move(in.values);
  Values all{value_of(op.name(), args[0])};
  for (Value& v : in.values) all.push_back(std::move(v));
  return all;
}

PyObject* outputs_to_python(Values out) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(out.size()));
  if (!tuple) throw nb::python_error();
  for (std::size_t i = 0; i < out.size(); ++i) {
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), wrap(std::move(out[i])));
  }
  return tuple;
}

const OpRef& op_of(PyObject* o) {
  PyOp* op = nullptr;
  if (!nb::try_cast<PyOp*>(nb::handle(o), op) || !op) {
    fail_type("apply", "expected an op (builtin.X(...)), got ", Py_TYPE(o)->tp_name);
  }
  return op->op;
}

// Other Python threads run during an op that is worth the hand-over. In a traced call the op only
// marks its operands, and two threads must not mark the same ones.
constexpr std::int64_t kReleaseGil = 1 << 17;
Values run(const OpRef& op, Values in) {
  std::int64_t most = 0;
  for (const Value& v : in) most = std::max(most, v.size());
  if (most < kReleaseGil || dispatch_state().trace) return apply(op, std::move(in));
  nb::gil_scoped_release release;
  return apply(op, std::move(in));
}

Values run_call(const OpRef& op, PyObject* const* args, Py_ssize_t n) {
  return run(op, inputs_of(*op, args + 1, static_cast<std::size_t>(n - 1)));
}

// The outputs of an op that is written in Python.
nb::tuple run_python(PyObject* const* args, Py_ssize_t n) {
  nb::list inputs;
  for (Py_ssize_t i = 1; i < n; ++i) inputs.append(nb::handle(args[i]));
  const nb::object out = nb::handle(args[0]).attr("_apply")(*inputs);
  const char* name = Py_TYPE(args[0])->tp_name;
  if (!PyList_Check(out.ptr()) && !PyTuple_Check(out.ptr())) {
    fail_type(name, "expected _apply() to return a list of Tensors, got ",
              Py_TYPE(out.ptr())->tp_name);
  }
  for (nb::handle h : out) value_of(name, h.ptr());
  return nb::tuple(out);
}

OpRef first_as_op(const char* function, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) fail_type(function, "expected an op and its inputs");
  return op_of(args[0]);
}

// apply(op, *inputs) -> tuple of outputs; call(op, *inputs) -> the only output. Plain C functions,
// because every call of a layer goes through one of them.
PyObject* py_apply(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded<PyObject*>(nullptr, [&] {
    const OpRef op = first_as_op("apply", args, n);
    return op ? outputs_to_python(run_call(op, args, n)) : run_python(args, n).release().ptr();
  });
}
PyObject* py_call(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded<PyObject*>(nullptr, [&] {
    const OpRef op = first_as_op("call", args, n);
    if (!op) {
      const nb::tuple out = run_python(args, n);
      if (out.size() != 1)
        fail_value("call", "expected an op with one output, it has ", out.size());
      return nb::object(out[0]).release().ptr();
    }
    Values out = run_call(op, args, n);
    if (out.size() != 1) fail_value("call", "expected an op with one output, it has ", out.size());
    return wrap(std::move(out[0]));
  });
}
// Sets dest to the only output of op(dest, *others). Where nothing records, dest's only reference
// goes to the op, which may then use its buffer; an error leaves dest as it was.
nb::object apply_in_place(nb::handle op, nb::handle dest, const nb::args& others) {
  const OpRef ref = op_of(op.ptr());
  if (!ref) fail_type("apply_in_place", "expected an op of the core");
  Values in{value_of(ref->name(), dest.ptr())};
  for (nb::handle h : others) in.push_back(value_of(ref->name(), h.ptr()));
  Value& slot = tensor_of(dest.ptr()).value;
  const DispatchState& state = dispatch_state();
  if (state.amp || state.trace || (!state.tapes.empty() && state.pause_grad == 0)) {
    slot = std::move(apply(ref, std::move(in))[0]);
    return nb::borrow(dest);
  }
  in[0] = std::move(slot);
  try {
    slot = std::move(execute(ref, in)[0]);
  } catch (...) {
    slot = std::move(in[0]);
    throw;
  }
  return nb::borrow(dest);
}

template <class F>
PyCFunction as_c_function(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}
PyMethodDef g_methods[] = {
    {"apply", as_c_function(py_apply), METH_FASTCALL,
     "apply(op, *inputs) -> list of output Tensors."},
    {"call", as_c_function(py_call), METH_FASTCALL,
     "call(op, *inputs) -> the output Tensor of an op that has one."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

OpRef op_from_python(PyObject* o) {
  const OpRef& op = op_of(o);
  if (!op) {
    fail_type("graph", "expected an op of the core, got ", Py_TYPE(o)->tp_name,
              ", which is written in Python");
  }
  return op;
}
nb::object op_to_python(const OpRef& op) { return nb::cast(PyOp{op}); }
nb::dict fields_to_python(const Op& op) {
  nb::dict out;
  for (std::size_t i = 0; i < op.type->fields.size(); ++i) {
    out[op.type->fields[i].name] = field_to_python(op.type->get(op, i));
  }
  return out;
}

void bind_ops(nb::module_& m) {
  nb::class_<PyOp>(m, "OpDef", "An op with its attributes; builtin.X(...) makes one.")
      .def("__init__",
           [](nb::pointer_and_handle<PyOp> self, nb::args args, nb::kwargs kwargs) {
             const std::string name = nb::cast<std::string>(self.h.attr("_type_name"));
             new (self.p) PyOp{make(type_named(name), args, kwargs)};
           })
      .def(
          "__getattr__",
          [](PyOp& self, const std::string& name) {
            if (!self.op) throw nb::attribute_error(str("no attribute '", name, "'").c_str());
            const OpType& type = *self.op->type;
            const std::size_t i = field_index(type, name);
            if (i == type.fields.size()) {
              throw nb::attribute_error(str(self.op->name(), " has no field '", name, "'").c_str());
            }
            return field_to_python(type.get(*self.op, i));
          })
      .def("__repr__", [](PyOp& self) { return self.get().text(); })
      .def("__hash__", [](PyOp& self) { return self.get().hash(); })
      .def("__eq__",
           [](PyOp& self, nb::object other) {
             PyOp* o = nullptr;
             return nb::try_cast<PyOp*>(other, o) && o && o->op && self.get() == *o->op;
           })
      .def(
          "_set_field",
          [](PyOp& self, const std::string& name, nb::object value) {
            const OpType& type = *self.get().type;
            const std::size_t wanted = field_index(type, name);
            if (wanted == type.fields.size())
              fail_type(type.traits.name, "has no field '", name, "'");
            std::vector<FieldValue> values;
            for (std::size_t i = 0; i < type.fields.size(); ++i)
              values.push_back(type.get(*self.op, i));
            values[wanted] = field_from_python(type.traits.name, name.c_str(), value.ptr());
            self.op = type.create(values);
          },
          nb::arg("name"), nb::arg("value").none());

  nb::class_<PyOpBase, PyOp>(m, "PyOpBase",
                             "Base of ops that are written in Python: apply() calls _apply().")
      .def(nb::init<>());

  if (PyModule_AddFunctions(m.ptr(), g_methods) != 0) throw nb::python_error();
  m.def("apply_in_place", &apply_in_place,
        "Sets dest to the only output of op(dest, *others); returns dest.");
  m.def(
      "op_kind", [](nb::handle op) { return op_from_python(op.ptr())->name(); }, nb::arg("op"),
      "The name of the kind of an op: the class in builtin that makes it.");
  m.def(
      "op_fields", [](nb::handle op) { return fields_to_python(*op_from_python(op.ptr())); },
      nb::arg("op"), "The attributes of an op by name.");
  m.def(
      "prefer_decompositions", [](bool on) { dispatch_state().prefer_decompositions = on; },
      nb::arg("on"),
      "Whether ops that have a decomposition run it instead of their kernel (for tests).");
  m.def(
      "decompose",
      [](nb::handle op, const nb::args& tensors) {
        const OpRef ref = op_from_python(op.ptr());
        if (!ref->type->decompose) fail_type("decompose", ref->name(), " has no decomposition");
        Values inputs;
        for (nb::handle t : tensors) inputs.push_back(value_of("decompose", t.ptr()));
        if (ref->type->infer) {
          Specs specs;
          for (const Value& v : inputs) specs.push_back(v.spec());
          ref->type->infer(*ref, specs);  // raises for wrong inputs
        }
        nb::list out;
        for (Value& v : ref->type->decompose(*ref, inputs)) {
          if (v) {
            out.append(wrapped(std::move(v)));
          } else {
            out.append(nb::none());
          }
        }
        return nb::tuple(out);
      },
      nb::arg("op"), nb::arg("tensors"),
      "The outputs of an op from the ops that it is made of; None for one that it leaves out.");
  m.def(
      "op_types",
      [] {
        nb::list out;
        for (const OpType* t : all_ops()) {
          nb::dict d;
          d["name"] = t->traits.name;
          nb::list fields;
          for (const FieldInfo& f : t->fields) {
            fields.append(
                nb::make_tuple(f.name, field_to_python(f.default_value), nb::cast(f.choices)));
          }
          d["fields"] = fields;
          d["has_kernel"] = t->kernel[0] != nullptr || t->execute != nullptr;
          d["has_grad"] = t->grad != nullptr;
          d["has_decompose"] = t->decompose != nullptr;
          d["differentiable"] = t->traits.differentiable;
          d["random"] = t->traits.random;
          d["by_contents"] = t->traits.by_contents;
          out.append(d);
        }
        return out;
      },
      "What is known of every op: name, fields (name, default, choices), which rules it has.");
}

}  // namespace mge::py
