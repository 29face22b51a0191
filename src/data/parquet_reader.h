#pragma once
#include "data/byte_source.h"
#include "data/parquet_module.h"

namespace pmnet {

// One document per row of a text column, through the separately loaded Parquet module.
class ParquetReader : public DocumentReader {
 public:
  ParquetReader(const InputFile& file, const ReadOptions& options, SkipLog& skips);
  bool next() override;
  std::string_view piece() override;
  uint64_t record() const override { return row_; }
  uint64_t file_position() const override;

 private:
  struct Close {
    void operator()(PmnetParquet* file) const;
  };
  std::string path_;
  uint64_t file_size_;
  SkipLog& skips_;
  std::unique_ptr<PmnetParquet, Close> file_;
  uint64_t rows_ = 0;
  uint64_t row_ = 0;
  std::string_view document_;
};

// Whether the module can be loaded here; without it .parquet files are refused.
bool parquet_available();

}  // namespace pmnet
