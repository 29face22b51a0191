# One error that names everything the build of the Python package lacks, instead of one per library.
include(CheckIncludeFileCXX)
find_program(_pkg_config pkg-config)
set(_missing "")
foreach(_entry "CLI/CLI.hpp|libcli11-dev" "toml++/toml.h|libtomlplusplus-dev" "fmt/format.h|libfmt-dev"
    "nlohmann/json.hpp|nlohmann-json3-dev" "zlib.h|zlib1g-dev" "zstd.h|libzstd-dev" "xxhash.h|libxxhash-dev"
    "gloo/config.h|libgloo-dev" "hwy/highway.h|libhwy-dev" "boost/math/distributions.hpp|libboost-math-dev")
  string(REPLACE "|" ";" _pair "${_entry}")
  list(GET _pair 0 _header)
  list(GET _pair 1 _package)
  find_path(_found_${_package} "${_header}" NO_CACHE)
  if(NOT _found_${_package})
    string(APPEND _missing " ${_package}")
  endif()
endforeach()
if(NOT _pkg_config)
  string(APPEND _missing " pkg-config")
endif()
if(_missing)
  message(FATAL_ERROR "pmnet is built from source and needs packages that are missing here. On Debian and Ubuntu: "
    "apt-get install${_missing} (what './pmnet setup' installs); elsewhere the libraries of these names.")
endif()
