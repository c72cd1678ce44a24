// Weights in the layouts that kernels want, kept with the value that they belong to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/runtime/allocator.h"
#include "core/tensor/value.h"

namespace mge::cpu {

// Guards ValueImpl::companion: kernels of several threads may share a value.
std::mutex& companion_mutex();

// What tells layouts apart: oneDNN's description of one, or a kernel of ours.
using WeightLayout = std::vector<std::int64_t>;
enum class OwnLayout : std::int64_t {
  winograd = -1,
  winograd_reversed = -2,
  pointwise = -3,
  panels = -4
};
inline WeightLayout layout_for(OwnLayout own) { return {static_cast<std::int64_t>(own)}; }

// Training uses weights only once: a layout that is asked for a second time is worth keeping.
// Weights of frozen programs are kept at once.
enum class KeepWeights : std::uint8_t { at_once, from_second };

// The weights of `owner` in this layout, made by `pack` where they are not kept; the result keeps
// them alive.
std::shared_ptr<Scratch> packed_weights(ValueImpl& owner, const WeightLayout& layout,
                                        KeepWeights keep,
                                        const std::function<std::shared_ptr<Scratch>()>& pack);

}  // namespace mge::cpu
