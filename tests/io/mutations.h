#pragma once
#include <random>
#include <string>

#include "safetensors_bytes.h"

namespace pmnet {

// Breaks a sound little file in ways that reach deep into a reader: the length, the numbers, names and types of the
// header, its brackets, the data.
inline std::string mutated_safetensors(std::mt19937_64& random) {
  const auto pick = [&](auto... choices) {
    const std::string list[] = {std::string(choices)...};
    return list[random() % sizeof...(choices)];
  };
  const auto sometimes = [&](const std::string& usual, const std::string& unusual) {
    return random() % 8 == 0 ? unusual : usual;
  };
  std::string header = sometimes("{", pick(" {", "[", "{{", "", "\xEF\xBB\xBF{"));
  if (random() % 2 == 0) {
    header += sometimes(R"("__metadata__":{"format":"pt"},)",
                        pick(R"("__metadata__":{"a":1},)", R"("__metadata__":null,)", R"("__metadata__":{},)",
                             R"("__metadata__":{"a":{"b":"c"}},)", R"("__metadata__":[],)"));
  }
  const size_t count = random() % 4;
  uint64_t offset = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t n = random() % 5;
    const uint64_t end = offset + 4 * n;
    const auto number = [&](uint64_t value) {
      return sometimes(std::to_string(value),
                       pick("-1", "1.0", "1e3", "18446744073709551615", "18446744073709551616", "9223372036854775808",
                            "4294967296", "0", "null", "\"4\"", std::to_string(value + 1), std::to_string(value * 2)));
    };
    std::string entry =
        "\"" + sometimes("t" + std::to_string(i), pick("", "a\\u0000", "\\ud800", "\xff", "../x")) + "\":{";
    std::string fields[] = {
        R"("dtype":")" + sometimes("F32", pick("F64", "I8", "F4", "X", "", "BOOL", "C64")) + "\"",
        "\"shape\":[" + number(n) + sometimes("", "," + number(1)) + "]",
        "\"data_offsets\":[" + number(offset) + "," + number(end) + "]",
        R"("note":)" + pick("1", "[[]]", "{\"a\":[]}", "null"),
    };
    const size_t shown = sometimes("3", pick("2", "4", "1"))[0] - '0';
    for (size_t f = 0; f < shown; ++f) entry += (f > 0 ? "," : "") + fields[f];
    header += entry + sometimes("}", pick("", "}}", ",}")) + ",";
    offset = end;
  }
  if (header.ends_with(',')) header.pop_back();
  header += sometimes("}", pick("", "}}", "]", std::string(2, '\0')));
  header += std::string(random() % 4, ' ');

  std::string data(offset, 'x');
  if (random() % 8 == 0) data += "y";
  if (random() % 8 == 0 && !data.empty()) data.pop_back();
  std::string bytes = safetensors_bytes(header, data);
  if (random() % 8 == 0) bytes.replace(0, 8, little_endian(random() >> (random() % 64)));
  if (random() % 8 == 0) bytes.resize(random() % (bytes.size() + 1));
  for (uint64_t flips = random() % 8 == 0 ? random() % 4 : 0; flips > 0 && !bytes.empty(); --flips) {
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
  }
  return bytes;
}

}  // namespace pmnet
