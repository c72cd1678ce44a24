#include "core/runtime/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/runtime/error.h"
#include "core/runtime/file_memory.h"
#include "core/runtime/memory_plan.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

// Two pools. Small buffers (up to 32 KB) come from free lists of the calling thread, one for each
// size class, with no lock: an op on ten numbers spends nothing here. Large ones come from a shared
// list ordered by size; a cached block serves a request that wastes at most a quarter of it.
namespace mge {

// The block of a planned run. It goes when the run is over and none of its parts is in use.
struct MemoryArena {
  char* data;
  std::size_t bytes;
  bool open = true;
  std::vector<std::pair<std::size_t, std::size_t>> live;  // begin and end of the parts in use
};

namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kSmallLimit = 32 * 1024;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
static_assert(kLeastMapped >= kHugePage);  // such buffers come from mmap
#if defined(__SANITIZE_ADDRESS__)
// A limit on the address space, by which tests keep huge tensors from filling the machine, leaves
// no room for the sanitizer's own maps.
constexpr std::size_t kLargest = std::size_t{1} << 31;
#else
constexpr std::size_t kLargest = std::size_t{1} << 46;
#endif

// Classes: 64-byte steps up to 1 KB, then four for each doubling.
constexpr int kStepClasses = 16;
constexpr int kClasses = kStepClasses + 5 * 4;

int small_class(std::size_t bytes) {
  if (bytes <= 1024) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  const int log = std::bit_width(bytes - 1) - 1;  // 2^log < bytes <= 2^(log+1)
  const std::size_t quarter = std::size_t{1} << (log - 2);
  const int part = static_cast<int>((bytes - 1 - (std::size_t{1} << log)) / quarter);
  return kStepClasses + (log - 10) * 4 + part;
}
std::size_t class_bytes(int c) {
  if (c < kStepClasses) return static_cast<std::size_t>(c + 1) * 64;
  const int log = 10 + (c - kStepClasses) / 4, part = (c - kStepClasses) % 4;
  return (std::size_t{1} << log) +
         static_cast<std::size_t>(part + 1) * (std::size_t{1} << (log - 2));
}

// Under the address sanitizer, only the bytes that were asked for may be touched: not the rest of
// their block, and nothing of a cached one.
#if defined(__SANITIZE_ADDRESS__)
void expose(void* p, std::size_t bytes, std::size_t capacity) {
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(p) + bytes, capacity - bytes);
}
void hide(void* p, std::size_t capacity) { ASAN_POISON_MEMORY_REGION(p, capacity); }
#else
void expose(void*, std::size_t, std::size_t) {}
void hide(void*, std::size_t) {}
#endif

[[noreturn]] void out_of_memory(std::size_t bytes) {
  throw Error(ErrorKind::memory, str("allocate: cannot allocate ", bytes, " bytes"));
}

// ---- small
// ----------------------------------------------------------------------------------------

struct FreeBlock {
  FreeBlock* next;
};
// Counts of the bytes in live small buffers; a buffer may be freed by another thread than took it,
// so one thread's count can be negative and only the sum means something.
struct ThreadCounts {
  std::atomic<std::int64_t> allocated{0}, reserved{0};
  void add(std::int64_t live, std::int64_t held) {
    // Only the owning thread writes: plain additions, atomic for the readers.
    allocated.store(allocated.load(std::memory_order_relaxed) + live, std::memory_order_relaxed);
    reserved.store(reserved.load(std::memory_order_relaxed) + held, std::memory_order_relaxed);
  }
};
constexpr int kMostCached = 512;
struct SmallPool {
  std::array<FreeBlock*, kClasses> free;
  std::array<int, kClasses> cached;
  ThreadCounts* counts;
  bool closed;  // the thread is ending: cache nothing more
};
thread_local constinit SmallPool t_pool{};

struct Counters {
  std::mutex mutex;
  std::vector<ThreadCounts*> threads;
};
Counters& counters() {
  static Counters* c = new Counters;  // outlives every tensor
  return *c;
}

void drain(SmallPool& pool) {
  for (int c = 0; c < kClasses; ++c) {
    while (FreeBlock* b = pool.free[static_cast<std::size_t>(c)]) {
      expose(b, class_bytes(c), class_bytes(c));
      pool.free[static_cast<std::size_t>(c)] = b->next;
      std::free(b);
      if (pool.counts) pool.counts->add(0, -static_cast<std::int64_t>(class_bytes(c)));
    }
    pool.cached[static_cast<std::size_t>(c)] = 0;
  }
}
struct PoolGuard {
  ~PoolGuard() {
    t_pool.closed = true;
    drain(t_pool);
  }
};
[[gnu::noinline, gnu::cold]] ThreadCounts* start_counting(SmallPool& pool) {
  static thread_local PoolGuard guard;
  (void)guard;
  pool.counts = new ThreadCounts;  // kept after the thread's end: its buffers may live on
  std::lock_guard lock(counters().mutex);
  counters().threads.push_back(pool.counts);
  return pool.counts;
}
inline ThreadCounts& counts_of(SmallPool& pool) {
  return pool.counts ? *pool.counts : *start_counting(pool);
}

