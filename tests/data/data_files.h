// Files for the data tests, made on the spot.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "data/byte_source.h"
#include "data/permutation.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet::testing {

namespace fs = std::filesystem;

inline std::string gzip(std::string_view bytes) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&state, bytes.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state.avail_in = static_cast<uInt>(bytes.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

inline std::string zstd(std::string_view bytes) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return out;
}

// Text that does not compress to nothing.
inline std::string random_text(uint64_t seed, size_t size) {
  std::string text(size, ' ');
  for (size_t i = 0; i < size; ++i) {
    const uint64_t draw = splitmix64(seed, i);
    text[i] = draw % 7 == 0 ? ' ' : static_cast<char>('a' + draw / 7 % 26);
  }
  return text;
}

inline std::vector<std::string> read_documents(const std::string& path, const ReadOptions& options, SkipLog& skips) {
  std::vector<std::string> documents;
  const auto reader = open_documents(find_inputs({path}).at(0), options, skips);
  while (reader->next()) {
    std::string& document = documents.emplace_back();
    for (std::string_view piece = reader->piece(); !piece.empty(); piece = reader->piece()) document += piece;
  }
  return documents;
}

inline std::vector<std::string> read_documents(const std::string& path, const ReadOptions& options = {}) {
  SkipLog skips;
  return read_documents(path, options, skips);
}

}  // namespace pmnet::testing
