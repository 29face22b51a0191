# Installs the build into a separate folder, builds every example against it as an outsider would, and runs all programs.
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

# Only the public headers are installed, and nothing but their folder reaches the include path of a program.
file(GLOB_RECURSE headers RELATIVE "${prefix}/include" "${prefix}/include/*")
list(SORT headers)
set(public pmnet/error.h pmnet/model.h pmnet/pmnet.h pmnet/session.h pmnet/trainer.h pmnet/version.h)
if(NOT headers STREQUAL public)
  message(FATAL_ERROR "installed headers: ${headers}\nexpected: ${public}")
endif()
file(GLOB_RECURSE package "${prefix}/*/pmnetTargets.cmake")
file(READ "${package}" output)
expect("INTERFACE_COMPILE_FEATURES \"cxx_std_20\"")
expect("INTERFACE_INCLUDE_DIRECTORIES \"[^\"]*_IMPORT_PREFIX}/include\"")

function(example name)
  run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE_DIR}/examples/${name}" -B "${WORK_DIR}/${name}"
    "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build "${WORK_DIR}/${name}")
  run(sh -c "cd '${WORK_DIR}' && OMP_WAIT_POLICY=passive ${ARGN}")
  set(output "${output}" PARENT_SCOPE)
endfunction()

example(embed "echo a text | embed/embed")
expect("pmnet ${EXPECTED_VERSION}\n7 bytes read, [0-9]+ bytes of state")
expect("next byte [0-9]+, probability 0\\.")
example(score_stream "seq 12 | score_stream/score_stream")
expect("12\t[0-9.]+ bits per byte.*\n27 bytes, state of [0-9]+ bytes")
example(fork_and_continue "echo a text | fork_and_continue/fork_and_continue text.memory")
expect("bits for The end.*rewound: the same bits\nrestored: the same text")
example(train_on_batches "train_on_batches/train_on_batches model 5")
expect("step 5: [0-9.]+ bits per byte.*\n3\\+4=")
run("${prefix}/bin/pmnet" info "${WORK_DIR}/model")
expect("parameters")
