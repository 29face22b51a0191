#include "report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/utf8.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestPicture = 64 << 20;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5b6577; --paper: #ffffff; --card: #f5f7fa; --line: #d9dfe8;
  --good: #1f7a4d; --bad: #b3261e; --open: #8a6100; --accent: #1b6ca8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8f0; --soft: #a3adbf; --paper: #14181f; --card: #1d232d; --line: #343c4a;
    --good: #5fce98; --bad: #ff8a80; --open: #e8b84a; --accent: #6db7ef; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 4rem; }
h1 { font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.2; margin: 1rem 0 1.5rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 0.75rem; padding-bottom: 0.3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.1rem; margin: 1.75rem 0 0.5rem; }
h4 { font-size: 1rem; margin: 1.25rem 0 0.5rem; color: var(--soft); }
p, ul, .verdict { max-width: 64rem; }
li { margin: 0.2rem 0; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem;
  overflow-x: auto; font: 0.85rem/1.45 ui-monospace, monospace; }
figure { margin: 1.25rem 0; }
figure img, figure > svg { display: block; max-width: 100%; height: auto; border-radius: 6px; }
figure img { background: #ffffff; border: 1px solid var(--line); }
figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 0.4rem; max-width: 64rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.8rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; border-bottom-width: 2px; }
th.number, td.number { text-align: right; }
td.number { white-space: nowrap; }
.verdict { border: 1px solid var(--line); border-left: 5px solid var(--mark); border-radius: 6px;
  background: var(--card); padding: 0.75rem 1rem; margin: 1rem 0; }
.verdict strong { color: var(--mark); }
.verdict ul { margin: 0.5rem 0 0; padding-left: 1.2rem; color: var(--soft); }
.holds { --mark: var(--good); } .fails { --mark: var(--bad); } .open { --mark: var(--open); }
@media print { main { max-width: none; } figure, .verdict, table { break-inside: avoid; } }
)";

// What no text should hold is shown as U+FFFD; line ends and tabs stay.
std::string clean_utf8(std::string_view text) {
  Utf8Stream stream;
  std::string valid = stream.push(text);
  valid += stream.finish();
  std::string clean;
  for (const char c : valid) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (control)
      clean += "\xEF\xBF\xBD";
    else
      clean += c;
  }
  return clean;
}

// One line of markdown in which no character means anything, at its start neither.
std::string escape_markdown(std::string_view text) {
  std::string escaped;
  for (const char c : clean_utf8(text)) {
    if (c == '\n')
      escaped += ' ';
    else if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (std::string_view("\\`*_[]|").find(c) != std::string_view::npos)
      escaped += {'\\', c};
    else
      escaped += c;
  }
  const size_t digits = escaped.find_first_not_of("0123456789");
  const auto starts_numbered_item = [&] {
    return digits != escaped.npos && digits > 0 && (escaped[digits] == '.' || escaped[digits] == ')') &&
           (digits + 1 == escaped.size() || escaped[digits + 1] == ' ');
  };
  if (starts_numbered_item())
    escaped.insert(digits, "\\");
  else if (!escaped.empty() && std::string_view("#-+>=~").find(escaped[0]) != std::string_view::npos)
    escaped.insert(0, "\\");
  return escaped;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string encoded;
  encoded.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) encoded += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return encoded;
}

// As an image, not inline: then neither scripts nor the names inside a drawing can touch the page.
std::string data_uri(const fs::path& file) {
  const std::string bytes = read_file(file, kLargestPicture);
  if (file.extension() == ".png" && bytes.starts_with("\x89PNG\r\n\x1A\n"))
    return "data:image/png;base64," + base64(bytes);
  if (file.extension() == ".svg" && bytes.find("<svg") != bytes.npos)
    return "data:image/svg+xml;base64," + base64(bytes);
  fail("cannot put '{}' into a page: expected a picture in the format its name says, .svg or .png; draw it again",
       file.string());
}

std::string percent_encoded(const std::string& path) {
  std::string encoded;
  for (const unsigned char c : path) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       std::string_view("-._~/").find(static_cast<char>(c)) != std::string_view::npos;
    encoded += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return encoded;
}

std::string list_html(const std::vector<std::string>& items) {
  std::string html = "<ul>\n";
  for (const std::string& item : items) html += "<li>" + escape_html(item) + "</li>\n";
  return html + "</ul>\n";
}