void* allocate_small(std::size_t bytes) {
  const int c = small_class(bytes);
  const auto i = static_cast<std::size_t>(c);
  SmallPool& pool = t_pool;
  const auto size = static_cast<std::int64_t>(class_bytes(c));
  ThreadCounts& counts = counts_of(pool);
  if (FreeBlock* b = pool.free[i]) [[likely]] {
    pool.free[i] = b->next;
    expose(b, bytes, class_bytes(c));
    --pool.cached[i];
    counts.add(size, 0);
    return b;
  }
  void* p = std::aligned_alloc(kAlign, class_bytes(c));
  if (!p) out_of_memory(bytes);
  expose(p, bytes, class_bytes(c));
  counts.add(size, size);
  return p;
}
void deallocate_small(void* data, std::size_t bytes) {
  const int c = small_class(bytes);
  const auto i = static_cast<std::size_t>(c);
  SmallPool& pool = t_pool;
  const auto size = static_cast<std::int64_t>(class_bytes(c));
  ThreadCounts& counts = counts_of(pool);
  expose(data, class_bytes(c), class_bytes(c));
  if (pool.closed || pool.cached[i] >= kMostCached) {
    std::free(data);
    counts.add(-size, -size);
    return;
  }
  auto* b = static_cast<FreeBlock*>(data);
  b->next = pool.free[i];
  pool.free[i] = b;
  hide(b + 1, class_bytes(c) - sizeof(FreeBlock));
  ++pool.cached[i];
  counts.add(-size, 0);
}

// ---- large
// ----------------------------------------------------------------------------------------

class LargePool {
 public:
  void* allocate(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    return allocate_locked(bytes);
  }
  void deallocate(void* data) {
    std::lock_guard lock(mutex_);
    if (const auto part = parts_.find(data); part != parts_.end()) [[unlikely]] {
      return end_part(part);
    }
    deallocate_locked(data);
  }

  // ---- blocks of planned runs
  MemoryArena* open_arena(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    // What is cached has served runs without a plan; it need not be there beside the block.
    if (!cached_block(round_up(bytes))) release_locked();
    return new MemoryArena{static_cast<char*>(allocate_locked(bytes)), bytes, true, {}};
  }
  // Null where the place is in use.
  void* begin_part(MemoryArena& arena, std::size_t offset, std::size_t bytes) {
    const std::size_t end = offset + round_up(bytes);
    std::lock_guard lock(mutex_);
    for (const auto& [first, last] : arena.live) {
      if (first < end && offset < last) return nullptr;
    }
    arena.live.emplace_back(offset, end);
    char* const p = arena.data + offset;
    parts_.emplace(p, &arena);
    expose(p, bytes, end - offset);
    return p;
  }
  // Whether nothing of it is in use any more.
  bool close_arena(MemoryArena* arena) {
    std::lock_guard lock(mutex_);
    arena->open = false;
    const bool over = arena->live.empty();
    if (over) end_arena(arena);
    return over;
  }
  static std::size_t rounded(std::size_t bytes) { return round_up(bytes); }

