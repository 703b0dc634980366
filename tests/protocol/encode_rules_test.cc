// What a version cannot say is an error, unless its loss was declared harmless.
#include <gtest/gtest.h>

#include "messages/create_topics.h"
#include "messages/fetch.h"
#include "messages/metadata.h"
#include "messages/start_mirror_topics.h"
#include "messages/write_mirror_states.h"
#include "src/protocol/body.h"
#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

template <typename Message>
Status TryEncode(const Message& message, int16_t version) {
  Writer writer;
  return Encode(message, version, writer);
}

TEST(Encode, AFieldThatTheVersionLacksIsAnErrorThatNamesIt) {
  FetchRequest request;
  request.topics.resize(2);
  request.topics[1].partitions.resize(1);
  request.topics[1].partitions[0].last_fetched_epoch = 3;
  const Status status = TryEncode(request, 11);
  EXPECT_EQ(ErrorCode::kInvalidRequest, status.code());
  EXPECT_EQ(
      "FetchRequest v11: topics[1].partitions[0].last_fetched_epoch: set, but version 11 does not "
      "have this field",
      status.message());
  EXPECT_TRUE(TryEncode(request, 12).ok());
}

TEST(Encode, AStructAndAnArrayThatTheVersionLacksAreErrorsToo) {
  FetchRequest request;
  request.replica_state.replica_id = 4;
  EXPECT_FALSE(TryEncode(request, 14).ok());
  EXPECT_TRUE(TryEncode(request, 15).ok());
  FetchRequest forgetting;
  forgetting.forgotten_topics_data.resize(1);
  EXPECT_FALSE(TryEncode(forgetting, 6).ok());
}

TEST(Encode, AnIgnorableFieldIsDroppedInSilence) {
  FetchRequest request;
  request.rack_id = "r1";
  request.session_id = 9;
  request.cluster_id = "c";
  EXPECT_TRUE(TryEncode(request, 4).ok());
}

TEST(Encode, NullWhereTheVersionHasNoneIsAnError) {
  MetadataRequest request;
  request.topics.reset();
  EXPECT_EQ("MetadataRequest v0: topics: null, which this field may not be in this version",
            TryEncode(request, 0).message());
  EXPECT_TRUE(TryEncode(request, 1).ok());
}

TEST(Encode, AStringBeyond32767BytesIsAnErrorThatNamesIt) {
  MetadataRequest request;
  request.topics->resize(1);
  request.topics->at(0).name = std::string(32768, 'n');
  EXPECT_EQ("MetadataRequest v12: topics[0].name: length 32768 is more than 32767",
            TryEncode(request, 12).message());
}

TEST(Encode, AVersionNobodyKnowsIsUnsupported) {
  EXPECT_EQ(ErrorCode::kUnsupportedVersion, TryEncode(FetchRequest(), 3).code());
  EXPECT_EQ(ErrorCode::kUnsupportedVersion, TryEncode(FetchRequest(), 20).code());
  FetchRequest request;
  EXPECT_EQ("FetchRequest v20: versions 4 to 19 are known", DecodeBody({}, 20, &request).message());
}

TEST(Encode, TagsOfOursAreWrittenOnlyWhenSetAndReadBack) {
  StartMirrorTopicsRequest request;
  request.mirror_name = "m";
  Writer plain;
  ASSERT_TRUE(Encode(request, 0, plain).ok());
  request.discard_local = true;
  Writer tagged;
  ASSERT_TRUE(Encode(request, 0, tagged).ok());
  // One tag more: its number in two bytes, its size, its value.
  EXPECT_EQ(plain.size() + 4, tagged.size());
  const std::vector<uint8_t> bytes = tagged.Flatten();
  EXPECT_EQ("01904e0101", ToHex(std::vector<uint8_t>(bytes.end() - 5, bytes.end())));
  StartMirrorTopicsRequest again;
  ASSERT_TRUE(DecodeBody(bytes, 0, &again).ok());
  EXPECT_EQ(request, again);
}

TEST(Encode, ANullableStructCarriesItsMirrorName) {
  CreateTopicsRequest request;
  request.topics.resize(1);
  request.topics[0].name = "t";
  request.topics[0].mirror_info.emplace().mirror_name = "m";
  Writer writer;
  ASSERT_TRUE(Encode(request, 8, writer).ok());
  CreateTopicsRequest again;
  ASSERT_TRUE(DecodeBody(writer.Flatten(), 8, &again).ok());
  EXPECT_EQ(request, again);
}

TEST(Decode, AMessageLeavesNothingOfWhatWasThereBefore) {
  WriteMirrorStatesRequest filled;
  filled.mirror_name = "m";
  filled.topics.resize(1);
  filled.topics[0].partitions.resize(3);
  filled.topics[0].partitions[2].progress = 2;
  WriteMirrorStatesRequest empty;
  empty.mirror_name = "n";
  Writer writer;
  ASSERT_TRUE(Encode(empty, 0, writer).ok());
  ASSERT_TRUE(DecodeBody(writer.Flatten(), 0, &filled).ok());
  EXPECT_EQ(empty, filled);
}

}  // namespace
}  // namespace kmirror::protocol
