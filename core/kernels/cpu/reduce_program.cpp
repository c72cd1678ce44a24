#include "core/kernels/cpu/reduce_program.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu {
namespace {

// What is computed at a time: it lies in the second cache when it is reduced, and pays for the two
// calls that it takes.
constexpr std::int64_t kBoxElements = 1 << 15;
constexpr std::int64_t kWantedTasks = 64;
constexpr std::int64_t kHeld = 16;  // results of boxes that are reduced together

// The elements cut into boxes, which the axes that are kept and those that are reduced count apart.
struct Boxes {
  Shape shape, size, grid;
  Dims reduced;  // by axis: 1 or 0
  std::int64_t kept = 1, folded = 1;

  Boxes(const Shape& whole, const Strides& strides, const Shape& out)
      : shape(whole), size(whole), grid(whole), reduced(Dims::filled(whole.size(), 0)) {
    std::array<int, kMaxDims> order;
    std::iota(order.begin(), order.begin() + shape.size(), 0);
    std::stable_sort(order.begin(), order.begin() + shape.size(),
                     [&](int a, int b) { return strides[a] < strides[b]; });
    std::int64_t room = kBoxElements;
    for (int i = 0; i < shape.size(); ++i) {
      const int axis = order[static_cast<std::size_t>(i)];
      size[axis] = std::clamp<std::int64_t>(room, 1, shape[axis]);
      room /= size[axis];
      grid[axis] = (shape[axis] + size[axis] - 1) / size[axis];
      reduced[axis] = out[axis] != shape[axis];
      (reduced[axis] ? folded : kept) *= grid[axis];
    }
  }

  // Sets where a box begins along the axes that are reduced, or those that are kept.
  void locate(std::int64_t index, bool along_reduced, Dims& first) const {
    for (int i = shape.size() - 1; i >= 0; --i) {
      if ((reduced[i] != 0) != along_reduced) continue;
      first[i] = index % grid[i] * size[i];
      index /= grid[i];
    }
  }
  Shape at(const Dims& first) const {
    Shape box = size;
    for (int i = 0; i < box.size(); ++i) box[i] = std::min(size[i], shape[i] - first[i]);
    return box;
  }
  Shape results(Shape box) const {
    for (int i = 0; i < box.size(); ++i) box[i] = reduced[i] ? 1 : box[i];
    return box;
  }
};

std::int64_t offset_of(const Dims& first, const Strides& strides) {
  std::int64_t offset = 0;
  for (int i = 0; i < strides.size(); ++i) offset += first[i] * strides[i];
  return offset;
}

// The part of a tensor of results that belongs to a box.
MutView part_of(const MutView& out, const Boxes& boxes, const Dims& first, const Shape& results) {
  Dims start = first;
  for (int i = 0; i < start.size(); ++i) start[i] = boxes.reduced[i] ? 0 : start[i];
  auto* data = static_cast<std::byte*>(out.data);
  return {data + offset_of(start, out.strides) * size_of(out.dtype), out.dtype, results,
          out.strides};
}

// `n` tensors of the shape, one behind another.
Shape stacked(std::int64_t n, const Shape& shape) {
  Shape out{n};
  for (const std::int64_t length : shape) out.push_back(length);
  return out;
}
// `out` as what a stack is reduced to.
MutView unstacked(const MutView& out) {
  Strides strides{0};
  for (const std::int64_t stride : out.strides) strides.push_back(stride);
  return {out.data, out.dtype, stacked(1, out.shape), strides};
}

class Source {
 public:
  Source(const ElementProgram& program, Views in, const Boxes& boxes, const Strides& strides)
      : program_(program), in_(in), boxes_(boxes), strides_(strides) {
    for (const View& v : in) {
      broadcast_.push_back(broadcast_strides(v.shape, v.strides, boxes.shape));
    }
  }

  std::size_t bytes() const {
    return static_cast<std::size_t>(kBoxElements * size_of(program_.made_by(0).to));
  }

  // What the program gives for a box, in memory of bytes().
  View run(const Dims& first, const Shape& box, void* memory) const {
    std::array<View, kMaxProgramOperands> in;
    for (std::size_t i = 0; i < in_.size(); ++i) {
      in[i] = in_[i];
      if (in[i].size() == 1) continue;  // a number, that stays one
      const auto* data = static_cast<const std::byte*>(in[i].data);
      in[i].data = data + offset_of(first, broadcast_[i]) * size_of(in[i].dtype);
      in[i].shape = box;
      in[i].strides = broadcast_[i];
    }
    const MutView out{memory, program_.made_by(0).to, box, dense_like(box, strides_)};
    run_program(program_, Views(in.data(), in_.size()), MutViews(&out, 1));
    return out;
  }

