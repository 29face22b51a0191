/// \file
/// The exception that reports invalid input.
#pragma once
#include <stdexcept>
#include <string>

namespace pmnet {

/// Invalid input: a missing file, a damaged checkpoint, an option out of range.
///
/// `what()` is one sentence that says what is wrong, where, what was expected and what to do. The program `pmnet`
/// prints it and exits with code 2. Broken invariants inside the library throw `std::logic_error` or `c10::Error`
/// instead.
class UserError : public std::runtime_error {
 public:
  /// An error with this message.
  explicit UserError(const std::string& sentence) : std::runtime_error(sentence) {}
};

}  // namespace pmnet
