#pragma once
#include <cstdint>
#include <string>

namespace pmnet {

// "1.23M", "45.6k", "789", "0.012": three significant digits and an SI letter.
std::string format_si(double value);
// "850 ms", "12.3 s", "4 min 05 s", "2 h 13 min", "3 d 04 h"; "unknown" for a negative or non-finite number.
std::string format_duration(double seconds);
// "999 bytes", "1.5 GB"
std::string format_bytes(uint64_t bytes);
// "12.3 MB/s"
std::string format_byte_rate(double bytes_per_second);
// "1,234,567"
std::string format_count(uint64_t count);

}  // namespace pmnet
