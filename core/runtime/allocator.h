// The caching allocator: memory that tensors gave back is handed out again without asking the
// system, so that a large elementwise op runs at memory speed, not at page-fault speed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mge {

// 64-byte aligned. Raises MemoryError (ErrorKind::memory) that names the bytes. bytes may be 0.
void* allocate(std::size_t bytes);
void deallocate(void* data, std::size_t bytes) noexcept;

struct MemoryStats {
  std::uint64_t allocated;      // bytes in live buffers
  std::uint64_t reserved;       // bytes taken from the system: live and cached
  std::uint64_t max_allocated;  // the highest since the last reset
  std::uint64_t max_reserved;
};
MemoryStats memory_stats();
void reset_max_memory_stats();
// Gives the cached buffers back to the system.
void release_cached_memory();

// Temporary memory of a kernel.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : bytes_(bytes), data_(allocate(bytes)) {}
  ~Scratch() { deallocate(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace mge
