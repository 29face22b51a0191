#include "io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "safetensors_bytes.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/python.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

using nlohmann::json;

// Owns the bytes that TensorViews point into.
struct Sample {
  std::vector<std::string> storage;
  std::vector<TensorView> views;
};

Sample sample_of_every_kind() {
  Sample sample;
  const std::vector<std::vector<int64_t>> shapes = {{3, 5}, {}, {0, 4}, {2, 1, 8}};
  const std::vector<DType> dtypes = {DType::kF32, DType::kBF16, DType::kF16,  DType::kF64,
                                     DType::kI64, DType::kU8,   DType::kBool, DType::kI32};
  sample.storage.reserve(shapes.size() * dtypes.size());
  for (const DType dtype : dtypes) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      TensorView view{fmt::format("{}.{} \xC3\xA9\"", name_of(dtype), i), dtype, shapes[i], nullptr};
      std::string& bytes = sample.storage.emplace_back(bytes_of(view), '\0');
      for (size_t b = 0; b < bytes.size(); ++b) bytes[b] = static_cast<char>(dtype == DType::kBool ? b % 2 : b * 7 + i);
      view.data = bytes.empty() ? nullptr : bytes.data();
      sample.views.push_back(view);
    }
  }
  return sample;
}

std::string hex(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

// name -> [dtype, shape, hex of the bytes], as python_safetensors.py prints it
json dump(const SafetensorsFile& file) {
  json tensors = json::object();
  for (const TensorInfo& info : file.tensors()) {
    std::string bytes(info.bytes(), '\0');
    file.read(info, bytes.data());
    tensors[info.name] = {name_of(info.dtype), info.shape, hex(bytes)};
  }
  return tensors;
}

json dump(const Sample& sample) {
  json tensors = json::object();
  for (size_t i = 0; i < sample.views.size(); ++i) {
    tensors[sample.views[i].name] = {name_of(sample.views[i].dtype), sample.views[i].shape, hex(sample.storage[i])};
  }
  return tensors;
}

TEST(Safetensors, RoundTrip) {
  const TemporaryFolder folder;
  const Sample sample = sample_of_every_kind();
  write_safetensors(folder / "a.safetensors", sample.views, {{"format", "pt"}, {"note", "\xE2\x82\xAC"}});
  const SafetensorsFile file = SafetensorsFile::open(folder / "a.safetensors");
  EXPECT_EQ(dump(file), dump(sample));
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"note", "\xE2\x82\xAC"}}));
  EXPECT_EQ(file.find("absent"), nullptr);
  for (const TensorView& view : sample.views) {
    ASSERT_NE(file.find(view.name), nullptr);
    EXPECT_EQ(file.find(view.name)->begin * 8 % bits_of(view.dtype), 0u) << "aligned to its own size";
  }
}

TEST(Safetensors, ReadsParts) {
  const TemporaryFolder folder;
  const Sample sample = sample_of_every_kind();
  write_safetensors_atomically(folder / "a.safetensors", sample.views);
  const SafetensorsFile file = SafetensorsFile::open(folder / "a.safetensors");
  const TensorInfo& info = *file.find(sample.views[0].name);
  std::string part(7, '\0');
  file.read_part(info, 3, part.data(), part.size());
  EXPECT_EQ(part, sample.storage[0].substr(3, 7));
  EXPECT_THROW(file.read_part(info, 0, part.data(), info.bytes() + 1), std::logic_error);
  EXPECT_THROW(file.read_part(info, info.bytes() + 1, part.data(), 0), std::logic_error);
}

TEST(Safetensors, HeadersFillEightBytes) {
  const TemporaryFolder folder;
  for (int extra = 0; extra < 8; ++extra) {
    const std::string file = folder / std::to_string(extra);
    write_safetensors(file, {}, {{"k", std::string(static_cast<size_t>(extra), 'x')}});
    EXPECT_EQ(std::filesystem::file_size(file) % 8, 0u);
    EXPECT_EQ(SafetensorsFile::open(file).metadata().at("k").size(), static_cast<size_t>(extra));
  }
}

