#include "kernels/read_memory.h"

#include <numeric>
#include <random>
#include <vector>

#include "every_target.h"

namespace pmnet::kernels {
namespace {

TEST(SumWords, ReadsEveryWordOnce) {
  std::mt19937_64 random(61);
  std::vector<uint64_t> words(1000);
  for (uint64_t& word : words) word = random();
  on_every_target([&] {
    for (const int64_t count : {0, 1, 7, 8, 63, 64, 65, 127, 129, 1000})
      for (int64_t streams = 1; streams <= kMaxReadStreams; ++streams)
        EXPECT_EQ(sum_words(words.data(), count, streams),
                  std::accumulate(words.begin(), words.begin() + count, uint64_t{0}))
            << count << " words in " << streams << " streams";
  });
}

}  // namespace
}  // namespace pmnet::kernels
