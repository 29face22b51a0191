# LibTorch out of the PyPI wheel, CPU or CUDA build. TorchConfig.cmake is not used: with the CUDA wheel it insists on
# a full CUDA toolkit. The headers come with -idirafter because the wheel ships its own fmt, protobuf and pybind11,
# which would otherwise win over the system's.
#
# Input:  PMNET_TORCH_ROOT (folder of the `torch` package); found through the Python interpreter when empty.
# Output: target pmnet::torch
if(NOT PMNET_TORCH_ROOT)
  # An isolated build of pip does not see the packages of its environment, but knows where they lie.
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c [=[
import glob, importlib.util, os, sys, sysconfig
found = importlib.util.find_spec("torch")
places = [os.path.dirname(found.origin)] if found and found.origin else []
places.append(os.path.join(sysconfig.get_paths()["purelib"], "torch"))
version = f"python{sys.version_info.major}.{sys.version_info.minor}"
places += [os.path.join(os.environ.get("VIRTUAL_ENV", ""), "lib", version, "site-packages", "torch")]
print(next((place for place in places if os.path.exists(os.path.join(place, "lib", "libtorch_cpu.so"))), ""))
]=]
    OUTPUT_VARIABLE PMNET_TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(PMNET_TORCH_ROOT "${PMNET_TORCH_ROOT}" CACHE PATH "Folder of the torch package" FORCE)
endif()
if(SKBUILD AND NOT EXISTS "${PMNET_TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "pmnet is built against the torch of the environment it is installed into, and there is none. "
    "Install it first (pip install torch==2.13.0), then pmnet; with tools that build elsewhere add "
    "--no-build-isolation.")
elseif(NOT EXISTS "${PMNET_TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch not found: '${PMNET_TORCH_ROOT}/lib/libtorch_cpu.so' does not exist. "
    "Run ./pmnet setup, which installs it into .venv, or pass -DPMNET_TORCH_ROOT=<site-packages>/torch.")
endif()
file(STRINGS "${PMNET_TORCH_ROOT}/version.py" _torch_version_line REGEX "__version__ *=")
string(REGEX MATCH "[0-9]+\\.[0-9]+" PMNET_TORCH_VERSION "${_torch_version_line}")
if(PMNET_TORCH_VERSION VERSION_LESS 2.13)
  message(FATAL_ERROR "pmnet needs torch 2.13 or later; ${PMNET_TORCH_ROOT}/version.py says: ${_torch_version_line}")
endif()

if(NOT TARGET pmnet::torch)
  add_library(pmnet::torch INTERFACE IMPORTED)
  target_compile_options(pmnet::torch INTERFACE -fopenmp
    "SHELL:-idirafter ${PMNET_TORCH_ROOT}/include"
    "SHELL:-idirafter ${PMNET_TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_definitions(pmnet::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  target_link_options(pmnet::torch INTERFACE -fopenmp)
  if(NOT SKBUILD)  # a wheel finds torch beside itself
    target_link_options(pmnet::torch INTERFACE "LINKER:-rpath,${PMNET_TORCH_ROOT}/lib")
  endif()
  target_link_libraries(pmnet::torch INTERFACE
    "-Wl,--push-state,--no-as-needed" "${PMNET_TORCH_ROOT}/lib/libtorch_cpu.so" "-Wl,--pop-state"
    "${PMNET_TORCH_ROOT}/lib/libc10.so")
  option(PMNET_CUDA "Link LibTorch's CUDA part; needs the CUDA wheel of torch with all that pip installs for it" OFF)
  if(PMNET_CUDA)
    if(NOT EXISTS "${PMNET_TORCH_ROOT}/lib/libtorch_cuda.so")
      message(FATAL_ERROR "PMNET_CUDA needs the CUDA build of torch; ${PMNET_TORCH_ROOT} is a build for the CPU alone. "
        "Install one (pip install torch) and pass -DPMNET_TORCH_ROOT=<site-packages>/torch.")
    endif()
    # Headers of the toolkit, and those that pip installs beside torch: a toolkit need not have cuBLAS or NCCL, and pip's
    # runtime comes without the headers of the compiler. Libraries are pip's alone, the versions torch was built with.
    find_package(CUDAToolkit REQUIRED)
    get_filename_component(_packages "${PMNET_TORCH_ROOT}" DIRECTORY)
    file(GLOB _cuda_of_pip "${_packages}/nvidia/*/include")
    foreach(_folder ${CUDAToolkit_INCLUDE_DIRS} ${_cuda_of_pip})
      target_compile_options(pmnet::torch INTERFACE "SHELL:-idirafter ${_folder}")
    endforeach()
    target_compile_definitions(pmnet::torch INTERFACE USE_C10D_NCCL)
    target_link_libraries(pmnet::torch INTERFACE "${PMNET_TORCH_ROOT}/lib/libc10_cuda.so"
      "-Wl,--push-state,--no-as-needed" "${PMNET_TORCH_ROOT}/lib/libtorch_cuda.so" "-Wl,--pop-state")
  endif()
endif()
