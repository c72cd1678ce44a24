// Graphs as Python objects, and programs made of them (core/graph).
#include "core/graph/graph.h"

#include <nanobind/stl/optional.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "bindings/tensor.h"
#include "core/graph/liveness.h"
#include "core/graph/program.h"
#include "core/graph/verify.h"
#include "core/runtime/file_memory.h"

namespace mge::py {
namespace {

// A node and a value as Python sees them: copies, which a change of the graph leaves as they are.
struct PyNode {
  Graph::Node node;
};
struct PyEntry {
  Graph::Entry entry;
};

template <class Ids>
nb::tuple ids_to_python(const Ids& ids) {
  nb::list out;
  for (const ValueId id : ids) out.append(id);
  return nb::tuple(out);
}

const Graph::Entry& entry_of(const Graph& g, std::size_t id) {
  if (id >= g.values.size()) {
    fail_index("Graph", "there is no value ", id, " among ", g.values.size());
  }
  return g.values[id];
}

void check_ids(const Graph& g, const std::vector<ValueId>& ids) {
  for (const ValueId id : ids) entry_of(g, id);
}

ValueId add_value(Graph& g, nb::handle dtype, nb::handle shape, bool external) {
  const Spec spec(dtype_from_python(dtype.ptr()), dims_from_python("Graph", shape.ptr()));
  for (const std::int64_t n : spec.shape) {
    if (n < 0) fail_value("Graph", "expected no negative size, got shape ", spec.shape);
  }
  return g.add_value(spec, external);
}

void set_constant(Graph& g, ValueId id, nb::handle tensor) {
  const Graph::Entry& entry = entry_of(g, id);
  if (!entry.external) fail_value("Graph", "value ", id, " is made by a node");
  const Value& v = value_of("Graph", tensor.ptr());
  if (v.dtype() != entry.spec.dtype || v.shape() != entry.spec.shape) {
    fail_value("Graph", "expected a constant of ", entry.spec.dtype, " ", entry.spec.shape,
               ", got ", v.dtype(), " ", v.shape());
  }
  g.values[id].constant = v.detached();
  g.values[id].spec = v.spec();
}

void add_node(Graph& g, nb::handle op, const std::vector<ValueId>& inputs,
              const std::vector<ValueId>& outputs) {
  check_ids(g, inputs);
  check_ids(g, outputs);
  Graph::Node node;
  node.op = op_from_python(op.ptr());
  for (const ValueId id : inputs) node.in.push_back(id);
  for (const ValueId id : outputs) node.out.push_back(id);
  g.nodes.push_back(std::move(node));
}

// What the node gives may have come from outside before.
void insert_node(Graph& g, std::size_t at, nb::handle op, const std::vector<ValueId>& inputs,
                 const std::vector<ValueId>& outputs) {
  if (at > g.nodes.size()) {
    fail_value("Graph", "expected a place among ", g.nodes.size(), " nodes, got ", at);
  }
  add_node(g, op, inputs, outputs);
  for (const ValueId id : outputs) g.values[id] = {g.values[id].spec, false};
  const auto place = g.nodes.begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(place, g.nodes.end() - 1, g.nodes.end());
}

Graph parse(const std::string& text, const nb::dict& constants, bool dense) {
  std::unordered_map<ValueId, Value> values;
  for (auto [id, tensor] : constants) {
    values.emplace(nb::cast<ValueId>(id), value_of("Graph", tensor.ptr()));
  }
  return Graph::parse(text, values, dense);
}

nb::tuple renumbered(const Graph& g, const std::vector<ValueId>& keep) {
  check_ids(g, keep);
  for (const ValueId id : keep) {
    if (!g.values[id].external) fail_value("Graph", "value ", id, " is made by a node");
  }
  std::vector<ValueId> to;
  Graph out = g.renumbered(keep, to);
  nb::dict ids;
  for (std::size_t id = 0; id < to.size(); ++id) {
    if (to[id] != kNoValue) ids[nb::int_(id)] = to[id];
  }
  return nb::make_tuple(std::move(out), ids);
}

nb::list buffers(const Graph& g) {
  const Liveness liveness(g);
  nb::list out;
  for (ValueId id = 0; id < g.values.size(); ++id) {
    const Liveness::Buffer& b = liveness.buffers[id];
    if (b.end > b.begin && b.bytes > 0) {
      out.append(nb::make_tuple(id, b.bytes, b.begin, b.end));
    }
  }
  return out;
}

// The bytes of a file, of which Tensors are parts without a copy.
class FileMemory {
 public:
  explicit FileMemory(std::size_t bytes)
      : bytes_(Value::empty(Spec(DType::uint8, Shape{static_cast<std::int64_t>(bytes)}))) {}

