# What `pmnet --version` says about the sources and the build. Only src/base/version.cpp sees it. The revision is looked
# up at every build, because results carry it, and written only when it has changed.
set(PMNET_REVISION_HEADER "${CMAKE_BINARY_DIR}/generated/revision.h")
add_custom_target(pmnet_revision
  COMMAND ${CMAKE_COMMAND} "-DSOURCE=${CMAKE_CURRENT_SOURCE_DIR}" "-DHEADER=${PMNET_REVISION_HEADER}"
          -P "${CMAKE_CURRENT_SOURCE_DIR}/cmake/write_revision.cmake"
  BYPRODUCTS "${PMNET_REVISION_HEADER}" COMMENT "Looking up the revision" VERBATIM)
set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/src/base/version.cpp" PROPERTIES
  INCLUDE_DIRECTORIES "${CMAKE_BINARY_DIR}/generated"
  COMPILE_DEFINITIONS
  "PMNET_VERSION=\"${PROJECT_VERSION}\";PMNET_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\";PMNET_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"")
