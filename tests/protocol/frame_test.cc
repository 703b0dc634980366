// Whole frames, compared with those of Kafka's classes and of the prototype.
#include <gtest/gtest.h>

#include "messages/api_versions.h"
#include "messages/create_cluster_mirror.h"
#include "messages/fetch.h"
#include "messages/list_cluster_mirrors.h"
#include "src/protocol/body.h"
#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

GoldenCase Find(const std::vector<GoldenCase>& cases, const std::string& name) {
  for (const GoldenCase& golden : cases) {
    if (golden.name == name) return golden;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(Frame, ARequestIsTheFrameThePrototypeSent) {
  const GoldenCase golden =
      Find(PrototypeCases(), "kip-prototype/wire-golden ListClusterMirrors.names.request");
  ListClusterMirrorsRequest request;
  request.include_topic_names = true;
  Writer writer;
  ASSERT_TRUE(EncodeRequestFrame(request, 0, 7, "golden-client", writer).ok());
  EXPECT_EQ(ToHex(golden.frame), ToHex(writer.Flatten()));
}

TEST(Frame, AnAnswerToATooNewApiVersionsIsKafkas) {
  const GoldenCase golden = Find(
      ApiVersionsCases(), "api-versions-special.jsonl ApiVersions v0 response unsupported_version");
  ApiVersionsResponse response;
  response.error_code = 35;
  response.api_keys = {{.api_key = 18, .min_version = 0, .max_version = 5}};
  Writer writer;
  ASSERT_TRUE(EncodeResponseFrame(response, 0, 7, writer).ok());
  EXPECT_EQ(ToHex(golden.frame), ToHex(writer.Flatten()));

  int32_t correlation_id = 0;
  ApiVersionsResponse again;
  ASSERT_TRUE(
      DecodeResponseFrame(ByteView(golden.frame).subspan(4), 0, &correlation_id, &again).ok());
  EXPECT_EQ(7, correlation_id);
  EXPECT_EQ(response, again);
}

TEST(Frame, FetchedRecordsStayWhereTheyAreOnBothSides) {
  const std::vector<uint8_t> records(1000, 0xab);
  FetchResponse response;
  response.responses.resize(1);
  response.responses[0].partitions.resize(2);
  response.responses[0].partitions[1].records = RecordsView(records);
  Writer writer;
  ASSERT_TRUE(EncodeResponseFrame(response, 13, 3, writer).ok());
  bool referred = false;
  for (const Writer::Chunk& chunk : writer.chunks()) {
    referred |= chunk.bytes.data() == records.data() && chunk.size() == records.size();
  }
  EXPECT_TRUE(referred);

  const std::vector<uint8_t> frame = writer.Flatten();
  int32_t correlation_id = 0;
  FetchResponse again;
  ASSERT_TRUE(DecodeResponseFrame(ByteView(frame).subspan(4), 13, &correlation_id, &again).ok());
  const auto& partitions = again.responses.at(0).partitions;
  EXPECT_FALSE(partitions[0].records.has_value());
  const ByteView view = partitions[1].records->bytes();
  EXPECT_GE(view.data(), frame.data());
  EXPECT_LE(view.data() + view.size(), frame.data() + frame.size());
  EXPECT_EQ(response, again);
}

TEST(Frame, KafkasUnregisterControllerIsNotTakenForAMirror) {
  // Kafka 4.4 has that request at the KIP's key 94 (R17). Its body: a controller id and no tags.
  for (const int32_t controller_id : {0, 1, 3000, 0xffffff, 0x01000000, 0x01010000, -1}) {
    Writer writer;
    writer.PutInt32(controller_id);
    writer.PutUnsignedVarint(0);
    CreateClusterMirrorRequest request;
    EXPECT_EQ(ErrorCode::kMalformed, DecodeBody(writer.Flatten(), 0, &request).code())
        << controller_id;
  }
}

TEST(Frame, BytesAfterTheMessageAreRefused) {
  ApiVersionsRequest request;
  EXPECT_EQ("ApiVersionsRequest v0: 1 bytes after the message",
            DecodeBody(std::vector<uint8_t>{0}, 0, &request).message());
}

}  // namespace
}  // namespace kmirror::protocol
