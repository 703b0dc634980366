#include "kmirror/status.h"

namespace kmirror {

std::string ErrorName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kIo: return "IO_ERROR";
    case ErrorCode::kNoSpace: return "NO_SPACE";
    case ErrorCode::kDisconnected: return "DISCONNECTED";
    case ErrorCode::kCancelled: return "CANCELLED";
    case ErrorCode::kNotLoaded: return "NOT_LOADED";
    case ErrorCode::kReadOnly: return "READ_ONLY_TOPIC";
    case ErrorCode::kMalformed: return "MALFORMED";
    case ErrorCode::kTimedOut: return "TIMED_OUT";
    case ErrorCode::kNotEnd: return "NOT_LOG_END";
    case ErrorCode::kUsage: return "USAGE";
    case ErrorCode::kUnknownServerError: return "UNKNOWN_SERVER_ERROR";
    case ErrorCode::kNone: return "NONE";
    case ErrorCode::kOffsetOutOfRange: return "OFFSET_OUT_OF_RANGE";
    case ErrorCode::kCorruptMessage: return "CORRUPT_MESSAGE";
    case ErrorCode::kUnknownTopicOrPartition: return "UNKNOWN_TOPIC_OR_PARTITION";
    case ErrorCode::kInvalidFetchSize: return "INVALID_FETCH_SIZE";
    case ErrorCode::kLeaderNotAvailable: return "LEADER_NOT_AVAILABLE";
    case ErrorCode::kNotLeaderOrFollower: return "NOT_LEADER_OR_FOLLOWER";
    case ErrorCode::kRequestTimedOut: return "REQUEST_TIMED_OUT";
    case ErrorCode::kBrokerNotAvailable: return "BROKER_NOT_AVAILABLE";
    case ErrorCode::kReplicaNotAvailable: return "REPLICA_NOT_AVAILABLE";
    case ErrorCode::kMessageTooLarge: return "MESSAGE_TOO_LARGE";
    case ErrorCode::kNetworkException: return "NETWORK_EXCEPTION";
    case ErrorCode::kCoordinatorLoadInProgress: return "COORDINATOR_LOAD_IN_PROGRESS";
    case ErrorCode::kCoordinatorNotAvailable: return "COORDINATOR_NOT_AVAILABLE";
    case ErrorCode::kNotCoordinator: return "NOT_COORDINATOR";
    case ErrorCode::kInvalidTopic: return "INVALID_TOPIC_EXCEPTION";
    case ErrorCode::kRecordListTooLarge: return "RECORD_LIST_TOO_LARGE";
    case ErrorCode::kNotEnoughReplicas: return "NOT_ENOUGH_REPLICAS";
    case ErrorCode::kNotEnoughReplicasAfterAppend: return "NOT_ENOUGH_REPLICAS_AFTER_APPEND";
    case ErrorCode::kInvalidRequiredAcks: return "INVALID_REQUIRED_ACKS";
    case ErrorCode::kTopicAuthorizationFailed: return "TOPIC_AUTHORIZATION_FAILED";
    case ErrorCode::kClusterAuthorizationFailed: return "CLUSTER_AUTHORIZATION_FAILED";
    case ErrorCode::kInvalidTimestamp: return "INVALID_TIMESTAMP";
    case ErrorCode::kUnsupportedVersion: return "UNSUPPORTED_VERSION";
    case ErrorCode::kTopicAlreadyExists: return "TOPIC_ALREADY_EXISTS";
    case ErrorCode::kInvalidPartitions: return "INVALID_PARTITIONS";
    case ErrorCode::kInvalidReplicationFactor: return "INVALID_REPLICATION_FACTOR";
    case ErrorCode::kInvalidReplicaAssignment: return "INVALID_REPLICA_ASSIGNMENT";
    case ErrorCode::kInvalidConfig: return "INVALID_CONFIG";
    case ErrorCode::kNotController: return "NOT_CONTROLLER";
    case ErrorCode::kInvalidRequest: return "INVALID_REQUEST";
    case ErrorCode::kUnsupportedForMessageFormat: return "UNSUPPORTED_FOR_MESSAGE_FORMAT";
    case ErrorCode::kPolicyViolation: return "POLICY_VIOLATION";
    case ErrorCode::kOutOfOrderSequenceNumber: return "OUT_OF_ORDER_SEQUENCE_NUMBER";
    case ErrorCode::kDuplicateSequenceNumber: return "DUPLICATE_SEQUENCE_NUMBER";
    case ErrorCode::kInvalidProducerEpoch: return "INVALID_PRODUCER_EPOCH";
    case ErrorCode::kInvalidTxnState: return "INVALID_TXN_STATE";
    case ErrorCode::kInvalidProducerIdMapping: return "INVALID_PRODUCER_ID_MAPPING";
    case ErrorCode::kInvalidTransactionTimeout: return "INVALID_TRANSACTION_TIMEOUT";
    case ErrorCode::kConcurrentTransactions: return "CONCURRENT_TRANSACTIONS";
    case ErrorCode::kTransactionCoordinatorFenced: return "TRANSACTION_COORDINATOR_FENCED";
    case ErrorCode::kTransactionalIdAuthorizationFailed:
      return "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    case ErrorCode::kSecurityDisabled: return "SECURITY_DISABLED";
    case ErrorCode::kKafkaStorageError: return "KAFKA_STORAGE_ERROR";
    case ErrorCode::kLogDirNotFound: return "LOG_DIR_NOT_FOUND";
    case ErrorCode::kUnknownProducerId: return "UNKNOWN_PRODUCER_ID";
    case ErrorCode::kFetchSessionIdNotFound: return "FETCH_SESSION_ID_NOT_FOUND";
    case ErrorCode::kInvalidFetchSessionEpoch: return "INVALID_FETCH_SESSION_EPOCH";
    case ErrorCode::kListenerNotFound: return "LISTENER_NOT_FOUND";
    case ErrorCode::kTopicDeletionDisabled: return "TOPIC_DELETION_DISABLED";
    case ErrorCode::kFencedLeaderEpoch: return "FENCED_LEADER_EPOCH";
    case ErrorCode::kUnknownLeaderEpoch: return "UNKNOWN_LEADER_EPOCH";
    case ErrorCode::kUnsupportedCompressionType: return "UNSUPPORTED_COMPRESSION_TYPE";
    case ErrorCode::kStaleBrokerEpoch: return "STALE_BROKER_EPOCH";
    case ErrorCode::kOffsetNotAvailable: return "OFFSET_NOT_AVAILABLE";
    case ErrorCode::kPreferredLeaderNotAvailable: return "PREFERRED_LEADER_NOT_AVAILABLE";
    case ErrorCode::kElectionNotNeeded: return "ELECTION_NOT_NEEDED";
    case ErrorCode::kInvalidRecord: return "INVALID_RECORD";
    case ErrorCode::kUnstableOffsetCommit: return "UNSTABLE_OFFSET_COMMIT";
    case ErrorCode::kThrottlingQuotaExceeded: return "THROTTLING_QUOTA_EXCEEDED";
    case ErrorCode::kProducerFenced: return "PRODUCER_FENCED";
    case ErrorCode::kResourceNotFound: return "RESOURCE_NOT_FOUND";
    case ErrorCode::kInvalidUpdateVersion: return "INVALID_UPDATE_VERSION";
    case ErrorCode::kFeatureUpdateFailed: return "FEATURE_UPDATE_FAILED";
    case ErrorCode::kUnknownTopicId: return "UNKNOWN_TOPIC_ID";
    case ErrorCode::kInconsistentTopicId: return "INCONSISTENT_TOPIC_ID";
    case ErrorCode::kInconsistentClusterId: return "INCONSISTENT_CLUSTER_ID";
    case ErrorCode::kFetchSessionTopicIdError: return "FETCH_SESSION_TOPIC_ID_ERROR";
    case ErrorCode::kOffsetMovedToTieredStorage: return "OFFSET_MOVED_TO_TIERED_STORAGE";
    case ErrorCode::kFencedStateEpoch: return "FENCED_STATE_EPOCH";
    case ErrorCode::kInvalidRegularExpression: return "INVALID_REGULAR_EXPRESSION";
    case ErrorCode::kReadOnlyTopic: return "READ_ONLY_TOPIC";
    case ErrorCode::kClusterMirrorAlreadyExists: return "CLUSTER_MIRROR_ALREADY_EXISTS";
    case ErrorCode::kUnknownClusterMirror: return "UNKNOWN_CLUSTER_MIRROR";
    case ErrorCode::kTopicAlreadyInClusterMirror: return "TOPIC_ALREADY_IN_CLUSTER_MIRROR";
    case ErrorCode::kTopicNotInClusterMirror: return "TOPIC_NOT_IN_CLUSTER_MIRROR";
    case ErrorCode::kMirrorTopicAlreadyPaused: return "MIRROR_TOPIC_ALREADY_PAUSED";
    case ErrorCode::kMirrorTopicNotPaused: return "MIRROR_TOPIC_NOT_PAUSED";
    case ErrorCode::kMirrorTopicAlreadyStopped: return "MIRROR_TOPIC_ALREADY_STOPPED";
    case ErrorCode::kClusterMirrorNotEmpty: return "CLUSTER_MIRROR_NOT_EMPTY";
    case ErrorCode::kClusterMirrorAuthorizationFailed: return "CLUSTER_MIRROR_AUTHORIZATION_FAILED";
    case ErrorCode::kInvalidClusterMirrorState: return "INVALID_CLUSTER_MIRROR_STATE";
    case ErrorCode::kMirrorTopicNotStopped: return "MIRROR_TOPIC_NOT_STOPPED";
  }
  return "ERROR_" + std::to_string(static_cast<int>(code));
}

}  // namespace kmirror
