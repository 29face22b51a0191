#include "config/data_options.h"

namespace pmnet {

const std::vector<Field<ReadOptions>>& read_option_fields() {
  using R = ReadOptions;
  static const std::vector<Field<ReadOptions>> fields = {
      {"text_field", &R::text_field, "JSONL field or Parquet column that holds the text"},
      {"prompt_field", &R::prompt_field, "JSONL field that is read but not trained on"},
      {"completion_field", &R::completion_field, "JSONL field that follows the prompt"},
      {"split_on", &R::split_on, "Separator that splits plain files into documents, such as \\n\\n"},
      {"skip_bad", &R::skip_bad_records, "Skip malformed records instead of stopping"},
  };
  return fields;
}

}  // namespace pmnet
