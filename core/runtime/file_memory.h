// Memory whose pages are those of a file, until they are written to: how weights are loaded without
// a copy. It comes from the allocator and goes back to it like any other.
#pragma once

#include <cstddef>

namespace mge {

// Buffers of at least so many bytes can be mapped.
inline constexpr std::size_t kLeastMapped = std::size_t{2} << 20;

// Gives the first `bytes` of a live buffer of allocate(bytes) the contents of an open file, from
// its beginning. Pages are read when they are touched, and writing to them does not change the
// file. The file may be closed, deleted or replaced. Where somebody cuts the file itself shorter,
// the lost pages read as zeros from then on, and file_memory_lost() says so.
// Raises RuntimeError where the system cannot map the file.
void map_file(void* data, std::size_t bytes, int file);
// Whether pages of a mapped buffer were lost.
bool file_memory_lost(const void* data);

namespace detail {
// For the allocator: marks a buffer as mapped, and says that a buffer is being given back.
void keep_mapping(void* data, std::size_t bytes);
bool drop_mapping(void* data);
}  // namespace detail

}  // namespace mge
