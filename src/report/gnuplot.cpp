#include "report/gnuplot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

extern char** environ;

namespace pmnet {
namespace {

namespace fs = std::filesystem;

// The files of one drawing, removed when it is over.
struct Workplace {
  fs::path script, picture, messages;
  explicit Workplace(const fs::path& target) {
    const std::string stem = target.string() + ".tmp-" + std::to_string(::getpid());
    script = stem + ".gp";
    picture = stem + target.extension().string();
    messages = stem + ".log";
    clear();
  }
  ~Workplace() { clear(); }
  void clear() {
    std::error_code error;
    for (const fs::path& file : {script, picture, messages}) fs::remove(file, error);
  }
};

// Runs gnuplot without a shell; returns its exit code.
int run_gnuplot(const Workplace& workplace) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, output, workplace.messages.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  std::string program = "gnuplot", script = workplace.script.string();
  char* arguments[] = {program.data(), script.data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, "gnuplot", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT)
    fail("gnuplot is not installed, so no picture can be drawn; install it (apt install gnuplot-nox) and try again");
  if (error != 0) fail("cannot start gnuplot: {}; check its installation", std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("lost sight of gnuplot: {}; try again", std::strerror(errno));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string first_message(const fs::path& messages) {
  std::error_code error;
  if (!fs::exists(messages, error)) return "no message";
  const std::string text = read_file(messages, 1 << 20);
  const size_t start = text.find_first_not_of(" \n\t^");
  return start == text.npos ? "no message" : text.substr(start, text.find('\n', start) - start);
}

}  // namespace

std::string gnuplot_quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "''";
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted += ' ';
    else
      quoted += c;
  }
  return quoted + "'";
}

void draw_with_gnuplot(const std::string& path,
                       const std::function<std::string(const std::string& output)>& script_for) {
  const fs::path target(path);
  if (target.extension() != ".svg" && target.extension() != ".png")
    fail("cannot draw '{}': expected a name that ends in .svg or .png", path);
  const Workplace workplace(target);
  FileWriter script(workplace.script);
  script.write(script_for(workplace.picture.string()));
  script.finish();
  const int code = run_gnuplot(workplace);
  std::error_code error;
  if (code != 0 || !fs::exists(workplace.picture, error) || fs::file_size(workplace.picture, error) == 0)
    fail(
        "gnuplot could not draw '{}' (exit code {}): {}; check that gnuplot 5 or later with its svg and pngcairo "
        "terminals is installed",
        path, code, first_message(workplace.messages));
  fs::rename(workplace.picture, target, error);
  if (error) fail("cannot write '{}': {}; choose a folder you may write to", path, error.message());
}

}  // namespace pmnet