std::string table_html(const Table& table, std::string_view caption) {
  const auto row = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string html = "<tr>";
    for (size_t c = 0; c < cells.size(); ++c)
      html +=
          fmt::format("<{0}{1}>{2}</{0}>", tag, table.is_numeric(c) ? " class=\"number\"" : "", escape_html(cells[c]));
    return html + "</tr>\n";
  };
  std::string html =
      "<figure>\n<div class=\"wide\">\n<table>\n<thead>\n" + row(table.headers(), "th") + "</thead>\n<tbody>\n";
  for (const auto& cells : table.rows()) html += row(cells, "td");
  html += "</tbody>\n</table>\n</div>\n";
  if (!caption.empty()) html += "<figcaption>" + escape_html(caption) + "</figcaption>\n";
  return html + "</figure>\n";
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : clean_utf8(text)) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else if (c == '\'')
      escaped += "&#39;";
    else
      escaped += c;
  }
  return escaped;
}

HtmlPage::HtmlPage(std::string title) : title_(std::move(title)) {}

void HtmlPage::heading(std::string_view text, int level) {
  if (level < 2 || level > 4) throw std::logic_error("HtmlPage: headings have levels 2 to 4");
  parts_.push_back({fmt::format("<h{0}>{1}</h{0}>\n", level, escape_html(text)),
                    std::string(level, '#') + " " + escape_markdown(text) + "\n",
                    {}});
}

void HtmlPage::paragraph(std::string_view text) {
  parts_.push_back({"<p>" + escape_html(text) + "</p>\n", escape_markdown(text) + "\n", {}});
}

void HtmlPage::list(const std::vector<std::string>& items) {
  std::string markdown;
  for (const std::string& item : items) markdown += "- " + escape_markdown(item) + "\n";
  parts_.push_back({list_html(items), markdown, {}});
}

const char* verdict_name(Verdict verdict) {
  constexpr const char* kNames[] = {"holds", "does not hold", "undecided", "no verdict at this size"};
  return kNames[static_cast<size_t>(verdict)];
}

void HtmlPage::verdict(Verdict verdict, std::string_view claim, const std::vector<std::string>& reasons) {
  const char* style = verdict == Verdict::kHolds ? "holds" : verdict == Verdict::kFails ? "fails" : "open";
  std::string word = verdict_name(verdict);
  word[0] = static_cast<char>(std::toupper(word[0]));
  std::string markdown = fmt::format("> **{}:** {}\n", word, escape_markdown(claim));
  if (!reasons.empty()) markdown += ">\n";
  for (const std::string& reason : reasons) markdown += "> - " + escape_markdown(reason) + "\n";
  parts_.push_back({fmt::format("<div class=\"verdict {}\"><strong>{}:</strong> {}\n{}</div>\n", style, word,
                                escape_html(claim), reasons.empty() ? "" : list_html(reasons)),
                    markdown,
                    {}});
}

void HtmlPage::table(const Table& table, std::string_view caption) {
  std::string markdown = table.markdown();
  if (!caption.empty()) markdown += "\n" + escape_markdown(caption) + "\n";
  parts_.push_back({table_html(table, caption), markdown, {}});
}

void HtmlPage::picture(const fs::path& file, std::string_view caption) {
  const std::string text = escape_html(caption);
  parts_.push_back({fmt::format("<figure><img src=\"{}\" alt=\"{}\">\n<figcaption>{}</figcaption></figure>\n",
                                data_uri(file), text, text),
                    "![" + escape_markdown(caption) + "]", fs::absolute(file)});
}

void HtmlPage::markup(std::string html, std::string markdown) {
  parts_.push_back({std::move(html), std::move(markdown), {}});
}

void HtmlPage::style(std::string_view css) { style_ += css; }

std::string HtmlPage::html() const {
  const std::string title = escape_html(title_);
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // The page loads nothing from elsewhere and runs no scripts.
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n"
      "<title>" +
      title + "</title>\n<style>" + std::string(kStyle) + style_ + "</style>\n</head>\n<body>\n<main>\n<h1>" + title +
      "</h1>\n";
  for (const Part& part : parts_) page += part.html;
  return page + "</main>\n</body>\n</html>\n";
}

std::string HtmlPage::markdown(const fs::path& folder) const {
  std::string text = "# " + escape_markdown(title_) + "\n";
  for (const Part& part : parts_) {
    if (part.markdown.empty()) continue;
    text += "\n" + part.markdown;
    if (!part.link.empty())
      text += "(" + percent_encoded(part.link.lexically_relative(fs::absolute(folder)).generic_string()) + ")\n";
  }
  return text;
}

void HtmlPage::write_html(const fs::path& file) const { write_file_atomically(file, html()); }

void HtmlPage::write_markdown(const fs::path& file) const {
  write_file_atomically(file, markdown(fs::absolute(file).parent_path()));
}

}  // namespace pmnet
