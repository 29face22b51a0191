#include "data/shard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "data/data_files.h"
#include "data/shard_cache.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/in_child.h"

namespace pmnet {
namespace {

using namespace testing;

struct Sample {
  std::string text;
  uint64_t prompt;
};

std::vector<Sample> samples() {
  return {{"first", 0}, {random_text(1, 3'000'000), 0}, {"question answer", 9}, {std::string("\0\xFF\xFE", 3), 0}};
}

void write_shard(const std::string& path) {
  ShardWriter writer(path);
  uint64_t record = 0;
  for (const Sample& sample : samples()) {
    ++record;
    writer.begin_document(record <= 2 ? "a.txt" : "b.jsonl", record);
    writer.append(std::string_view(sample.text).substr(0, 2));
    writer.append(std::string_view(sample.text).substr(2));
    writer.end_document(sample.prompt);
  }
  writer.finish();
}

TEST(Shard, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  write_shard(folder / "a.pmshard");
  const Shard shard(folder / "a.pmshard");
  ASSERT_EQ(shard.documents(), samples().size());
  EXPECT_EQ(shard.origins(), (std::vector<std::string>{"a.txt", "b.jsonl"}));
  size_t i = 0;
  shard.for_each([&](const ShardEntry& entry, uint64_t offset) {
    std::string text(entry.bytes, ' ');
    shard.read(offset, text.data(), text.size());
    EXPECT_EQ(text, samples()[i].text);
    EXPECT_EQ(entry.prompt_bytes, samples()[i].prompt);
    EXPECT_EQ(entry.record, i + 1);
    EXPECT_EQ(entry.path, i < 2 ? 0u : 1u);
    ++i;
  });
  EXPECT_EQ(i, samples().size());
  EXPECT_THROW(shard.read(shard.data_bytes(), nullptr, 1), std::logic_error);
}

TEST(Shard, IsAnInputLikeAnyOther) {
  const TemporaryFolder folder;
  write_shard(folder / "a.pmshard");
  const std::vector<std::string> documents = read_documents(folder / "a.pmshard");
  ASSERT_EQ(documents.size(), samples().size());
  for (size_t i = 0; i < documents.size(); ++i) EXPECT_EQ(documents[i], samples()[i].text);
}

TEST(Shard, PackedAgainKeepsOrigins) {
  const TemporaryFolder folder;
  write_shard(folder / "a.pmshard");
  write_file(folder / "c.txt", "more");
  pack_files(find_inputs({folder / "a.pmshard", folder / "c.txt"}), {}, folder / "b.pmshard");
  const Shard shard(folder / "b.pmshard");
  EXPECT_EQ(shard.documents(), samples().size() + 1);
  EXPECT_EQ(shard.origins(), (std::vector<std::string>{"a.txt", "b.jsonl", folder / "c.txt"}));
}

TEST(Shard, UnfinishedLeavesNothingBehind) {
  const TemporaryFolder folder;
  {
    ShardWriter writer(folder / "a.pmshard");
    writer.begin_document("x", 1);
    writer.append("text");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Shard, EveryDamageToTheIndexIsRefused) {
  const TemporaryFolder folder;
  write_shard(folder / "a.pmshard");
  const std::string whole = whole_file(folder / "a.pmshard");
  const size_t data_bytes = Shard(folder / "a.pmshard").data_bytes();
  for (size_t at = data_bytes; at < whole.size(); ++at) {
    for (const int bit : {0, 7}) {
      std::string damaged = whole;
      damaged[at] ^= static_cast<char>(1 << bit);
      write_file(folder / "bad.pmshard", damaged);
      expect_mentions(user_error_of([&] { Shard(folder / "bad.pmshard"); }), {"bad.pmshard", "not a whole shard"});
    }
  }
  for (int percent = 0; percent < 100; ++percent) {
    write_file(folder / "bad.pmshard", whole.substr(0, whole.size() * percent / 100));
    expect_mentions(user_error_of([&] { Shard(folder / "bad.pmshard"); }), {"bad.pmshard", "not a whole shard"});
  }
}

TEST(Shard, LyingSizesWithARightChecksumAreRefused) {
  const TemporaryFolder folder;
  write_shard(folder / "a.pmshard");
  const std::string whole = whole_file(folder / "a.pmshard");
  for (size_t field = 0; field < 5; ++field) {
    for (const uint64_t lie : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 61, uint64_t{0}}) {
      std::string damaged = whole;
      std::memcpy(damaged.data() + damaged.size() - sizeof(ShardFooter) + 8 * field, &lie, sizeof(lie));
      write_file(folder / "bad.pmshard", damaged);
      expect_mentions(user_error_of([&] { Shard(folder / "bad.pmshard"); }), {"not a whole shard"});
    }
  }
}

TEST(Shard, DamagedTextIsFoundWhenRead) {
  const TemporaryFolder folder;
  write_shard(folder / "a.pmshard");
  std::string damaged = whole_file(folder / "a.pmshard");
  damaged[1'000'000] ^= 1;
  write_file(folder / "bad.pmshard", damaged);
  expect_mentions(user_error_of([&] { read_documents(folder / "bad.pmshard"); }),
                  {"bad.pmshard", "document 2", "a.txt"});
}

TEST(ShardCache, PacksOnceAndAgainWhenAnInputChanges) {
  const TemporaryFolder folder;
  write_file(folder / "in/a.txt", "alpha");
  write_file(folder / "in/b.txt", "beta");
  const auto shard = [&](const ReadOptions& options = {}) {
    return cached_shard({folder / "in"}, options, folder / "cache");
  };
  const PackResult first = shard();
  EXPECT_FALSE(first.reused);
  EXPECT_EQ(first.documents, 2u);
  EXPECT_EQ(first.document_bytes, 9u);
  EXPECT_TRUE(shard().reused);
  EXPECT_EQ(shard().shard, first.shard);

  ReadOptions split;
  split.split_on = "p";
  EXPECT_EQ(shard(split).documents, 3u);
  EXPECT_NE(shard(split).shard, first.shard);

  write_file(folder / "in/b.txt", "gamma");
  const PackResult changed = shard();
  EXPECT_FALSE(changed.reused);
  EXPECT_NE(Shard(changed.shard).content_hash(), Shard(first.shard).content_hash());
}

TEST(ShardCache, DamagedShardIsPackedAnew) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "alpha");
  const PackResult first = cached_shard({folder / "a.txt"}, {}, folder / "cache");
  fs::resize_file(first.shard, 20);
  const fs::path left_over = folder / "cache/.x.pmshard.tmp-0123456789abcdef";
  write_file(left_over, "of a process that died");
  const PackResult second = cached_shard({folder / "a.txt"}, {}, folder / "cache");
  EXPECT_FALSE(second.reused);
  EXPECT_EQ(read_documents(second.shard), std::vector<std::string>{"alpha"});
  EXPECT_FALSE(fs::exists(left_over));
}

