// What follows a product, for kernels of our own: on rows of results that lie in the first cache.
#pragma once

#include <array>
#include <cstdint>

#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/onednn.h"

namespace mge::cpu {

class PostOpRun {
 public:
  explicit PostOpRun(const dnn::PostOps& post);
  // Whether results may be written where they belong at once.
  bool empty() const { return !add_ && !activation_ && !scale_; }
  // Takes n results that lie at `row`, which is overwritten, to `out`, which holds the summands.
  void operator()(float* row, float* out, std::int64_t n) const;

 private:
  static constexpr std::int64_t kBlock = 256;  // elements at a time, of the numbers of a mode
  dnn::PostOps post_;
  ElementRun add_ = nullptr, activation_ = nullptr, scale_ = nullptr;
  std::array<float, kBlock> alpha_, beta_, factor_, shift_;
};

}  // namespace mge::cpu
