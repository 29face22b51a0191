// Runs the built program as a user would.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/subprocess.h"

namespace pmnet {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when one ended it
  std::string output;  // stdout, and stderr where the command joins them
};

inline ProgramResult run_shell(const std::string& command) {
  ChildResult child = run_child({"sh", "-c", command});
  return {child.exit_code, std::move(child.output)};
}

inline ProgramResult run_program(const std::string& arguments) {
  return run_shell(fmt::format("'{}' {} 2>&1", PMNET_PROGRAM, arguments));
}

// A mistake of the user: exit code 2, and a message that says this.
inline void expect_user_error(const std::string& arguments, const std::string& part_of_message) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, 2) << arguments << "\n" << result.output;
  EXPECT_NE(result.output.find("pmnet: "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find(part_of_message), std::string::npos) << arguments << "\n" << result.output;
}

}  // namespace pmnet