  // Maps large files and reads small ones; `file` is a descriptor.
  static FileMemory open(int file, std::size_t bytes) {
    FileMemory out(bytes);
    char* data = out.bytes_.mut().ptr<char>();
    if (bytes >= kLeastMapped) {
      map_file(data, bytes, file);
      return out;
    }
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t n = pread(file, data + at, bytes - at, static_cast<off_t>(at));
      if (n <= 0) fail_value("load", "expected ", bytes, " bytes, and the file ends after ", at);
      at += static_cast<std::size_t>(n);
    }
    return out;
  }
  static FileMemory copy(const nb::bytes& data) {
    FileMemory out(data.size());
    if (data.size()) std::memcpy(out.bytes_.mut().ptr<char>(), data.data(), data.size());
    return out;
  }

  nb::object array() const { return nb::steal(to_numpy(bytes_)); }
  bool lost() const { return file_memory_lost(bytes_.view().data); }

  nb::object tensor(std::int64_t offset, nb::handle dtype, nb::handle shape,
                    const std::string& device) const {
    const DType type = dtype_from_python(dtype.ptr());
    const Shape dims = dims_from_python("load", shape.ptr());
    const std::int64_t all = bytes_.size(), n = count(dims);
    if (offset < 0 || offset > all || n > (all - offset) / size_of(type)) {
      fail_value("load", "expected ", type, ' ', dims, " at byte ", offset, ", and the file has ",
                 all);
    }
    if (offset % size_of(type)) {
      fail_value("load", "expected an offset in steps of ", size_of(type), " bytes, got ", offset);
    }
    Value out = bytes_.alias(dims, row_major(dims), offset);
    out.impl()->spec.dtype = type;
    out.impl()->spec.device = parse_device(device);
    return wrapped(std::move(out));
  }

 private:
  Value bytes_;
};

// A program of a whole graph, with its own list of inputs.
class Executable {
 public:
  Executable(const Graph& graph, std::vector<ValueId> inputs) : inputs_(std::move(inputs)) {
    check_ids(graph, inputs_);
    std::vector<bool> given(graph.values.size());
    for (const ValueId id : inputs_) given[id] = true;
    const auto check = [&](ValueId id) {
      const Graph::Entry& entry = graph.values[id];
      if (entry.external && !entry.constant && !given[id]) {
        fail_value("Executable", "value ", id, " is neither an input nor a constant");
      }
    };
    for (const Graph::Node& node : graph.nodes) {
      for (const ValueId id : node.in) check(id);
    }
    for (const ValueId id : graph.outputs) check(id);
    env_.resize(graph.values.size());
    program_ = std::make_unique<const Program>(graph);
  }

  nb::list run(const nb::args& tensors) const {
    if (tensors.size() != inputs_.size()) {
      fail_type("Executable", "expected ", inputs_.size(), " inputs, got ", tensors.size());
    }
    std::vector<Value> env(env_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Value& v = value_of("Executable", nb::object(tensors[i]).ptr());
      const Spec& want = program_->graph().values[inputs_[i]].spec;
      if (v.dtype() != want.dtype || v.shape() != want.shape) {
        fail_value("Executable", "expected input ", i, " of ", want.dtype, " ", want.shape,
                   ", got ", v.dtype(), " ", v.shape());
      }
      env[inputs_[i]] = v;
    }
    std::vector<Value> out;
    {
      nb::gil_scoped_release release;
      out = program_->run(env);
    }
    nb::list result;
    for (Value& v : out) result.append(wrapped(std::move(v)));
    return result;
  }

  Graph optimized() const { return program_->graph(); }

 private:
  std::vector<ValueId> inputs_;
  std::vector<Value> env_;
  std::unique_ptr<const Program> program_;
};

}  // namespace

