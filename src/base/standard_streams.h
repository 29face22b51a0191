#pragma once
#include <fmt/format.h>

#include <string_view>

namespace pmnet {

// Opens /dev/null on descriptors 0 to 2 where they are closed; otherwise the next file opened would take their place
// and receive everything that is printed. First call of every main.
void open_standard_streams();

// One line on standard error with control characters escaped. Never throws: on a closed or full stream it is lost.
void print_error(std::string_view line) noexcept;

template <typename First, typename... Args>
void print_error(fmt::format_string<First, Args...> format, First&& first, Args&&... args) noexcept {
  try {
    print_error(std::string_view(fmt::format(format, std::forward<First>(first), std::forward<Args>(args)...)));
  } catch (...) {  // out of memory for one line
  }
}

}  // namespace pmnet
