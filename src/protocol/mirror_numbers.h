// Every number of KIP-1279 that is not Apache Kafka's own, in one table (R17).
//
// Apache Kafka 4.4 gave some of these numbers to other things (key 94, errors 134 to 136), so they
// will move once more. Moving them is one edit here: the message generator reads this file, and the
// schemas name the constants instead of repeating their values.
//
// A peer that can mirror is recognised by the finalized feature below, never by a key's presence.
#pragma once

#include <cstdint>

namespace kmirror::protocol {

// ---- API keys (protocol.md 1.1). 97 is free: it belonged to a request the KIP dropped.
inline constexpr int16_t kCreateClusterMirrorKey = 94;
inline constexpr int16_t kStartMirrorTopicsKey = 95;
inline constexpr int16_t kStopMirrorTopicsKey = 96;
inline constexpr int16_t kListClusterMirrorsKey = 98;
inline constexpr int16_t kDescribeClusterMirrorsKey = 99;
inline constexpr int16_t kReadMirrorStatesKey = 100;
inline constexpr int16_t kWriteMirrorStatesKey = 101;
inline constexpr int16_t kPauseMirrorTopicsKey = 102;
inline constexpr int16_t kResumeMirrorTopicsKey = 103;
inline constexpr int16_t kDeleteClusterMirrorKey = 104;
inline constexpr int16_t kBumpLeaderEpochsKey = 105;
inline constexpr int16_t kReadMirrorOffsetsKey = 106;
inline constexpr int16_t kRecoverMirrorTopicsKey = 107;

// ---- Feature and resources (protocol.md 1.15, 1.16).
inline constexpr char kMirrorFeatureName[] = "mirror.version";
inline constexpr int16_t kMirrorFeatureLevel = 1;  // finalized when a data folder is formatted
inline constexpr int8_t kClusterMirrorConfigResource = 64;
inline constexpr int8_t kClusterMirrorAclResource = 8;
inline constexpr int16_t kMirrorPidResetControlType = 7;

// ---- Fields of ours, tagged from 10000 up and ignorable by every peer (R20, R24, R31, R32).
// DescribeClusterMirrors response, one looked-up partition:
inline constexpr int32_t kLookupLastMirrorOffsetTag = 10000;
inline constexpr int32_t kLookupErrorCodeTag = 10001;
// DescribeClusterMirrors response, one described partition:
inline constexpr int32_t kDescribeLagAgeMsTag = 10000;
inline constexpr int32_t kDescribeLastMirrorEpochTag = 10001;
inline constexpr int32_t kDescribeLastMirrorOffsetTag = 10002;
inline constexpr int32_t kDescribeStepTag = 10003;
inline constexpr int32_t kDescribeProgressTag = 10004;
// StartMirrorTopics request:
inline constexpr int32_t kStartDiscardLocalTag = 10000;
// ReadMirrorStates response and WriteMirrorStates request, one partition:
inline constexpr int32_t kStateProgressTag = 10000;
// CreateTopics request, MirrorInfo: the mirror whose topic this is (one change with the id, R2).
inline constexpr int32_t kCreateTopicMirrorNameTag = 10000;

// ---- What released clients read instead of the KIP's error codes, which they cannot name.
// A produce to a read-only topic (R23), and a CreatePartitions, DeleteTopics or DeleteRecords on a
// mirror topic that is not stopped (R34): INVALID_REQUEST, final, with a message that begins so.
// Where a mirror request itself is answered, the KIP's own codes (kmirror/status.h) are used.
inline constexpr int16_t kReadOnlyTopicWireCode = 42;
inline constexpr char kReadOnlyTopicMessagePrefix[] = "READ_ONLY_TOPIC:";
inline constexpr int16_t kMirrorTopicNotStoppedWireCode = 42;
inline constexpr char kMirrorTopicNotStoppedMessagePrefix[] = "MIRROR_TOPIC_NOT_STOPPED:";

}  // namespace kmirror::protocol
