// Where a tensor lives. A name is kept as the user wrote it ("xpux", "cpu0"), as the reference
// does: "xpux" and "cpux" mean any device and any CPU, which is cpu0 here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mge {

enum class DeviceType : std::uint8_t { cpu };
inline constexpr int kDeviceTypes = 1;

struct Device {
  char kind = 'x';          // 'x' (any), 'c' (cpu)
  std::int16_t index = -1;  // -1 is the x of "xpux", "cpux"
  std::int16_t stream = 0;

  DeviceType type() const { return DeviceType::cpu; }
  int physical_index() const { return index < 0 ? 0 : index; }
  std::string logical_name() const;   // "xpux:0"
  std::string physical_name() const;  // "cpu0:0"
  bool same_place(const Device& other) const {
    return physical_index() == other.physical_index() && stream == other.stream;
  }
  friend bool operator==(const Device&, const Device&) = default;
};

// "xpux", "cpux", "cpu0", "cpu0:1", "xpu0"; raises ValueError for an unknown name and RuntimeError
// for a device that this machine or this build has not got ("gpu0").
Device parse_device(std::string_view name);
Device default_device();
void set_default_device(const Device& device);

}  // namespace mge
