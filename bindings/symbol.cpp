// Symbols as Python objects (core/graph/symbol.h). There is one object for each symbol, so that
// what a program says about it (a name) is not lost.
#include "bindings/symbol.h"

namespace mge::py {
namespace {

// The class of symbols, and the objects that live: a weak dictionary by (call, output). Kept until
// the process ends.
PyTypeObject* symbol_class = nullptr;
PyObject* symbol_objects = nullptr;

nb::tuple key_of(const Symbol& s) { return nb::make_tuple(s.call->serial, s.output); }

const Symbol& checked(nb::handle tensor) {
  const Symbol* s = symbol_of(value_of("symbol", tensor.ptr()));
  if (!s) fail_type("symbol", "expected a symbol, got a Tensor with contents");
  return *s;
}

}  // namespace

PyObject* wrap_symbol(Value v, const Symbol& symbol) {
  if (!symbol_class) fail_runtime("symbol", "expected the class of symbols to be set");
  const nb::handle objects(symbol_objects);
  const nb::tuple key = key_of(symbol);
  nb::object known = objects.attr("get")(key);
  if (!known.is_none()) return known.release().ptr();
  nb::object made = wrapped_as(symbol_class, std::move(v));
  objects[key] = made;
  // It keeps the objects of what it was made of: they know more than their values do.
  nb::list sources;
  for (const Value& input : symbol.call->inputs) {
    if (symbol_of(input)) sources.append(wrapped(input));
  }
  made.attr("_sources") = sources;
  return made.release().ptr();
}

void bind_symbol(nb::module_& m) {
  m.def(
      "set_symbol_class",
      [](nb::type_object type, nb::object objects) {
        if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), tensor_base)) {
          fail_type("set_symbol_class", "expected a subclass of Tensor");
        }
        symbol_class = reinterpret_cast<PyTypeObject*>(type.release().ptr());
        symbol_objects = objects.release().ptr();
      },
      nb::arg("type"), nb::arg("objects"),
      "Makes this class the type of symbols, which are kept in a weak dictionary by their keys.");
  m.def(
      "make_symbol",
      [](nb::handle dtype, nb::handle shape) {
        return wrapped(make_symbol(
            Spec(dtype_from_python(dtype.ptr()), dims_from_python("symbol", shape.ptr()))));
      },
      nb::arg("dtype"), nb::arg("shape"),
      "A Tensor without contents. Ops on it are remembered, not run.");
  m.def(
      "is_symbol",
      [](nb::handle tensor) { return symbol_of(value_of("symbol", tensor.ptr())) != nullptr; },
      nb::arg("tensor"));
  m.def(
      "symbol_key", [](nb::handle tensor) { return key_of(checked(tensor)); }, nb::arg("tensor"),
      "What tells symbols apart: the call that made it and which of its outputs it is.");
  m.def(
      "symbol_call",
      [](nb::handle tensor) -> nb::object {
        const Symbol& symbol = checked(tensor);
        const SymbolicCall& call = *symbol.call;
        if (!call.op) return nb::none();
        nb::list inputs, outputs;
        for (const Value& v : call.inputs) inputs.append(wrapped(v));
        for (std::size_t i = 0; i < call.outputs.size(); ++i) {
          outputs.append(wrapped(symbol_beside(symbol, static_cast<std::uint32_t>(i))));
        }
        return nb::make_tuple(op_to_python(call.op), inputs, outputs);
      },
      nb::arg("tensor"),
      "The op that made it, its inputs and all its outputs; None for one of its own.");
}

}  // namespace mge::py
