#include <algorithm>
#include <limits>

#include "core/kernels/cpu/packed.h"
#include "core/ops/cross_entropy/cross_entropy.h"
#include "core/ops/cross_entropy/cross_entropy.loops.h"

namespace mge {
namespace {

cpu::ClassLayout layout_of(const char* op, const Shape& shape, std::int64_t axis, double smooth) {
  const int at = normalize_axis(op, axis, shape.size());
  cpu::ClassLayout out{1, shape[at], 1, smooth};
  for (int i = 0; i < at; ++i) out.outer *= shape[i];
  for (int i = at + 1; i < shape.size(); ++i) out.inner *= shape[i];
  return out;
}

// Class indices that are known to be in range.
class Labels {
 public:
  Labels(const char* op, const View& v, std::int64_t classes)
      : buffer_(static_cast<std::size_t>(v.size()) * sizeof(std::int32_t)) {
    const cpu::Packed wide(v, DType::int64);
    const std::int64_t* in = wide.as<std::int64_t>();
    std::int32_t* out = buffer_.as<std::int32_t>();
    const std::int64_t limit = std::min<std::int64_t>(classes, std::numeric_limits<int>::max());
    for (std::int64_t i = 0; i < v.size(); ++i) {
      if (in[i] < 0 || in[i] >= limit) {
        fail_index(op, "label ", in[i], " is out of range for the class axis of size ", classes);
      }
      out[i] = static_cast<std::int32_t>(in[i]);
    }
  }
  const std::int32_t* data() const { return buffer_.as<std::int32_t>(); }

 private:
  Scratch buffer_;
};

// The sum of n numbers of the dtype of computing.
double total(DType dtype, const void* data, std::int64_t n) {
  double sum = 0;
  if (dtype == DType::float64) {
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<const double*>(data)[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) sum += double(static_cast<const float*>(data)[i]);
  }
  return sum;
}

}  // namespace

void kernel(const CrossEntropy& op, CpuContext&, Views in, MutViews out) {
  const cpu::Packed x(in[0]);
  const cpu::ClassLayout at = layout_of("CrossEntropy", in[0].shape, op.axis, op.label_smooth);
  const Labels labels("CrossEntropy", in[1], at.classes);
  const std::int64_t n = in[1].size();
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Scratch losses(static_cast<std::size_t>(n * size_of(dtype)));
  if (n != 0) {
    MGE_DISPATCH(cross_entropy_forward)(in[0].dtype, x.data(), labels.data(), losses.as<void>(),
                                        at);
  }
  if (op.reduction == LossReduction::NONE) {
    return cpu::copy({losses.as<void>(), dtype, in[1].shape, row_major(in[1].shape)}, out[0]);
  }
  const double sum = total(dtype, losses.as<void>(), n);
  const bool mean = op.reduction == LossReduction::MEAN;
  cpu::store_doubles({mean ? sum / static_cast<double>(n) : sum}, out[0]);
}
REGISTER_KERNEL(CrossEntropy, cpu);

void kernel(const CrossEntropyBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  const cpu::ClassLayout at = layout_of("CrossEntropyBackward", dx.shape, op.axis, op.label_smooth);
  const Labels labels("CrossEntropyBackward", in[2], at.classes);
  if (dx.size() == 0) return;
  const cpu::Packed x(in[1]);
  const DType dtype = cpu::compute_dtype(dx.dtype);
  if (op.reduction == LossReduction::NONE) {
    const cpu::Packed dloss(in[0], dtype);
    MGE_DISPATCH(cross_entropy_backward)(dx.dtype, dloss.data(), false, x.data(), labels.data(),
                                         dx.data, at);
    return;
  }
  const bool mean = op.reduction == LossReduction::MEAN;
  const double share = cpu::doubles(in[0])[0] / (mean ? static_cast<double>(in[2].size()) : 1.0);
  const float narrow = static_cast<float>(share);
  const void* one = dtype == DType::float64 ? static_cast<const void*>(&share) : &narrow;
  MGE_DISPATCH(cross_entropy_backward)(dx.dtype, one, true, x.data(), labels.data(), dx.data, at);
}
REGISTER_KERNEL(CrossEntropyBackward, cpu);

}  // namespace mge
