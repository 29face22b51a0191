// One document, written twice: a self-contained HTML page and its markdown twin. All text is taken as it is, whatever
// bytes it holds: nothing in it can become markup.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "report/table.h"

namespace pmnet {

// On a claim. kOpen: the data do not decide; kNone: too little was run to judge it.
enum class Verdict { kHolds, kFails, kOpen, kNone };
const char* verdict_name(Verdict verdict);  // "holds", "does not hold", "undecided", "no verdict at this size"

class HtmlPage {
 public:
  explicit HtmlPage(std::string title);

  void heading(std::string_view text, int level = 2);  // 2 to 4; 1 is the title
  void paragraph(std::string_view text);
  void list(const std::vector<std::string>& items);
  void verdict(Verdict verdict, std::string_view claim, const std::vector<std::string>& reasons = {});
  void table(const Table& table, std::string_view caption = "");
  // An .svg or .png file, read now: the page holds a copy, the twin a link relative to where it is written.
  void picture(const std::filesystem::path& file, std::string_view caption);

  // For sections with custom markup. Markup is trusted: text in it must have gone through escape_html. Style rules
  // come after those of the page.
  void markup(std::string html, std::string markdown);
  void style(std::string_view css);

  std::string html() const;
  std::string markdown(const std::filesystem::path& folder) const;  // `folder` is where the links start

  // Complete or not at all; an older file of that name is replaced.
  void write_html(const std::filesystem::path& file) const;
  void write_markdown(const std::filesystem::path& file) const;

 private:
  struct Part {
    std::string html, markdown;
    std::filesystem::path link;  // of a picture: appended to `markdown` as "(link)"
  };

  std::string title_, style_;
  std::vector<Part> parts_;
};

// Valid UTF-8 without control characters, safe between tags and inside quoted attributes.
std::string escape_html(std::string_view text);

}  // namespace pmnet
