#include "data/corpus_stat.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {
namespace {

constexpr size_t kSampleBytes = 400;

std::string format_name(const InputFile& file) {
  static constexpr const char* kFormats[] = {"plain", "jsonl", "parquet", "pmshard"};
  static constexpr const char* kCompressions[] = {"", ".gz", ".zst"};
  return std::string(kFormats[static_cast<int>(file.format)]) + kCompressions[static_cast<int>(file.compression)];
}

uint64_t count_marker_bytes(std::string_view piece) {
  return static_cast<uint64_t>(
      std::count_if(piece.begin(), piece.end(), [](char c) { return static_cast<unsigned char>(c) >= 254; }));
}

class Examiner {
 public:
  Examiner(const ReadOptions& options, const PackCallback& progress) : options_(options), progress_(progress) {
    options_.skip_bad_records = true;
  }

  CorpusStat run(const std::vector<InputFile>& files) {
    for (const InputFile& file : files) so_far_.total_input_bytes += file.stamp.size;
    for (const InputFile& file : files) {
      FormatCount& format = stat_.by_format[format_name(file)];
      format.files += 1;
      format.file_bytes += file.stamp.size;
      try {
        const auto reader = open_documents(file, options_, stat_.skips);
        while (reader->next()) examine_document(file, *reader, format);
      } catch (const UserError& error) {
        stat_.refused.push_back(error.what());
      }
      finished_bytes_ += file.stamp.size;
      report(0);
    }
    for (const auto& [name, format] : stat_.by_format) {
      stat_.total.files += format.files;
      stat_.total.file_bytes += format.file_bytes;
      stat_.total.documents += format.documents;
      stat_.total.document_bytes += format.document_bytes;
    }
    return std::move(stat_);
  }

 private:
  void examine_document(const InputFile& file, DocumentReader& reader, FormatCount& format) {
    uint64_t bytes = 0, markers = 0;
    std::string start;
    for (std::string_view piece = reader.piece(); !piece.empty(); piece = reader.piece()) {
      bytes += piece.size();
      so_far_.document_bytes += piece.size();
      markers += count_marker_bytes(piece);
      if (start.size() < kSampleBytes) start += piece.substr(0, kSampleBytes - start.size());
      if ((since_report_ += piece.size()) >= (uint64_t{4} << 20)) report(reader.file_position());
    }
    format.documents += 1;
    format.document_bytes += bytes;
    so_far_.documents += 1;
    stat_.lengths[bytes] += 1;
    stat_.prompt_documents += reader.prompt_bytes() > 0;
    stat_.prompt_bytes += reader.prompt_bytes();
    const std::string origin = fmt::format("{}, record {}", file.path, reader.record());
    if (markers > 0) {
      if (stat_.documents_with_marker_bytes++ == 0) stat_.first_with_marker = origin;
      stat_.marker_bytes += markers;
    }
    const uint64_t draw = splitmix64(so_far_.documents);
    if (draw <= lowest_draw_) {
      lowest_draw_ = draw;
      stat_.sample = std::move(start);
      stat_.sample_origin = origin;
    }
  }

  void report(uint64_t position) {
    since_report_ = 0;
    so_far_.input_bytes = finished_bytes_ + position;
    if (progress_) progress_(so_far_);
  }

  ReadOptions options_;
  const PackCallback& progress_;
  CorpusStat stat_;
  PackProgress so_far_;
  uint64_t finished_bytes_ = 0;
  uint64_t since_report_ = 0;
  uint64_t lowest_draw_ = ~uint64_t{0};
};

}  // namespace

uint64_t CorpusStat::length_quantile(double share) const {
  uint64_t seen = 0;
  for (const auto& [length, documents] : lengths) {
    seen += documents;
    if (static_cast<double>(seen) >= share * static_cast<double>(total.documents)) return length;
  }
  return 0;
}

CorpusStat examine_inputs(const std::vector<std::string>& inputs, const ReadOptions& options,
                          const PackCallback& progress) {
  return Examiner(options, progress).run(find_inputs(inputs));
}

}  // namespace pmnet
