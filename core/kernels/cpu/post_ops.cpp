#include "core/kernels/cpu/post_ops.h"

#include <algorithm>
#include <cstring>

namespace mge::cpu {

PostOpRun::PostOpRun(const dnn::PostOps& post) : post_(post) {
  constexpr DType f = DType::float32;
  if (post.add != dnn::PostOps::Add::none) add_ = find_element_run(ElementMode::ADD, f);
  if (post.activation) activation_ = find_element_run(*post.activation, f);
  if (post.scale != 1 || post.shift != 0) scale_ = find_element_run(ElementMode::FUSE_MUL_ADD3, f);
  alpha_.fill(post.alpha);
  beta_.fill(post.beta);
  factor_.fill(post.scale);
  shift_.fill(post.shift);
}

void PostOpRun::operator()(float* row, float* out, std::int64_t n) const {
  using Add = dnn::PostOps::Add;
  for (std::int64_t i = 0; i < n; i += kBlock, row += kBlock, out += kBlock) {
    const std::int64_t count = std::min(kBlock, n - i);
    const void* sum[] = {row, out};
    if (post_.add == Add::before_activation) add_(sum, row, count);
    const void* arguments[] = {row, alpha_.data(), beta_.data()};
    if (activation_) activation_(arguments, row, count);
    const void* scaled[] = {row, factor_.data(), shift_.data()};
    if (scale_) scale_(scaled, row, count);
    if (post_.add == Add::after_activation) {
      add_(sum, out, count);
    } else {
      std::memcpy(out, row, static_cast<std::size_t>(count) * sizeof(float));
    }
  }
}

}  // namespace mge::cpu