TEST(Safetensors, TheWriterRefusesWhatCannotBeRead) {
  const TemporaryFolder folder;
  const float value = 1;
  const auto error_of = [&](std::vector<TensorView> views, const Metadata& metadata = {}) {
    const std::string error = user_error_of([&] { write_safetensors(folder / "a", views, metadata); });
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    return error.substr(error.find(": ") + 2);
  };
  const TensorView good{"a", DType::kF32, {1}, &value};
  EXPECT_EQ(error_of({good, good}), "two tensors are named \"a\"");
  EXPECT_EQ(error_of({{"__metadata__", DType::kF32, {1}, &value}}), "__metadata__ is not a name for a tensor");
  EXPECT_EQ(error_of({{"a", DType::kF32, {-1}, &value}}), "tensor \"a\" has an impossible shape");
  EXPECT_EQ(error_of({{"a", DType::kF32, {INT64_MAX, 4}, &value}}), "tensor \"a\" has an impossible shape");
  EXPECT_EQ(error_of({{"a\xFF", DType::kF32, {1}, &value}}), "the name or value \"a\\ufffd\" is not valid UTF-8");
  EXPECT_EQ(error_of({good}, {{"k", "\xFF"}}), "the name or value \"\\ufffd\" is not valid UTF-8");
}

// Address space is counted, so a sanitizer's shadow memory would be too.
#if !defined(__SANITIZE_ADDRESS__)
TEST(Safetensors, OpeningNeedsLittleMoreMemoryThanTheFile) {
  const TemporaryFolder folder;
  std::string header = "{";
  for (size_t i = 0; i < kMaxTensors; ++i) {
    header += fmt::format(R"("layer.{}.weight":{{"dtype":"U8","shape":[0,1],"data_offsets":[0,0]}},)", i);
  }
  header.back() = '}';
  write_file(folder / "a.safetensors", safetensors_bytes(header, ""));
  const size_t file_bytes = header.size() + 8;
  header = {};
  const pid_t child = ::fork();
  if (child == 0) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit = pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + file_bytes + (64 << 20);
    const rlimit limits{limit, limit};
    ::setrlimit(RLIMIT_AS, &limits);
    try {
      ::_exit(SafetensorsFile::open(folder / "a.safetensors").tensors().size() == kMaxTensors ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif

class AgainstPython : public testing::Test {
 protected:
  void SetUp() override {
    python_ = python_safetensors();
    if (python_.empty()) GTEST_SKIP() << "no Python with the safetensors package";
  }

  std::string ask(const std::string& command, const std::string& file) const {
    const std::string answer = folder_ / "answer";
    const std::string line = fmt::format("{} {} {} > {}", python_, command, file, answer);
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    return read_file(answer, 1 << 24);
  }

  std::string python_;
  TemporaryFolder folder_;
};

TEST_F(AgainstPython, ReadsWhatWeWrite) {
  const Sample sample = sample_of_every_kind();
  write_safetensors(folder_ / "ours.safetensors", sample.views);
  EXPECT_EQ(json::parse(ask("dump", folder_ / "ours.safetensors")), dump(sample));
}

TEST_F(AgainstPython, WritesWhatWeRead) {
  const json meant = json::parse(ask("write", folder_ / "theirs.safetensors"));
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "theirs.safetensors");
  EXPECT_EQ(dump(file), meant);
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_GE(meant.size(), 24u);

  Sample copy;  // written again by us, the file is the same to the last byte
  copy.storage.reserve(file.tensors().size());
  for (const TensorInfo& info : file.tensors()) {
    std::string& bytes = copy.storage.emplace_back(info.bytes(), '\0');
    file.read(info, bytes.data());
    copy.views.push_back({info.name, info.dtype, info.shape, bytes.data()});
  }
  write_safetensors(folder_ / "again.safetensors", copy.views);
  EXPECT_EQ(read_file(folder_ / "again.safetensors", 1 << 20), read_file(folder_ / "theirs.safetensors", 1 << 20));
}

}  // namespace
}  // namespace pmnet
