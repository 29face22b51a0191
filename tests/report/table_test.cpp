#include "report/table.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace pmnet {
namespace {

TEST(Table, TextAlignsNumbersRightAndCountsCharacters) {
  Table table({"name", "bytes", "note"});
  table.add_row({"ä", "5", "-"});
  table.add_row({"longer", "1,234", ""});
  EXPECT_EQ(table.text(),
            "name    bytes  note\n"
            "ä           5  -\n"
            "longer  1,234\n");
}

TEST(Table, FilesQuoteWhatTheyMust) {
  Table table({"a,b", "n"});
  table.add_row({"say \"x\"\n|", "-1.5"});
  EXPECT_EQ(table.csv(), "\"a,b\",n\r\n\"say \"\"x\"\"\n|\",-1.5\r\n");
  EXPECT_EQ(table.markdown(), "| a,b | n |\n| --- | ---: |\n| say \"x\" \\| | -1.5 |\n");
  EXPECT_THROW(table.add_row({"one"}), std::logic_error);
}

}  // namespace
}  // namespace pmnet
