// What the writer and the reader of shards share.
#pragma once

namespace pmnet {

inline constexpr char kShardMagic[9] = "PMSHARD1";

}  // namespace pmnet
