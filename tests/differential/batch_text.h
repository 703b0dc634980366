// The records of a Fetch answer as text that can be compared between two brokers.
#pragma once

#include <nlohmann/json.hpp>

#include "kmirror/types.h"

namespace kmirror::test {

class Side;

// Replaces the sizes of records in `json`, the text form of `body` (a FetchResponse), by their
// batches: every field of each header, producer ids by their labels, the payload by a checksum.
void PutBatches(ByteView body, int16_t version, Side& side, nlohmann::json* json);

}  // namespace kmirror::test
