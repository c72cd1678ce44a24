// Autocast.
#include "core/dispatch/amp.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "bindings/tensor.h"
#include "core/dispatch/dispatch.h"
#include "core/graph/symbol.h"
#include "core/ops/check_non_finite/check_non_finite.h"

namespace mge::py {
namespace {

Autocast autocast_from_python(bool enabled, const std::string& low, const std::string& high) {
  return {enabled, dtype_from_name("autocast", low), dtype_from_name("autocast", high)};
}

// The gradients of tensors, each once.
std::vector<PyTensor*> gradients_of(const char* name, nb::handle tensors) {
  std::vector<PyTensor*> out;
  std::unordered_set<PyTensor*> seen;
  for (nb::handle t : tensors) {
    value_of(name, t.ptr());  // raises for what is no Tensor
    PyObject* grad = tensor_of(t.ptr()).grad;
    if (grad && seen.insert(&tensor_of(grad)).second) out.push_back(&tensor_of(grad));
  }
  return out;
}

// Multiplies the gradients; whether one is infinite or NaN then. In place where nobody else holds
// their buffers and no layer looks on.
bool scale_gradients(nb::list tensors, double factor) {
  const std::vector<PyTensor*> grads = gradients_of("GradScaler", tensors);
  if (grads.empty()) return false;
  const OpRef op = make_op(CheckNonFinite{factor});
  const DispatchState& layers = dispatch_state();
  const bool watched =
      layers.trace || (!layers.tapes.empty() && layers.pause_grad == 0) ||
      std::any_of(grads.begin(), grads.end(), [](PyTensor* g) { return symbol_of(g->value); });
  Values in, out;
  for (PyTensor* g : grads) in.push_back(g->value);
  if (watched) {
    out = apply(op, std::move(in));
  } else {
    Specs specs;
    for (const Value& v : in) specs.push_back(v.spec());
    infer(CheckNonFinite{factor}, specs);  // raises while the gradients are where they were
    for (PyTensor* g : grads) g->value = Value();
    try {
      out = execute_now(op, in);
    } catch (...) {
      for (std::size_t i = 0; i < grads.size(); ++i) grads[i]->value = in[i];
      throw;
    }
  }
  for (std::size_t i = 0; i < grads.size(); ++i) grads[i]->value = std::move(out[i]);
  return PyObject_IsTrue(nb::steal(to_scalar("GradScaler", out.back())).ptr()) == 1;
}

}  // namespace

void bind_amp(nb::module_& m) {
  m.def(
      "autocast_state",
      [] {
        const Autocast& now = autocast();
        return nb::make_tuple(now.enabled, std::string(name(now.low)), std::string(name(now.high)));
      },
      "Whether autocast is on in this thread, its low and its high precision dtype.");
  m.def(
      "set_autocast",
      [](bool enabled, const std::string& low, const std::string& high) {
        set_autocast(autocast_from_python(enabled, low, high));
      },
      nb::arg("enabled"), nb::arg("low"), nb::arg("high"));
  m.def(
      "enter_autocast",
      [](bool enabled, const std::string& low, const std::string& high) {
        enter_autocast(autocast_from_python(enabled, low, high));
      },
      nb::arg("enabled"), nb::arg("low"), nb::arg("high"),
      "The same until leave_autocast(), which brings back what was there.");
  m.def("leave_autocast", &leave_autocast);
  m.def(
      "autocast_cache",
      [] {
        const CastCacheStats s = cast_cache_stats();
        nb::dict d;
        d["entries"] = s.entries;
        d["bytes"] = s.bytes;
        d["casts"] = s.casts;
        d["reuses"] = s.reuses;
        return d;
      },
      "Casts that open scopes keep, and how many were made and used again so far.");
  m.def("scale_gradients", &scale_gradients, nb::arg("tensors"), nb::arg("factor"),
        "Multiplies the gradients of Tensors; True where one is infinite or NaN then.");
}

}  // namespace mge::py
