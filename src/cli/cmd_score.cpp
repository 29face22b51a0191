#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "data/byte_source.h"
#include "eval/line_scores.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

constexpr size_t kBlock = size_t{1} << 16;
constexpr size_t kMostRecordBytes = size_t{64} << 20;

struct ScoreOptions {
  std::string model;
  std::string file = "-";
  std::string field;
  std::optional<double> threshold;
  bool mark = false;
  bool text = false;
  int64_t text_bytes = 4096;
  bool skip_bad = false;
  LineScorerOptions lines;
};

struct ReaderGone {};  // nobody reads our output any more

class Output {
 public:
  explicit Output(const ScoreOptions& options) : options_(options) {}

  void write(const LineScore& score) {
    const bool anomaly = options_.threshold && score.bits >= *options_.threshold;
    if (options_.threshold && !anomaly && !options_.mark) return;
    nlohmann::ordered_json json{{"line", score.line},
                                {"bytes", score.bytes},
                                {"bits", score.bits},
                                {"bits_per_byte", score.bits / static_cast<double>(score.bytes)}};
    if (!std::isfinite(score.bits)) json["bits"] = json["bits_per_byte"] = nullptr;
    if (options_.mark) json["anomaly"] = anomaly;
    if (options_.text) {
      json["text"] = score.text;
      if (score.text_cut) json["text_cut"] = true;
    }
    const std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) refuse();
  }
  void flush() {
    if (std::fflush(stdout) != 0) refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    if (errno == EPIPE) throw ReaderGone{};
    fail("cannot write to standard output: {}", std::strerror(errno));
  }

  const ScoreOptions& options_;
};

// The text field of JSON records; each is a line, whatever it holds.
class Records {
 public:
  Records(const ScoreOptions& options, LineScorer& scorer) : options_(options), scorer_(scorer) {}

  void push(std::string_view bytes) {
    for (size_t end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
      line_.append(bytes.substr(0, end));
      take();
      bytes.remove_prefix(end + 1);
    }
    line_.append(bytes);
    if (line_.size() > kMostRecordBytes)
      fail("record {} is longer than {}; is it one JSON object per line?", number_ + 1, format_bytes(kMostRecordBytes));
  }
  void finish() {
    if (!line_.empty()) take();
  }

 private:
  void take() {
    ++number_;
    std::string text;
    try {
      text = text_of(parse_json(line_, fmt::format("record {}", number_)));
    } catch (const UserError& error) {
      if (!options_.skip_bad) fail("{}; correct it, or go on past such records with --skip-bad", error.what());
      fmt::print(stderr, "note: {}; it is scored as an empty line\n", error.what());
    }
    line_.clear();
    scorer_.push_line(text);
  }
  std::string text_of(const nlohmann::json& record) const {
    if (!record.is_object() || !record.contains(options_.field) || !record[options_.field].is_string())
      fail("record {} has no text in a field '{}'", number_, options_.field);
    return record[options_.field].get<std::string>();
  }

  const ScoreOptions& options_;
  LineScorer& scorer_;
  std::string line_;
  uint64_t number_ = 0;
};

class Input {
 public:
  explicit Input(const std::string& file) {
    if (file == "-") return;
    if (std::filesystem::is_regular_file(file)) {
      const std::vector<InputFile> found = find_inputs({file});
      if (found[0].format == FileFormat::Parquet || found[0].format == FileFormat::Shard)
        fail("{} is not made of lines; 'pmnet eval' scores such files", file);
      stream_ = open_input(file, found[0].compression);
      return;
    }
    pipe_ = FileDescriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (pipe_.get() < 0) fail("cannot open {}: {}", file, std::strerror(errno));
  }

  // What is there, as soon as anything is; empty at the end.
  std::string_view read() {
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

void score(ScoreOptions& options) {
  if (options.mark && !options.threshold) fail("--mark needs --threshold: the bits from which a line is an anomaly");
  if (options.threshold && !std::isfinite(*options.threshold)) fail("--threshold is not a number of bits");
  if (options.text_bytes < 1) fail("--text-bytes is {}; expected a number above 0", options.text_bytes);
  options.lines.keep_text = options.text ? static_cast<size_t>(options.text_bytes) : 0;
  Input input(options.file);
  const OpenedModel opened = open_model(options.model);
  require_byte_vocabulary(*opened.model, options.model);

  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is then an error of the write, and the end
  Output output(options);
  LineScorer scorer(opened.model, options.lines, [&](const LineScore& line) { output.write(line); });
  Records records(options, scorer);
  try {
    for (std::string_view bytes = input.read(); !bytes.empty(); bytes = input.read()) {
      options.field.empty() ? scorer.push(bytes) : records.push(bytes);
      output.flush();
    }
    if (!options.field.empty()) records.finish();
    scorer.finish();
    output.flush();
  } catch (const ReaderGone&) {
  }
}

}  // namespace

void add_score_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("score", "What each line of a stream costs, as JSON lines");
  const auto o = std::make_shared<ScoreOptions>();
  command->add_option("model", o->model, "Model folder, or folder of a training run")->type_name("DIR")->required();
  command->add_option("file", o->file, "Text, .gz, .zst or a pipe [standard input]")->type_name("FILE");
  command->add_option("--field", o->field, "The input is JSON records; score this field of each")->type_name("NAME");
  command->add_flag("--skip-bad", o->skip_bad, "Go on past records that cannot be read");
  command->add_option("--threshold", o->threshold, "Print only the lines that cost at least so many bits")
      ->type_name("BITS");
  command->add_flag("--mark", o->mark, "Print all lines, with \"anomaly\" true from the threshold on");
  command->add_flag("--text", o->text, "Print the text of each line too");
  command->add_option("--text-bytes", o->text_bytes, "How much of it")->capture_default_str()->type_name("N");
  command->add_flag("--independent", o->lines.independent, "Each line is a text of its own; nothing is remembered");
  command->footer(
      "A line end counts as a byte of its line. Without --independent the memory of all earlier lines is carried on, "
      "in constant space, for as long as the input lasts.");
  command->callback([o] { score(*o); });
}

}  // namespace pmnet