  void release() {
    std::lock_guard lock(mutex_);
    release_locked();
  }
  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    return {allocated_, allocated_ + cached_, max_allocated_, max_reserved_};
  }
  void reset_max() {
    std::lock_guard lock(mutex_);
    max_allocated_ = allocated_;
    max_reserved_ = allocated_ + cached_;
  }

 private:
  using Free = std::multimap<std::size_t, void*>;

  // A cached block that serves `size`, if there is one.
  std::optional<Free::iterator> cached_block(std::size_t size) {
    const auto it = free_.lower_bound(size);
    if (it == free_.end() || it->first > size + size / 4) return std::nullopt;
    return it;
  }
  void end_part(std::unordered_map<void*, MemoryArena*>::iterator part) {
    MemoryArena* const arena = part->second;
    const auto offset = static_cast<std::size_t>(static_cast<char*>(part->first) - arena->data);
    const auto at = std::find_if(arena->live.begin(), arena->live.end(),
                                 [&](const auto& range) { return range.first == offset; });
    hide(part->first, at->second - at->first);
    *at = arena->live.back();
    arena->live.pop_back();
    parts_.erase(part);
    if (!arena->open && arena->live.empty()) end_arena(arena);
  }
  void end_arena(MemoryArena* arena) {
    deallocate_locked(arena->data);
    delete arena;
  }

  void* allocate_locked(std::size_t bytes) {
    const std::size_t size = round_up(bytes);
    void* p = nullptr;
    if (const auto cached = cached_block(size)) {
      const auto it = *cached;
      p = it->second;
      expose(p, bytes, it->first);
      live_.emplace(p, it->first);
      cached_ -= it->first;
      allocated_ += it->first;
      free_.erase(it);
    } else {
      const std::size_t held = allocated_ + cached_ + size;
      if (held > std::max(kThrifty, max_allocated_ + max_allocated_ / 16)) release_instead(size);
      p = map(size);
      if (!p) {
        release_locked();
        p = map(size);
      }
      if (!p) out_of_memory(bytes);
      expose(p, bytes, size);
      live_.emplace(p, size);
      allocated_ += size;
      // Shapes that come and go would fill memory with blocks that fit nothing: keep no more in
      // the cache than was ever in use at once.
      if (cached_ > std::max(max_allocated_, kKeep)) release_locked();
    }
    max_allocated_ = std::max(max_allocated_, allocated_);
    max_reserved_ = std::max(max_reserved_, allocated_ + cached_);
    return p;
  }
  void deallocate_locked(void* data) {
    auto it = live_.find(data);
    const std::size_t size = it->second;
    live_.erase(it);
    allocated_ -= size;
    if (size >= kLeastMapped && detail::drop_mapping(data)) {
      unmap(data, size);  // whoever gets a buffer next must not write into pages of a file
      return;
    }
    cached_ += size;
    free_.emplace(size, data);
    hide(data, size);
  }

  static constexpr std::size_t kKeep = std::size_t{64} << 20;
  // Beyond this much, and a sixteenth more than what was ever in use at once, a new block takes the
  // place of cached ones: there memory is dearer than the faults of its pages.
  static constexpr std::size_t kThrifty = std::size_t{2} << 30;

  // Large blocks begin at a huge page, so that the kernel backs most of them without a fault for
  // every 4 KB. They do not end at one: the activations of a network are a few MB each, and a huge
  // page for the rest of each would be a third of its memory.
  static std::size_t round_up(std::size_t bytes) {
    const std::size_t unit = bytes >= 32 * kHugePage ? kHugePage
                             : bytes >= (256u << 10) ? (64u << 10)
                                                     : 8192;
    return (bytes + unit - 1) / unit * unit;
  }
  static void* map(std::size_t size) {
    if (size < kHugePage) return std::aligned_alloc(4096, size);
    void* p =
        mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    // Keep the aligned part.
    auto address = reinterpret_cast<std::uintptr_t>(p);
    const std::uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
    if (aligned != address) munmap(p, aligned - address);
    const std::uintptr_t end = address + size + kHugePage;
    if (end != aligned + size)
      munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
#ifdef MADV_HUGEPAGE
    madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
#endif
    return reinterpret_cast<void*>(aligned);
  }
  static void unmap(void* p, std::size_t size) {
    expose(p, size, size);
    if (size < kHugePage) {
      std::free(p);
    } else {
      munmap(p, size);
    }
  }
  // Gives back cached blocks that do not serve, of `size` in all if there are so many: the next
  // larger one, or the largest.
  void release_instead(std::size_t size) {
    for (std::size_t given = 0; given < size && !free_.empty();) {
      auto it = free_.lower_bound(size - given);
      if (it == free_.end()) --it;
      given += it->first;
      cached_ -= it->first;
      unmap(it->second, it->first);
      free_.erase(it);
    }
  }
  void release_locked() {
    for (auto& [size, p] : free_) unmap(p, size);
    free_.clear();
    cached_ = 0;
  }

  std::mutex mutex_;
  Free free_;
  std::unordered_map<void*, std::size_t> live_;
  std::unordered_map<void*, MemoryArena*> parts_;  // of the blocks of planned runs
  std::size_t allocated_ = 0, cached_ = 0, max_allocated_ = 0, max_reserved_ = 0;
};
LargePool& large_pool() {
  static LargePool* pool = new LargePool;  // outlives every tensor
  return *pool;
}

thread_local constinit PlannedRun* t_run = nullptr;

}  // namespace

// ---- planned runs
// ----------------------------------------------------------------------------------------

PlannedRun::PlannedRun(MemoryPlan& plan)
    : plan_(plan), outer_(t_run), exceptions_(std::uncaught_exceptions()) {
  {
    const std::lock_guard lock(plan.lock_);
    if (plan.places_) {
      mode_ = Mode::planned;
      places_ = plan.places_;
    } else if (!plan.watched_ && plan.failed_ < MemoryPlan::kMostTries) {
      mode_ = Mode::watching;
      plan.watched_ = true;
    }
  }
  if (mode_ == Mode::planned && places_->bytes > 0) {
    try {
      arena_ = large_pool().open_arena(places_->bytes);
    } catch (const Error&) {  // there may be room for the buffers one by one
      mode_ = Mode::off;
      places_ = nullptr;
    }
  }
  t_run = this;
}

