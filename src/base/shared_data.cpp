#include "base/shared_data.h"

#include <cstdlib>

namespace pmnet {

std::optional<std::filesystem::path> find_shared(const std::filesystem::path& inside) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char* home = std::getenv("PMNET_HOME"); home != nullptr && fs::exists(home / inside, error))
    return home / inside;
  for (fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path(); folder.has_relative_path();
       folder = folder.parent_path())
    for (const fs::path& found : {folder / "share" / "pmnet" / inside, folder / inside})
      if (fs::exists(found, error)) return found;
  return std::nullopt;
}

}  // namespace pmnet
