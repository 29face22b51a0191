#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace pmnet {

// The text as valid UTF-8 with its control characters written as \xNN: names out of a file must not reach a terminal as
// commands. Line feeds and tabs stay.
std::string escape_control(std::string_view text);

// A mistake of the person at the keyboard or in a file they gave: main prints it as one line and exits with code 2.
// The sentence says what was wrong, where, what was expected and what to do, "path: what is wrong; what to do". Broken
// invariants of our own use std::logic_error or TORCH_CHECK instead (exit code 1).
class UserError : public std::runtime_error {
 public:
  explicit UserError(std::string_view sentence) : std::runtime_error(escape_control(sentence)) {}
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pmnet
