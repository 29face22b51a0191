#include "eval/inspect.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "eval/inspect_drawings.h"
#include "eval/inspect_page.h"
#include "ops/ops.h"
#include "support/errors.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

// Bytes that the vocabulary of the small model holds.
std::string small_text(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>((i * i + 3 * i) % 38);
  return text;
}

bool read_all(int64_t) { return true; }

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Inspect, AgreesWithOnePassOverTheText) {
  const auto model = small_model(small_config());
  const PmnetConfig& config = model->config();
  const std::string text = small_text(1100);
  const Inspection got = inspect(make_engine(*model), text, read_all);

  std::vector<int64_t> ids{config.bos_token_id};
  for (const unsigned char byte : text) ids.push_back(byte);
  at::NoGradGuard no_grad;
  ModelState state = model->initial_state(1);
  Trace trace;
  const Tensor logits = model->logits(at::tensor(ids).unsqueeze(0), &state, {}, &trace)[0];
  const Tensor bits =
      -logits.log_softmax(-1).slice(0, 0, -1).gather(1, at::tensor(ids).slice(0, 1).unsqueeze(1)).squeeze(1) /
      std::numbers::ln2;
  ASSERT_EQ(got.bits.size(), text.size());
  const int64_t T = got.num_bytes(), H = config.num_levels(), N = config.num_memory, M = config.memory_size;
  ASSERT_EQ(got.num_levels(), H);
  int64_t other_ways = 0;
  for (int64_t t = 0; t < T; ++t) {
    EXPECT_NEAR(got.bits[t], bits[t].item<double>(), 1e-3) << t;
    for (int64_t h = 0; h < H; ++h) {
      other_ways += got.groups[t * H + h] != trace.groups[h][0][t + 1].item<int64_t>();
      if (h + 1 < H) {
        EXPECT_EQ(got.groups[t * H + h + 1], got.groups[t * H + h] * N + got.chosen[t * H + h]) << t << " " << h;
      }
      const float* weights = &got.weights[(t * H + h) * N];
      EXPECT_NEAR(std::accumulate(weights, weights + N, 0.0), 1.0, 1e-5);
    }
  }
  EXPECT_EQ(other_ways, 0);
  for (int64_t h = 0; h < H; ++h) {
    const LevelView& level = got.levels[h];
    EXPECT_EQ(level.routing.total(), T);
    for (int64_t g = 0; g < config.num_groups(h); ++g)
      EXPECT_EQ(level.routing.tokens()[g], trace.groups[h][0].slice(0, 1).eq(g).sum().item<int64_t>());
    const Tensor angle = ops::to_angle(*state.memory[h].turns, at::kFloat).flatten();
    ASSERT_EQ(static_cast<int64_t>(level.phases.size()), config.num_groups(h) * N * M);
    double worst = 0;
    for (int64_t i = 0; i < angle.numel(); ++i)
      worst =
          std::max(worst, std::abs(std::remainder(level.phases[i] - angle[i].item<double>(), 2 * std::numbers::pi)));
    EXPECT_LT(worst, 1e-3);
    EXPECT_GT(level.slots_per_read, 1.0);
    EXPECT_LE(level.slots_per_read, N + 1e-6);
  }
  EXPECT_EQ(got.levels[0].routing.change_rate(), 0.0);
  EXPECT_GT(got.levels[H - 1].routing.change_rate(), 0.0);
  EXPECT_NEAR(got.bits_per_byte(), bits.mean().item<double>(), 1e-4);
}

TEST(Inspect, EndsWhereItIsTold) {
  const auto model = small_model(small_config());
  int calls = 0;
  const Inspection part = inspect(make_engine(*model), small_text(3000), [&](int64_t) { return ++calls < 2; });
  ASSERT_GT(part.num_bytes(), 100);
  ASSERT_LT(part.num_bytes(), 3000);
  EXPECT_EQ(part.bits.size(), part.text.size());
  const Inspection whole = inspect(make_engine(*model), part.text, read_all);
  EXPECT_EQ(whole.groups, part.groups);
  EXPECT_EQ(whole.levels[1].routing.tokens(), part.levels[1].routing.tokens());
  EXPECT_EQ(whole.levels[2].phases, part.levels[2].phases);
}

TEST(Inspect, TellsWhichModelsHaveNoMemory) {
  PmnetConfig without = small_config();
  without.memory_modules = false;
  EXPECT_NE(user_error_of([&] {
              require_memory(*make_engine(PMNet(without, at::kFloat)), "that");
            }).find("that was made without"),
            std::string::npos);
  const auto mamba = make_model(MambaConfig{.vocab_size = 40, .hidden_size = 8, .num_layers = 1});
  EXPECT_NE(user_error_of([&] { require_memory(*make_engine(*mamba), "that"); }).find("that is no PMNet"),
            std::string::npos);
  PMNet with(small_config(), at::kFloat);
  with.initialize(1);
  EXPECT_EQ(user_error_of([&] { require_memory(*make_engine(with), "that"); }), "(no error)");
}

