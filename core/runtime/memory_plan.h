// Where the large buffers of a computation go that runs over and over.
//
// The first run is watched: which buffers it takes, how large, in which order, and when it gives
// them back. From that, each gets a place in one block of memory, so that those that are there at
// the same time do not overlap. Later runs take that block and hand its parts out in the same
// order. A run that takes other buffers than the plan says, or finds a place still in use, gets
// memory as anybody else from there on: a plan that does not fit costs time, never a value.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mge {

struct MemoryArena;

class MemoryPlan {
 public:
  struct Place {
    std::size_t bytes;
    std::size_t offset;  // kElsewhere for a buffer that outlives the run
  };
  static constexpr std::size_t kElsewhere = ~std::size_t{0};
  struct Places {
    std::vector<Place> places;  // in the order in which the buffers are taken
    std::size_t bytes = 0;      // of the block
  };

 private:
  friend class PlannedRun;
  // After so many plans that did not fit, none is made any more.
  static constexpr int kMostTries = 4;

  std::mutex lock_;
  std::shared_ptr<const Places> places_;
  bool watched_ = false;  // a run is being watched
  int failed_ = 0;
};

// A run, on this thread, while it lives. Runs on several threads have a block each.
class PlannedRun {
 public:
  explicit PlannedRun(MemoryPlan& plan);
  ~PlannedRun();
  PlannedRun(const PlannedRun&) = delete;
  PlannedRun& operator=(const PlannedRun&) = delete;

  // For the allocator: the large buffers of this thread.
  void* allocate(std::size_t bytes);
  void freed(void* data);

 private:
  enum class Mode { off, watching, planned };
  struct Buffer {
    std::size_t bytes, begin, end;
  };

  static MemoryPlan::Places arrange(const std::vector<Buffer>& buffers);

  MemoryPlan& plan_;
  PlannedRun* outer_;
  Mode mode_ = Mode::off;
  int exceptions_;
  std::shared_ptr<const MemoryPlan::Places> places_;
  MemoryArena* arena_ = nullptr;
  std::size_t next_ = 0;
  bool fits_ = true;
  std::size_t time_ = 0;
  std::vector<Buffer> buffers_;                     // seen so far, while watching
  std::unordered_map<void*, std::size_t> by_data_;  // those that are still there
};

}  // namespace mge
