#include <optional>

#include "core/kernels/cpu/packed.h"
#include "core/ops/sampling/sample.loops.h"

namespace mge {
namespace {

using std::int64_t;

bool last(const View& v) { return !v.row_major() && is_channels_last(v.shape, v.strides); }

// An output of one channel or of one pixel is in both formats at once: the input decides.
bool works_last(const MutView& y, const View& x) {
  return !y.row_major() || (last(x) && is_channels_last(y.shape, y.strides));
}

// The image numbers as int32, checked.
class ImageNumbers {
 public:
  ImageNumbers(const char* op, Views in, std::size_t at, int64_t images) {
    if (in.size() <= at) return;
    const View& v = in[at];
    const cpu::Packed wide(v, DType::int64);
    numbers_.emplace(static_cast<std::size_t>(v.size()) * sizeof(std::int32_t));
    for (int64_t i = 0; i < v.size(); ++i) {
      const int64_t n = wide.as<int64_t>()[i];
      if (n < 0 || n >= images) {
        fail_index(op, "expected image numbers in [0, ", images, "), got ", n);
      }
      numbers_->as<std::int32_t>()[i] = static_cast<std::int32_t>(n);
    }
  }
  const std::int32_t* get() const { return numbers_ ? numbers_->as<std::int32_t>() : nullptr; }

 private:
  std::optional<Scratch> numbers_;
};

template <class Op>
cpu::SampleLayout layout_of(const Op& op, const Shape& x, const Shape& y, bool channels_last,
                            const ImageNumbers& numbers) {
  cpu::SampleLayout at{.images = x[0],
                       .maps = y[0],
                       .channels = x[1],
                       .height = x[2],
                       .width = x[3],
                       .out_height = y[2],
                       .out_width = y[3],
                       .channels_last = channels_last,
                       .mode = op.mode,
                       .border = op.border,
                       .border_value = 0,
                       .image = numbers.get()};
  if constexpr (requires { op.border_value; }) at.border_value = op.border_value;
  return at;
}

Strides format(const Shape& shape, bool channels) {
  return channels ? channels_last(shape) : row_major(shape);
}

// Where a kernel that computes in `dtype` writes: out itself, or scratch memory to be converted.
class Result {
 public:
  Result(const MutView& out, DType dtype, const Strides& strides)
      : out_(out), wide_{out.data, dtype, out.shape, strides} {
    if (dtype == out.dtype) return;
    scratch_.emplace(static_cast<std::size_t>(out.size() * size_of(dtype)));
    wide_.data = scratch_->as<void>();
  }
  void* data() const { return wide_.data; }
  void done() const {
    if (scratch_) cpu::copy(wide_, out_);
  }

 private:
  MutView out_, wide_;
  std::optional<Scratch> scratch_;
};

DType working_dtype(DType dtype) { return is_float(dtype) ? cpu::compute_dtype(dtype) : dtype; }

}  // namespace

void kernel(const Sample& op, CpuContext&, Views in, MutViews out) {
  const View& x = in[0];
  const MutView& y = out[0];
  const ImageNumbers numbers("Sample", in, 2, x.shape[0]);
  if (y.size() == 0) return;
  const bool channels = works_last(y, x);
  const DType dtype = working_dtype(x.dtype);
  const cpu::Packed image(x, dtype, format(x.shape, channels)), map(in[1]);
  const Result result(y, dtype, format(y.shape, channels));
  MGE_DISPATCH(sample)
  (dtype, image.data(), map.data(), result.data(),
   layout_of(op, x.shape, y.shape, channels, numbers));
  result.done();
}
REGISTER_KERNEL(Sample, cpu);

void kernel(const SampleBackwardData& op, CpuContext&, Views in, MutViews out) {
  const View& dy = in[0];
  const MutView& dx = out[0];
  const ImageNumbers numbers("SampleBackwardData", in, 2, op.number);
  if (dx.size() == 0) return;
  const bool channels = works_last(dx, dy);
  const DType dtype = working_dtype(dx.dtype);
  const cpu::Packed upstream(dy, dtype, format(dy.shape, channels)), map(in[1]);
  const Result result(dx, dtype, format(dx.shape, channels));
  MGE_DISPATCH(sample_backward_data)
  (dtype, upstream.data(), map.data(), result.data(),
   layout_of(op, dx.shape, dy.shape, channels, numbers));
  result.done();
}
REGISTER_KERNEL(SampleBackwardData, cpu);

void kernel(const SampleBackwardMap& op, CpuContext&, Views in, MutViews out) {
  const View &x = in[0], &dy = in[2];
  const ImageNumbers numbers("SampleBackwardMap", in, 3, x.shape[0]);
  if (out[0].size() == 0) return;
  const bool channels = last(x) || (last(dy) && is_channels_last(x.shape, x.strides));
  const DType dtype = working_dtype(x.dtype);
  const cpu::Packed image(x, dtype, format(x.shape, channels)), map(in[1]);
  const cpu::Packed upstream(dy, dtype, format(dy.shape, channels));
  MGE_DISPATCH(sample_backward_map)
  (dtype, image.data(), map.data(), upstream.data(), out[0].data,
   layout_of(op, x.shape, dy.shape, channels, numbers));
}
REGISTER_KERNEL(SampleBackwardMap, cpu);

void kernel(const PerspectiveGrid& op, CpuContext&, Views in, MutViews out) {
  if (out[0].size() == 0) return;
  const cpu::Packed mat(in[0]);
  MGE_DISPATCH(perspective_grid)
  (in[0].dtype, mat.data(), out[0].data, in[0].shape[0], op.height, op.width);
}
REGISTER_KERNEL(PerspectiveGrid, cpu);

void kernel(const PerspectiveGridBackward&, CpuContext&, Views in, MutViews out) {
  if (out[0].size() == 0) return;
  const cpu::Packed mat(in[0]), dmap(in[1]);
  MGE_DISPATCH(perspective_grid_backward)
  (in[0].dtype, mat.data(), dmap.data(), out[0].data, in[0].shape[0], in[1].shape[1],
   in[1].shape[2]);
}
REGISTER_KERNEL(PerspectiveGridBackward, cpu);

}  // namespace mge
