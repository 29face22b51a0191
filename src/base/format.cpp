#include "base/format.h"

#include <fmt/format.h>

#include <cmath>

namespace pmnet {
namespace {

std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string format_si(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (std::abs(value) < 1) return fmt::format("{:.3g}", value);
  if (std::abs(value) < 1000 && value == std::round(value)) return fmt::format("{:.0f}", value);
  const char* letter = "";
  for (const char* next : {"k", "M", "G", "T", "P", "E"}) {
    if (std::abs(value) < 999.5) break;
    value /= 1000;
    letter = next;
  }
  return three_digits(value) + letter;
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "unknown";
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(std::min(seconds, 1e15)));
  const uint64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (minutes < 60) return fmt::format("{} min {:02} s", minutes, whole % 60);
  if (hours < 24) return fmt::format("{} h {:02} min", hours, minutes % 60);
  return fmt::format("{} d {:02} h", days, hours % 24);
}

std::string format_bytes(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double amount = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"kB", "MB", "GB", "TB", "PB", "EB"}) {
    if (amount < 1000) break;
    amount /= 1000;
    unit = next;
  }
  return fmt::format("{:.1f} {}", amount, unit);
}

std::string format_byte_rate(double bytes_per_second) {
  if (!std::isfinite(bytes_per_second) || bytes_per_second < 0) return "unknown";
  return format_bytes(static_cast<uint64_t>(std::min(bytes_per_second, 1e18))) + "/s";
}

std::string format_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t place = digits.size(); place > 3;) {
    place -= 3;
    digits.insert(place, ",");
  }
  return digits;
}

}  // namespace pmnet
