// Ops in the order in which they run, and the values that pass between them: every value is made
// once, by a node or outside. A traced call is recorded as one; what is dumped, loaded and exported
// is one too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/op/op.h"

namespace mge {

using ValueId = std::uint32_t;

struct Graph {
  struct Node {
    OpRef op;
    SmallVector<ValueId, 4> in, out;
  };
  struct Entry {
    Spec spec;
    bool external;     // made outside: an argument, a parameter, a number
    Value constant{};  // its contents, where the graph holds them; external then
  };
  std::vector<Node> nodes;
  std::vector<Entry> values;  // by id
  // What is asked for. A record that is still open has none.
  std::vector<ValueId> outputs;

  ValueId add_value(const Spec& spec, bool external) {
    values.push_back({spec, external});
    return static_cast<ValueId>(values.size() - 1);
  }
  // Nodes begin ... end - 1, for the values in `wanted`. Ids stay what they are; what nodes before
  // `begin` make comes from outside.
  Graph part(std::size_t begin, std::size_t end, std::vector<ValueId> wanted) const;
  // The first `nodes` nodes of a record, and the values up to there.
  Graph prefix(std::size_t nodes) const;
  // Whether this graph begins with the first `nodes` nodes of another one.
  bool begins_like(const Graph& other, std::size_t nodes) const;
  // A line for each node: %5 = Elemwise(mode='ADD')(%1, %3)  # float32 (2, 3)
  std::string text() const;
};

// Whether two ops compute the same. Python keeps the ops that it calls often, which makes the
// answer a comparison of pointers.
inline bool same_op(const OpRef& a, const OpRef& b) { return a == b || *a == *b; }

}  // namespace mge
