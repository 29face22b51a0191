#include "data/jsonl_reader.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "base/error.h"

namespace pmnet {
namespace {

constexpr size_t kBuffer = 256 * 1024;

// What is wrong with one record, without its place.
struct BadRecord : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Field {
  const std::string* name;
  std::optional<std::string> text;
  bool seen = false;
};

// Picks three top-level fields while the parser runs over the line; nothing else is stored, however deep or long.
class FieldPicker : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit FieldPicker(const ReadOptions& options)
      : text{&options.text_field, {}, false},
        prompt{&options.prompt_field, {}, false},
        completion{&options.completion_field, {}, false} {}

  bool null() override { return plain_value(); }
  bool boolean(bool) override { return other_value("true or false"); }
  bool number_integer(number_integer_t) override { return other_value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other_value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other_value("a number"); }
  bool binary(binary_t&) override { return other_value("binary"); }
  bool string(string_t& value) override {
    if (depth_ == 1 && current_) current_->text = std::move(value);
    return plain_value();
  }
  bool start_object(std::size_t) override {
    if (depth_ > 0) other_value("an object");
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    other_value("a list");
    ++depth_;
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    current_ = nullptr;
    for (Field* field : {&text, &prompt, &completion}) {
      if (name != *field->name) continue;
      if (field->seen) throw BadRecord(fmt::format("the field '{}' appears twice", name));
      field->seen = true;
      current_ = field;
      break;  // the text field may have the name of another: --text-field prompt
    }
    if (!current_ && names.size() < 200) names += (names.empty() ? "'" : ", '") + name + "'";
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw BadRecord(fmt::format("not valid JSON at character {} of the line", position));
  }

  Field text, prompt, completion;
  std::string names;  // of the other fields, for the message that none was found

 private:
  bool plain_value() {
    if (depth_ == 0) throw BadRecord("the line is not a JSON object");
    if (depth_ == 1) current_ = nullptr;
    return true;
  }
  bool other_value(const char* what) {
    if (depth_ == 1 && current_)
      throw BadRecord(fmt::format("the field '{}' is {}, expected text", *current_->name, what));
    return plain_value();
  }
  bool close() {
    --depth_;
    return true;
  }

  int64_t depth_ = 0;
  Field* current_ = nullptr;
};

}  // namespace

JsonlReader::JsonlReader(const InputFile& file, const ReadOptions& options, SkipLog& skips)
    : path_(file.path),
      options_(options),
      skips_(skips),
      stream_(open_input(file.path, file.compression)),
      buffer_(kBuffer) {}

std::string JsonlReader::where() const { return fmt::format("'{}', line {}", path_, line_number_); }

bool JsonlReader::next() {
  while (next_line()) {
    if (line_.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      parse_line();
    } catch (const BadRecord& bad) {
      if (!options_.skip_bad_records)
        fail("{}: {}; correct the record, or skip such records with --skip-bad", where(), bad.what());
      note_skip(skips_, "malformed record", fmt::format("{}: {}", where(), bad.what()));
      continue;
    }
    if (!document_.empty()) {
      delivered_ = false;
      return true;
    }
    note_skip(skips_, "empty or null text", where());
  }
  if (line_number_ == 0) note_skip(skips_, "empty file", path_);
  return false;
}

void JsonlReader::parse_line() {
  // The parser would take a NUL byte for the end of the line and ignore what follows.
  if (line_.find('\0') != std::string_view::npos) throw BadRecord("the line holds a NUL byte");
  FieldPicker fields(options_);
  nlohmann::json::sax_parse(line_.begin(), line_.end(), &fields);
  prompt_bytes_ = 0;
  if (fields.text.seen) {
    document_ = std::move(fields.text.text).value_or(std::string());
  } else if (fields.prompt.seen && fields.completion.seen) {
    document_ = std::move(fields.prompt.text).value_or(std::string());
    prompt_bytes_ = document_.size();
    const std::string completion = std::move(fields.completion.text).value_or(std::string());
    if (completion.empty())
      document_.clear();
    else
      document_ += completion;
  } else {
    throw BadRecord(
        fmt::format("there is neither a field '{}' nor both '{}' and '{}' (it has {}); name the field with "
                    "--text-field",
                    options_.text_field, options_.prompt_field, options_.completion_field,
                    fields.names.empty() ? "no others" : fields.names));
  }
}

std::string_view JsonlReader::piece() {
  if (delivered_) return {};
  delivered_ = true;
  return document_;
}

bool JsonlReader::next_line() {
  long_line_.clear();
  for (;;) {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = stream_->read(buffer_.data(), buffer_.size());
      if (end_ == 0) {
        if (long_line_.empty()) return false;
        line_ = long_line_;
        break;
      }
    }
    const char* start = buffer_.data() + begin_;
    const void* newline = std::memchr(start, '\n', end_ - begin_);
    const size_t size = newline ? static_cast<const char*>(newline) - start : end_ - begin_;
    if (long_line_.size() + size > options_.max_record_bytes)
      fail("'{}', line {} is longer than {} bytes, the limit of one record; is it really one JSON object per line?",
           path_, line_number_ + 1, options_.max_record_bytes);
    begin_ += size + (newline ? 1 : 0);
    if (newline && long_line_.empty()) {
      line_ = {start, size};
      break;
    }
    long_line_.append(start, size);
    if (newline) {
      line_ = long_line_;
      break;
    }
  }
  if (line_number_ == 0 && line_.starts_with("\xEF\xBB\xBF")) line_.remove_prefix(3);
  ++line_number_;
  return true;
}

}  // namespace pmnet
