// The walk over Fetch answers: any split of the bytes gives the same sets, and no length is
// believed.
#include "src/fetcher/fetch_response_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "conformance/mirrored_batches.h"
#include "messages/fetch.h"
#include "src/protocol/body.h"

namespace kmirror::fetcher {
namespace {

using conformance::BatchSpec;
using conformance::DataBatch;
using conformance::Marker;
using protocol::FetchResponse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Bytes = std::vector<uint8_t>;

// Gathers what the parser hands out; sets are given back at once unless `keep`.
struct Gathered : FetchResponseHandler {
  struct Partition {
    FetchedPartition head;
    FetchedPartitionEnd end;
    std::vector<Bytes> sets;
    std::vector<int64_t> bases;
    std::vector<int16_t> control_types;
    Bytes all() const {
      Bytes bytes;
      for (const Bytes& set : sets) bytes.insert(bytes.end(), set.begin(), set.end());
      return bytes;
    }
  };

  Status OnPrologue(int32_t throttle, ErrorCode code, int32_t session) override {
    throttle_ms = throttle;
    error = code;
    session_id = session;
    return refuse ? Status(code, "refused") : Status();
  }
  bool OnPartition(const FetchedPartition& partition) override {
    partitions.emplace_back().head = partition;
    return accept;
  }
  void OnSet(std::unique_ptr<FetchedSet> set) override {
    Partition& partition = partitions.back();
    Bytes bytes;
    for (const ByteView piece : set->bytes) bytes.insert(bytes.end(), piece.begin(), piece.end());
    EXPECT_EQ(bytes.size(), set->size);
    pieces = std::max(pieces, set->bytes.size());
    for (const log::BatchInfo& batch : set->batches) {
      partition.bases.push_back(batch.base_offset);
      partition.control_types.push_back(batch.control_type);
    }
    partition.sets.push_back(std::move(bytes));
    if (keep) {
      kept.push_back(std::move(set));
    } else {
      parser->Recycle(std::move(set));
    }
  }
  void OnPartitionEnd(const FetchedPartition&, const FetchedPartitionEnd& end) override {
    partitions.back().end = end;
    ++ended;
  }
  void OnMemoryShort() override { ++short_of_memory; }
  bool HoldsSets() const override { return !kept.empty(); }

  FetchResponseParser* parser = nullptr;
  bool refuse = false;
  bool accept = true;
  bool keep = false;
  int32_t throttle_ms = 0, session_id = 0;
  ErrorCode error = ErrorCode::kNone;
  std::vector<Partition> partitions;
  std::vector<std::unique_ptr<FetchedSet>> kept;
  size_t pieces = 0;
  int ended = 0;
  int short_of_memory = 0;
};

class ParserTest : public ::testing::Test {
 protected:
  explicit ParserTest(int64_t bound = 8 << 20) : pool(bound), parser(&pool, &out) {
    out.parser = &parser;
  }

  static Bytes Encode(const FetchResponse& response, int16_t version) {
    protocol::Writer writer;
    const Status status = protocol::Encode(response, version, writer);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return writer.Flatten();
  }

  // Feeds `body` in pieces that next() sizes; the first failure, or what Finish says.
  template <typename F>
  Status Feed(int16_t version, const Bytes& body, F next) {
    parser.Begin(version, body.size());
    size_t at = 0;
    while (at < body.size()) {
      const std::span<uint8_t> room = parser.Room(body.size() - at);
      if (room.empty()) return {ErrorCode::kNotLoaded, "no room"};
      const size_t size = std::min({room.size(), body.size() - at, std::max<size_t>(1, next())});
      std::memcpy(room.data(), body.data() + at, size);
      at += size;
      if (Status status = parser.Received(size); !status.ok()) return status;
    }
    return parser.Finish();
  }
  Status Feed(int16_t version, const Bytes& body) {
    return Feed(version, body, [&] { return body.size(); });
  }

