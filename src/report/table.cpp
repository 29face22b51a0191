#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace pmnet {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no room.
size_t width_of(const std::string& cell) {
  return static_cast<size_t>(std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// "-1.5", "12%", "3.4 MB", but not "-" or "a1".
bool starts_like_a_number(const std::string& cell) {
  const size_t first = cell.find_first_not_of("+-.");
  return first != cell.npos && first <= 2 && cell[first] >= '0' && cell[first] <= '9';
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == cell.npos) return cell;
  return '"' + replace_all(cell, "\"", "\"\"") + '"';
}

std::string markdown_cell(const std::string& cell) {
  return replace_all(replace_all(replace_all(cell, "|", "\\|"), "\n", " "), "<", "&lt;");
}

}  // namespace

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != headers_.size())
    throw std::logic_error(fmt::format("Table: {} cells under {} headers", cells.size(), headers_.size()));
  rows_.push_back(std::move(cells));
}

bool Table::is_numeric(size_t column) const {
  bool any = false;
  for (const auto& row : rows_) {
    if (row[column].empty()) continue;
    if (!starts_like_a_number(row[column])) return false;
    any = true;
  }
  return any;
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < headers_.size(); ++c) {
    widths.push_back(width_of(headers_[c]));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string space(widths[c] - width_of(cells[c]), ' ');
      line += (c ? "  " : "") + (is_numeric(c) ? space + cells[c] : cells[c] + space);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line(headers_);
  for (const auto& row : rows_) add_line(row);
  return out;
}

std::string Table::csv() const {
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    for (size_t c = 0; c < cells.size(); ++c) out += (c ? "," : "") + csv_cell(cells[c]);
    out += "\r\n";
  };
  add_line(headers_);
  for (const auto& row : rows_) add_line(row);
  return out;
}

std::string Table::markdown() const {
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out += "| " + markdown_cell(cell) + " ";
    out += "|\n";
  };
  add_line(headers_);
  for (size_t c = 0; c < headers_.size(); ++c) out += is_numeric(c) ? "| ---: " : "| --- ";
  out += "|\n";
  for (const auto& row : rows_) add_line(row);
  return out;
}

}  // namespace pmnet
