// Which number and text a Status becomes in an answer that released clients read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kmirror/status.h"

namespace kmirror::protocol {

// Kafka's code for the wire. Codes of the wire are themselves; local ones (below -1) become the
// nearest that a client handles rightly. A read-only topic is 42 (R23); a malformed request too.
int16_t WireErrorCode(ErrorCode code);

// The text to go with it; null when OK. For a read-only topic it begins READ_ONLY_TOPIC: (R23).
std::optional<std::string> WireErrorMessage(const Status& status);

// R34: CreatePartitions, DeleteTopics and DeleteRecords of a mirror topic that is not stopped. The
// text begins MIRROR_TOPIC_NOT_STOPPED:.
Status RefusedMirrorTopicChange(const std::string& why);

}  // namespace kmirror::protocol
