#include "core/runtime/file_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "core/runtime/error.h"

namespace mge {
namespace {

// What the signal handler looks at. Slots are written under a lock; `begin` is set last and cleared
// first, so that the handler sees whole entries.
struct Mapping {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> lost{false};
};
constexpr std::size_t kMostMappings = 1024;
std::array<Mapping, kMostMappings> g_mappings;
std::atomic<std::size_t> g_count{0};  // of mappings
std::mutex g_lock;
struct sigaction g_previous;
std::size_t g_page;

Mapping* mapping_at(std::uintptr_t address) {
  for (Mapping& m : g_mappings) {
    const std::uintptr_t begin = m.begin.load(std::memory_order_acquire);
    if (begin && begin <= address && address < m.end.load(std::memory_order_relaxed)) return &m;
  }
  return nullptr;
}

// A page of a mapped file that is no longer in the file. The default action would end the process:
// the page becomes zeros instead, and its mapping is marked.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (Mapping* m = mapping_at(address)) {
    void* page = reinterpret_cast<void*>(address / g_page * g_page);
    m->lost.store(true, std::memory_order_relaxed);
    if (mmap(page, g_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != MAP_FAILED) {
      errno = saved;
      return;
    }
  }
  // Somebody else's: as if this handler were not there.
  if (g_previous.sa_flags & SA_SIGINFO) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    sigaction(SIGBUS, &g_previous,
              nullptr);  // the instruction runs again, and the signal comes back
  }
}

void install_handler() {
  static const bool done = [] {
    g_page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &g_previous) == 0;
  }();
  if (!done) fail_runtime("load", "cannot handle files that shrink: ", std::strerror(errno));
}

}  // namespace

namespace detail {

void keep_mapping(void* data, std::size_t bytes) {
  const std::lock_guard guard(g_lock);
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (Mapping& m : g_mappings) {
    if (m.begin.load(std::memory_order_relaxed)) continue;
    m.lost.store(false, std::memory_order_relaxed);
    m.end.store(begin + bytes, std::memory_order_relaxed);
    m.begin.store(begin, std::memory_order_release);
    ++g_count;
    return;
  }
  fail_runtime("load", "more than ", kMostMappings, " files are mapped at once");
}

bool drop_mapping(void* data) {
  if (g_count == 0) return false;
  const std::lock_guard guard(g_lock);
  for (Mapping& m : g_mappings) {
    if (m.begin.load(std::memory_order_relaxed) != reinterpret_cast<std::uintptr_t>(data)) continue;
    m.begin.store(0, std::memory_order_release);
    --g_count;
    return true;
  }
  return false;
}

}  // namespace detail

void map_file(void* data, std::size_t bytes, int file) {
  install_handler();
  detail::keep_mapping(data, bytes);
  if (mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) {
    const int error = errno;
    // MAP_FIXED may have taken the old pages away: the allocator unmaps the buffer in any case.
    fail_runtime("load", "cannot map the file: ", std::strerror(error));
  }
}

bool file_memory_lost(const void* data) {
  const Mapping* m = mapping_at(reinterpret_cast<std::uintptr_t>(data));
  return m && m->lost.load(std::memory_order_relaxed);
}

}  // namespace mge
