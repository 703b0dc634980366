// Status and Result: how every fallible function of kmirror answers.
//
// A Status is a Kafka error code and a text for people. The code is the exact one that goes on the
// wire where there is one; conditions Kafka has no code for use the negative codes below, which
// never leave the process. Values are copied freely; nothing here throws or allocates when OK.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kmirror {

// Kafka's protocol error codes (org.apache.kafka.common.protocol.Errors, 4.4), the codes of
// KIP-1279 and a few local ones. Numeric values are wire values: never renumber. The KIP's codes
// move with the table in src/protocol/mirror_numbers.h; they are listed here because callers switch
// on them.
enum class ErrorCode : int16_t {
  // Local, never on the wire.
  kIo = -1001,            // a disk operation failed
  kNoSpace = -1002,       // ENOSPC or EDQUOT
  kDisconnected = -1003,  // connection refused, reset, closed, or timed out below the protocol
  kCancelled = -1004,     // the caller, or a newer operation, gave up
  kNotLoaded = -1005,     // R19: the answer is not known yet, which is never "none"
  kReadOnly = -1006,      // R23: READ_ONLY_TOPIC in process; 42 on the wire
  kMalformed = -1007,     // bytes that do not decode
  kTimedOut = -1008,
  kNotEnd = -1009,  // an append at an offset that is not the log's end
  kUsage = -1010,

  kUnknownServerError = -1,
  kNone = 0,
  kOffsetOutOfRange = 1,
  kCorruptMessage = 2,
  kUnknownTopicOrPartition = 3,
  kInvalidFetchSize = 4,
  kLeaderNotAvailable = 5,
  kNotLeaderOrFollower = 6,
  kRequestTimedOut = 7,
  kBrokerNotAvailable = 8,
  kReplicaNotAvailable = 9,
  kMessageTooLarge = 10,
  kNetworkException = 13,
  kCoordinatorLoadInProgress = 14,
  kCoordinatorNotAvailable = 15,
  kNotCoordinator = 16,
  kInvalidTopic = 17,
  kRecordListTooLarge = 18,
  kNotEnoughReplicas = 19,
  kNotEnoughReplicasAfterAppend = 20,
  kInvalidRequiredAcks = 21,
  kTopicAuthorizationFailed = 29,
  kClusterAuthorizationFailed = 31,
  kInvalidTimestamp = 32,
  kUnsupportedVersion = 35,
  kTopicAlreadyExists = 36,
  kInvalidPartitions = 37,
  kInvalidReplicationFactor = 38,
  kInvalidReplicaAssignment = 39,
  kInvalidConfig = 40,
  kNotController = 41,
  kInvalidRequest = 42,
  kUnsupportedForMessageFormat = 43,
  kPolicyViolation = 44,
  kOutOfOrderSequenceNumber = 45,
  kDuplicateSequenceNumber = 46,
  kInvalidProducerEpoch = 47,
  kInvalidTxnState = 48,
  kInvalidProducerIdMapping = 49,
  kInvalidTransactionTimeout = 50,
  kConcurrentTransactions = 51,
  kTransactionCoordinatorFenced = 52,
  kTransactionalIdAuthorizationFailed = 53,
  kSecurityDisabled = 54,
  kKafkaStorageError = 56,
  kLogDirNotFound = 57,
  kUnknownProducerId = 59,
  kFetchSessionIdNotFound = 70,
  kInvalidFetchSessionEpoch = 71,
  kListenerNotFound = 72,
  kTopicDeletionDisabled = 73,
  kFencedLeaderEpoch = 74,
  kUnknownLeaderEpoch = 75,
  kUnsupportedCompressionType = 76,
  kStaleBrokerEpoch = 77,
  kOffsetNotAvailable = 78,
  kPreferredLeaderNotAvailable = 80,
  kElectionNotNeeded = 84,
  kInvalidRecord = 87,
  kUnstableOffsetCommit = 88,
  kThrottlingQuotaExceeded = 89,
  kProducerFenced = 90,
  kResourceNotFound = 91,
  kInvalidUpdateVersion = 95,
  kFeatureUpdateFailed = 96,
  kUnknownTopicId = 100,
  kInconsistentTopicId = 103,
  kInconsistentClusterId = 104,
  kFetchSessionTopicIdError = 106,
  kOffsetMovedToTieredStorage = 109,
  kFencedStateEpoch = 124,
  kInvalidRegularExpression = 128,
  // KIP-1279 (protocol.md 2.1).
  kReadOnlyTopic = 134,
  kClusterMirrorAlreadyExists = 136,
  kUnknownClusterMirror = 137,
  kTopicAlreadyInClusterMirror = 138,
  kTopicNotInClusterMirror = 139,
  kMirrorTopicAlreadyPaused = 140,
  kMirrorTopicNotPaused = 141,
  kMirrorTopicAlreadyStopped = 142,
  kClusterMirrorNotEmpty = 143,
  kClusterMirrorAuthorizationFailed = 144,
  kInvalidClusterMirrorState = 145,
  kMirrorTopicNotStopped = 146,
};

// Kafka's upper-case name of the code ("OFFSET_OUT_OF_RANGE"); local codes have names too; an
// unknown number reads "ERROR_<n>".
#if defined(__GNUC__)
#define KMIRROR_API __attribute__((visibility("default")))
#else
#define KMIRROR_API
#endif
KMIRROR_API std::string ErrorName(ErrorCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == ErrorCode::kNone; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "OK", or "NAME: message".
  std::string ToString() const {
    if (ok()) return "OK";
    return message_.empty() ? ErrorName(code_) : ErrorName(code_) + ": " + message_;
  }

  // The same error with `context` and ": " before its text; OK stays OK.
  Status WithContext(std::string_view context) const {
    if (ok()) return *this;
    return {code_, message_.empty() ? std::string(context)
                                    : std::string(context).append(": ").append(message_)};
  }

 private:
  ErrorCode code_ = ErrorCode::kNone;
  std::string message_;
};

// A value or the Status that says why there is none. value() requires ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: REQUIRES: !status.ok()
  Result(ErrorCode code, std::string message) : status_(code, std::move(message)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace kmirror
