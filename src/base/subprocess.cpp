#include "base/subprocess.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

extern char** environ;

namespace pmnet {
namespace {

// Input and captured output are files in memory: unlike pipes they cannot fill up while the other side waits.
FileDescriptor memory_file() {
  FileDescriptor fd(::memfd_create("pmnet", MFD_CLOEXEC));
  if (fd.get() < 0) fail("cannot start another process: {}; close other programs and try again", std::strerror(errno));
  return fd;
}

FileDescriptor memory_file_with(std::string_view text) {
  FileDescriptor fd = memory_file();
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = ::write(fd.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot pass {} bytes to another process: {}", text.size(), std::strerror(errno));
    done += static_cast<size_t>(put);
  }
  ::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

std::string text_in(const FileDescriptor& fd) {
  std::string text;
  char buffer[1 << 16];
  for (off_t offset = 0;;) {
    const ssize_t got = ::pread(fd.get(), buffer, sizeof buffer, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    offset += got;
  }
}

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  void connect(int target, ChildStream stream, const FileDescriptor& captured) {
    if (stream == ChildStream::kCapture) duplicate(captured.get(), target);
    if (stream == ChildStream::kDiscard) posix_spawn_file_actions_addopen(&actions_, target, "/dev/null", O_WRONLY, 0);
  }
  void duplicate(int from, int target) { posix_spawn_file_actions_adddup2(&actions_, from, target); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

}  // namespace

ChildResult run_child(std::vector<std::string> arguments, const ChildOptions& options) {
  const FileDescriptor input = memory_file_with(options.input), output = memory_file(), errors = memory_file();
  FileActions actions;
  actions.duplicate(input.get(), STDIN_FILENO);
  actions.connect(STDOUT_FILENO, options.out, output);
  actions.connect(STDERR_FILENO, options.err, errors);
  if (options.out == ChildStream::kJoin) actions.duplicate(STDERR_FILENO, STDOUT_FILENO);
  if (options.err == ChildStream::kJoin) actions.duplicate(STDOUT_FILENO, STDERR_FILENO);

  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ChildResult result;
  pid_t child = 0;
  result.start_error = ::posix_spawnp(&child, pointers[0], actions.get(), nullptr, pointers.data(), environ);
  if (result.start_error != 0) return result;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("cannot wait for {}: {}", arguments[0], std::strerror(errno));
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = text_in(output);
  result.errors = text_in(errors);
  return result;
}

}  // namespace pmnet
