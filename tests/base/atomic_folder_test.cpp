#include "base/atomic_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <random>

#include "base/file_calls.h"
#include "support/errors.h"
#include "support/in_child.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBytes = 50'000;
const std::vector<std::string> kFiles = {"config.json", "model.safetensors", "state"};

void save(const fs::path& target, char version) {
  AtomicFolder folder(target);
  for (const std::string& name : kFiles) {
    FileWriter writer(folder.path() / name);
    for (int part = 0; part < 5; ++part) writer.write(std::string(kFileBytes / 5, version));
    writer.finish();
  }
  folder.commit();
}

// The version of a complete folder; '?' when a file is missing, mixed or cut short.
char version_in(const fs::path& target) {
  std::string all;
  for (const std::string& name : kFiles) {
    if (!fs::is_regular_file(target / name)) return '?';
    const std::string text = read_file(target / name, 10 * kFileBytes);
    if (text.size() != kFileBytes) return '?';
    all += text;
  }
  return all.find_first_not_of(all[0]) == std::string::npos ? all[0] : '?';
}

// Faults, counted over all calls of a process. Static: FileCalls holds plain function pointers.
struct Faults {
  FileCalls real;
  int calls = 0;
  int at = 0;               // the call that goes wrong, counted from 1
  int error = 0;            // 0: the process ends instead
  bool power_loss = false;  // ... and what was not synced is lost
  bool fsync_lies = false;
  bool no_exchange = false;
  std::map<int, int> unsynced;  // descriptor -> a duplicate of it, while it holds unsynced data
  std::map<int, int> duplicates;
} faults;

bool goes_wrong() {
  if (++faults.calls != faults.at) return false;
  if (faults.error == 0) {
    if (faults.power_loss) {
      for (const auto& [fd, duplicate] : faults.unsynced) {
        if (::ftruncate(duplicate, 0) != 0) ::_exit(99);
      }
    }
    ::_exit(42);
  }
  errno = faults.error;
  return true;
}

void install_faults() {
  faults.real = file_calls();
  file_calls() = {
      [](const char* path, int flags, mode_t mode) {
        if (goes_wrong()) return -1;
        const int fd = faults.real.open(path, flags, mode);
        if (fd >= 0 && (flags & O_CREAT) != 0) faults.duplicates[fd] = ::dup(fd);
        return fd;
      },
      [](int fd, const void* data, size_t size) -> ssize_t {
        if (goes_wrong()) return -1;
        if (faults.duplicates.contains(fd)) faults.unsynced[fd] = faults.duplicates[fd];
        return faults.real.write(fd, data, size);
      },
      [](int fd) {
        if (goes_wrong()) return -1;
        if (!faults.fsync_lies) faults.unsynced.erase(fd);
        return faults.real.fsync(fd);
      },
      [](int fd) { return goes_wrong() ? -1 : faults.real.close(fd); },
      [](const char* path, mode_t mode) { return goes_wrong() ? -1 : faults.real.mkdir(path, mode); },
      [](const char* from, const char* to) { return goes_wrong() ? -1 : faults.real.rename(from, to); },
      [](const char* one, const char* other) {
        if (goes_wrong()) return -1;
        if (!faults.no_exchange) return faults.real.exchange(one, other);
        errno = EINVAL;
        return -1;
      },
  };
}

struct Crashes {
  int states = 0;
  int broken = 0;
  int new_ones = 0;
};

// Ends the saving process at call 1, 2, 3, ... until one run gets through.
Crashes crash_at_every_call(bool with_old_folder, const Faults& kind) {
  Crashes seen;
  for (int at = 1;; ++at) {
    const TemporaryFolder folder(fast_parent());
    const fs::path target = folder / "run";
    if (with_old_folder) save(target, 'a');
    const int code = in_child([&] {
      faults = kind;
      faults.at = at;
      install_faults();
      save(target, 'b');
    });
    if (code == 0) return seen;
    EXPECT_EQ(code, 42);
    ++seen.states;
    if (kind.no_exchange) clean_after_crash(target);
    const bool absent = !fs::exists(target);
    const char version = absent ? '-' : version_in(target);
    seen.new_ones += version == 'b';
    seen.broken += version != 'b' && version != (with_old_folder ? 'a' : '-');
    save(target, 'c');  // life goes on, and nothing is left over
    EXPECT_EQ(version_in(target), 'c');
    EXPECT_EQ(entries_in(folder.path()), 1u);
  }
}

TEST(AtomicFolder, WritesAndReplaces) {
  const TemporaryFolder folder;
  const fs::path target = folder / "deep/run";
  save(target, 'a');
  EXPECT_EQ(version_in(target), 'a');
  save(target.string() + "/", 'b');
  EXPECT_EQ(version_in(target), 'b');
  EXPECT_EQ(entries_in(folder / "deep"), 1u);
}

