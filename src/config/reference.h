// Reference pages in Markdown, generated from the tables of fields and presets.
#pragma once
#include <string>

#include "base/enum_names.h"

namespace pmnet {

enum class ReferencePage { kConfig, kPresets, kTrainingKeys };
template <>
inline constexpr auto kEnumNames<ReferencePage> = std::to_array<const char*>({"config", "presets", "training-keys"});

std::string reference_page(ReferencePage page);

}  // namespace pmnet
