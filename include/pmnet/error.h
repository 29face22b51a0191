/// \file
/// The exception that reports invalid input.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace pmnet {

/// The text as valid UTF-8 with its control characters written as \\xNN, so that names from a file can be printed.
std::string escape_control(std::string_view text);

/// Invalid input: a missing file, a damaged checkpoint, an option out of range.
///
/// `what()` is one sentence that says what is wrong, where, what was expected and what to do. The program `pmnet`
/// prints it and exits with code 2. Broken invariants inside the library throw `std::logic_error` or `c10::Error`
/// instead.
class UserError : public std::runtime_error {
 public:
  /// An error with this message.
  explicit UserError(std::string_view sentence) : std::runtime_error(escape_control(sentence)) {}
};

}  // namespace pmnet
