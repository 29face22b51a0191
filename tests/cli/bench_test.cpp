#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model/model_folder.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

TEST(Bench, MeasuresOursAndARivalInOneRun) {
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "bench.json").string();
  const auto result = run_program(
      "bench --preset tiny --what train,decode --context 64 --rounds 1 --seconds 0 --skip composite,mamba --against "
      "'rival=echo \"{\\\"bytes_per_second\\\": 5, \\\"peak_bytes\\\": 7}\"' --against 'broken=false' --json " +
      json);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("GFLOP/s"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("\nbroken failed: "), std::string::npos) << result.output;  // below the table
  const auto rows = nlohmann::json::parse(read_file(json, 1 << 20)).at("rows");
  ASSERT_EQ(rows.size(), 6u);  // training and decoding by PMNet and the Transformer; two rivals
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rows[i].at("error"), "") << rows[i];
    EXPECT_GT(rows[i].at("bytes_per_second").get<double>(), 0) << rows[i];
    EXPECT_GT(rows[i].at("share_of_limit").get<double>(), 0) << rows[i];
  }
  EXPECT_EQ(rows[4].at("bytes_per_second"), 5);
  EXPECT_EQ(rows[4].at("peak_bytes"), 7);
  EXPECT_NE(rows[5].at("error"), "");
}

TEST(Bench, ComparesSeveralBatchesInOneRun) {
  const TemporaryFolder folder;
  const std::string json = (folder.path() / "bench.json").string();
  const auto result = run_program(
      "bench --preset tiny --what decode --format bf16,int8 --context 8 --batch 1,3 --rounds 1 --seconds 0 --skip "
      "composite,transformer,mamba --json " +
      json);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto rows = nlohmann::json::parse(read_file(json, 1 << 20)).at("rows");
  ASSERT_EQ(rows.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rows[i].at("batch"), i < 2 ? 1 : 3) << rows[i];
}

TEST(Bench, RefusesWhatItDoesNotKnow) {
  expect_user_error("bench --what sleep", "sleep");
  expect_user_error("bench --batch 1,0", "range");
  expect_user_error("bench --format int3", "int3");
  expect_user_error("bench --preset tiny --context 0", "--context is 0");
  expect_user_error("bench --preset tiny --context -1", "--context is -1");
  expect_user_error("bench --preset 3n --rounds 1", "3m");
  expect_user_error("bench --preset tiny --rounds 1 --against nolabel", "label=command");
}

// Of the parameters of two models, relative to the largest of each tensor.
double largest_parameter_difference(const std::string& one, const std::string& other) {
  const auto wanted = load_model(one).model->named_parameters(), found = load_model(other).model->named_parameters();
  double largest = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor& w = wanted[i].second;
    const double difference = (w - found.at(i).second).abs().max().item<double>();
    if (difference > 0) largest = std::max(largest, difference / w.abs().max().item<double>());
  }
  return largest;
}

TEST(Quantize, WritesAModelThatLoadsAndSaysWhatItCosts) {
  const TemporaryFolder folder;
  const std::string model = (folder.path() / "model").string(), text = (folder.path() / "text").string();
  ASSERT_EQ(run_program("new tiny " + model + " --seed 1").exit_code, 0);
  FileWriter writer(text);
  for (int i = 0; i < 100; ++i) writer.write("the phase of a slot turns ");
  writer.finish();
  for (const std::string type : {"bf16", "int8"}) {
    const std::string out = model + "-" + type;
    const auto result = run_program("quantize " + model + " --to " + type + " --out " + out + " --text " + text);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("bits per byte"), std::string::npos) << result.output;
    EXPECT_NE(run_program("quantize " + model + " --to " + type + " --out " + out + " --text " + text +
                          " --max-bytes 100 --chunk 1 --force")
                  .output.find("first 100 bytes"),
              std::string::npos);
    EXPECT_EQ(run_program("generate " + out + " hello --max-bytes 4 --raw --seed 1").exit_code, 0);
    EXPECT_LE(largest_parameter_difference(model, out), type == "bf16" ? 1.0 / 256 : 1.0 / 64) << type;
  }
  expect_user_error("quantize " + model + " --max-bytes 0 --out " + model + "-x",
                    "--max-bytes is 0; expected at least 1");
  expect_user_error("quantize " + model + " --chunk 0 --out " + model + "-x", "--chunk is 0; expected at least 1");
  expect_user_error("quantize " + model + " --to int3 --out " + model + "-x", "int3");
  expect_user_error("quantize " + folder.path().string() + "/none --out " + model + "-x", "not a folder");
}

}  // namespace
}  // namespace pmnet