  // Three partitions of two topics: data with markers, an error with hints, a divergence.
  FetchResponse Sample(int16_t version) {
    first.clear();
    for (int i = 0; i < 5; ++i) {
      BatchSpec spec;
      spec.base_offset = 10 * i;
      spec.leader_epoch = 3;
      spec.producer_id = 9;
      spec.transactional = true;
      const Bytes batch = i == 3 ? Marker(log::kControlCommit, spec) : DataBatch(spec, 1 + i, 50);
      first.insert(first.end(), batch.begin(), batch.end());
    }
    second = DataBatch({.base_offset = 7}, 2, 200);
    FetchResponse response;
    response.throttle_time_ms = 12;
    response.session_id = 345;
    response.responses.resize(2);
    for (int i = 0; i < 2; ++i) {
      auto& topic = response.responses[static_cast<size_t>(i)];
      if (version >= 13) {
        topic.topic_id.bytes.fill(static_cast<uint8_t>(i + 1));
      } else {
        topic.topic = i == 0 ? "first" : "second-topic";
      }
    }
    auto& data = response.responses[0].partitions.emplace_back();
    data.partition_index = 4;
    data.high_watermark = 100;
    data.last_stable_offset = 90;
    data.log_start_offset = 2;
    data.aborted_transactions.emplace();
    data.aborted_transactions->push_back({1, 2});
    data.aborted_transactions->push_back({3, 4});
    data.records = protocol::RecordsView(ByteView(first));
    auto& more = response.responses[0].partitions.emplace_back();
    more.partition_index = 5;
    more.aborted_transactions = std::nullopt;
    more.records = protocol::RecordsView(ByteView(second));
    auto& failed = response.responses[1].partitions.emplace_back();
    failed.partition_index = 0;
    failed.error_code = 6;
    failed.high_watermark = -1;
    failed.aborted_transactions = std::nullopt;
    failed.records = std::nullopt;
    if (version >= 12) {
      failed.current_leader = {7, 21};
      auto& diverging = response.responses[1].partitions.emplace_back();
      diverging.partition_index = 1;
      diverging.diverging_epoch = {5, 77};
      diverging.aborted_transactions = std::nullopt;
      diverging.records = protocol::RecordsView(ByteView{});
    }
    if (version >= 16) response.node_endpoints.push_back({7, "host-seven", 9099, "rack"});
    return response;
  }
  void ExpectSample(int16_t version) {
    ASSERT_THAT(out.partitions, SizeIs(version >= 12 ? 4 : 3));
    EXPECT_EQ(out.throttle_ms, 12);
    EXPECT_EQ(out.session_id, 345);
    EXPECT_EQ(out.partitions[0].head.index, 4);
    EXPECT_EQ(out.partitions[0].head.high_watermark, 100);
    EXPECT_EQ(out.partitions[0].head.log_start_offset, 2);
    EXPECT_EQ(out.partitions[0].all(), first);
    EXPECT_THAT(out.partitions[0].bases, ElementsAre(0, 10, 20, 30, 40));
    EXPECT_THAT(out.partitions[0].control_types, ElementsAre(-1, -1, -1, log::kControlCommit, -1));
    EXPECT_EQ(out.partitions[1].all(), second);
    EXPECT_EQ(out.partitions[2].head.error, ErrorCode::kNotLeaderOrFollower);
    EXPECT_EQ(out.ended, static_cast<int>(out.partitions.size()));
    if (version >= 13) {
      EXPECT_EQ(out.partitions[2].head.topic_id.bytes[0], 2);
    } else {
      EXPECT_EQ(out.partitions[2].head.topic, "second-topic");
    }
    if (version >= 12) {
      EXPECT_EQ(out.partitions[2].end.leader_id, 7);
      EXPECT_EQ(out.partitions[2].end.leader_epoch, 21);
      EXPECT_EQ(out.partitions[3].end.diverging.epoch, 5);
      EXPECT_EQ(out.partitions[3].end.diverging.end_offset, 77);
    }
    if (version >= 16) {
      ASSERT_THAT(parser.endpoints(), SizeIs(1));
      EXPECT_EQ(parser.endpoints()[0].id, 7);
      EXPECT_EQ(parser.endpoints()[0].address.ToString(), "host-seven:9099");
    }
  }
  // One topic, one partition with `records`.
  Bytes One(const Bytes& records, int16_t version = 12) {
    FetchResponse response;
    auto& topic = response.responses.emplace_back();
    topic.topic = version < 13 ? "t" : "";
    auto& data = topic.partitions.emplace_back();
    data.aborted_transactions = std::nullopt;
    data.records = protocol::RecordsView(ByteView(records));
    return Encode(response, version);
  }
  void Reset() {
    out.partitions.clear();
    out.ended = 0;
    out.kept.clear();
  }

