// One child process, run to its end: no shell, so no quoting.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pmnet {

enum class ChildStream {
  kCapture,  // into ChildResult
  kInherit,  // ours
  kDiscard,  //
  kJoin,     // standard output goes where standard error goes, or the other way round
};

struct ChildOptions {
  ChildStream out = ChildStream::kCapture, err = ChildStream::kInherit;
  std::string_view input = {};  // what it reads from standard input
};

struct ChildResult {
  int start_error = 0;  // errno if the program could not be started; ENOENT: it is not installed
  int exit_code = 127;  // 128 + signal if one ended it
  std::string output, errors;
  bool succeeded() const { return start_error == 0 && exit_code == 0; }
};

// The first argument is the program, looked up in PATH. UserError only when this process is out of resources.
ChildResult run_child(std::vector<std::string> arguments, const ChildOptions& options = {});

}  // namespace pmnet
