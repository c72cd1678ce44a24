// Optimizer steps over lists of parameters.
#include <nanobind/stl/string.h>

#include <array>
#include <string_view>
#include <vector>

#include "bindings/tensor.h"
#include "core/ops/optimizer_step/optimizer_step.h"

namespace mge::py {
namespace {

constexpr std::array<std::pair<std::string_view, StepRule>, 8> kRules{{
    {"sgd", StepRule::sgd},
    {"sgd_momentum", StepRule::sgd_momentum},
    {"sgd_nesterov", StepRule::sgd_nesterov},
    {"adam", StepRule::adam},
    {"adamw", StepRule::adamw},
    {"adagrad", StepRule::adagrad},
    {"adadelta", StepRule::adadelta},
    {"lamb", StepRule::lamb},
}};

StepRule rule_named(const std::string& name) {
  for (const auto& [key, rule] : kRules) {
    if (key == name) return rule;
  }
  fail_value("optimizer_step", "unknown rule '", name, "'");
}

// state[param][key], borrowed: the dicts keep it alive.
Value* state_of(const char* name, nb::handle state, nb::handle param, nb::handle key) {
  PyObject* own = PyDict_GetItemWithError(state.ptr(), param.ptr());
  if (!own && PyErr_Occurred()) throw nb::python_error();
  PyObject* tensor = own && PyDict_Check(own) ? PyDict_GetItemWithError(own, key.ptr()) : nullptr;
  if (!tensor && PyErr_Occurred()) throw nb::python_error();
  if (!tensor || !is_tensor(tensor)) {
    fail_value(name, "a parameter has no state '", nb::cast<std::string>(nb::borrow(key)), "'");
  }
  return &tensor_of(tensor).value;
}

void step(const std::string& name, const std::string& rule, nb::list params, nb::dict state,
          nb::tuple keys, nb::handle master, StepOptions options) {
  options.rule = rule_named(rule);
  const auto states = static_cast<std::size_t>(step_states(options.rule));
  const bool counts = step_counts(options.rule);
  if (keys.size() != states + (counts ? 1 : 0)) {
    fail_value(name.c_str(), "expected ", states + (counts ? 1 : 0), " names of state");
  }
  std::vector<StepSlot> slots;
  for (nb::handle param : params) {
    value_of(name.c_str(), param.ptr());  // raises for what is no Tensor
    PyTensor& tensor = tensor_of(param.ptr());
    if (!tensor.grad) continue;
    StepSlot slot{&tensor.value, tensor_of(tensor.grad).value};
    if (!master.is_none()) {
      slot.low = slot.param;
      slot.param = state_of(name.c_str(), state, param, master);
    }
    for (std::size_t i = 0; i < states; ++i) {
      slot.state[i] = state_of(name.c_str(), state, param, keys[i]);
    }
    if (counts) slot.step = state_of(name.c_str(), state, param, keys[states]);
    slots.push_back(std::move(slot));
  }
  optimizer_step(name.c_str(), options, slots);
}

}  // namespace

void bind_optimizer(nb::module_& m) {
  m.def(
      "optimizer_step",
      [](const std::string& name, const std::string& rule, nb::list params, nb::dict state,
         nb::tuple keys, double lr, double momentum, double weight_decay, double beta1,
         double beta2, double eps, double lr_decay, bool bias_correction, bool always_adapt,
         nb::object master) {
        StepOptions options;
        options.lr = lr;
        options.momentum = momentum;
        options.weight_decay = weight_decay;
        options.beta1 = beta1;
        options.beta2 = beta2;
        options.eps = eps;
        options.lr_decay = lr_decay;
        options.bias_correction = bias_correction;
        options.always_adapt = always_adapt;
        step(name, rule, params, state, keys, master, options);
      },
      nb::arg("name"), nb::arg("rule"), nb::arg("params"), nb::arg("state"), nb::arg("keys"),
      nb::arg("lr"), nb::arg("momentum") = 0.0, nb::arg("weight_decay") = 0.0,
      nb::arg("beta1") = 0.0, nb::arg("beta2") = 0.0, nb::arg("eps") = 0.0,
      nb::arg("lr_decay") = 0.0, nb::arg("bias_correction") = true, nb::arg("always_adapt") = false,
      nb::arg("master") = nb::none(),
      "Steps every parameter that has a gradient; state[param][key] holds its state tensors. Where "
      "there is a `master`, state[param][master] is stepped, and the parameter takes its value.");
}

}  // namespace mge::py