  Bytes first, second;
  SlabPool pool;
  Gathered out;
  FetchResponseParser parser;
};

TEST_F(ParserTest, ReadsEveryVersionWholeAndByteByByte) {
  for (int16_t version = kFetchMinVersion; version <= kFetchMaxVersion; ++version) {
    SCOPED_TRACE(version);
    const Bytes body = Encode(Sample(version), version);
    Reset();
    ASSERT_TRUE(Feed(version, body).ok());
    ExpectSample(version);
    Reset();
    ASSERT_TRUE(Feed(version, body, [] { return size_t{1}; }).ok());
    ExpectSample(version);
  }
}

TEST_F(ParserTest, AnySplitOfTheBytesGivesTheSame) {
  std::mt19937 random(7);
  const Bytes body = Encode(Sample(16), 16);
  for (int i = 0; i < 300; ++i) {
    Reset();
    std::uniform_int_distribution<size_t> piece(1, 1 + static_cast<size_t>(i));
    const Status status = Feed(16, body, [&] { return piece(random); });
    ASSERT_TRUE(status.ok()) << status.ToString();
    ExpectSample(16);
  }
}

TEST_F(ParserTest, BatchesGoOnInTheNextSlabWithoutBeingMoved) {
  Bytes records;
  int64_t offset = 0;
  while (records.size() < (5u << 20)) {
    const Bytes batch =
        DataBatch({.base_offset = offset}, 1, 16000 + static_cast<size_t>(offset) % 77);
    records.insert(records.end(), batch.begin(), batch.end());
    ++offset;
  }
  ASSERT_TRUE(Feed(12, One(records)).ok());
  ASSERT_THAT(out.partitions, SizeIs(1));
  EXPECT_EQ(out.partitions[0].all(), records);
  EXPECT_GE(out.pieces, 2u);
  for (size_t i = 0; i + 1 < out.partitions[0].sets.size(); ++i) {
    EXPECT_GE(out.partitions[0].sets[i].size(), FetchResponseParser::kSetBytes);
  }
  EXPECT_LE(pool.peak(), 3u) << "slabs are used again once their sets are done with";
}

TEST_F(ParserTest, APartialLastBatchIsDroppedAtEveryLength) {
  const Bytes whole = DataBatch({.base_offset = 0}, 2, 30);
  const Bytes next = DataBatch({.base_offset = 2}, 2, 30);
  for (size_t part = 0; part < next.size(); ++part) {
    for (const size_t piece : {size_t{1}, size_t{1000}}) {
      Reset();
      Bytes records = whole;
      records.insert(records.end(), next.begin(), next.begin() + static_cast<std::ptrdiff_t>(part));
      ASSERT_TRUE(Feed(12, One(records), [&] { return piece; }).ok());
      EXPECT_EQ(out.partitions.at(0).all(), whole) << part;
      EXPECT_EQ(out.partitions.at(0).end.partial_bytes, static_cast<int64_t>(part));
      EXPECT_FALSE(out.partitions.at(0).end.corrupt);
    }
  }
}

TEST_F(ParserTest, ACorruptBatchEndsItsPartitionAndNoOther) {
  const Bytes good = DataBatch({.base_offset = 0}, 2, 30);
  Bytes bad = DataBatch({.base_offset = 2}, 2, 30);
  bad[70] ^= 4;
  const Bytes after = DataBatch({.base_offset = 4}, 2, 30);
  Bytes records = good;
  records.insert(records.end(), bad.begin(), bad.end());
  records.insert(records.end(), after.begin(), after.end());
  FetchResponse response;
  auto& topic = response.responses.emplace_back();
  topic.topic = "t";
  for (int32_t i = 0; i < 2; ++i) {
    auto& data = topic.partitions.emplace_back();
    data.partition_index = i;
    data.aborted_transactions = std::nullopt;
    data.records = protocol::RecordsView(i == 0 ? ByteView(records) : ByteView(good));
  }
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{10000}}) {
    Reset();
    ASSERT_TRUE(Feed(12, Encode(response, 12), [&] { return piece; }).ok());
    ASSERT_THAT(out.partitions, SizeIs(2));
    EXPECT_TRUE(out.partitions[0].end.corrupt);
    EXPECT_EQ(out.partitions[0].end.corrupt_offset, 2);
    EXPECT_THAT(out.partitions[0].end.corruption, HasSubstr("checksum"));
    EXPECT_THAT(out.partitions[0].sets, IsEmpty());
    EXPECT_EQ(out.partitions[1].all(), good);
  }
}

