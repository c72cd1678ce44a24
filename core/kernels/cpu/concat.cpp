#include "core/kernels/cpu/concat.h"

#include <cstring>
#include <vector>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"

namespace mge::cpu {
namespace {

// Shorter runs are left to the strided copy, which vectorises across them.
constexpr std::int64_t kShortRun = 64;  // bytes
constexpr std::int64_t kGrain = 1 << 16;

// The axes from the outermost to the innermost in memory.
Dims memory_order(const MutView& out) {
  Dims order;
  for (int i = 0; i < out.ndim(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return out.strides[static_cast<int>(a)] > out.strides[static_cast<int>(b)];
  });
  return order;
}

bool is_dense_in(const View& v, const Dims& order) {
  Shape shape;
  Strides strides;
  for (std::int64_t axis : order) {
    shape.push_back(v.shape[static_cast<int>(axis)]);
    strides.push_back(v.strides[static_cast<int>(axis)]);
  }
  return is_row_major(shape, strides);
}

// Whether the elements of v are those of `to`.
bool is_at(const View& v, const MutView& to) {
  if (v.data != to.data) return false;
  for (int i = 0; i < v.ndim(); ++i) {
    if (v.shape[i] != 1 && v.strides[i] != to.strides[i]) return false;
  }
  return true;
}

void concat_strided(Views in, const MutView& out, int axis) {
  MutView part = out;
  for (const View& v : in) {
    part.shape[axis] = v.shape[axis];
    if (part.size() > 0 && !is_at(v, part)) copy(v, part);
    part.data =
        static_cast<char*>(part.data) + v.shape[axis] * out.strides[axis] * size_of(out.dtype);
  }
}

}  // namespace

void concat(Views in, const MutView& out, int axis) {
  if (out.size() == 0) return;
  const Dims order = memory_order(out);
  const std::int64_t row = out.shape[axis] * out.strides[axis] * size_of(out.dtype);
  const std::int64_t rows = out.size() * size_of(out.dtype) / row;
  bool runs = is_dense_in(out, order);
  const auto* const begin_of_out = static_cast<const char*>(out.data);
  for (const View& v : in) {
    const auto* const data = static_cast<const char*>(v.data);
    const bool written = data >= begin_of_out && data < begin_of_out + rows * row;
    runs = runs && is_dense_in(v, order) && !written;
  }
  if (!runs || (rows > 1 && row / static_cast<std::int64_t>(in.size()) < kShortRun)) {
    concat_strided(in, out, axis);
    return;
  }
  // Where each input starts in a row of the output.
  std::vector<std::int64_t> at{0};
  for (const View& v : in)
    at.push_back(at.back() + v.shape[axis] * out.strides[axis] * size_of(out.dtype));
  // Cut by bytes, so that one long row is shared by the threads too.
  parallel_for(rows * row, kGrain, [&](std::int64_t begin, std::int64_t end) {
    char* to = static_cast<char*>(out.data);
    std::size_t i = 0;
    while (begin < end) {
      const std::int64_t r = begin / row, in_row = begin - r * row;
      if (in_row == 0) i = 0;
      while (at[i + 1] <= in_row) ++i;
      const std::int64_t n = std::min(at[i + 1] - in_row, end - begin);
      const std::int64_t from = r * (at[i + 1] - at[i]) + (in_row - at[i]);
      std::memcpy(to + begin, static_cast<const char*>(in[i].data) + from,
                  static_cast<std::size_t>(n));
      begin += n;
    }
  });
}

}  // namespace mge::cpu
