# bin/pmnet, lib/libpmnet.so, include/pmnet and a CMake package: find_package(pmnet), pmnet::pmnet.
include(CMakePackageConfigHelpers)
set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pmnet")

set_target_properties(pmnet PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  INSTALL_RPATH "${PMNET_TORCH_ROOT}/lib")
set_target_properties(pmnet_cli PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${PMNET_TORCH_ROOT}/lib")

install(TARGETS pmnet EXPORT pmnetTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS pmnet_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(TARGET pmnet_parquet)
  add_dependencies(pmnet_cli pmnet_parquet)  # opened by the program when needed, not linked
  set_target_properties(pmnet_parquet PROPERTIES INSTALL_RPATH "${PMNET_PYARROW_ROOT}")
  install(TARGETS pmnet_parquet LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/include/pmnet" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/recipes" "${CMAKE_CURRENT_SOURCE_DIR}/models" DESTINATION "${CMAKE_INSTALL_DATADIR}/pmnet")
install(EXPORT pmnetTargets NAMESPACE pmnet:: DESTINATION "${_package_dir}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/pmnetConfig.cmake.in"
  "${CMAKE_CURRENT_BINARY_DIR}/pmnetConfig.cmake" INSTALL_DESTINATION "${_package_dir}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/pmnetConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/pmnetConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/pmnetConfigVersion.cmake"
  DESTINATION "${_package_dir}")
