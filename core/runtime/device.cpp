#include "core/runtime/device.h"

#include <charconv>

#include "core/runtime/error.h"

namespace mge {
namespace {
Device g_default{};
}

std::string Device::logical_name() const {
  std::string out(1, kind);
  out += "pu";
  out += index < 0 ? "x" : std::to_string(index);
  return out + ":" + std::to_string(stream);
}
std::string Device::physical_name() const {
  return "cpu" + std::to_string(physical_index()) + ":" + std::to_string(stream);
}

Device parse_device(std::string_view name) {
  const auto unknown = [&]() {
    fail_value("device", "unknown device '", name,
               "'; expected one such as 'xpux', 'cpux', 'cpu0' or 'cpu0:0'");
  };
  const std::string_view whole = name;
  const std::size_t colon = name.find(':');
  std::string_view stream = colon == name.npos ? "0" : name.substr(colon + 1);
  if (colon != name.npos) name = name.substr(0, colon);
  const auto number = [&](std::string_view digits) {
    std::int16_t n = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error != std::errc{} || end != digits.data() + digits.size() || n < 0) unknown();
    return n;
  };
  const auto is_family = [&](const char* family) {
    return name.size() > 3 && name.starts_with(family);
  };
  for (const char* family : {"gpu", "cuda", "rocm", "atlas", "cambricon"}) {
    if (name.starts_with(family)) {
      fail_runtime(
          "device", "'", whole,
          "' is not there: this build of OpenMGE computes on CPUs only; use 'cpu0' or 'xpux'");
    }
  }
  if (!is_family("cpu") && !is_family("xpu")) unknown();
  Device d;
  d.kind = name[0];
  name.remove_prefix(3);
  d.index = name == "x" ? std::int16_t{-1} : number(name);
  d.stream = number(stream);
  return d;
}

Device default_device() { return g_default; }
void set_default_device(const Device& device) { g_default = device; }

}  // namespace mge
