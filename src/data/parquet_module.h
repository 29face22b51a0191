// The C interface of libpmnet_parquet.so, the only code that sees Arrow. It is a separate module, loaded with dlopen
// when the first .parquet file is opened: Arrow brings private copies of libraries that must not meet LibTorch's on one
// link line, and everything but Parquet works without it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Grows when this interface changes; the loader refuses another number.
#define PMNET_PARQUET_ABI 1

typedef struct PmnetParquet PmnetParquet;

// What pmnet_parquet_next found.
enum PmnetParquetStep { kParquetError = -1, kParquetEnd = 0, kParquetValue = 1, kParquetNull = 2 };

struct PmnetParquetApi {
  int abi;
  // Opens `column` (a top-level text or binary column) of the file. Null on error, with a sentence in `error`.
  PmnetParquet* (*open)(const char* path, const char* column, int64_t memory_limit, char* error, size_t error_size);
  // The next row. `bytes` stays valid until the next call. On kParquetError `error` holds a sentence naming row group
  // and row; afterwards only `close` may be called.
  int (*next)(PmnetParquet* file, const char** bytes, int64_t* size, char* error, size_t error_size);
  int64_t (*rows)(const PmnetParquet* file);
  void (*close)(PmnetParquet* file);
};

// The one exported symbol.
const struct PmnetParquetApi* pmnet_parquet_api(void);

#ifdef __cplusplus
}
#endif
