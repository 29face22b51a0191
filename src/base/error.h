#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace pmnet {

// A mistake of the person at the keyboard or in a file they gave: main prints it as one line and exits with code 2.
// The sentence says what was wrong, where, what was expected and what to do. Broken invariants of our own use
// std::logic_error or TORCH_CHECK instead (exit code 1).
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& sentence) : std::runtime_error(sentence) {}
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pmnet