TEST(ShardCache, OneOfSeveralProcessesPacks) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", random_text(1, 5'000'000));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const PackResult result = cached_shard({folder / "a.txt"}, {}, folder / "cache");
      ::_exit(result.documents != 1 ? 9 : result.reused ? 0 : 1);
    }
    children.push_back(child);
  }
  int packed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_NE(WEXITSTATUS(status), 9);
    packed += WEXITSTATUS(status);
  }
  EXPECT_EQ(packed, 1);
}

TEST(ShardCache, FaultsAreToldAndLeaveNoShard) {
  const TemporaryFolder folder;
  write_file(folder / "empty/a.txt", "");
  expect_mentions(user_error_of([&] { cached_shard({folder / "empty"}, {}, folder / "cache"); }),
                  {"the corpus is empty", "a.txt"});
  write_file(folder / "cut.gz", gzip(random_text(1, 9'000)).substr(0, 100));
  expect_mentions(user_error_of([&] { cached_shard({folder / "cut.gz"}, {}, folder / "cache"); }),
                  {"cut.gz", "cut off"});
  for (const auto& entry : fs::directory_iterator(folder / "cache")) EXPECT_EQ(entry.path().extension(), ".lock");
  write_file(folder / "file", "x");
  expect_mentions(user_error_of([&] { cached_shard({folder / "file"}, {}, folder / "file/cache"); }),
                  {"file/cache", "cannot write"});
}

// Another process holds the lock of the cache: the callback can still end the wait.
TEST(ShardCache, WaitingForTheLockCanBeStopped) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "alpha");
  const std::string lock = cached_shard({folder / "a.txt"}, {}, folder / "cache").shard + ".lock";
  const int held = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  struct Stop {};
  int calls = 0;
  const auto stop_at_second = [&](const PackProgress&) {
    if (++calls == 2) throw Stop{};
  };
  EXPECT_THROW(cached_shard({folder / "a.txt"}, {}, folder / "cache", stop_at_second), Stop);
  ::close(held);
  EXPECT_TRUE(cached_shard({folder / "a.txt"}, {}, folder / "cache").reused);
}

// Without a home the cache lies where everybody may write: somebody else's folder of that name must not be trusted.
TEST(ShardCache, ATemporaryFolderMustBeOurs) {
  const TemporaryFolder folder;
  const auto found = [&] {
    for (const char* name : {"PMNET_CACHE", "XDG_CACHE_HOME", "HOME"}) ::unsetenv(name);
    ::setenv("TMPDIR", folder.path().c_str(), 1);
    try {
      std::ofstream(folder / "answer") << default_cache_folder();
    } catch (const UserError& error) {
      std::ofstream(folder / "answer") << error.what();
    }
  };
  const auto answer = [&] {
    EXPECT_EQ(in_child(found), 0);
    return whole_file(folder / "answer");
  };
  const std::string cache = (folder / fmt::format("pmnet-cache-{}", ::geteuid())).string();
  EXPECT_EQ(answer(), cache);
  EXPECT_EQ(answer(), cache);
  fs::permissions(cache, fs::perms::others_write, fs::perm_options::add);
  expect_mentions(answer(), {"others can write there", "PMNET_CACHE"});
  fs::remove(cache);
  fs::create_directory(folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", cache);
  expect_mentions(answer(), {"others can write there"});
}

TEST(Shard, RewrittenAfterItWasOpenedIsAnError) {
  const TemporaryFolder folder;
  write_shard(folder / "a.pmshard");
  const Shard shard(folder / "a.pmshard");
  std::string bytes = whole_file(folder / "a.pmshard");
  for (size_t at = shard.data_bytes(); at < shard.data_bytes() + shard.documents() * sizeof(ShardEntry); ++at)
    bytes[at] = '\x7F';
  write_file(folder / "a.pmshard", bytes);
  expect_mentions(user_error_of([&] { shard.for_each([](const ShardEntry&, uint64_t) {}); }),
                  {"a.pmshard", "out of range"});
}

}  // namespace
}  // namespace pmnet
