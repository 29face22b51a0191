// The Python files that auto_map of an exported config.json names, so that Hugging Face loads the folder as it is. They
// are those of python/pmnet/hub, embedded at build time.
#pragma once
#include <map>
#include <string>

namespace pmnet {

const std::map<std::string, std::string>& hub_files();  // name -> text

}  // namespace pmnet
