#include "report/metrics_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file_calls.h"

namespace pmnet {
namespace {

using Json = nlohmann::ordered_json;

// A line of ours is far shorter; a longer one is damage.
constexpr size_t kMaxLine = 1 << 20;

std::optional<Json> parse_line(const std::string& line) {
  if (line.size() > kMaxLine) return std::nullopt;
  Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) return std::nullopt;
  return object;
}

FileDescriptor open_for_append(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}

void drop_points_after(const std::string& path, int64_t last_step) {
  std::ifstream old(path, std::ios::binary);
  if (!old) return;
  AtomicFile kept(path);
  for (std::string line; std::getline(old, line);) {
    const std::optional<Json> object = parse_line(line);
    if (object && (*object)["step"].get<int64_t>() <= last_step) kept.writer().write(line + "\n");
  }
  kept.commit();
}

}  // namespace

WarnOnce::WarnOnce(Sink sink) : sink_(std::move(sink)) {
  if (!sink_) sink_ = [](const std::string& sentence) { std::fprintf(stderr, "warning: %s\n", sentence.c_str()); };
}

void WarnOnce::operator()(const std::string& sentence) {
  if (warned_) return;
  warned_ = true;
  sink_(sentence);
}

MetricsLog::MetricsLog(const std::string& path, int64_t last_step, WarnOnce::Sink warn)
    : path_(path), warn_(std::move(warn)) {
  drop_points_after(path, last_step);
  file_ = open_for_append(path);
  if (file_.get() < 0) fail("{}: cannot write: {}; choose a folder you may write to", path, std::strerror(errno));
}

bool MetricsLog::reopen_if_deleted() {
  struct stat status{};
  if (file_.get() >= 0 && ::fstat(file_.get(), &status) == 0 && status.st_nlink > 0) return true;
  warn_(path_ + ": was deleted; continuing with a new file");
  file_ = open_for_append(path_);
  line_broken_ = false;
  return file_.get() >= 0;
}

void MetricsLog::write(int64_t step, const Metrics& metrics) noexcept {
  try {
    Json object;
    object["step"] = step;
    for (const auto& [name, value] : metrics) {
      if (std::isfinite(value))
        object[name] = value;
      else
        object[name] = nullptr;
    }
    const std::string line =
        (line_broken_ ? "\n" : "") + object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (!reopen_if_deleted()) return;
    ssize_t put = 0;
    do put = file_calls().write(file_.get(), line.data(), line.size());
    while (put < 0 && errno == EINTR);
    const bool complete = put == static_cast<ssize_t>(line.size());
    if (!complete)
      warn_(fmt::format("{}: cannot write: {}; training continues, some points are lost", path_,
                        put < 0 ? std::strerror(errno) : "the disk is full"));
    if (put > 0) line_broken_ = !complete;
  } catch (const std::exception&) {
    // Out of memory for one line of a log: the point is lost, the run is not.
  }
}

MetricSeries read_metrics(const std::string& path) {
  const FileReader check(path);  // says what is wrong with a path that is no file
  std::ifstream file(path, std::ios::binary);
  MetricSeries series;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const std::optional<Json> object = parse_line(line);
    if (!object) {
      ++series.unreadable_lines;
      continue;
    }
    const int64_t step = (*object)["step"].get<int64_t>();
    for (const auto& [name, value] : object->items()) {
      if (name == "step") continue;
      if (value.is_number())
        series.by_name[name].push_back({step, value.get<double>()});
      else if (value.is_null())
        series.by_name[name].push_back({step, std::numeric_limits<double>::quiet_NaN()});
    }
  }
  return series;
}

}  // namespace pmnet
