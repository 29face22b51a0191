#include "report/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file_calls.h"

namespace pmnet {
namespace {

// Protocol buffers' wire format, as far as an Event needs it.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_key(std::string& out, int field, WireType type) { put_varint(out, static_cast<uint64_t>(field) << 3 | type); }
void put_number(std::string& out, int field, uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}
template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Field numbers of tensorflow.Event and the messages inside it.
constexpr int kEventTime = 1, kEventStep = 2, kEventVersion = 3, kEventSummary = 5, kEventSession = 7;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueSimple = 2, kValueTensor = 8, kValueMetadata = 9;
constexpr int kMetadataPlugin = 1, kPluginName = 1;
constexpr int kTensorType = 1, kTensorShape = 2, kTensorString = 8, kTypeString = 7;
constexpr int kShapeDimension = 2, kDimensionSize = 1;
constexpr int kSessionStatus = 1, kSessionStart = 1;

std::string event_head(int64_t step) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string event;
  put_key(event, kEventTime, kFixed64);
  event += raw(now);
  put_number(event, kEventStep, static_cast<uint64_t>(step));
  return event;
}

std::string text_value(std::string_view tag, std::string_view text) {
  std::string plugin, metadata, dimension, shape, tensor, value;
  put_bytes(plugin, kPluginName, "text");
  put_bytes(metadata, kMetadataPlugin, plugin);
  put_number(dimension, kDimensionSize, 1);
  put_bytes(shape, kShapeDimension, dimension);
  put_number(tensor, kTensorType, kTypeString);
  put_bytes(tensor, kTensorShape, shape);
  put_bytes(tensor, kTensorString, text);
  put_bytes(value, kValueTag, tag);
  put_bytes(value, kValueTensor, tensor);
  put_bytes(value, kValueMetadata, metadata);
  return value;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] ? name.data() : "localhost";
}

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

EventWriter::EventWriter(const std::string& folder, int64_t first_step, WarnOnce::Sink warn) : warn_(std::move(warn)) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const std::string name = fmt::format("events.out.tfevents.{:010}.{}.{}", seconds.count(), host_name(), ::getpid());
  for (int attempt = 0; file_.get() < 0; ++attempt) {
    path_ = (std::filesystem::path(folder) / fmt::format("{}.{}", name, attempt)).string();
    file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (file_.get() < 0 && errno != EEXIST)
      fail("cannot write '{}': {}; choose a folder you may write to", path_, std::strerror(errno));
  }
  std::string version = event_head(0);
  put_bytes(version, kEventVersion, "brain.Event:2");
  write_event(version);
  if (first_step > 0) {
    std::string session, start = event_head(first_step);
    put_number(session, kSessionStatus, kSessionStart);
    put_bytes(start, kEventSession, session);
    write_event(start);
  }
}

void EventWriter::add_scalars(int64_t step, const Metrics& metrics) noexcept {
  try {
    std::string summary;
    for (const auto& [name, number] : metrics) {
      std::string value;
      put_bytes(value, kValueTag, name);
      put_key(value, kValueSimple, kFixed32);
      value += raw(static_cast<float>(number));
      put_bytes(summary, kSummaryValue, value);
    }
    std::string event = event_head(step);
    put_bytes(event, kEventSummary, summary);
    write_event(event);
  } catch (const std::exception& error) {
    warn_(fmt::format("cannot log to {}: {}; training continues", path_, error.what()));
  }
}

void EventWriter::add_text(int64_t step, std::string_view tag, std::string_view text) noexcept {
  try {
    std::string summary, event = event_head(step);
    put_bytes(summary, kSummaryValue, text_value(tag, text));
    put_bytes(event, kEventSummary, summary);
    write_event(event);
  } catch (const std::exception& error) {
    warn_(fmt::format("cannot log to {}: {}; training continues", path_, error.what()));
  }
}

// Frame: length, its checksum, the event, its checksum. A frame cut by a full disk is removed again: a reader would
// stop there for good.
void EventWriter::write_event(std::string_view event) {
  const std::string length = raw(static_cast<uint64_t>(event.size()));
  const std::string frame = length + raw(masked_crc32c(length)) + std::string(event) + raw(masked_crc32c(event));
  const off_t start = ::lseek(file_.get(), 0, SEEK_END);
  ssize_t put = 0;
  do put = file_calls().write(file_.get(), frame.data(), frame.size());
  while (put < 0 && errno == EINTR);
  if (put == static_cast<ssize_t>(frame.size())) return;
  warn_(fmt::format("cannot log to {}: {}; training continues, some points are lost", path_,
                    put < 0 ? std::strerror(errno) : "the disk is full"));
  if (put > 0 && ::ftruncate(file_.get(), start) != 0) file_ = FileDescriptor();
}

}  // namespace pmnet
