#include "config/field_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/errors.h"

namespace pmnet {

enum class Colour { kRed, kGreen, kUnnamed };
template <>
inline constexpr auto kEnumNames<Colour> = std::to_array<const char*>({"red", "green"});

namespace {

struct Inner {
  std::vector<double> weights{1, 2};
};
struct Base {
  int64_t count = 3;
};
struct Settings : Base {
  bool on = false;
  double rate = 0.5;
  std::string name = "x";
  Colour colour = Colour::kGreen;
  std::optional<Colour> maybe;
  std::vector<Colour> colours{Colour::kRed};
  Inner inner;
};

const std::vector<Field<Settings>>& rows() {
  using S = Settings;
  static const std::vector<Field<Settings>> table = {
      {"count", &S::count, "An inherited member", from_to(1, 9)},
      {"on", &S::on, "A switch"},
      {"rate", &S::rate, "A number", above_to(0, 1)},
      {"name", &S::name, "A string"},
      {"colour", &S::colour, "An enum"},
      {"maybe", &S::maybe, "An optional enum"},
      {"colours", &S::colours, "A list of enums"},
      {"inner.", &S::inner, {"weights", &Inner::weights, "A list of numbers", from_below(0, 10)}},
  };
  return table;
}

std::string error_of(const std::string& assignment) {
  Settings settings;
  return user_error_of([&] { set_field(rows(), settings, parse_assignment(assignment), "; see the table"); });
}

TEST(FieldTable, EveryTypeIsSetAndWritten) {
  Settings settings;
  set_fields(rows(), settings,
             parse_toml("count = 9\non = true\nrate = 1\nname = \"a b\"\ncolour = \"red\"\nmaybe = \"green\"\n"
                        "colours = [\"green\", \"red\"]\n[inner]\nweights = [0.5]\n",
                        "here"));
  EXPECT_EQ(settings.count, 9);
  EXPECT_EQ(settings.maybe, Colour::kGreen);
  EXPECT_EQ(settings.colours, (std::vector{Colour::kGreen, Colour::kRed}));
  EXPECT_EQ(settings.inner.weights, std::vector<double>{0.5});
  std::string text;
  nlohmann::json object;
  for (const Field<Settings>& row : rows()) {
    text += field_to_toml(row.get(settings)) + " ";
    object[row.key] = field_to_json(row.get(settings));
  }
  EXPECT_EQ(text, R"(9 true 1 "a b" "red" "green" ["green", "red"] [0.5] )");
  Settings read;
  for (const Field<Settings>& row : rows()) row.set(read, field_from_json(row, object[row.key]));
  for (const Field<Settings>& row : rows()) EXPECT_EQ(row.get(read), row.get(settings)) << row.key;
}

TEST(FieldTable, AnOptionalEnumMayBeEmpty) {
  Settings settings;
  settings.maybe = Colour::kRed;
  set_field(rows(), settings, parse_assignment("maybe="));
  EXPECT_FALSE(settings.maybe.has_value());
  EXPECT_NE(error_of("colour="), "");
}

TEST(FieldTable, MistakesNameTheKey) {
  EXPECT_EQ(error_of("colour=gren"), "--set: colour is 'gren', expected red, green; did you mean 'green'?");
  EXPECT_EQ(error_of("colours=[\"red\", \"blue\"]"), "--set: colours is 'blue', expected red, green");
  EXPECT_EQ(error_of("count=1.5"), "--set: count is '1.5', expected an integer");
  EXPECT_EQ(error_of("weights=1"), "--set: unknown key 'weights'; did you mean 'inner.weights'?");
  EXPECT_EQ(error_of("zzzzzzzz=1"), "--set: unknown key 'zzzzzzzz'; see the table");
}

TEST(FieldTable, JsonOfAnotherTypeIsRefused) {
  const auto refused = [](const char* key, const char* text) {
    return user_error_of([&] { field_from_json(*find_field(rows(), key), nlohmann::json::parse(text)); });
  };
  EXPECT_EQ(refused("count", "1.5"), "count is 1.5, expected an integer");
  EXPECT_EQ(refused("count", "9223372036854775808"), "count is 9223372036854775808, expected an integer");
  EXPECT_EQ(refused("rate", "\"x\""), "rate is \"x\", expected a number");
  EXPECT_EQ(refused("on", "1"), "on is 1, expected true or false");
  EXPECT_EQ(refused("name", "null"), "name is null, expected a string");
  EXPECT_EQ(refused("colour", "\"blue\""), "colour is \"blue\", expected red, green");
  EXPECT_EQ(refused("inner.weights", "3"), "inner.weights is 3, expected a list");
}

TEST(FieldTable, RangesIncludeWhatTheySay) {
  Settings settings;
  EXPECT_TRUE(range_problems(rows(), settings).empty());
  settings.count = 10;
  settings.rate = 0;
  settings.inner.weights = {0, 10};
  EXPECT_EQ(range_problems(rows(), settings),
            (std::vector<std::string>{"count is 10, expected 1 to 9", "rate is 0, expected above 0 to 1",
                                      "inner.weights is 10, expected 0 to below 10"}));
}

}  // namespace
}  // namespace pmnet
