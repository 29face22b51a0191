#include "data/parquet_module.h"

#include <arrow/memory_pool.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// One page of one column is in memory at a time: the column chunk is read through a small buffer, and the values handed
// out point into the decoded page.
struct PmnetParquet {
  static constexpr int64_t kBatch = 64;
  static constexpr int64_t kReadBuffer = 1 << 20;

  PmnetParquet(const char* path, const std::string& column, int64_t memory_limit) : pool(own_pool.get(), memory_limit) {
    parquet::ReaderProperties properties(&pool);
    properties.enable_buffered_stream();
    properties.set_buffer_size(kReadBuffer);
    properties.set_page_checksum_verification(true);
    file = parquet::ParquetFileReader::OpenFile(path, /*memory_map=*/false, properties);
    metadata = file->metadata();
    find_column(column);
  }

  void find_column(const std::string& column) {
    const parquet::SchemaDescriptor& schema = *metadata->schema();
    std::string names;
    for (int i = 0; i < schema.num_columns(); ++i) {
      const parquet::ColumnDescriptor& candidate = *schema.Column(i);
      const std::vector<std::string> path = candidate.path()->ToDotVector();
      if (path.front() != column) {
        if (names.size() < 400) names += (names.empty() ? "'" : ", '") + candidate.path()->ToDotString() + "'";
        continue;
      }
      if (path.size() > 1 || candidate.max_repetition_level() > 0)
        throw std::runtime_error("column '" + column + "' is nested; expected plain text in each row");
      const auto& logical = candidate.logical_type();
      const bool is_text =
          !logical || logical->is_none() || logical->is_string() || logical->is_JSON() || logical->is_enum();
      if (candidate.physical_type() != parquet::Type::BYTE_ARRAY || !is_text)
        throw std::runtime_error("column '" + column + "' holds " + parquet::TypeToString(candidate.physical_type()) +
                                 ", expected text");
      column_index = i;
      max_definition_level = candidate.max_definition_level();
      return;
    }
    throw std::runtime_error("there is no column '" + column + "'; the file has " + names);
  }

  int next(const char** bytes, int64_t* size) {
    while (next_level == num_levels) {
      if (column && column->HasNext()) {
        read_batch();
      } else if (row_group < metadata->num_row_groups()) {
        if (column && rows_in_group != expected_rows_in_group) throw std::runtime_error("the column ends too early");
        expected_rows_in_group = metadata->RowGroup(row_group)->num_rows();
        rows_in_group = 0;
        column.reset();
        group = file->RowGroup(row_group++);
        column = group->Column(column_index);
      } else {
        if (row != metadata->num_rows()) throw std::runtime_error("the column ends too early");
        return kParquetEnd;
      }
    }
    ++row;
    ++rows_in_group;
    const bool is_null = max_definition_level > 0 && definition_levels[next_level] < max_definition_level;
    ++next_level;
    if (is_null) return kParquetNull;
    if (next_value >= num_values) throw std::runtime_error("fewer values than rows");
    const parquet::ByteArray& value = values[next_value++];
    *bytes = reinterpret_cast<const char*>(value.ptr);
    *size = value.len;
    return kParquetValue;
  }

  void read_batch() {
    auto& reader = static_cast<parquet::ByteArrayReader&>(*column);
    num_values = 0;
    num_levels = reader.ReadBatch(kBatch, definition_levels, /*rep_levels=*/nullptr, values, &num_values);
    if (max_definition_level == 0) num_levels = num_values;
    if (num_levels == 0) throw std::runtime_error("a page holds no rows although more are announced");
    next_level = 0;
    next_value = 0;
  }

  std::unique_ptr<arrow::MemoryPool> own_pool = arrow::MemoryPool::CreateDefault();
  arrow::CappedMemoryPool pool;
  std::unique_ptr<parquet::ParquetFileReader> file;
  std::shared_ptr<parquet::FileMetaData> metadata;
  std::shared_ptr<parquet::RowGroupReader> group;
  std::shared_ptr<parquet::ColumnReader> column;
  int column_index = 0;
  int16_t max_definition_level = 0;
  int row_group = 0;
  int64_t row = 0, rows_in_group = 0, expected_rows_in_group = 0;
  int16_t definition_levels[kBatch];
  parquet::ByteArray values[kBatch];
  int64_t num_levels = 0, num_values = 0, next_level = 0, next_value = 0;
};

namespace {

void report(char* error, size_t error_size, const std::string& sentence) {
  std::string line = sentence.substr(0, std::min(sentence.size(), size_t{600}));
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::snprintf(error, error_size, "%s", line.c_str());
}

PmnetParquet* open_file(const char* path, const char* column, int64_t memory_limit, char* error, size_t error_size) {
  try {
    return new PmnetParquet(path, column, memory_limit);
  } catch (const std::exception& e) {
    report(error, error_size, e.what());
    return nullptr;
  }
}

int next_row(PmnetParquet* file, const char** bytes, int64_t* size, char* error, size_t error_size) {
  try {
    return file->next(bytes, size);
  } catch (const std::exception& e) {
    report(error, error_size,
           "row group " + std::to_string(file->row_group) + ", row " + std::to_string(file->row + 1) + ": " + e.what());
    return kParquetError;
  }
}

int64_t count_rows(const PmnetParquet* file) { return file->metadata->num_rows(); }

void close_file(PmnetParquet* file) { delete file; }

}  // namespace

extern "C" const PmnetParquetApi* pmnet_parquet_api(void) {
  static const PmnetParquetApi api = {PMNET_PARQUET_ABI, open_file, next_row, count_rows, close_file};
  return &api;
}
