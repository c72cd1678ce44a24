// Devices, threads, memory.

#include "bindings/tensor.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/simd.h"
#include "core/runtime/allocator.h"

namespace mge::py {
namespace {

// A point in what a device has to do. Ops run when they are called, so each point is reached.
struct Event {
  void record() {}
  void wait() {}
};

nb::list physical_locator(const Device& device) {
  nb::list out;
  out.append("cpu");
  out.append(device.physical_index());
  out.append(static_cast<int>(device.stream));
  return out;
}

}  // namespace

void bind_runtime(nb::module_& m) {
  nb::class_<Device> comp_node(m, "CompNode", "A device, with the name that it was asked for by.");
  nb::class_<Event>(comp_node, "Event", "A point in the work of a device.")
      .def(nb::init<>())
      .def("record", &Event::record)
      .def("wait", &Event::wait);
  comp_node
      .def(
          "__init__",
          [](Device* self, const std::string& name) { new (self) Device(parse_device(name)); },
          nb::arg("name") = "xpux")
      .def_prop_ro("logical_name", &Device::logical_name)
      .def_prop_ro("physical_name", &Device::physical_name)
      .def_prop_ro("physical_locator", &physical_locator)
      .def("create_event", [](const Device&) { return Event{}; })
      .def("get_mem_status_bytes",
           [](const Device&) {
             return nb::module_::import_("megengine.device").attr("get_mem_status_bytes")();
           })
      .def("get_used_memory", [](const Device&) { return memory_stats().allocated; })
      .def("get_max_used_memory", [](const Device&) { return memory_stats().max_allocated; })
      .def("get_reserved_memory", [](const Device&) { return memory_stats().reserved; })
      .def("get_max_reserved_memory", [](const Device&) { return memory_stats().max_reserved; })
      .def("reset_max_memory_stats", [](const Device&) { reset_max_memory_stats(); })
      // Programs that call ops below the functions ask for the device of the core, which this is.
      .def("to_c", [](nb::handle self) { return nb::borrow(self); })
      .def("__str__", &Device::logical_name)
      .def("__repr__",
           [](const Device& d) {
             return str("CompNode(\"", d.physical_name(), "\" from \"", d.logical_name(), "\")");
           })
      .def("__eq__",
           [](const Device& d, nb::object other) {
             Device* o = nullptr;
             if (nb::try_cast<Device*>(other, o) && o) return d == *o;
             return false;
           })
      .def("__hash__", [](const Device& d) { return std::hash<std::string>{}(d.logical_name()); })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(nb::handle(self.type()), nb::make_tuple(self.attr("logical_name")));
      });
  m.def("default_device", &default_device);
  m.def("set_default_device",
        [](const std::string& name) { set_default_device(parse_device(name)); });

  m.def("num_threads", &cpu::num_threads);
  m.def("set_num_threads", &cpu::set_num_threads);
  m.def(
      "cpu_isa", [] { return std::string(cpu::isa_name(cpu::isa())); },
      "The instruction set in use.");

  m.def("memory_stats", [] {
    const MemoryStats s = memory_stats();
    nb::dict d;
    d["allocated"] = s.allocated;
    d["reserved"] = s.reserved;
    d["max_allocated"] = s.max_allocated;
    d["max_reserved"] = s.max_reserved;
    return d;
  });
  m.def("reset_max_memory_stats", &reset_max_memory_stats);
  m.def("release_cached_memory", &release_cached_memory);
}

}  // namespace mge::py
