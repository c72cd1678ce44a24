#include "core/kernels/cpu/packed_weights.h"

namespace mge::cpu {
namespace {

constexpr std::size_t kMostPackings = 4;

struct PackedWeights final : Companion {
  struct Item {
    WeightLayout layout;
    std::shared_ptr<Scratch> data;  // null until it is kept
  };
  std::vector<Item> items;
};

}  // namespace

std::mutex& companion_mutex() {
  static std::mutex* const one = new std::mutex;
  return *one;
}

std::shared_ptr<Scratch> packed_weights(ValueImpl& owner, const WeightLayout& layout,
                                        KeepWeights keep,
                                        const std::function<std::shared_ptr<Scratch>()>& pack) {
  const std::lock_guard lock(companion_mutex());
  if (!owner.companion) owner.companion = std::make_unique<PackedWeights>();
  auto* kept = dynamic_cast<PackedWeights*>(owner.companion.get());
  if (!kept) return pack();
  for (auto& item : kept->items) {
    if (item.layout != layout) continue;
    if (!item.data) item.data = pack();
    return item.data;
  }
  if (kept->items.size() >= kMostPackings) kept->items.erase(kept->items.begin());
  const bool now = keep == KeepWeights::at_once;
  const auto made = pack();
  kept->items.push_back({layout, now ? made : nullptr});
  return made;
}

}  // namespace mge::cpu
