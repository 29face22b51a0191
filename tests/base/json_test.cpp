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

}  // namespace
}  // namespace pmnet
