# Arrow and Parquet for C++ as shipped inside the pyarrow wheel, which has neither CMake files nor unversioned library
# names. Optional: without it .parquet inputs are refused with advice.
#
# Input:  PMNET_PYARROW_ROOT (folder of the `pyarrow` package); looked for beside torch and in .venv when empty.
# Output: target pmnet::parquet when found
if(NOT PMNET_PYARROW_ROOT)
  file(GLOB _candidates "${PMNET_GLOB_ROOT}/.venv/lib/python3*/site-packages/pyarrow")
  get_filename_component(_beside_torch "${PMNET_TORCH_ROOT}/../pyarrow" ABSOLUTE)
  foreach(_candidate "${_beside_torch}" ${_candidates})
    if(EXISTS "${_candidate}/include/parquet/file_reader.h" AND NOT PMNET_PYARROW_ROOT)
      set(PMNET_PYARROW_ROOT "${_candidate}" CACHE PATH "Folder of the pyarrow package" FORCE)
    endif()
  endforeach()
endif()
if(PMNET_PYARROW_ROOT AND NOT TARGET pmnet::parquet)
  file(GLOB _arrow_library "${PMNET_PYARROW_ROOT}/libarrow.so.[0-9]*")
  file(GLOB _parquet_library "${PMNET_PYARROW_ROOT}/libparquet.so.[0-9]*")
  list(FILTER _arrow_library EXCLUDE REGEX "so\\.[0-9]+\\.")
  list(FILTER _parquet_library EXCLUDE REGEX "so\\.[0-9]+\\.")
  if(_arrow_library AND _parquet_library)
    add_library(pmnet::parquet INTERFACE IMPORTED)
    target_compile_options(pmnet::parquet INTERFACE "SHELL:-idirafter ${PMNET_PYARROW_ROOT}/include")
    target_link_options(pmnet::parquet INTERFACE "LINKER:-rpath,${PMNET_PYARROW_ROOT}")
    target_link_libraries(pmnet::parquet INTERFACE "${_parquet_library}" "${_arrow_library}")
  endif()
endif()
if(NOT TARGET pmnet::parquet)
  message(STATUS "pyarrow not found: .parquet inputs will be refused (./pmnet setup installs it)")
endif()
