// Errors are read by somebody in the middle of an outage: each says what to try next.
#include "tools/kmirror/commands.h"

namespace kmirror::tools {

std::string NextStep(const Status& status, Verb verb, const Arguments& arguments) {
  const std::string mirror = arguments.mirror.empty() ? "MIRROR" : arguments.mirror;
  switch (status.code()) {
    case ErrorCode::kUnknownClusterMirror:
      return "`kmirror list` shows the mirrors there are; `kmirror create " + mirror +
             " --source HOST:PORT` makes this one";
    case ErrorCode::kClusterMirrorAlreadyExists:
      return "use it as it is (`kmirror describe " + mirror +
             "`), or stop its topics and `kmirror delete " + mirror + "` first";
    case ErrorCode::kClusterMirrorNotEmpty:
    case ErrorCode::kMirrorTopicNotStopped:
      if (verb == Verb::kStart)
        return "a paused topic goes on with `kmirror resume " + mirror + "`";
      return "`kmirror stop " + mirror + " --all --wait 60` stops what is still mirrored";
    case ErrorCode::kInvalidClusterMirrorState:
      return "`kmirror describe " + mirror +
             "` shows where each partition is; wait for it to get there, then try again";
    case ErrorCode::kTopicAlreadyInClusterMirror:
      return "a topic belongs to one mirror: stop it there first (`kmirror status` shows where)";
    case ErrorCode::kTopicNotInClusterMirror:
      return "`kmirror describe` shows which mirror holds the topic";
    case ErrorCode::kMirrorTopicNotPaused:
      return verb == Verb::kResume
                 ? "only a paused topic can be resumed; a stopped one is mirrored again with "
                   "`kmirror start " +
                       mirror + " --topics TOPIC`, which removes what was written here since"
                 : "";
    case ErrorCode::kMirrorTopicAlreadyStopped:
      return "it is an ordinary topic now; `kmirror start " + mirror +
             " --topics TOPIC` mirrors it again, and removes what was written here since";
    case ErrorCode::kUnknownTopicOrPartition:
      return verb == Verb::kStart
                 ? "names must be those of the source cluster; a pattern must match all "
                   "of a name, as in \"orders.*\""
                 : "`kmirror describe " + mirror + "` shows the topics of the mirror";
    case ErrorCode::kInconsistentTopicId:
    case ErrorCode::kTopicAlreadyExists:
      return "this cluster has another topic of that name (a client that looked for it may have "
             "created it): delete it, or leave this topic out";
    case ErrorCode::kClusterMirrorAuthorizationFailed:
    case ErrorCode::kTopicAuthorizationFailed:
    case ErrorCode::kClusterAuthorizationFailed:
      return "ask the operator of the destination for the right named above";
    case ErrorCode::kUnsupportedVersion:
      return "--bootstrap-server must name the destination, a kmirrord; the cluster to copy from "
             "goes "
             "with --source";
    case ErrorCode::kDisconnected:
    case ErrorCode::kTimedOut:
    case ErrorCode::kBrokerNotAvailable:
      return "see that kmirrord runs at that address (it prints `kmirrord ready HOST:PORT`) and "
             "that "
             "--bootstrap-server or KMIRROR_BOOTSTRAP names it";
    case ErrorCode::kMalformed: return "see that the port is a plain Kafka listener";
    case ErrorCode::kNotController:
    case ErrorCode::kCoordinatorLoadInProgress:
    case ErrorCode::kCoordinatorNotAvailable:
    case ErrorCode::kNotCoordinator:
    case ErrorCode::kRequestTimedOut:
      return "the cluster is busy taking over; try again in a few seconds";
    case ErrorCode::kInvalidConfig:
    case ErrorCode::kInvalidRegularExpression:
      return "correct that config; docs/configs.md lists every mirror config with its values";
    default: return "";
  }
}

}  // namespace kmirror::tools