TEST(AtomicFolder, WithoutCommitNothingStays) {
  const TemporaryFolder folder;
  save(folder / "run", 'a');
  {
    const AtomicFolder unfinished(folder / "run");
    std::ofstream(unfinished.path() / "config.json") << "half";
  }
  EXPECT_EQ(version_in(folder / "run"), 'a');
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFolder, DoesNotDeleteWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  save(folder / "run", 'a');
  std::ofstream(folder / "run/thesis.txt") << "years of work";
  EXPECT_EQ(user_error_of([&] { save(folder / "run", 'b'); }),
            (folder / "run").string() +
                ": already exists and holds thesis.txt, which saving would delete; choose another folder or move that "
                "file away");
  EXPECT_EQ(version_in(folder / "run"), 'a');
  AtomicFolder replacement(folder / "run");
  replacement.commit(Replace::kAnything);
  EXPECT_EQ(entries_in(folder / "run"), 0u);
}

TEST(AtomicFolder, ALinkStaysALink) {
  const TemporaryFolder folder;
  save(folder / "run", 'a');
  fs::create_directory_symlink(folder / "run", folder / "latest");
  save(folder / "latest", 'b');
  EXPECT_TRUE(fs::is_symlink(folder / "latest"));
  EXPECT_EQ(version_in(folder / "run"), 'b');
}

TEST(AtomicFolder, LeavesLivingWritersAlone) {
  const TemporaryFolder folder;
  AtomicFolder first(folder / "run");
  std::ofstream(first.path() / "only") << "x";
  clean_after_crash(folder / "run");
  save(folder / "run", 'b');
  EXPECT_TRUE(fs::exists(first.path() / "only"));
  first.commit(Replace::kAnything);
  EXPECT_TRUE(fs::exists(folder / "run/only"));
}

TEST(AtomicFolder, ACrashAtAnyCallLeavesOldOrNew) {
  for (const bool with_old_folder : {false, true}) {
    for (const bool power_loss : {false, true}) {
      for (const bool no_exchange : {false, true}) {
        Faults kind;
        kind.power_loss = power_loss;
        kind.no_exchange = no_exchange;
        const Crashes seen = crash_at_every_call(with_old_folder, kind);
        EXPECT_GT(seen.states, 25);
        EXPECT_EQ(seen.broken, 0) << with_old_folder << power_loss << no_exchange;
        EXPECT_GT(seen.new_ones, 0);
      }
    }
  }
}

TEST(AtomicFolder, TheCrashTestSeesAMissingSync) {
  Faults kind;
  kind.power_loss = true;
  kind.fsync_lies = true;
  EXPECT_GT(crash_at_every_call(true, kind).broken, 0);
}

TEST(AtomicFolder, AnErrorAtAnyCallIsReportedAndLosesNothing) {
  for (const int error : {EIO, ENOSPC, EDQUOT, EROFS}) {
    int reported = 0;
    for (int at = 1;; ++at) {
      const TemporaryFolder folder(fast_parent());
      const fs::path target = folder / "run";
      save(target, 'a');
      const int code = in_child([&] {
        faults = {};
        faults.at = at;
        faults.error = error;
        install_faults();
        save(target, 'b');
        if (faults.calls < faults.at) ::_exit(77);
      });
      if (code == 77) break;
      ASSERT_EQ(code, 2) << "call " << at << ": an error must not count as saved";
      ++reported;
      EXPECT_NE(version_in(target), '?');
      EXPECT_EQ(entries_in(folder.path()), 1u) << "call " << at;
    }
    EXPECT_GT(reported, 25);
  }
}

TEST(AtomicFolder, ASizeLimitStopsTheSaveNotTheProgram) {
  for (int step = 0; step < 20; ++step) {
    const TemporaryFolder folder(fast_parent());
    save(folder / "run", 'a');
    const int code = in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{kFileBytes * step / 20, kFileBytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      save(folder / "run", 'b');
    });
    EXPECT_EQ(code, 2);
    EXPECT_EQ(version_in(folder / "run"), 'a');
    EXPECT_EQ(entries_in(folder.path()), 1u);
  }
}

TEST(AtomicFolder, KilledAtRandomMomentsLeavesOldOrNew) {
  const TemporaryFolder folder;
  const fs::path target = folder / "run";
  save(target, 'a');
  std::mt19937 random(7);
  for (int kill = 0; kill < 100; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (char version = 'a';; version = version == 'z' ? 'a' : version + 1) save(target, version);
    }
    ::usleep(random() % 15'000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_NE(version_in(target), '?') << "kill " << kill;
  }
  save(target, 'z');
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFile, ReplacesOrLeaves) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a", 10), "new");
  {
    AtomicFile unfinished(folder / "a");
    unfinished.writer().write("half");
  }
  EXPECT_EQ(read_file(folder / "a", 10), "new");
  EXPECT_EQ(entries_in(folder.path()), 1u);
  EXPECT_NE(user_error_of([&] { write_file_atomically(folder.path(), "x"); }).find("is a folder"), std::string::npos);
}

TEST(AtomicFile, ACrashAtAnyCallLeavesOldOrNew) {
  for (int at = 1, code = 42; code != 0; ++at) {
    const TemporaryFolder folder(fast_parent());
    write_file_atomically(folder / "a", "old");
    code = in_child([&] {
      faults = {};
      faults.at = at;
      faults.power_loss = true;
      install_faults();
      write_file_atomically(folder / "a", "new");
    });
    const std::string text = read_file(folder / "a", 10);
    EXPECT_TRUE(text == "old" || text == "new") << text;
    write_file_atomically(folder / "a", "next");
    EXPECT_EQ(entries_in(folder.path()), 1u);
  }
}

}  // namespace
}  // namespace pmnet
