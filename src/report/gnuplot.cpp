#include "report/gnuplot.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/subprocess.h"

namespace pmnet {
namespace {

std::string first_line(const std::string& text) {
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

void draw_with_gnuplot(const std::string& path, int width, int height, const std::string& commands) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension != ".svg" && extension != ".png")
    fail("{}: cannot draw a picture of this kind; choose a name that ends in .svg or .png", path);
  const std::string script = fmt::format("set terminal {} size {},{} noenhanced font 'sans,12' background '#ffffff'\n",
                                         extension == ".svg" ? "svg" : "pngcairo", width, height) +
                             commands;
  const ChildResult child = run_child({"gnuplot"}, {.err = ChildStream::kCapture, .input = script});
  if (child.start_error == ENOENT)
    fail("{}: cannot draw without gnuplot; install it (apt install gnuplot-nox) and try again", path);
  if (child.start_error != 0) fail("{}: cannot start gnuplot: {}", path, std::strerror(child.start_error));
  if (child.exit_code != 0 || child.output.empty())
    fail(
        "{}: gnuplot could not draw it (exit code {}): {}; check that gnuplot 5 or later with its svg and pngcairo "
        "terminals is installed",
        path, child.exit_code, first_line(child.errors));
  write_file_atomically(path, child.output);
}

}  // namespace pmnet
