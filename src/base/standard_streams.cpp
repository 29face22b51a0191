#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"

namespace pmnet {

void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // open() takes the lowest free descriptor: those below fd are open by now.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)!::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
  }
}

void print_error(std::string_view line) noexcept {
  try {
    const std::string text = escape_control(line) + "\n";
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  } catch (...) {  // out of memory for one line
  }
}

}  // namespace pmnet
