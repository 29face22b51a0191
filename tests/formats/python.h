#pragma once
#include <cstdlib>
#include <string>

namespace pmnet {

// The command line of tests/formats/python_safetensors.py, empty when there is no Python with the safetensors package.
// The project's own interpreter comes first: it has the package.
inline std::string python_safetensors() {
  const std::string root = PMNET_SOURCE_DIR;
  for (const std::string& python : {root + "/.venv/bin/python", std::string("python3")}) {
    const std::string command = python + " " + root + "/tests/formats/python_safetensors.py";
    if (std::system((command + " check 2>/dev/null").c_str()) == 0) return command;
  }
  return "";
}

}  // namespace pmnet
