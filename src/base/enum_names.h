// Names of enumerators, for settings that are chosen by name. An enum is given its names once:
//   enum class Device { kCpu, kCuda };
//   template <> inline constexpr auto kEnumNames<Device> = std::to_array<const char*>({"cpu", "cuda"});
// in the order of its enumerators, which count from 0. Enumerators after the last name cannot be chosen by name.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace pmnet {

template <typename E>
inline constexpr std::array<const char*, 0> kEnumNames{};

template <typename E>
concept NamedEnum = !kEnumNames<E>.empty();

template <NamedEnum E>
std::vector<std::string> enum_names() {
  return {kEnumNames<E>.begin(), kEnumNames<E>.end()};
}

template <NamedEnum E>
std::string enum_name(E value) {
  return kEnumNames<E>.at(static_cast<size_t>(value));
}

template <NamedEnum E>
std::optional<E> find_enum(const std::string& name) {
  for (size_t i = 0; i < kEnumNames<E>.size(); ++i)
    if (name == kEnumNames<E>[i]) return static_cast<E>(i);
  return std::nullopt;
}

// "'hsah', expected hash, tail, none; did you mean 'hash'?"
std::string unknown_name(const std::string& name, const std::vector<std::string>& names);

// `what` opens the sentence of the error: "--arch".
template <NamedEnum E>
E parse_enum(const std::string& name, const std::string& what) {
  if (const auto found = find_enum<E>(name)) return *found;
  fail("{} is {}", what, unknown_name(name, enum_names<E>()));
}

}  // namespace pmnet