TEST_F(ParserTest, BatchesThatGoBackAreCorrupt) {
  Bytes records = DataBatch({.base_offset = 10}, 2);
  const Bytes back = DataBatch({.base_offset = 11}, 2);
  records.insert(records.end(), back.begin(), back.end());
  ASSERT_TRUE(Feed(12, One(records)).ok());
  EXPECT_TRUE(out.partitions.at(0).end.corrupt);
  EXPECT_THAT(out.partitions[0].end.corruption, HasSubstr("offsets"));
}

TEST_F(ParserTest, ImpossibleBatchSizesAreCorruptAndNotAllocated) {
  for (const uint32_t size : {0u, 13u, 48u, 0x80000000u, 0xffffffffu}) {
    Reset();
    Bytes records = DataBatch({.base_offset = 0}, 2);
    for (int i = 0; i < 4; ++i)
      records[8 + static_cast<size_t>(i)] = static_cast<uint8_t>(size >> (24 - 8 * i));
    ASSERT_TRUE(Feed(12, One(records)).ok());
    EXPECT_TRUE(out.partitions.at(0).end.corrupt) << size;
  }
  // A size beyond the partition's bytes is a batch cut off, whatever it claims.
  Reset();
  Bytes records = DataBatch({.base_offset = 0}, 2);
  records[8] = 0x7f;
  ASSERT_TRUE(Feed(12, One(records)).ok());
  EXPECT_FALSE(out.partitions.at(0).end.corrupt);
  EXPECT_EQ(out.partitions[0].end.partial_bytes, static_cast<int64_t>(records.size()));
  EXPECT_LE(pool.peak(), 2u);
}

// An entry of format v1 with its checksum.
Bytes LegacyEntry(int64_t offset) {
  Bytes entry(log::kLegacyHeaderBytesV1 + 3, 0);
  const auto put = [&](size_t at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      entry[at + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
    }
  };
  put(0, static_cast<uint64_t>(offset), 8);
  put(8, entry.size() - 12, 4);
  entry[16] = 1;                      // magic
  put(18, 1'700'000'000'000, 8);      // timestamp
  put(26, 0xffffffff, 4);             // no key
  put(30, 3, 4);                      // a value of three bytes
  const uint32_t table_free_crc = [&] {
    uint32_t crc = 0xffffffff;
    for (size_t i = 16; i < entry.size(); ++i) {
      crc ^= entry[i];
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1)));
    }
    return ~crc;
  }();
  put(12, table_free_crc, 4);
  return entry;
}

TEST_F(ParserTest, OldEntriesAreHandedOnAndChecked) {
  Bytes records = LegacyEntry(5);
  const Bytes second_entry = LegacyEntry(6);
  records.insert(records.end(), second_entry.begin(), second_entry.end());
  for (const size_t piece : {size_t{1}, size_t{1000}}) {
    Reset();
    ASSERT_TRUE(Feed(10, One(records, 10), [&] { return piece; }).ok());
    EXPECT_EQ(out.partitions.at(0).all(), records);
    EXPECT_THAT(out.partitions[0].bases, ElementsAre(5, 6));
  }
  records.back() ^= 1;
  Reset();
  ASSERT_TRUE(Feed(10, One(records, 10)).ok());
  EXPECT_TRUE(out.partitions.at(0).end.corrupt);
}

TEST_F(ParserTest, LengthsThatCannotBeAreMalformed) {
  const Bytes body = Encode(Sample(12), 12);
  // Topics, partitions, records: each count replaced by a huge one.
  struct Lie {
    size_t at;
    const char* says;
  };
  Bytes lie = body;
  lie[10] = 0xff;  // the topics' varint runs on into what follows
  lie[11] = 0xff;
  lie[12] = 0xff;
  lie[13] = 0xff;
  lie[14] = 0x0f;
  Status status = Feed(12, lie);
  EXPECT_EQ(status.code(), ErrorCode::kMalformed);
  EXPECT_THAT(status.message(), HasSubstr("topics"));

  Bytes classic = Encode(Sample(10), 10);
  for (size_t i = 0; i < 4; ++i) classic[10 + i] = 0xff;
  classic[13] = 0xfe;  // -2 topics
  EXPECT_EQ(Feed(10, classic).code(), ErrorCode::kMalformed);
  classic[10] = 0x7f;
  EXPECT_EQ(Feed(10, classic).code(), ErrorCode::kMalformed);
}

