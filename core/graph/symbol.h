// Symbols: values of a known dtype and shape that have no contents. An op with a symbol among its
// inputs is not run: it gives symbols that remember it. So the ordinary functions write the
// expressions that programs put into a graph which they edit (megengine.utils.network).
#pragma once

#include <atomic>
#include <memory>

#include "core/op/op.h"

namespace mge {

// What made a symbol. The outputs of one call share it.
struct SymbolicCall {
  std::uint64_t serial;  // no two calls share one
  OpRef op;              // null for symbols that were made by themselves
  Values inputs;
  Specs outputs;
};

struct Symbol : Companion {
  std::shared_ptr<const SymbolicCall> call;
  std::uint32_t output;

  Symbol(std::shared_ptr<const SymbolicCall> c, std::uint32_t i) : call(std::move(c)), output(i) {}
};

// A new symbol that no op made.
Value make_symbol(const Spec& spec);
// Another output of the call that made a symbol.
Value symbol_beside(const Symbol& symbol, std::uint32_t output);
// nullptr for a value that is none: one that has contents, as a look at it tells.
const Symbol* symbol_without_storage(const ValueImpl& impl);
inline const Symbol* symbol_of(const Value& v) {
  return v.impl()->storage ? nullptr : symbol_without_storage(*v.impl());
}

// Whether symbols were ever made: programs that never edit a graph pay for them with this look.
extern std::atomic<bool> symbols_in_use;
bool has_symbols(const Values& inputs);
// What execute() does with symbols: finds shapes and dtypes. Raises TypeError for an op whose
// shapes depend on contents.
Values execute_on_symbols(const OpRef& op, const Values& inputs);

// Zeros of any shape in the memory of one: what views run on where only shapes are asked for.
Value stand_in(const Spec& spec);

}  // namespace mge
