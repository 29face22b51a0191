#include "report/html_page.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

const std::string kPng("\x89PNG\r\n\x1A\n rest");

TEST(HtmlPage, HoldsEveryKindOfPartInOrder) {
  HtmlPage page("Recall & copy");
  page.heading("Figure <1>");
  page.paragraph("BPB < 1.5");
  page.list({"one", "two"});
  page.verdict(Verdict::kHolds, "memory helps", {"0.2 > 0.1"});
  page.verdict(Verdict::kFails, "control");
  page.verdict(Verdict::kOpen, "few seeds");
  Table table({"model", "BPB"});
  table.add_row({"<b>", "1.25"});
  page.table(table, "all models");
  const std::string html = page.html(), markdown = page.markdown(".");
  size_t at = 0;
  for (const char* part :
       {"<title>Recall &amp; copy</title>", "<h1>Recall &amp; copy</h1>", "<h2>Figure &lt;1&gt;</h2>",
        "<p>BPB &lt; 1.5</p>", "<li>two</li>", "verdict holds", "Holds:</strong> memory helps", "<li>0.2 &gt; 0.1</li>",
        "verdict fails", "Does not hold:</strong> control", "verdict open", "Undecided:</strong> few seeds",
        "<th class=\"number\">BPB</th>", "<td>&lt;b&gt;</td>", "<td class=\"number\">1.25</td>",
        "<figcaption>all models</figcaption>", "</html>"}) {
    const size_t found = html.find(part, at);
    ASSERT_NE(found, html.npos) << part << "\n" << html.substr(at);
    at = found;
  }
  EXPECT_EQ(
      markdown,
      "# Recall &amp; copy\n\n## Figure &lt;1>\n\nBPB &lt; 1.5\n\n- one\n- two\n\n"
      "> **Holds:** memory helps\n>\n> - 0.2 > 0.1\n\n> **Does not hold:** control\n\n> **Undecided:** few seeds\n\n"
      "| model | BPB |\n| --- | ---: |\n| &lt;b> | 1.25 |\n\nall models\n");
}

TEST(HtmlPage, NoTextBecomesMarkup) {
  const std::string nasty = "<script>alert('x')</script>\"&amp; *a* _b_ `c` [d](e) \xFF\x01";
  HtmlPage page(nasty);
  page.heading(nasty, 3);
  page.paragraph(nasty);
  page.list({nasty});
  page.verdict(Verdict::kOpen, nasty, {nasty});
  Table table({nasty});
  table.add_row({nasty});
  page.table(table, nasty);
  const std::string html = page.html(), markdown = page.markdown(".");
  EXPECT_EQ(html.find("<script"), html.npos);
  EXPECT_EQ(html.find('\x01'), html.npos);
  EXPECT_EQ(html.find('\xFF'), html.npos);
  expect_mentions(
      html,
      {"&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;amp; *a* _b_ `c` [d](e) \xEF\xBF\xBD\xEF\xBF\xBD"});
  expect_mentions(markdown, {"&lt;script>alert('x')&lt;/script>\"&amp;amp; \\*a\\* \\_b\\_ \\`c\\` \\[d\\](e)"});
}

TEST(HtmlPage, LineStartsMeanNothingInMarkdown) {
  HtmlPage page("t");
  for (const char* text : {"# not a heading", "- no item", "12. no number", "> no quote", "two\nlines"})
    page.paragraph(text);
  const std::string markdown = page.markdown(".");
  for (const char* part : {"\n\\# not", "\n\\- no item", "\n12\\. no", "\n\\> no quote", "\ntwo lines\n"})
    expect_mentions(markdown, {part});
}

TEST(HtmlPage, PicturesAreHeldByThePageAndLinkedByTheTwin) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "plots");
  write_file(folder / "plots/a b.svg", "<?xml?><svg></svg>");
  write_file(folder / "c.png", kPng);
  HtmlPage page("t");
  page.picture(folder / "plots/a b.svg", "curve of \"x\"");
  page.picture(folder / "c.png", "second");
  page.write_html(folder / "report.html");
  page.write_markdown(folder / "report.md");
  const std::string html = read_file(folder / "report.html", 1 << 20),
                    markdown = read_file(folder / "report.md", 1 << 20);
  expect_mentions(html, {"src=\"data:image/svg+xml;base64,PD94bWw/Pjxzdmc+PC9zdmc+\" alt=\"curve of &quot;x&quot;\""});
  expect_mentions(html, {"src=\"data:image/png;base64,iVBORw0KGgogcmVzdA==\""});
  EXPECT_EQ(html.find(folder.path().string()), html.npos);
  expect_mentions(markdown, {"![curve of \"x\"](plots/a%20b.svg)\n"});
  expect_mentions(markdown, {"![second](c.png)\n"});
}

TEST(HtmlPage, PicturesThatAreNoneAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / "a.png", "<svg></svg>");
  write_file(folder / "a.svg", "text");
  write_file(folder / "a.gif", kPng);
  HtmlPage page("t");
  for (const char* name : {"a.png", "a.svg", "a.gif"})
    expect_mentions(user_error_of([&] { page.picture(folder / name, ""); }), {"expected a picture"});
  expect_mentions(user_error_of([&] { page.picture(folder / "none.svg", ""); }), {"none.svg"});
}

TEST(HtmlPage, TrustedMarkupAndStylePassUnchanged) {
  HtmlPage page("t");
  page.style(".mine { color: red; }");
  page.markup("<svg><circle r=\"1\"/></svg>", "a circle\n");
  page.markup("<hr>", "");
  expect_mentions(page.html(), {".mine { color: red; }</style>"});
  expect_mentions(page.html(), {"<svg><circle r=\"1\"/></svg><hr>"});
  EXPECT_EQ(page.markdown("."), "# t\n\na circle\n");
}

TEST(HtmlPage, AFailedWriteLeavesTheOldPage) {
  const TemporaryFolder folder;
  HtmlPage("old").write_html(folder / "page.html");
  HtmlPage("new").write_html(folder / "page.html");
  EXPECT_NE(user_error_of([&] { HtmlPage("x").write_html(folder / "page.html/inside.html"); }), "(no error)");
  expect_mentions(read_file(folder / "page.html", 1 << 20), {"<h1>new</h1>"});
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 1u);
}

}  // namespace
}  // namespace pmnet