TEST(Inspect, SlotsAreNamedByLevelGroupAndSlot) {
  const auto weights = small_model(small_config());
  const auto engine = make_engine(*weights);
  const std::vector<SlotName> expected{{2, 8, 1}, {1, 2, 0}, {1, 2, 1}, {1, 2, 2}};
  EXPECT_EQ(parse_slots(*engine, {"2.8.1", "1.2"}), expected);
  EXPECT_TRUE(parse_slots(*engine, {}).empty());
  for (const char* wrong : {"", "1", "1.", "1.2.3.4", "a.b", "1.2x", "1..2", "99999999999999999999.0"})
    EXPECT_NE(user_error_of([&] { parse_slots(*engine, {wrong}); }).find("expected LEVEL.GROUP"), std::string::npos)
        << wrong;
  EXPECT_NE(user_error_of([&] { parse_slots(*engine, {"3.0"}); }).find("levels of this model are 0 to 2"),
            std::string::npos);
  EXPECT_NE(user_error_of([&] { parse_slots(*engine, {"1.3"}); }).find("groups of level 1 are 0 to 2"),
            std::string::npos);
  EXPECT_NE(user_error_of([&] { parse_slots(*engine, {"1.0.3"}); }).find("slots of a group are 0 to 2"),
            std::string::npos);
  EXPECT_NE(user_error_of([&] { parse_slots(*engine, {"-1.0"}); }).find("levels"), std::string::npos);
}

// Two levels of two slots with two phases each, over a text with everything that needs care.
Inspection by_hand() {
  Inspection inspection;
  inspection.text = "a<\n\xC3\xA9\xFF\x01";
  inspection.slots = inspection.phases = 2;
  inspection.bits = {0, 1, 2, 3, 4, 5, 20};
  inspection.groups = {0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1};
  inspection.chosen = {0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0};
  inspection.weights.assign(28, 0.5F);
  inspection.levels.resize(2);
  inspection.levels[0].routing = LevelRouting(1);
  inspection.levels[1].routing = LevelRouting(2);
  for (size_t byte = 0; byte < inspection.text.size(); ++byte)
    for (size_t level = 0; level < 2; ++level)
      inspection.levels[level].routing.add(inspection.groups[2 * byte + level]);
  inspection.levels[0].phases = {0, 0, 0, static_cast<float>(std::numbers::pi)};
  inspection.levels[1].phases.assign(8, 1.0F);
  return inspection;
}

TEST(InspectPage, ShowsEveryCharacterWithItsCostAndWay) {
  const Inspection inspection = by_hand();
  const std::vector<SlotName> slots = busiest_slots(inspection);
  EXPECT_EQ(slots, (std::vector<SlotName>{{0, 0, 0}, {0, 0, 1}, {1, 1, 0}, {1, 1, 1}}));
  const std::string html = inspection_page(inspection, slots, {.model = "m<x>", .text = "folder/some&text"}).html();
  for (const char* part :
       {"What the memory does with some&amp;text", "m&lt;x&gt; read 7 bytes of folder/some&amp;text",
        "5.0000 bits per byte", "title=\"byte 0: 61, 0.00 bits\ngroups 0 > 0, slot 1\">a</b>", ">&lt;</b>",
        "\xE2\x86\xB5</span>\n</b>", "byte 3: C3, 3.00 bits\ngroups 0 > 0, slot 0\nbyte 4: A9, 4.00 bits",
        ">\xC3\xA9</b>", "<span class=\"hex\">FF</span>", "<span class=\"hex\">01</span>", "class=\"c15 w1-0\"",
        ".w1-1 {", "<td class=\"number\">71.4%</td>", "<h3>Level 1, group 1</h3>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(count_of(html, "<b class="), 6u);  // seven bytes, two of them one character
  EXPECT_EQ(count_of(html, "class=\"mean\""), slots.size());
}

TEST(InspectPage, AgreementIsTheLengthOfTheMean) {
  const Inspection inspection = by_hand();
  EXPECT_NEAR(agreement(inspection, {0, 0, 0}), 1, 1e-12);
  EXPECT_NEAR(agreement(inspection, {0, 0, 1}), 0, 1e-6);
  EXPECT_NEAR(agreement(inspection, {1, 0, 1}), 1, 1e-12);
}

}  // namespace
}  // namespace pmnet
