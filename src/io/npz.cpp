#include "io/npz.h"

#include <zlib.h>

#include <stdexcept>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"

namespace pmnet {
namespace {

constexpr uint64_t kZipLimit = 0xFFFFFFFF;  // sizes and offsets have 32 bits
constexpr size_t kDataAlignment = 64;       // of an array's bytes within its .npy file, as NumPy writes it

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

const char* numpy_type(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "|u1";
    case DType::kI32:
      return "<i4";
    case DType::kI64:
      return "<i8";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    default:
      throw std::logic_error(fmt::format("write_npz: no array of type {}", name_of(dtype)));
  }
}

// Magic, version 1.0, length, then a Python literal padded with blanks.
std::string npy_header(const TensorView& array) {
  std::string shape;
  for (const int64_t size : array.shape) shape += fmt::format("{},", size);
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", numpy_type(array.dtype), shape);
  constexpr size_t kBeforeText = 10;
  text.append(kDataAlignment - (kBeforeText + text.size() + 1) % kDataAlignment, ' ');
  text += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(text.size(), 2) + text;
}

// zlib counts in 32 bits.
uint32_t crc_of(uint32_t crc, const void* data, uint64_t bytes) {
  constexpr uint64_t kStep = 1 << 30;
  const auto* at = static_cast<const Bytef*>(data);
  for (uint64_t done = 0; done < bytes; done += kStep)
    crc = static_cast<uint32_t>(::crc32(crc, at + done, static_cast<uInt>(std::min(kStep, bytes - done))));
  return crc;
}

struct Entry {
  std::string name, header;
  std::string common;  // the fields that the local header and the directory share
  uint64_t data_bytes = 0;
};

Entry plan_entry(const TensorView& array) {
  Entry entry{.name = array.name + ".npy", .header = npy_header(array), .common = {}, .data_bytes = bytes_of(array)};
  const uint64_t size = entry.header.size() + entry.data_bytes;
  const uint32_t crc = crc_of(crc_of(0, entry.header.data(), entry.header.size()), array.data, entry.data_bytes);
  constexpr int kVersion = 20, kStored = 0, kFirstDate = 0x21;  // 1980-01-01: equal arrays give equal files
  entry.common = little_endian(kVersion, 2) + little_endian(0, 2) + little_endian(kStored, 2) + little_endian(0, 2) +
                 little_endian(kFirstDate, 2) + little_endian(crc, 4) + little_endian(size, 4) +
                 little_endian(size, 4) + little_endian(entry.name.size(), 2) + little_endian(0, 2);
  return entry;
}

std::string local_header(const Entry& entry) { return "PK\x03\x04" + entry.common + entry.name; }

std::string directory_header(const Entry& entry, uint64_t offset) {
  constexpr int kMadeBy = 20;
  // No comment, first disk, no attributes.
  return "PK\x01\x02" + little_endian(kMadeBy, 2) + entry.common + little_endian(0, 2) + little_endian(0, 2) +
         little_endian(0, 2) + little_endian(0, 4) + little_endian(offset, 4) + entry.name;
}

}  // namespace

void write_npz(const std::filesystem::path& file, std::span<const TensorView> arrays) {
  std::vector<Entry> entries;
  std::string directory;
  uint64_t offset = 0;
  for (const TensorView& array : arrays) {
    const Entry& entry = entries.emplace_back(plan_entry(array));
    directory += directory_header(entry, offset);
    offset += local_header(entry).size() + entry.header.size() + entry.data_bytes;
  }
  const uint64_t file_bytes = offset + directory.size();
  if (file_bytes >= kZipLimit)
    fail("{} would have {}, and an .npz file holds at most {}; write less", file.string(), format_bytes(file_bytes),
         format_bytes(kZipLimit));

  AtomicFile atomic(file, file_bytes);
  for (size_t i = 0; i < entries.size(); ++i) {
    atomic.writer().write(local_header(entries[i]) + entries[i].header);
    atomic.writer().write(arrays[i].data, entries[i].data_bytes);
  }
  atomic.writer().write(directory + "PK\x05\x06" + little_endian(0, 2) + little_endian(0, 2) +
                        little_endian(entries.size(), 2) + little_endian(entries.size(), 2) +
                        little_endian(directory.size(), 4) + little_endian(offset, 4) + little_endian(0, 2));
  atomic.commit();
}

}  // namespace pmnet
