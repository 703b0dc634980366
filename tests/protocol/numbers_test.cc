// The numbers of KIP-1279 that other programs see, and the texts that stand in for its error codes.
#include <gtest/gtest.h>

#include "messages/create_cluster_mirror.h"
#include "messages/recover_mirror_topics.h"
#include "src/protocol/mirror_numbers.h"
#include "src/protocol/registry.h"
#include "src/protocol/wire_error.h"

namespace kmirror::protocol {
namespace {

TEST(MirrorNumbers, KeysAreThoseOfTheKip) {
  EXPECT_EQ(94, CreateClusterMirrorRequest::kApiKey);
  EXPECT_EQ(107, RecoverMirrorTopicsResponse::kApiKey);
  const std::pair<int16_t, const char*> keys[] = {
      {94, "CreateClusterMirror"},  {95, "StartMirrorTopics"},      {96, "StopMirrorTopics"},
      {98, "ListClusterMirrors"},   {99, "DescribeClusterMirrors"}, {100, "ReadMirrorStates"},
      {101, "WriteMirrorStates"},   {102, "PauseMirrorTopics"},     {103, "ResumeMirrorTopics"},
      {104, "DeleteClusterMirror"}, {105, "BumpLeaderEpochs"},      {106, "ReadMirrorOffsets"},
      {107, "RecoverMirrorTopics"}};
  for (const auto& [key, name] : keys) {
    ASSERT_NE(nullptr, FindApi(key)) << name;
    EXPECT_STREQ(name, FindApi(key)->name);
  }
}

TEST(WireError, AReadOnlyTopicIsAnInvalidRequestThatSaysSo) {
  const Status status(ErrorCode::kReadOnly, "topic orders is mirrored by a-to-b");
  EXPECT_EQ(42, WireErrorCode(status.code()));
  EXPECT_EQ(42, WireErrorCode(ErrorCode::kReadOnlyTopic));
  EXPECT_EQ("READ_ONLY_TOPIC: topic orders is mirrored by a-to-b", WireErrorMessage(status));
  const Status prefixed(ErrorCode::kReadOnly, "READ_ONLY_TOPIC: x");
  EXPECT_EQ("READ_ONLY_TOPIC: x", WireErrorMessage(prefixed));
}

TEST(WireError, ARefusedChangeOfAMirrorTopicIsAnInvalidRequestThatSaysSo) {
  const Status status = RefusedMirrorTopicChange("orders");
  EXPECT_EQ(42, WireErrorCode(status.code()));
  EXPECT_EQ("MIRROR_TOPIC_NOT_STOPPED: orders", WireErrorMessage(status));
}

TEST(WireError, LocalCodesNeverLeaveTheProcess) {
  for (int16_t code = -1020; code < -1; ++code) {
    const int16_t wire = WireErrorCode(static_cast<ErrorCode>(code));
    if (code >= -1010 && code <= -1001) EXPECT_GE(wire, -1) << code;
  }
  EXPECT_EQ(0, WireErrorCode(ErrorCode::kNone));
  EXPECT_EQ(std::nullopt, WireErrorMessage(Status()));
  EXPECT_EQ(6, WireErrorCode(ErrorCode::kNotLeaderOrFollower));
}

}  // namespace
}  // namespace kmirror::protocol