TEST_F(ParserTest, AnAnswerThatEndsEarlyOrLateIsMalformed) {
  const Bytes body = Encode(Sample(16), 16);
  for (size_t size = 0; size < body.size(); ++size) {
    Reset();
    const Bytes shorter(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(Feed(16, shorter).code(), ErrorCode::kMalformed) << size;
  }
  Bytes longer = body;
  longer.push_back(0);
  EXPECT_EQ(Feed(16, longer).code(), ErrorCode::kMalformed);
  // And the parser is as new afterwards.
  Reset();
  EXPECT_TRUE(Feed(16, body).ok());
  ExpectSample(16);
}

TEST_F(ParserTest, NoByteOfAnAnswerCanBreakIt) {
  // Every byte of an answer set to every of a few nasty values: an error or sets, never anything
  // else.
  for (const int16_t version : {int16_t{10}, int16_t{12}, int16_t{16}}) {
    const Bytes body = Encode(Sample(version), version);
    for (size_t at = 0; at < body.size(); ++at) {
      for (const uint8_t value : {uint8_t{0x00}, uint8_t{0x7f}, uint8_t{0x80}, uint8_t{0xff}}) {
        Bytes lie = body;
        if (lie[at] == value) continue;
        lie[at] = value;
        Reset();
        (void)Feed(version, lie, [] { return size_t{97}; });
        size_t bytes = 0;
        for (const auto& partition : out.partitions) bytes += partition.all().size();
        ASSERT_LE(bytes, body.size());
      }
    }
  }
  parser.Abandon();
  out.kept.clear();
  EXPECT_EQ(pool.used(), 0u);
}

TEST_F(ParserTest, ARefusedAnswerIsSkippedToItsEnd) {
  out.refuse = true;
  FetchResponse response = Sample(12);
  response.error_code = 70;
  const Status status = Feed(12, Encode(response, 12), [] { return size_t{11}; });
  EXPECT_EQ(status.code(), ErrorCode::kFetchSessionIdNotFound);
  EXPECT_THAT(out.partitions, IsEmpty());
}

TEST_F(ParserTest, PartitionsThatAreNotWantedAreSkippedUnseen) {
  out.accept = false;
  ASSERT_TRUE(Feed(12, Encode(Sample(12), 12), [] { return size_t{100}; }).ok());
  ASSERT_THAT(out.partitions, SizeIs(4));
  for (const auto& partition : out.partitions) EXPECT_THAT(partition.sets, IsEmpty());
  EXPECT_EQ(out.ended, 4);
}

class SmallParserTest : public ParserTest {
 protected:
  SmallParserTest() : ParserTest(2 << 20) {}
};

TEST_F(SmallParserTest, SaysWhenThereIsNoRoomAndGoesOnLater) {
  out.keep = true;
  Bytes records;
  int64_t offset = 0;
  while (records.size() < (4u << 20)) {
    const Bytes batch = DataBatch({.base_offset = offset++}, 1, 60000);
    records.insert(records.end(), batch.begin(), batch.end());
  }
  const Bytes body = One(records);
  parser.Begin(12, body.size());
  size_t at = 0;
  int waits = 0;
  while (at < body.size()) {
    const std::span<uint8_t> room = parser.Room(body.size() - at);
    if (room.empty()) {
      ++waits;
      ASSERT_FALSE(out.kept.empty());
      for (auto& set : std::exchange(out.kept, {})) parser.Recycle(std::move(set));
      continue;
    }
    const size_t size = std::min(room.size(), body.size() - at);
    std::memcpy(room.data(), body.data() + at, size);
    at += size;
    ASSERT_TRUE(parser.Received(size).ok());
  }
  ASSERT_TRUE(parser.Finish().ok());
  EXPECT_GT(waits, 0);
  EXPECT_LE(pool.peak(), 2u);
  EXPECT_EQ(out.partitions.at(0).all(), records);
}

TEST_F(SmallParserTest, ABatchGreaterThanTheBoundIsTakenWholeAndAlone) {
  Bytes records = DataBatch({.base_offset = 0}, 1, 100);
  const Bytes large = DataBatch({.base_offset = 1}, 1, 5 << 20);
  records.insert(records.end(), large.begin(), large.end());
  const Bytes last = DataBatch({.base_offset = 2}, 1, 100);
  records.insert(records.end(), last.begin(), last.end());
  ASSERT_TRUE(Feed(12, One(records)).ok());
  EXPECT_EQ(out.partitions.at(0).all(), records);
  EXPECT_GE(pool.peak(), 5u);
  EXPECT_LE(pool.peak(), 7u);
}

}  // namespace
}  // namespace kmirror::fetcher
