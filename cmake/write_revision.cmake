# cmake -DSOURCE=... -DHEADER=... -P: the commit that is checked out, "-dirty" if files differ from it, empty outside git.
cmake_minimum_required(VERSION 3.22)
execute_process(COMMAND git -C "${SOURCE}" describe --tags --always --dirty
  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(revision "")
endif()
file(CONFIGURE OUTPUT "${HEADER}" CONTENT "#pragma once\n#define PMNET_GIT_DESCRIBE \"${revision}\"\n" @ONLY)
