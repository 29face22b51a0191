#pragma once
#include <sys/types.h>

#include <cstddef>

namespace pmnet {

// The system calls every file of ours is written through. Tests replace them to make each call fail, fall short or be
// the last one before a crash.
struct FileCalls {
  int (*open)(const char* path, int flags, mode_t mode);
  ssize_t (*write)(int fd, const void* data, size_t size);
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*mkdir)(const char* path, mode_t mode);
  int (*rename)(const char* from, const char* to);
  int (*exchange)(const char* one, const char* other);  // swaps two names in one step
};

FileCalls& file_calls();

}  // namespace pmnet
