#include "eval/score_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/standard_streams.h"
#include "data/byte_source.h"

namespace pmnet {

namespace {

constexpr size_t kBlock = size_t{1} << 16;
constexpr size_t kMaxRecordBytes = size_t{64} << 20;

struct OutputClosed {};

[[noreturn]] void fail_printing() {
  if (errno == EPIPE) throw OutputClosed{};
  fail("cannot write to standard output: {}", std::strerror(errno));
}

void print_score(const LineScore& score, const ScoreStreamOptions& options) {
  const bool anomaly = options.threshold && score.bits >= *options.threshold;
  if (options.threshold && !anomaly && !options.mark) return;
  nlohmann::ordered_json json{{"line", score.line},
                              {"bytes", score.bytes},
                              {"bits", score.bits},
                              {"bits_per_byte", score.bits / static_cast<double>(score.bytes)}};
  if (!std::isfinite(score.bits)) json["bits"] = json["bits_per_byte"] = nullptr;
  if (options.mark) json["anomaly"] = anomaly;
  if (options.text) {
    json["text"] = score.text;
    if (score.text_cut) json["text_cut"] = true;
  }
  const std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) fail_printing();
}

// Cuts the input into JSON records and scores one field of each as a line, which may have line ends inside.
class RecordScorer {
 public:
  RecordScorer(const ScoreStreamOptions& options, LineScorer& scorer) : options_(options), scorer_(scorer) {}

  void push(std::string_view bytes) {
    for (size_t end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
      record_.append(bytes.substr(0, end));
      score_record();
      bytes.remove_prefix(end + 1);
    }
    record_.append(bytes);
    if (record_.size() > kMaxRecordBytes)
      fail("record {} is longer than {}; expected one JSON object per line", number_ + 1,
           format_bytes(kMaxRecordBytes));
  }
  void finish() {
    if (!record_.empty()) score_record();
  }

 private:
  void score_record() {
    ++number_;
    std::string text;
    try {
      text = text_of(parse_json(record_, fmt::format("record {}", number_)));
    } catch (const UserError& error) {
      if (!options_.skip_bad) fail("{}; correct it, or skip such records with --skip-bad", error.what());
      print_error("note: {}; it is scored as an empty line", error.what());
    }
    record_.clear();
    scorer_.push_line(text);
  }
  std::string text_of(const nlohmann::json& record) const {
    if (!record.is_object() || !record.contains(options_.field) || !record[options_.field].is_string())
      fail("record {} has no text in a field '{}'", number_, options_.field);
    return record[options_.field].get<std::string>();
  }

  const ScoreStreamOptions& options_;
  LineScorer& scorer_;
  std::string record_;
  uint64_t number_ = 0;
};

// A file, compressed or not, or a pipe, which is read as soon as it has anything.
class LineInput {
 public:
  explicit LineInput(const std::string& file) {
    if (file == "-") return;
    if (std::filesystem::is_regular_file(file)) {
      const std::vector<InputFile> found = find_inputs({file});
      if (found[0].format == FileFormat::kParquet || found[0].format == FileFormat::kShard)
        fail("{}: is not made of lines; score it with 'pmnet eval'", file);
      stream_ = open_input(file, found[0].compression);
      return;
    }
    pipe_ = FileDescriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (pipe_.get() < 0) fail("{}: {}; name a file or pipe that can be read", file, std::strerror(errno));
  }

  std::string_view read() {  // empty at the end
    if (stream_ != nullptr) return {block_.data(), stream_->read(block_.data(), block_.size())};
    while (true) {
      const ssize_t got = ::read(pipe_.get() >= 0 ? pipe_.get() : STDIN_FILENO, block_.data(), block_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot read the input: {}", std::strerror(errno));
      return {block_.data(), static_cast<size_t>(got)};
    }
  }

 private:
  std::unique_ptr<InputStream> stream_;
  FileDescriptor pipe_;
  std::vector<char> block_ = std::vector<char>(kBlock);
};

}  // namespace

void check(const ScoreStreamOptions& options) {
  if (options.mark && !options.threshold) fail("--mark needs --threshold: the bits from which a line is an anomaly");
  if (options.threshold && !std::isfinite(*options.threshold))
    fail("--threshold is {}; expected a number of bits", *options.threshold);
  if (options.text_bytes < 1) fail("--text-bytes is {}; expected a number above 0", options.text_bytes);
}

Session score_stream(const Session& start, const ScoreStreamOptions& options) {
  check(options);
  LineInput input(options.file);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is then an error of the write, and the end
  LineScorerOptions lines = options.lines;
  lines.keep_text = options.text ? static_cast<size_t>(options.text_bytes) : 0;
  LineScorer scorer(start, lines, [&](const LineScore& line) { print_score(line, options); });
  RecordScorer records(options, scorer);
  try {
    for (std::string_view bytes = input.read(); !bytes.empty(); bytes = input.read()) {
      options.field.empty() ? scorer.push(bytes) : records.push(bytes);
      if (std::fflush(stdout) != 0) fail_printing();
    }
    if (!options.field.empty()) records.finish();
    scorer.finish();
    if (std::fflush(stdout) != 0) fail_printing();
  } catch (const OutputClosed&) {
  }
  return scorer.session().fork();
}

}  // namespace pmnet
