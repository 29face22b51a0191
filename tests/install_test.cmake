# Installs the build into a folder of its own, builds examples/embed against it as an outsider would, runs both programs.
# Input: BUILD_DIR, SOURCE_DIR, WORK_DIR, COMPILER, EXPECTED_VERSION
cmake_minimum_required(VERSION 3.25)
set(prefix "${WORK_DIR}/prefix")
file(REMOVE_RECURSE "${WORK_DIR}")

function(run)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${ARGV}: ${failed}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(expect text)
  if(NOT output MATCHES "${text}")
    message(FATAL_ERROR "expected '${text}' in:\n${output}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install "${BUILD_DIR}" --prefix "${prefix}")
run("${prefix}/bin/pmnet" --version)
expect("pmnet ${EXPECTED_VERSION}")
run(ldd "${prefix}/bin/pmnet")
expect("=> [^\n]*/prefix/[^\n]*libpmnet.so")  # not the one of the build tree

run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE_DIR}/examples/embed" -B "${WORK_DIR}/embed"
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build "${WORK_DIR}/embed")
run(sh -c "echo a text | '${WORK_DIR}/embed/embed'")
expect("pmnet ${EXPECTED_VERSION}\n7 bytes, [0-9.]+ bits per byte")
expect("next byte")
