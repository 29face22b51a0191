#include "experiments/framework/experiment.h"

#include <cctype>
#include <limits>

#include "base/atomic_folder.h"
#include "base/json.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPartialFile = "partial.json";

}  // namespace

std::string folder_name(const std::string& part) {
  std::string name;
  for (const unsigned char letter : part) {
    if (std::isalnum(letter) || letter == '.' || letter == '_')
      name += static_cast<char>(letter);
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name;
}

double number_of(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

PartContext::PartContext(fs::path experiment_folder, const std::string& part, const Results& finished,
                         ProcessGroup& group, ShowProgress show, Print print)
    : experiment_folder_(std::move(experiment_folder)),
      folder_(folder_of(part)),
      finished_(finished),
      group_(group),
      stop_(group),
      show_(std::move(show)),
      print_(std::move(print)) {
  fs::create_directories(folder_);
}

fs::path PartContext::folder_of(const std::string& part) const {
  return experiment_folder_ / "parts" / folder_name(part);
}

std::optional<json> PartContext::partial() const {
  if (!fs::exists(folder_ / kPartialFile)) return std::nullopt;
  return read_json(folder_ / kPartialFile);
}

void PartContext::save_partial(const json& value) const {
  write_file_atomically(folder_ / kPartialFile, value.dump(1) + "\n");
}

}  // namespace pmnet
