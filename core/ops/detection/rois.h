// What the ops on regions of interest have in common: reading and checking the boxes, and operands
// in the layout that the loops want.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/packed.h"
#include "core/op/op.h"

namespace mge::detection {

// Sizes that fit 32 bits along each axis: positions are kept in int32.
inline constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;

inline void check_image(const char* op, const char* what, const Spec& x) {
  if (x.ndim() != 4) fail_value(op, "expected ", what, " of (N, C, H, W), got shape ", x.shape);
  if (!is_float(x.dtype)) fail_type(op, "expected ", what, " of a float dtype, got ", x.dtype);
  for (std::int64_t size : x.shape) {
    if (size > kMostSize) fail_value(op, what, " of shape ", x.shape, " is too large");
  }
}

// (K, 5) of a float type: the number of an image, then x1, y1, x2, y2.
inline void check_rois(const char* op, const Spec& rois) {
  if (rois.ndim() != 2 || rois.shape[1] != 5) {
    fail_value(op, "expected rois of (K, 5), got shape ", rois.shape);
  }
  if (!is_float(rois.dtype)) fail_type(op, "expected rois of a float dtype, got ", rois.dtype);
}

inline void check_output_size(const char* op, std::int64_t height, std::int64_t width) {
  if (height < 0 || width < 0 || height > kMostSize || width > kMostSize) {
    fail_value(op, "expected an output size of 0 to 2^31 - 1, got ", height, " x ", width);
  }
}

// The shape (N, C, H, W) of an image that an op has as a field.
inline void check_image_shape(const char* op, const Shape& shape) {
  if (shape.size() != 4) fail_value(op, "expected input_shape of (N, C, H, W), got ", shape);
  for (std::int64_t size : shape) {
    if (size < 0 || size > kMostSize) {
      fail_value(op, "expected input_shape of sizes from 0 to 2^31 - 1, got ", shape);
    }
  }
  count(shape);
}

struct Rois {
  std::int64_t count = 0;
  std::vector<std::int64_t> image;
  std::vector<double> box;  // x1, y1, x2, y2 of each
};

// The boxes as numbers; raises IndexError for an image that is not there.
inline Rois read_rois(const char* op, const View& rois, std::int64_t images) {
  const std::vector<double> flat = cpu::doubles(rois);
  Rois out;
  out.count = rois.shape[0];
  out.image.reserve(static_cast<std::size_t>(out.count));
  out.box.reserve(static_cast<std::size_t>(4 * out.count));
  for (std::size_t k = 0; k < flat.size(); k += 5) {
    const double image = std::trunc(flat[k]);
    if (!(image >= 0 && image < static_cast<double>(images))) {
      fail_index(op, "expected image numbers in [0, ", images, ") in column 0 of rois, got ",
                 flat[k], " in row ", k / 5);
    }
    out.image.push_back(static_cast<std::int64_t>(image));
    out.box.insert(out.box.end(), flat.begin() + static_cast<std::ptrdiff_t>(k + 1),
                   flat.begin() + static_cast<std::ptrdiff_t>(k + 5));
  }
  return out;
}

// An output that the loops write as `dtype` with `strides`, whatever it is in the end.
class Staged {
 public:
  Staged(const MutView& out, DType dtype, const Strides& strides)
      : out_(out), dtype_(dtype), strides_(strides), data_(out.data) {
    if (out.dtype == dtype && cpu::same_layout(out.shape, out.strides, strides)) return;
    copy_.emplace(static_cast<std::size_t>(out.size() * size_of(dtype)));
    data_ = copy_->as<void>();
  }
  void* data() const { return data_; }
  // Puts what was written where it belongs.
  void finish() const {
    if (copy_) cpu::copy(View{data_, dtype_, out_.shape, strides_}, out_);
  }

 private:
  MutView out_;
  DType dtype_;
  Strides strides_;
  void* data_;
  std::optional<Scratch> copy_;
};

}  // namespace mge::detection
