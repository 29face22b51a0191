// What an action complains about, and what a sentence says.
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/error.h"

namespace pmnet {

// The sentence of the UserError that `action` throws, or a note that it threw none.
template <typename Action>
std::string user_error_of(const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "(no error)";
}

inline void expect_mentions(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

}  // namespace pmnet
