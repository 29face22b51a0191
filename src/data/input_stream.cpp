#include "data/input_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace pmnet {
namespace {

constexpr size_t kCompressedBlock = 256 * 1024;

class FileStream : public InputStream {
 public:
  explicit FileStream(const std::string& path) : file_(path), modified_(modification_time()) {}

  // What is appended meanwhile is left for the next run, so that one run sees one content.
  size_t read(char* out, size_t capacity) override {
    const size_t size = std::min<uint64_t>(capacity, file_.size() - position_);
    if (size > 0)
      file_.read_at(position_, out, size);
    else
      check_unchanged();
    position_ += size;
    return size;
  }

  uint64_t file_position() const override { return position_; }
  std::string path() const { return file_.path().string(); }

 private:
  using Time = std::filesystem::file_time_type;

  Time modification_time() const {
    std::error_code error;
    const Time time = std::filesystem::last_write_time(file_.path(), error);
    return error ? Time::min() : time;
  }

  void check_unchanged() {
    std::error_code error;
    if (std::filesystem::file_size(file_.path(), error) == file_.size() && !error && modification_time() != modified_)
      fail("'{}' was changed while it was read; leave it alone and start again", path());
  }

  FileReader file_;
  Time modified_;
  uint64_t position_ = 0;
};

class GzipStream : public InputStream {
 public:
  explicit GzipStream(const std::string& path) : file_(path), block_(kCompressedBlock) {
    if (inflateInit2(&state_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&state_); }

  size_t read(char* out, size_t capacity) override {
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = static_cast<uInt>(std::min<size_t>(capacity, 1u << 30));
    const uInt wanted = state_.avail_out;
    while (state_.avail_out == wanted) {
      if (state_.avail_in == 0 && !refill()) {
        if (at_member_end_) return 0;
        fail(
            "'{}' is cut off: its gzip data ends after {} compressed bytes without the closing mark; get the file "
            "again",
            file_.path(), file_.file_position());
      }
      if (at_member_end_) inflateReset(&state_);
      at_member_end_ = false;
      const int result = inflate(&state_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        at_member_end_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        fail("'{}' is damaged or not gzip near compressed byte {}: {}; get the file again", file_.path(),
             file_.file_position() - state_.avail_in, state_.msg ? state_.msg : "bad data");
      }
    }
    return wanted - state_.avail_out;
  }

  uint64_t file_position() const override { return file_.file_position(); }

 private:
  bool refill() {
    state_.avail_in = static_cast<uInt>(file_.read(block_.data(), block_.size()));
    state_.next_in = reinterpret_cast<Bytef*>(block_.data());
    return state_.avail_in > 0;
  }

  FileStream file_;
  std::vector<char> block_;
  z_stream state_{};
  bool at_member_end_ = false;  // gzip files may be several members back to back
};

class ZstdStream : public InputStream {
 public:
  explicit ZstdStream(const std::string& path) : file_(path), block_(kCompressedBlock) {
    if (!state_) throw std::bad_alloc();
  }

  size_t read(char* out, size_t capacity) override {
    ZSTD_outBuffer output{out, capacity, 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !output_pending_) {
        input_ = {block_.data(), file_.read(block_.data(), block_.size()), 0};
        if (input_.size == 0) {
          if (at_frame_end_) return 0;
          fail("'{}' is cut off: its zstd data ends after {} compressed bytes inside a frame; get the file again",
               file_.path(), file_.file_position());
        }
      }
      const size_t result = ZSTD_decompressStream(state_.get(), &output, &input_);
      if (ZSTD_isError(result))
        fail("'{}' is damaged or not zstd near compressed byte {}: {}; get the file again", file_.path(),
             file_.file_position() - (input_.size - input_.pos), ZSTD_getErrorName(result));
      at_frame_end_ = result == 0;
      output_pending_ = output.pos == output.size && !at_frame_end_;
    }
    return output.pos;
  }

  uint64_t file_position() const override { return file_.file_position(); }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* state) const { ZSTD_freeDCtx(state); }
  };
  FileStream file_;
  std::vector<char> block_;
  std::unique_ptr<ZSTD_DCtx, Free> state_{ZSTD_createDCtx()};
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool at_frame_end_ = false;
  bool output_pending_ = false;  // the decoder may hold bytes that did not fit the caller's buffer
};

}  // namespace

std::unique_ptr<InputStream> open_input(const std::string& path, Compression compression) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipStream>(path);
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(path);
    case Compression::kNone:
      break;
  }
  return std::make_unique<FileStream>(path);
}

}  // namespace pmnet
