// The bytes that a broker's Fetch gives for a partition.
#pragma once

#include <string>
#include <vector>

#include "kmirror/status.h"
#include "tests/support/raw_batch.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {

// Every whole batch from the one that holds `from_offset` up to the high watermark as it is when
// that is reached, read as a consumer with READ_UNCOMMITTED, without a session.
Result<std::vector<RawBatch>> FetchBatches(WireClient& client, const std::string& topic,
                                           int32_t partition, int64_t from_offset = 0);

}  // namespace kmirror::test
