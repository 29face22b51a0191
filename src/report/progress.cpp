#include "report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <limits>

namespace pmnet {
namespace {

constexpr double kRateWindowSeconds = 15;

size_t terminal_width(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// A redrawn line must not wrap: the carriage return would go back to its last row only.
std::string cut_to(const std::string& text, size_t characters) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xC0) != 0x80 && characters-- == 0) break;
  return text.substr(0, at);
}

}  // namespace

ProgressLine::ProgressLine() : ProgressLine(Options()) {}

ProgressLine::ProgressLine(Options options)
    : options_(std::move(options)),
      terminal_(options_.terminal.value_or(::isatty(::fileno(options_.out)) == 1)),
      next_time_(terminal_ ? -std::numeric_limits<double>::infinity() : options_.clock() + options_.line_seconds) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::update(const std::function<std::string()>& text) {
  const double now = options_.clock();
  if (now < next_time_) return;
  next_time_ = now + (terminal_ ? options_.redraw_seconds : options_.line_seconds);
  draw(text());
}

void ProgressLine::print(const std::string& line) {
  erase();
  std::fprintf(options_.out, "%s\n", line.c_str());
  std::fflush(options_.out);
}

void ProgressLine::finish(const std::string& text) {
  erase();
  if (text.empty()) return;
  std::fprintf(options_.out, "%s\n", text.c_str());
  std::fflush(options_.out);
}

void ProgressLine::draw(const std::string& text) {
  if (terminal_) {
    std::fprintf(options_.out, "\r%s\033[K", cut_to(text, terminal_width(options_.out) - 1).c_str());
    drawn_ = true;
  } else {
    std::fprintf(options_.out, "%s\n", text.c_str());
  }
  std::fflush(options_.out);
}

void ProgressLine::erase() {
  if (!drawn_) return;
  std::fprintf(options_.out, "\r\033[K");
  std::fflush(options_.out);
  drawn_ = false;
}

RateMeter::RateMeter(double total, double done, std::function<double()> clock)
    : total_(total),
      clock_(std::move(clock)),
      start_(clock_()),
      done_(done),
      window_start_(start_),
      window_done_(done),
      next_start_(start_),
      next_done_(done) {}

void RateMeter::set_done(double done) {
  const double now = clock_();
  done_ = done;
  if (now - next_start_ >= kRateWindowSeconds) {
    window_start_ = next_start_;
    window_done_ = next_done_;
    next_start_ = now;
    next_done_ = done;
  }
  if (now > window_start_) rate_ = (done - window_done_) / (now - window_start_);
}

double RateMeter::seconds_left() const {
  if (done_ >= total_) return 0;
  return rate_ > 0 ? (total_ - done_) / rate_ : -1;
}

}  // namespace pmnet
