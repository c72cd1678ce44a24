// Errors that reach Python as exceptions of the matching built-in class.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace mge {

enum class ErrorKind { value, type, index, runtime, memory, not_implemented };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

// Joins its arguments as operator<< prints them.
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

// fail_value("Concat", "expected inputs of one rank, got ", a, " and ", b)
// raises ValueError("Concat: expected inputs of one rank, got (2, 3) and (2,)").
template <class... Parts>
[[noreturn, gnu::noinline, gnu::cold]] void fail(ErrorKind kind, const char* op,
                                                 const Parts&... parts) {
  throw Error(kind, str(op, ": ", parts...));
}
template <class... Parts>
[[noreturn, gnu::cold]] void fail_value(const char* op, const Parts&... parts) {
  fail(ErrorKind::value, op, parts...);
}
template <class... Parts>
[[noreturn, gnu::cold]] void fail_type(const char* op, const Parts&... parts) {
  fail(ErrorKind::type, op, parts...);
}
template <class... Parts>
[[noreturn, gnu::cold]] void fail_index(const char* op, const Parts&... parts) {
  fail(ErrorKind::index, op, parts...);
}
template <class... Parts>
[[noreturn, gnu::cold]] void fail_runtime(const char* op, const Parts&... parts) {
  fail(ErrorKind::runtime, op, parts...);
}

}  // namespace mge
