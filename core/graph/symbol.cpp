#include "core/graph/symbol.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/dispatch/dispatch.h"

namespace mge {
namespace {

Value output_of(std::shared_ptr<const SymbolicCall> call, std::uint32_t output) {
  Value v = Value::pending(call->outputs[output]);
  v.impl()->companion = std::make_unique<Symbol>(std::move(call), output);
  return v;
}

Specs specs_of(const Values& values) {
  Specs specs;
  for (const Value& v : values) specs.push_back(v.spec());
  return specs;
}

// Whether the shapes of the results can be known though they depend on contents. The inputs after
// the first, which say a size or positions, must have contents then; those of the first, an image
// or what is indexed, say nothing. Of other ops (CondTake, NonZero) every input counts.
bool shapes_are_known(const Op& op, const Values& inputs) {
  if (!op.type->traits.by_contents) return true;
  static constexpr std::string_view sized[] = {"IndexItems", "MeshItems",  "Resize",
                                               "Resize3D",   "WarpAffine", "WarpPerspective"};
  if (std::find(std::begin(sized), std::end(sized), op.name()) == std::end(sized)) return false;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (symbol_of(inputs[i])) return false;
  }
  return true;
}

// Ops without a rule for shapes (views, indexing) run on stand-ins; their cost is that of a view.
Specs infer(const OpRef& op, const Values& inputs) {
  if (op->type->infer) {
    Specs known = op->type->infer(*op, specs_of(inputs));
    if (!known.empty()) return known;
  }
  Values operands;
  for (const Value& v : inputs) operands.push_back(symbol_of(v) ? stand_in(v.spec()) : v);
  PauseGrad pause;
  return specs_of(execute_now(op, operands));
}

}  // namespace

Value stand_in(const Spec& spec) {
  Spec one(spec.dtype, {});
  one.device = spec.device;
  const Value zero = Value::empty(one);
  std::memset(zero.mut().data, 0, static_cast<std::size_t>(size_of(spec.dtype)));
  Strides strides;
  for (int i = 0; i < spec.ndim(); ++i) strides.push_back(0);
  return zero.alias(spec.shape, strides);
}

std::atomic<bool> symbols_in_use{false};

Value make_symbol(const Spec& spec) {
  symbols_in_use.store(true, std::memory_order_relaxed);
  return output_of(std::make_shared<SymbolicCall>(
                       SymbolicCall{next_track_serial(), OpRef(), Values(), Specs{spec}}),
                   0);
}

Value symbol_beside(const Symbol& symbol, std::uint32_t output) {
  return output_of(symbol.call, output);
}

const Symbol* symbol_without_storage(const ValueImpl& impl) {
  return dynamic_cast<const Symbol*>(impl.companion.get());
}

bool has_symbols(const Values& inputs) {
  for (const Value& v : inputs) {
    if (symbol_of(v)) return true;
  }
  return false;
}

Values execute_on_symbols(const OpRef& op, const Values& inputs) {
  if (!shapes_are_known(*op, inputs)) {
    fail_type(op->name(),
              "expected inputs with contents, got symbols: the shapes of the results depend on "
              "what the inputs hold, which a graph that is edited does not know");
  }
  if (goes_by_parts(*op, inputs)) return op->type->decompose_complex(*op, inputs);
  Specs specs = infer(op, inputs);
  for (Spec& spec : specs) {
    spec.strides = row_major(spec.shape);
    if (!inputs.empty()) spec.device = inputs[0].device();
  }
  const auto call = std::make_shared<const SymbolicCall>(
      SymbolicCall{next_track_serial(), op, inputs, std::move(specs)});
  Values outputs;
  for (std::size_t i = 0; i < call->outputs.size(); ++i) {
    outputs.push_back(output_of(call, static_cast<std::uint32_t>(i)));
  }
  return outputs;
}

}  // namespace mge
