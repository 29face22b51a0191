#include "base/enum_names.h"

#include <fmt/ranges.h>

#include "base/suggest.h"

namespace pmnet {

std::string unknown_name(const std::string& name, const std::vector<std::string>& names) {
  return fmt::format("'{}', expected {}{}", name, fmt::join(names, ", "), did_you_mean(name, names));
}

}  // namespace pmnet
