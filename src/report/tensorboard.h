// TensorBoard event files, without TensorBoard: TFRecord frames around hand-encoded Event messages.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "report/metrics_log.h"

namespace pmnet {

class EventWriter {
 public:
  // A new events.out.tfevents.* file in `folder`. `first_step` > 0 says that the run resumes there: TensorBoard then
  // hides what earlier files say about later steps. Throws only here.
  explicit EventWriter(const std::string& folder, int64_t first_step = 0, WarnOnce::Sink warn = {});

  // Faults lose the event, with one warning.
  void add_scalars(int64_t step, const Metrics& metrics) noexcept;
  void add_text(int64_t step, std::string_view tag, std::string_view text) noexcept;

  const std::string& path() const { return path_; }

 private:
  void write_event(std::string_view event);

  std::string path_;
  WarnOnce warn_;
  FileDescriptor file_;
};

// CRC-32C (Castagnoli), and the rotated form that TFRecord stores.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace pmnet
