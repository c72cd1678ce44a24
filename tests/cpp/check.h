// Just enough to test with: TEST(name) { CHECK(...); }, and the main function that runs them all.
#pragma once

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "core/runtime/error.h"

namespace mge::test {

struct Case {
  const char* name;
  void (*run)();
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
inline int failures = 0;

inline void report(bool ok, const char* file, int line, const char* what) {
  if (ok) return;
  ++failures;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what);
}

// True where f raises an Error of this kind whose message holds `part`.
template <class F>
bool raises(ErrorKind kind, const std::string& part, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind() == kind && std::string(e.what()).find(part) != std::string::npos;
  }
  return false;
}

}  // namespace mge::test

#define TEST(name)                                                                             \
  static void test_##name();                                                                   \
  static const bool added_##name = (mge::test::cases().push_back({#name, test_##name}), true); \
  static void test_##name()
#define CHECK(condition) mge::test::report((condition), __FILE__, __LINE__, #condition)

int main() {
  for (const auto& c : mge::test::cases()) {
    try {
      c.run();
    } catch (const std::exception& e) {
      mge::test::report(false, c.name, 0, e.what());
    }
  }
  std::printf("%zu tests, %d failures\n", mge::test::cases().size(), mge::test::failures);
  return mge::test::failures != 0;
}