PlannedRun::~PlannedRun() {
  t_run = outer_;
  if (arena_ && !large_pool().close_arena(arena_)) fits_ = false;
  if (!places_ && mode_ != Mode::watching) return;
  const bool failed = std::uncaught_exceptions() > exceptions_;
  std::shared_ptr<const MemoryPlan::Places> places;
  if (mode_ == Mode::watching && !failed) {
    places = std::make_shared<const MemoryPlan::Places>(arrange(buffers_));
  }
  const std::lock_guard lock(plan_.lock_);
  if (mode_ == Mode::watching) {
    plan_.watched_ = false;
    if (places) plan_.places_ = std::move(places);
  } else if (!failed && plan_.places_ == places_ && (!fits_ || next_ != places_->places.size())) {
    plan_.places_ = nullptr;
    ++plan_.failed_;
  }
}

void* PlannedRun::allocate(std::size_t bytes) {
  if (mode_ == Mode::planned && fits_) {
    const std::size_t i = next_++;
    fits_ = i < places_->places.size() && places_->places[i].bytes == LargePool::rounded(bytes);
    if (fits_ && places_->places[i].offset != MemoryPlan::kElsewhere) {
      if (void* p = large_pool().begin_part(*arena_, places_->places[i].offset, bytes)) return p;
      fits_ = false;
    }
  }
  void* const p = large_pool().allocate(bytes);
  if (mode_ == Mode::watching) {
    by_data_[p] = buffers_.size();
    buffers_.push_back({LargePool::rounded(bytes), time_++, MemoryPlan::kElsewhere});
  }
  return p;
}

void PlannedRun::freed(void* data) {
  if (mode_ != Mode::watching) return;
  const auto it = by_data_.find(data);
  if (it == by_data_.end()) return;
  buffers_[it->second].end = time_++;
  by_data_.erase(it);
}

// The largest first, each into the smallest gap that it fits among those that are there with it.
MemoryPlan::Places PlannedRun::arrange(const std::vector<Buffer>& buffers) {
  MemoryPlan::Places out;
  std::vector<std::size_t> order;
  for (const Buffer& b : buffers) {
    if (b.end != MemoryPlan::kElsewhere) order.push_back(out.places.size());
    out.places.push_back({b.bytes, MemoryPlan::kElsewhere});
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  std::vector<std::size_t> placed;
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (const std::size_t i : order) {
    const Buffer& b = buffers[i];
    taken.clear();
    for (const std::size_t other : placed) {
      if (buffers[other].begin < b.end && b.begin < buffers[other].end) {
        const std::size_t first = out.places[other].offset;
        taken.emplace_back(first, first + buffers[other].bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    std::size_t end = 0, best = MemoryPlan::kElsewhere, smallest = MemoryPlan::kElsewhere;
    for (const auto& [first, last] : taken) {
      if (first >= end + b.bytes && first - end < smallest) {
        best = end;
        smallest = first - end;
      }
      end = std::max(end, last);
    }
    out.places[i].offset = best == MemoryPlan::kElsewhere ? end : best;
    out.bytes = std::max(out.bytes, out.places[i].offset + b.bytes);
    placed.push_back(i);
  }
  return out;
}

void* allocate(std::size_t bytes) {
  if (bytes <= kSmallLimit) [[likely]]
    return allocate_small(bytes);
  if (bytes > kLargest) out_of_memory(bytes);
  if (t_run) [[unlikely]]
    return t_run->allocate(bytes);
  return large_pool().allocate(bytes);
}

void deallocate(void* data, std::size_t bytes) noexcept {
  if (!data) return;
  if (bytes <= kSmallLimit) [[likely]]
    return deallocate_small(data, bytes);
  if (t_run) [[unlikely]]
    t_run->freed(data);
  large_pool().deallocate(data);
}

MemoryStats memory_stats() {
  MemoryStats s = large_pool().stats();
  std::int64_t live = 0, held = 0;
  {
    std::lock_guard lock(counters().mutex);
    for (const ThreadCounts* t : counters().threads) {
      live += t->allocated.load(std::memory_order_relaxed);
      held += t->reserved.load(std::memory_order_relaxed);
    }
  }
  const auto small_live = static_cast<std::uint64_t>(std::max<std::int64_t>(live, 0));
  const auto small_held = static_cast<std::uint64_t>(std::max<std::int64_t>(held, 0));
  s.allocated += small_live;
  s.max_allocated += small_live;
  s.reserved += small_held;
  s.max_reserved += small_held;
  return s;
}

void reset_max_memory_stats() { large_pool().reset_max(); }

void release_cached_memory() {
  drain(t_pool);
  large_pool().release();
}

}  // namespace mge
