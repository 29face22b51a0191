#pragma once
#include <string>
#include <vector>

namespace pmnet {

// Rows of cells under headers, written as text for people or as files for programs.
class Table {
 public:
  explicit Table(std::vector<std::string> headers);
  // A row of another width than the headers is a mistake of the caller.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  const std::vector<std::string>& headers() const { return headers_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  bool is_numeric(size_t column) const;  // every cell that holds anything starts with a number

  std::string text() const;      // aligned columns; numbers to the right
  std::string csv() const;       // RFC 4180
  std::string markdown() const;  // GitHub's tables

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace pmnet
