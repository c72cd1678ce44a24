// The tape, and nodes whose gradient is a Python function.
#include "core/autodiff/tape.h"

#include <algorithm>
#include <memory>

#include "bindings/tensor.h"
#include "core/dispatch/dispatch.h"
#include "core/ops/elementwise/elementwise.h"

namespace mge::py {
namespace {

std::vector<Value> values_of(const char* op, nb::handle list) {
  std::vector<Value> out;
  for (nb::handle h : list) out.push_back(h.is_none() ? Value{} : value_of(op, h.ptr()));
  return out;
}

nb::object wrapped_or_none(const Value& v) { return v ? wrapped(v) : nb::none(); }

// Tensors among `items`, in order.
Values tensors_among(nb::handle items) {
  Values out;
  for (nb::handle h : items) {
    if (is_tensor(h.ptr())) out.push_back(tensor_of(h.ptr()).value);
  }
  return out;
}

// Calls a Function's backward and checks what it returns.
Values call_backward(nb::handle function, const Values& dy, std::size_t inputs) {
  nb::list args;
  for (const Value& g : dy) args.append(wrapped_or_none(g));
  nb::object result = function.attr("backward")(*args);
  Values out;
  if (result.is_none()) {
    out.push_back(Value{});
  } else if (is_tensor(result.ptr())) {
    out.push_back(tensor_of(result.ptr()).value);
  } else {
    for (nb::handle h : result)
      out.push_back(h.is_none() ? Value{} : value_of("Function.backward", h.ptr()));
  }
  // Missing ones are None, as programs leave out those of labels and the like; and they return None
  // for an argument that is no Tensor.
  while (out.size() > inputs && !out.back()) out.resize(out.size() - 1);
  if (out.size() > inputs) {
    fail_value("Function.backward", "expected a gradient for each of ", inputs, " inputs, got ",
               out.size());
  }
  while (out.size() < inputs) out.push_back(Value{});
  return out;
}

// Runs function.forward(*args) unrecorded and gives its outputs to the tapes as one node.
nb::object call_function(nb::object function, nb::args args) {
  nb::object result;
  {
    PauseGrad pause;
    result = function.attr("forward")(*args);
  }
  const bool single = is_tensor(result.ptr());
  if (!single && !PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) {
    fail_type("Function.forward", "expected to return a Tensor or a tuple or list of them, got ",
              Py_TYPE(result.ptr())->tp_name);
  }
  nb::list outputs;
  if (single) {
    outputs.append(result);
  } else {
    for (nb::handle h : result) outputs.append(h);
  }
  const Values inputs = tensors_among(args);
  Values values;
  nb::list fresh;
  for (nb::handle h : outputs) {
    values.push_back(value_of("Function.forward", h.ptr()).detached());
    fresh.append(wrapped(values[values.size() - 1]));
  }
  const DispatchState& state = dispatch_state();
  if (state.pause_grad == 0) {
    for (Tape* tape : state.tapes) {
      const bool follows =
          tape->recording() && std::any_of(inputs.begin(), inputs.end(),
                                           [&](const Value& v) { return tape->follows(v); });
      if (!follows) continue;
      tape->record("Function", inputs, values,
                   [function, n = inputs.size()](const Values& dy, std::uint32_t) {
                     return call_backward(function, dy, n);
                   });
    }
  }
  if (single) return nb::object(fresh[0]);
  if (PyList_Check(result.ptr())) return fresh;
  return nb::tuple(fresh);
}

}  // namespace

void bind_autodiff(nb::module_& m) {
  nb::class_<Tape>(m, "Tape", "Records ops on watched tensors, for one backward.")
      .def(nb::init<>())
      .def("enter", &Tape::enter)
      .def("exit", &Tape::exit)
      .def("clear", &Tape::clear)
      .def("follows",
           [](const Tape& t, nb::handle tensor) {
             return t.recording() && t.follows(value_of("follows", tensor.ptr()));
           })
      .def("watch", [](Tape& t, nb::handle tensor) { t.watch(value_of("attach", tensor.ptr())); })
      .def(
          "backward",
          [](Tape& t, nb::handle ys, nb::handle dys, nb::handle ready) {
            const std::vector<Value> y = values_of("backward", ys), dy = values_of("backward", dys);
            if (y.size() != dy.size()) {
              fail_value("backward", "expected as many gradients as outputs, got ", dy.size(),
                         " for ", y.size());
            }
            nb::list out;
            Tape::Ready tell;
            if (!ready.is_none()) {
              tell = [&](std::size_t place, const Value& g) { ready(place, wrapped(g)); };
            }
            for (const Value& g : t.backward(y, dy, tell)) out.append(wrapped_or_none(g));
            return out;
          },
          nb::arg("ys"), nb::arg("dys"), nb::arg("ready") = nb::none(),
          "The gradient of each watched tensor, None where ys do not depend on it. `ready`, if "
          "given, is called with a tensor's place and its gradient once that is whole.");
  m.def(
      "is_recording",
      [] {
        const DispatchState& state = dispatch_state();
        return state.pause_grad == 0 &&
               std::any_of(state.tapes.begin(), state.tapes.end(),
                           [](const Tape* tape) { return tape->recording(); });
      },
      "Whether any tape records what is computed now.");
  m.def("call_function", call_function, "Calls an autodiff.Function.");
}

}  // namespace mge::py
