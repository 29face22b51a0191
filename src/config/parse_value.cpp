#include "config/parse_value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace pmnet {

bool parse_value(const std::string& text, bool& value) {
  if (text != "true" && text != "false") return false;
  value = text == "true";
  return true;
}

bool parse_value(const std::string& text, double& value) {
  std::string_view digits = text;
  double unit = 1;
  if (!digits.empty()) {
    const size_t place = std::string_view("kKMG").find(digits.back());
    if (place != std::string_view::npos) {
      unit = std::array{1e3, 1e3, 1e6, 1e9}[place];
      digits.remove_suffix(1);
    }
  }
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  value *= unit;
  return error == std::errc() && end == digits.data() + digits.size();
}

bool parse_value(const std::string& text, int64_t& value) {
  double number = 0;
  if (!parse_value(text, number) || number != std::floor(number) || std::abs(number) > 0x1p53) return false;
  value = static_cast<int64_t>(number);
  return true;
}

bool parse_value(const std::string& text, std::string& value) {
  value = text;
  return true;
}

const char* kind_of(const bool&) { return "true or false"; }
const char* kind_of(const int64_t&) { return "a whole number"; }
const char* kind_of(const double&) { return "a number"; }
const char* kind_of(const std::string&) { return "text"; }

}  // namespace pmnet
