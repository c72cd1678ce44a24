// Ops in the order in which they run, and the values that pass between them: every value is made
// once, by a node or outside. A traced call is recorded as one; what is dumped, loaded and exported
// is one too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/op/op.h"

namespace mge {

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};

struct Graph {
  struct Node {
    OpRef op;
    SmallVector<ValueId, 4> in, out;
    // Where the user's code calls it, "train.py:12": for messages. Kept for good; null if unknown.
    const char* place = nullptr;
  };
  struct Entry {
    Spec spec;
    bool external;          // made outside: an argument, a parameter, a number
    Value constant{};       // its contents, where the graph holds them; external then
    bool captured = false;  // made outside the traced function, and no argument of it
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
  // The same graph with the ids 0, 1, ... in the order of the text: first what comes from outside,
  // `keep` before the rest, then what the nodes make. Of what comes from outside, only what is used
  // or in `keep` stays. `to` gets the new id for each old one, or kNoValue.
  Graph renumbered(const std::vector<ValueId>& keep, std::vector<ValueId>& to) const;

  // The graph as text, which parse() reads back (core/graph/text.cpp says how it is written):
  //   %0 = input : float32 (2, 3)
  //   %1 = constant 2.0 : float32 ()
  //   %2 = Elemwise(mode='ADD')(%0, %1) : float32 (2, 3)
  //   return %2
  std::string text() const;
  // The graph of a text; raises ValueError that names line and column. Large constants are not in
  // the text: `constants` has their contents, by id. `dense` demands ids as renumbered() gives
  // them, so that a file asks for no more memory than its text is worth.
  static Graph parse(std::string_view text,
                     const std::unordered_map<ValueId, Value>& constants = {}, bool dense = false);
};

// Whether two graphs have the same nodes, outputs and constants. Ids that nothing uses do not
// count.
bool operator==(const Graph& a, const Graph& b);

inline bool same_spec(const Spec& a, const Spec& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides && a.device == b.device;
}
// Whether two ops compute the same. Python keeps the ops that it calls often, which makes the
// answer a comparison of pointers.
inline bool same_op(const OpRef& a, const OpRef& b) { return a == b || *a == *b; }

}  // namespace mge
