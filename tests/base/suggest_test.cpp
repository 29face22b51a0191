#include "base/suggest.h"

#include <gtest/gtest.h>

namespace pmnet {
namespace {

const std::vector<std::string> kCommands{"train", "info", "stream", "parity", "demo"};

TEST(Suggest, FindsOneSlip) {
  EXPECT_EQ(suggest("tran", kCommands), "train");     // left out
  EXPECT_EQ(suggest("traiin", kCommands), "train");   // doubled
  EXPECT_EQ(suggest("steeam", kCommands), "stream");  // wrong
  EXPECT_EQ(suggest("inof", kCommands), "info");      // swapped
}

TEST(Suggest, PrefersTheNearest) {
  EXPECT_EQ(suggest("--thread", {"--reads", "--threads", "--tread"}), "--threads");
  EXPECT_EQ(suggest("30m", {"119m", "30m", "3m"}), "30m");
}

TEST(Suggest, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(suggest("quantize", kCommands), "");
  EXPECT_EQ(suggest("", kCommands), "");
  EXPECT_EQ(suggest("train", {}), "");
}

TEST(Suggest, EndsASentence) {
  EXPECT_EQ(did_you_mean("dmo", kCommands), "; did you mean 'demo'?");
  EXPECT_EQ(did_you_mean("quantize", kCommands), "");
}

}  // namespace
}  // namespace pmnet
