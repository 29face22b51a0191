#include "experiments/framework/report_files.h"

#include <fmt/format.h>

#include "base/format.h"
#include "report/html_page.h"

namespace pmnet {

namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

constexpr const char* kHowJudged =
    "A claim holds when every 95% confidence interval is wholly on the right side of its threshold, does not hold when "
    "one is wholly on the wrong side, and is undecided otherwise. Controls come first: unless each of them behaves as "
    "required, the experiment does not measure what it is meant to, and the claim is undecided.";
constexpr const char* kNotJudged =
    "This size is too small to judge a claim: it shows that everything runs. The numbers below carry no verdict.";

void add_verdict(HtmlPage& page, const Report& report, const Finding& finding) {
  std::vector<std::string> reasons;
  for (const Check& check : finding.checks) reasons.push_back(sentence_of(check));
  page.verdict(report.verdict(finding), finding.claim, reasons);
}

void add_finding(HtmlPage& page, const Report& report, const Finding& finding, const std::filesystem::path& folder) {
  page.heading(finding.heading);
  if (!finding.checks.empty())
    add_verdict(page, report, finding);
  else if (!finding.claim.empty())
    page.paragraph(finding.claim);
  for (const Picture& picture : finding.pictures) page.picture(folder / picture.file, picture.caption);
  for (const NamedTable& table : finding.tables) page.table(table.table, table.caption);
  for (const std::string& remark : finding.remarks) page.paragraph(remark);
}

void add_settings(HtmlPage& page, const json& settings) {
  page.heading("Settings");
  Table table({"setting", "value"});
  table.add_row({"recipe", shown(settings.value("recipe", json()))});
  for (const auto& [key, value] : settings.at("settings").items()) table.add_row({key, shown(value)});
  page.table(table);
}

std::string program_text(const json& program) {
  const std::string revision = program.value("revision", "");
  return fmt::format("pmnet {}{}, {}", program.value("version", ""), revision.empty() ? "" : " (" + revision + ")",
                     program.value("build", ""));
}

std::string machine_text(const json& machine) {
  return fmt::format("{}, {} thread(s) of {} core(s)", machine.value("processor", ""), machine.value("threads", 0),
                     machine.value("cores", 0));
}

// Parts of one experiment may have been run by several programs on several machines: each row names its own.
void add_parts(HtmlPage& page, const std::vector<json>& parts) {
  page.heading("Parts");
  Table table({"part", "parameters", "bytes", "time", "program", "machine"});
  double seconds = 0;
  for (const json& part : parts) {
    table.add_row({part.at("part"), format_count(part.at("parameters").get<uint64_t>()),
                   format_si(part.at("bytes").get<double>()), format_duration(part.at("seconds").get<double>()),
                   program_text(part.at("program")), machine_text(part.at("machine"))});
    seconds += part.at("seconds").get<double>();
  }
  page.table(table);
  page.paragraph(fmt::format("All parts together: {}.", format_duration(seconds)));
}

}  // namespace

void write_report_files(const Report& report, const json& settings, const std::vector<json>& parts,
                        const std::filesystem::path& folder) {
  HtmlPage page(report.title);
  page.paragraph(report.judged ? kHowJudged : kNotJudged);
  for (const Finding& finding : report.findings) add_finding(page, report, finding, folder);
  page.heading("Protocol");
  for (const std::string& paragraph : report.protocol) page.paragraph(paragraph);
  add_settings(page, settings);
  add_parts(page, parts);
  page.write_html(folder / "report.html");
  page.write_markdown(folder / "report.md");
}

void write_overview(const std::vector<std::pair<std::string, Report>>& experiments,
                    const std::filesystem::path& folder) {
  HtmlPage page("Experiments");
  page.paragraph(kHowJudged);
  for (const auto& [name, report] : experiments) {
    page.heading(report.title);
    if (!report.judged) page.paragraph(kNotJudged);
    page.paragraph(fmt::format("With pictures and tables: {}/report.html", name));
    for (const Finding& finding : report.findings)
      if (!finding.checks.empty()) add_verdict(page, report, finding);
  }
  page.write_html(folder / "report.html");
  page.write_markdown(folder / "report.md");
}

}  // namespace pmnet
