#include "base/json.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

std::string error_of(const std::string& text) {
  return user_error_of([&] { parse_json(text, "x.json"); });
}

TEST(Json, ReadsWhatIsSound) {
  const auto value = parse_json(" {\"a\": [1, 2.5, null, \"\\u00e9\"], \"b\": {\"a\": true}}\n", "x.json");
  EXPECT_EQ(value["a"][0], 1);
  EXPECT_EQ(value["b"]["a"], true);
}

TEST(Json, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error_of("{\"a\": 1,\n \"b\" 2}").substr(0, 29), "x.json: line 2, column 6: not");
  EXPECT_EQ(error_of("").substr(0, 40), "x.json: line 1, column 1: not valid JSON");
  EXPECT_EQ(error_of("{\"a\": 1,\n \"a\": 2}"),
            "x.json: line 2, column 4: the key \"a\" occurs twice in one object; keep one of them");
  EXPECT_EQ(error_of("\xEF\xBB\xBF{}"),
            "x.json: starts with a byte order mark, which JSON does not allow; save it as plain UTF-8");
  EXPECT_EQ(error_of(std::string("{}\0[", 4)),
            "x.json: line 1, column 3: a NUL byte, which JSON does not allow; the file is damaged or not JSON");
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"{", "{} x", "[1,]", "{\"a\":01}", "{\"a\":NaN}", "\"\xff\"", "\"\\ud800\"", "'a'", "1e999",
                           "// c\n{}", "{\"a\":1,}"}) {
    EXPECT_NE(error_of(text).find("not valid JSON"), std::string::npos) << text;
  }
}

TEST(Json, LimitsDepth) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of(nested(kMaxJsonDepth)), "(no error)");
  EXPECT_EQ(error_of(nested(kMaxJsonDepth + 1)), "x.json: line 1, column 65: nested deeper than 64 levels");
  EXPECT_NE(error_of(std::string(100'000, '[')).find("nested deeper"), std::string::npos);
}

TEST(Json, ReadsFilesUpToALimit) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a.json") << "[1, 2]";
  EXPECT_EQ(read_json(folder / "a.json")[1], 2);
  EXPECT_NE(user_error_of([&] { read_json(folder / "a.json", 5); }).find("the 5 bytes allowed"), std::string::npos);
}

TEST(JsonFields, CollectsEveryProblem) {
  const auto object = parse_json(
      R"({"i": 1.5, "big": 9223372036854775808, "d": "x", "b": 1, "s": null, "ok": 7, "extra": 0, "n": null})", "x");
  std::vector<std::string> problems;
  JsonFields fields(object, problems);
  int64_t i = 3, big = 4, ok = 0, absent = 5, n = 6;
  double d = 0.5;
  bool b = false;
  std::string s = "kept";
  fields.read("i", i);
  fields.read("big", big);
  fields.read("d", d);
  fields.read("b", b);
  fields.read("s", s);
  fields.read("ok", ok);
  fields.read("absent", absent);
  fields.read_optional("n", n);
  fields.read_optional("also absent", n);
  EXPECT_EQ(problems, (std::vector<std::string>{"i must be an integer, not 1.5",
                                                "big must be an integer below 2^63, not 9223372036854775808",
                                                "d must be a number, not \"x\"", "b must be true or false, not 1",
                                                "s must be a string, not null", "absent is missing"}));
  EXPECT_EQ(ok, 7);
  EXPECT_EQ(i + big + absent + n, 3 + 4 + 5 + 6);
  EXPECT_EQ(fields.unknown(), std::vector<std::string>{"extra"});
}

}  // namespace
}  // namespace pmnet
