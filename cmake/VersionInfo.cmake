# What `pmnet --version` says about the sources and the build. Only src/base/version.cpp sees it, so that a new commit
# recompiles one file.
execute_process(
  COMMAND git -C "${CMAKE_CURRENT_SOURCE_DIR}" describe --tags --always --dirty
  OUTPUT_VARIABLE PMNET_GIT_DESCRIBE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _git_failed)
if(_git_failed)
  set(PMNET_GIT_DESCRIBE "")
endif()
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/src/base/version.cpp" PROPERTIES COMPILE_DEFINITIONS
  "PMNET_VERSION=\"${PROJECT_VERSION}\";PMNET_GIT_DESCRIBE=\"${PMNET_GIT_DESCRIBE}\";PMNET_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\";PMNET_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"")