 private:
  const ElementProgram& program_;
  Views in_;
  const Boxes& boxes_;
  const Strides& strides_;
  std::vector<Strides> broadcast_;
};

// Reduces results of boxes as they come, a few at a time.
class Held {
 public:
  Held(ReduceMode mode, DType dtype, const Shape& results)
      : mode_(mode == ReduceMode::sum_squares ? ReduceMode::sum : mode),
        dtype_(dtype),
        results_(results),
        bytes_(count(results) * size_of(dtype)),
        memory_(static_cast<std::size_t>((kHeld + 1) * bytes_)) {}

  MutView next() {
    if (n_ == kHeld) {
      const MutView total = place(kHeld);
      fold(total);
      copy(total, place(0));
      n_ = 1;
    }
    return place(n_++);
  }
  void fold(const MutView& out) const {
    const Shape shape = stacked(n_, results_);
    reduce(mode_, {}, {memory_.as<void>(), dtype_, shape, row_major(shape)}, unstacked(out));
  }

 private:
  MutView place(std::int64_t i) const {
    return {memory_.as<std::byte>() + i * bytes_, dtype_, results_, row_major(results_)};
  }

  ReduceMode mode_;
  DType dtype_;
  const Shape& results_;
  std::int64_t bytes_, n_ = 0;
  Scratch memory_;
};

}  // namespace

void reduce_program(const ElementProgram& program, ReduceMode mode, bool mean, Views in,
                    const Shape& whole, const Strides& strides, const MutView& out) {
  const DType made = program.made_by(0).to;
  if (count(whole) == 0) return reduce(mode, {.mean = mean}, {nullptr, made, whole, strides}, out);
  const Boxes boxes(whole, strides, out.shape);
  const Source source(program, in, boxes, strides);
  const std::int64_t grain = std::max<std::int64_t>(1, program.grain / count(boxes.size));

  if (boxes.folded == 1) {
    parallel_for(boxes.kept, grain, [&](std::int64_t begin, std::int64_t end) {
      const Scratch memory(source.bytes());
      Dims first = Dims::filled(whole.size(), 0);
      for (std::int64_t k = begin; k < end; ++k) {
        boxes.locate(k, false, first);
        const Shape box = boxes.at(first);
        const View values = source.run(first, box, memory.as<void>());
        reduce(mode, {.mean = mean}, values, part_of(out, boxes, first, boxes.results(box)));
      }
    });
    return;
  }

  // How the boxes are shared out follows from the shape alone, and so do the results.
  const bool extreme = mode == ReduceMode::max || mode == ReduceMode::min;
  const DType dtype = extreme ? made : is_float(made) ? DType::float64 : sum_dtype(made);
  const std::int64_t wanted = std::clamp<std::int64_t>(kWantedTasks / boxes.kept, 1, boxes.folded);
  const std::int64_t each = (boxes.folded + wanted - 1) / wanted;
  const std::int64_t chunks = (boxes.folded + each - 1) / each;
  const Shape parts_shape = stacked(chunks, out.shape);
  const Scratch parts(static_cast<std::size_t>(count(parts_shape) * size_of(dtype)));
  const std::int64_t part_bytes = out.size() * size_of(dtype);
  parallel_for(boxes.kept * chunks, std::max<std::int64_t>(1, grain / each),
               [&](std::int64_t begin, std::int64_t end) {
                 const Scratch memory(source.bytes());
                 Dims first = Dims::filled(whole.size(), 0);
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t chunk = task % chunks;
                   boxes.locate(task / chunks, false, first);
                   const Shape results = boxes.results(boxes.at(first));
                   Held held(mode, dtype, results);
                   const std::int64_t stop = std::min(boxes.folded, (chunk + 1) * each);
                   for (std::int64_t r = chunk * each; r < stop; ++r) {
                     boxes.locate(r, true, first);
                     reduce(mode, {}, source.run(first, boxes.at(first), memory.as<void>()),
                            held.next());
                   }
                   const MutView part{parts.as<std::byte>() + chunk * part_bytes, dtype, out.shape,
                                      row_major(out.shape)};
                   held.fold(part_of(part, boxes, first, results));
                 }
               });
  const ReduceMode last = mode == ReduceMode::sum_squares ? ReduceMode::sum : mode;
  const std::int64_t reduced = count(whole) / out.size();
  reduce(last, {.mean = mean, .count = reduced},
         {parts.as<void>(), dtype, parts_shape, row_major(parts_shape)}, unstacked(out));
}

}  // namespace mge::cpu