void bind_graph(nb::module_& m) {
  nb::class_<PyNode>(m, "GraphNode", "An op of a graph, with the ids of its inputs and outputs.")
      .def_prop_ro("kind", [](const PyNode& n) { return n.node.op->name(); })
      .def_prop_ro("op", [](const PyNode& n) { return op_to_python(n.node.op); })
      .def_prop_ro("fields", [](const PyNode& n) { return fields_to_python(*n.node.op); })
      .def_prop_ro("inputs", [](const PyNode& n) { return ids_to_python(n.node.in); })
      .def_prop_ro("outputs", [](const PyNode& n) { return ids_to_python(n.node.out); })
      .def_prop_ro("random", [](const PyNode& n) { return n.node.op->type->traits.random; });
  nb::class_<PyEntry>(m, "GraphValue", "What is known of a value of a graph.")
      .def_prop_ro("dtype", [](const PyEntry& e) { return dtype_to_python(e.entry.spec.dtype); })
      .def_prop_ro("shape",
                   [](const PyEntry& e) { return nb::steal(shape_to_python(e.entry.spec.shape)); })
      .def_prop_ro(
          "strides",
          [](const PyEntry& e) { return nb::steal(shape_to_python(e.entry.spec.strides)); })
      .def_prop_ro("device", [](const PyEntry& e) { return e.entry.spec.device.logical_name(); })
      .def_prop_ro("external", [](const PyEntry& e) { return e.entry.external; })
      .def_prop_ro("constant", [](const PyEntry& e) -> nb::object {
        return e.entry.constant ? wrapped(e.entry.constant) : nb::none();
      });
  nb::class_<Graph>(m, "Graph", "Ops in the order in which they run; see jit.record().")
      .def(nb::init<>())
      .def_prop_ro("nodes",
                   [](const Graph& g) {
                     nb::list out;
                     for (const Graph::Node& n : g.nodes) out.append(PyNode{n});
                     return out;
                   })
      .def_prop_ro("values",
                   [](const Graph& g) {
                     nb::list out;
                     for (const Graph::Entry& e : g.values) out.append(PyEntry{e});
                     return out;
                   })
      .def_prop_rw(
          "outputs", [](const Graph& g) { return ids_to_python(g.outputs); },
          [](Graph& g, const std::vector<ValueId>& ids) {
            check_ids(g, ids);
            g.outputs = ids;
          })
      .def("add_value", &add_value, nb::arg("dtype"), nb::arg("shape"), nb::arg("external"),
           "A new value; returns its id.")
      .def("set_constant", &set_constant, nb::arg("id"), nb::arg("tensor"))
      .def("add_node", &add_node, nb::arg("op"), nb::arg("inputs"), nb::arg("outputs"))
      .def("insert_node", &insert_node, nb::arg("at"), nb::arg("op"), nb::arg("inputs"),
           nb::arg("outputs"), "A node before node `at`; its outputs come from outside no more.")
      .def("buffers", &buffers,
           "(value, bytes, first node, node after the last) of each buffer that the nodes make.")
      .def("renumbered", &renumbered, nb::arg("keep"),
           "The same graph with dense ids, those in `keep` first, and the new ids by the old ones.")
      .def("verify", [](const Graph& g) { verify(g, ErrorKind::value, "building it by hand"); })
      .def("text", &Graph::text, "The graph as text, which parse() reads back.")
      .def_static("parse", &parse, nb::arg("text"), nb::arg("constants") = nb::dict(),
                  nb::arg("dense") = false,
                  "The graph of a text; `constants` has what is too large to stand in it, by id.")
      .def(
          "__eq__",
          [](const Graph& a, const nb::object& b) {
            return nb::isinstance<Graph>(b) && a == nb::cast<const Graph&>(b);
          },
          nb::arg("other"));
  m.def("verify_passes", &verify_passes, nb::arg("on"),
        "Whether graphs are verified after every pass.");
  nb::class_<FileMemory>(m, "FileMemory", "The bytes of a file, of which Tensors are parts.")
      .def_static("open", &FileMemory::open, nb::arg("file"), nb::arg("bytes"),
                  "Of an open descriptor; large files are mapped.")
      .def_static("copy", &FileMemory::copy, nb::arg("data"))
      .def("array", &FileMemory::array, "All of it, as a read-only array of NumPy.")
      .def("tensor", &FileMemory::tensor, nb::arg("offset"), nb::arg("dtype"), nb::arg("shape"),
           nb::arg("device") = "xpux")
      .def_prop_ro("lost", &FileMemory::lost,
                   "Whether the file was cut shorter since: what was lost reads as zeros.");
  nb::class_<Executable>(m, "Executable", "A graph, ready to run on Tensors.")
      .def(nb::init<const Graph&, std::vector<ValueId>>(), nb::arg("graph"), nb::arg("inputs"))
      .def("__call__", &Executable::run)
      .def("optimized", &Executable::optimized, "The graph that runs.");
}

}  // namespace mge::py
