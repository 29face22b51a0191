#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace pmnet {

enum class Compression { kNone, kGzip, kZstd };

// The bytes of one file from front to back, decompressed on the way, in constant memory. Every fault is a UserError
// naming the file: damaged or cut compressed data, a file that shrinks while it is read.
class InputStream {
 public:
  virtual ~InputStream() = default;
  // Fills up to `capacity` bytes; fewer than asked is normal, 0 means the end.
  virtual size_t read(char* out, size_t capacity) = 0;
  // How far into the file on disk reading has come, for progress.
  virtual uint64_t file_position() const = 0;
};

std::unique_ptr<InputStream> open_input(const std::string& path, Compression compression);

}  // namespace pmnet
