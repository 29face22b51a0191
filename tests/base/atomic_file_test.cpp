// What files and folders are written over: pipes, links, names that cannot be, other writers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "base/atomic_folder.h"
#include "base/file_calls.h"
#include "base/folder_lock.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/in_child.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

// A process that may not open one more file: saving ends with an error at once and leaves nothing behind.
TEST(AtomicFolder, EndsWhenItsFolderCannotBeOpened) {
  const TemporaryFolder folder(fast_parent());
  const int code = in_child([&] {
    ::alarm(20);  // were it to try for ever
    const rlimit few{6, 6};
    ::setrlimit(RLIMIT_NOFILE, &few);
    while (::dup(0) >= 0) {
    }
    AtomicFolder full(folder / "run");
  });
  EXPECT_EQ(code, 2);
  EXPECT_EQ(entries_in(folder.path()), 0u);
}

// What std::filesystem throws must not end a training run that survives UserErrors.
TEST(AtomicFolder, AFolderThatCannotBeLookedAtIsAUserError) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "closed", fs::perms::none);
  const auto unprivileged = [&](const std::function<void()>& action) {
    return in_child([&] {
      if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(9);  // root may look at everything
      action();
    });
  };
  EXPECT_EQ(unprivileged([&] { AtomicFolder atomic(folder / "closed/run"); }), 2);
  EXPECT_EQ(unprivileged([&] { write_file_atomically(folder / "closed/a", "x"); }), 2);
  fs::permissions(folder / "closed", fs::perms::owner_all);
  EXPECT_EQ(in_child([&] {
              AtomicFolder atomic(folder / "run");
              fs::remove_all(atomic.path());
              atomic.commit();
            }),
            2);
}

TEST(AtomicFolder, NamesThatCannotBeAreUserErrors) {
  const TemporaryFolder folder;
  const std::string loop = (folder / "loop").string();
  fs::create_symlink(loop, loop);
  for (const fs::path& name : {fs::path(""), folder / std::string(300, 'x'), folder / "loop/run"}) {
    EXPECT_NE(user_error_of([&] { AtomicFolder atomic(name); }), "(no error)") << name;
    EXPECT_NE(user_error_of([&] { write_file_atomically(name, "x"); }), "(no error)") << name;
  }
}

TEST(AtomicFolder, AnOldFolderOfALivingWriterIsLeftAlone) {
  const TemporaryFolder folder;
  const fs::path aside = folder / ".run.old-0123456789abcdef";
  fs::create_directory(aside);
  const int held = ::open(aside.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  clean_after_crash(folder / "run");
  EXPECT_TRUE(fs::exists(aside));
  ::close(held);
  clean_after_crash(folder / "run");
  EXPECT_TRUE(fs::exists(folder / "run"));
  EXPECT_FALSE(fs::exists(aside));
}

TEST(AtomicFolder, CleansAllTargetsOfAFolder) {
  const TemporaryFolder folder;
  for (const char* name : {".a.tmp-0123456789abcdef", ".step-1.tmp-00000000000000ff", ".b.tmp-short", ".keep"})
    fs::create_directory(folder / name);
  clean_folder_after_crash(folder.path());
  EXPECT_EQ(entries_in(folder.path()), 2u);
  EXPECT_TRUE(fs::exists(folder / ".b.tmp-short") && fs::exists(folder / ".keep"));
}

// Every new folder above the target is synced into its parent, or a power cut could lose all of it.
TEST(AtomicFolder, SyncsNewParents) {
  static int synced_folders = 0;
  static FileCalls real;
  real = file_calls();
  synced_folders = 0;
  const TemporaryFolder folder;
  file_calls().open = [](const char* path, int flags, mode_t mode) {
    synced_folders += (flags & O_DIRECTORY) != 0;
    return real.open(path, flags, mode);
  };
  write_file_atomically(folder / "one/two/three/file", "x");
  file_calls() = real;
  EXPECT_EQ(synced_folders, 3 + 1);
}

std::string read_fifo(const fs::path& fifo, const std::function<void()>& writer) {
  std::string text;
  std::thread reader([&] { text = whole_file(fifo); });
  writer();
  reader.join();
  return text;
}

TEST(AtomicFile, WritesIntoAPipeInsteadOfReplacingIt) {
  const TemporaryFolder folder;
  const fs::path fifo = folder / "pipe", link = folder / "link";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink(fifo, link);
  for (const fs::path& name : {fifo, link}) {
    EXPECT_EQ(read_fifo(fifo, [&] { write_file_atomically(name, "through"); }), "through");
    EXPECT_TRUE(fs::is_fifo(fifo));
  }
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(entries_in(folder.path()), 2u);
}

TEST(AtomicFile, StandardOutputGetsTheTextInOrder) {
  const TemporaryFolder folder;
  const fs::path file = folder / "out";
  EXPECT_EQ(in_child([&] {
              if (::dup2(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO) < 0) ::_exit(9);
              std::printf("before ");
              write_file_atomically("/dev/stdout", "text");
              std::printf(" after");
              std::fflush(stdout);
            }),
            0);
  EXPECT_EQ(whole_file(file), "before text after");
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  EXPECT_EQ(in_child([&] {
              if (::dup2(pipe[1], STDOUT_FILENO) < 0) ::_exit(9);
              write_file_atomically("/dev/stdout", "piped");
            }),
            0);
  char got[6] = {};
  EXPECT_EQ(::read(pipe[0], got, 5), 5);
  EXPECT_STREQ(got, "piped");
  ::close(pipe[0]);
  ::close(pipe[1]);
}

// A cleaner may see a temporary file between its creation and its lock.
TEST(AtomicFile, ManyWritersOfOneFileNeverFail) {
  const TemporaryFolder folder(fast_parent());
  std::atomic<int> failures = 0;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 6; ++writer) {
    writers.emplace_back([&] {
      for (int i = 0; i < 150; ++i)
        failures += user_error_of([&] { write_file_atomically(folder / "a", "text"); }) != "(no error)";
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(FolderLock, DoesNotWriteThroughALink) {
  const TemporaryFolder folder;
  write_file(folder / "precious.txt", "years of work");
  fs::create_directory(folder / "run");
  fs::create_symlink(folder / "precious.txt", folder / "run/lock");
  EXPECT_NE(user_error_of([&] { FolderLock lock(folder / "run", "another trainer"); }).find("is a link"),
            std::string::npos);
  EXPECT_EQ(whole_file(folder / "precious.txt"), "years of work");
}

}  // namespace
}  // namespace pmnet
