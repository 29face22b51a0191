#pragma once
#include <cstdlib>
#include <string>

namespace pmnet {

// An interpreter that can import the module, empty when there is none. The project's own comes first: it has what
// tools/requirements.txt lists.
inline std::string python_with(const std::string& module) {
  const std::string root = PMNET_SOURCE_DIR;
  for (const std::string& python : {root + "/.venv/bin/python", std::string("python3")})
    if (std::system((python + " -c 'import " + module + "' 2>/dev/null").c_str()) == 0) return python;
  return "";
}

// The command line of tests/io/python_safetensors.py, empty when there is no Python with the safetensors package.
inline std::string python_safetensors() {
  const std::string python = python_with("safetensors");
  return python.empty() ? "" : python + " " + PMNET_SOURCE_DIR + "/tests/io/python_safetensors.py";
}

}  // namespace pmnet
