// Appends: of a mirror, of clients, of a stop; the write barrier; and disks that refuse.

#include <gtest/gtest.h>

#include "tests/storage/log_test_support.h"

namespace kmirror::broker::test {
namespace {

std::string SegmentBytes(const LogFixture& f, const std::string& base = "00000000000000000000") {
  return ReadAll(f.options.directory + "/" + base + ".log");
}

std::string Joined(std::span<const TestBatch> batches) {
  std::string bytes;
  for (const TestBatch& batch : batches) bytes.append(batch.bytes.begin(), batch.bytes.end());
  return bytes;
}

// --- Mirrored sets ---

TEST(AppendMirrored, StoresTheBytesUnchangedAndMovesTheEnd) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const std::vector<TestBatch> set{MakeBatch({.base_offset = 0, .count = 3, .leader_epoch = 5}),
                                   MakeBatch({.base_offset = 7, .count = 2, .leader_epoch = 6})};
  ASSERT_TRUE(AppendSet(*f.log, set).ok());
  const LogPositions positions = f.log->Positions();
  EXPECT_EQ(positions.log_end, 9);
  EXPECT_EQ(positions.high_watermark, 9);
  EXPECT_EQ(positions.last_batch_epoch, 6);
  EXPECT_EQ(positions.latest_epoch, 6);
  EXPECT_FALSE(positions.ends_with_reset);
  EXPECT_EQ(SegmentBytes(f), Joined(set));
  ASSERT_TRUE(AppendOne(*f.log, MakeReset(9, 6)).ok());
  EXPECT_TRUE(f.log->Positions().ends_with_reset);
}

TEST(AppendMirrored, TakesBytesInAnyPiecesWithOneWrite) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const std::vector<TestBatch> set{MakeBatch({.base_offset = 0}), MakeBatch({.base_offset = 1})};
  const std::string bytes = Joined(set);
  std::vector<ByteView> pieces;
  for (size_t at = 0; at < bytes.size(); at += 7) {
    pieces.push_back(log::AsBytes(bytes).subspan(at, std::min<size_t>(7, bytes.size() - at)));
  }
  const std::vector<log::BatchInfo> infos{set[0].info, set[1].info};
  f.io.FailWrites(1000, EIO);  // counts
  ASSERT_TRUE(f.log->AppendMirrored(pieces, infos, 0, 100).ok());
  EXPECT_EQ(f.io.writes, 1);
  EXPECT_EQ(SegmentBytes(f), bytes);
}

TEST(AppendMirrored, RefusesWhatDoesNotContinueTheLog) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const TestBatch first = MakeBatch({.base_offset = 0, .count = 3});
  ASSERT_TRUE(AppendOne(*f.log, first).ok());
  const TestBatch second = MakeBatch({.base_offset = 3});
  EXPECT_EQ(AppendSet(*f.log, {{second}}, 2).code(), ErrorCode::kNotEnd);
  EXPECT_EQ(AppendOne(*f.log, first).code(), ErrorCode::kNotEnd) << "below the end";
  EXPECT_EQ(AppendSet(*f.log, {{second, second}}).code(), ErrorCode::kInvalidRecord);
  const std::vector<log::BatchInfo> infos{second.info};
  EXPECT_EQ(f.log->AppendMirrored(std::vector<ByteView>{second.bytes}, infos, 3, 99).code(),
            ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(AppendOne(*f.log, MakeBatch({.base_offset = 3, .leader_epoch = 101})).code(),
            ErrorCode::kFencedLeaderEpoch);
  const ByteView part = ByteView(second.bytes).first(second.bytes.size() - 1);
  EXPECT_EQ(f.log->AppendMirrored(std::vector<ByteView>{part}, infos, 3, 100).code(),
            ErrorCode::kInvalidRecord);
  EXPECT_EQ(f.log->Positions().log_end, 3);
  EXPECT_EQ(SegmentBytes(f), Joined({{first}}));
}

TEST(AppendMirrored, RestartsAnEmptyLogInsideTheFirstBatch) {
  LogFixture f;
  f.options.log_start = 5;
  ASSERT_TRUE(f.Open().ok());
  EXPECT_EQ(f.log->Positions().log_end, 5);
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 3, .count = 4})).ok());
  EXPECT_EQ(f.log->Positions().log_start, 3);
  EXPECT_EQ(f.log->Positions().log_end, 7);
  ASSERT_TRUE(f.log->RaiseLogStart(5).ok());
  EXPECT_EQ(f.log->Positions().log_start, 5);
  EXPECT_EQ(f.log->ReadBytes(5, 1000, ReadBound::kLogEnd)->size(),
            std::filesystem::file_size(f.options.directory + "/00000000000000000003.log"));
}

TEST(AppendMirrored, SplitsASetOverSegmentsAtBatchBorders) {
  LogFixture f;
  f.options.config.segment_bytes = 300;
  ASSERT_TRUE(f.Open().ok());
  std::vector<TestBatch> set;
  for (int i = 0; i < 7; ++i) set.push_back(MakeBatch({.base_offset = i, .value_bytes = 30}));
  ASSERT_TRUE(AppendSet(*f.log, set).ok());
  EXPECT_GE(f.log->SegmentCount(), 3);
  std::string bytes;
  for (const TestBatch& batch : ReadBatches(*f.log, 0)) {
    bytes.append(batch.bytes.begin(), batch.bytes.end());
  }
  EXPECT_EQ(bytes, Joined(set));
  EXPECT_EQ(AppendOne(*f.log, MakeBatch({.base_offset = 7, .value_bytes = 400})).code(),
            ErrorCode::kInvalidRecord);
}

TEST(AppendMirrored, TakesTimestampsAsFarAwayAsInt64Goes) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  int64_t offset = 0;
  for (const int64_t timestamp :
       {int64_t{1700000000000}, INT64_MIN, INT64_MAX, int64_t{-1}, INT64_MIN + 1}) {
    ASSERT_TRUE(
        AppendOne(*f.log, MakeBatch({.base_offset = offset++, .timestamp = timestamp})).ok())
        << timestamp;
  }
  EXPECT_EQ(ReadBatches(*f.log, 0).size(), 5u);
}

// Legacy entries of an old source: stored, no epochs, no producers.
TEST(AppendMirrored, ClearsTheEpochsAtALegacyEntry) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 0, .leader_epoch = 4})).ok());
  TestBatch legacy;
  legacy.bytes = {0, 0, 0, 0, 0, 0, 0, 1, 0,   0, 0, 16, 0, 0,
                  0, 0, 0, 0, 0, 0, 0, 1, 'k', 0, 0, 0,  1, 'v'};
  legacy = Parse(legacy.bytes);
  ASSERT_TRUE(AppendOne(*f.log, legacy).ok());
  EXPECT_TRUE(f.log->EpochHistory().empty());
  EXPECT_EQ(f.log->Positions().last_batch_epoch, -1);
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 2, .leader_epoch = 6})).ok());
  EXPECT_EQ(f.log->EpochHistory(), (std::vector<log::EpochStart>{{6, 2}}));
}

// S94, in the log: the same batches in every grouping give the same files, state and stable offset.
TEST(AppendMirrored, GivesTheSameStateForEveryGroupingOfASet) {
  const std::vector<TestBatch> log{
      MakeBatch({.base_offset = 0, .producer_id = 1, .producer_epoch = 5, .sequence = 10}),
      MakeBatch({.base_offset = 1, .producer_id = 2, .transactional = true}),
      MakeBatch({.base_offset = 2,
                 .producer_id = 1,
                 .producer_epoch = 5,
                 .sequence = 11,
                 .transactional = true}),
      MakeMarker(log::kControlAbort, 3, 1, 5, 7),
      MakeMarker(log::kControlAbort, 4, 2, 0, 7),
      MakeReset(5),
      MakeBatch({.base_offset = 6, .count = 2, .producer_id = 1, .sequence = 0})};
  std::string expected_index;
  for (uint32_t cuts = 0; cuts < 1u << (log.size() - 1); ++cuts) {
    LogFixture f;
    ASSERT_TRUE(f.Open().ok());
    size_t start = 0;
    for (size_t i = 0; i < log.size(); ++i) {
      if (i + 1 < log.size() && (cuts & (1u << i)) == 0) continue;
      ASSERT_TRUE(AppendSet(*f.log, std::span(log).subspan(start, i + 1 - start)).ok());
      start = i + 1;
    }
    const std::vector<log::ProducerInfo> only{{1, 0, 1, 7, 1, 1700000000001, -1, -1}};
    ASSERT_EQ(f.log->Producers(), only) << cuts;
    ASSERT_EQ(f.log->Positions().last_stable, 8);
    const std::string index = ReadAll(f.options.directory + "/00000000000000000000.txnindex");
    if (cuts == 0) expected_index = index;
    ASSERT_EQ(index.size(), 68u);
    ASSERT_EQ(index, expected_index);
    ASSERT_TRUE(f.Crash().ok());
    ASSERT_EQ(f.log->Producers(), only) << "replayed";
    ASSERT_EQ(ReadAll(f.options.directory + "/00000000000000000000.txnindex"), expected_index);
  }
}

// --- The barrier ---

TEST(LocalWrites, AreDecidedBeforeAnythingAboutProducers) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(
      AppendOne(*f.log, MakeBatch({.base_offset = 0, .producer_id = 7, .producer_epoch = 5})).ok());
  TestBatch old_epoch = MakeBatch({.producer_id = 7, .producer_epoch = 1, .transactional = true});
  TestBatch plain = MakeBatch({});
  f.log->SetLocalWrites(LocalWrites::kReadOnly);
  EXPECT_EQ(f.log->AppendAsLeader(old_epoch.bytes, 100).status().code(), ErrorCode::kReadOnly);
  EXPECT_EQ(f.log->AppendAsLeader(plain.bytes, 100).status().code(), ErrorCode::kReadOnly);
  f.log->SetLocalWrites(LocalWrites::kStopping);
  EXPECT_EQ(f.log->AppendAsLeader(old_epoch.bytes, 100).status().code(),
            ErrorCode::kNotEnoughReplicas);
  EXPECT_EQ(f.log->Positions().local_writes, LocalWrites::kStopping);
  EXPECT_TRUE(f.log->AppendPidReset(100).ok());
  EXPECT_TRUE(f.log->AppendInternal(plain.bytes, 100).ok());
  f.log->SetLocalWrites(LocalWrites::kAllowed);
  EXPECT_TRUE(f.log->AppendAsLeader(plain.bytes, 100).ok());
}

// --- Clients ---

TEST(AppendAsLeader, AssignsOffsetsAndTheLeaderEpochInPlace) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 0, .count = 4, .leader_epoch = 3})).ok());
  TestBatch batch = MakeBatch({.base_offset = 0, .count = 2, .leader_epoch = -1});
  auto appended = f.log->AppendAsLeader(batch.bytes, 100);
  ASSERT_TRUE(appended.ok()) << appended.status().ToString();
  EXPECT_EQ(appended->base_offset, 4);
  EXPECT_EQ(appended->last_offset, 5);
  EXPECT_EQ(appended->log_append_time, -1);
  const auto stored = ReadBatches(*f.log, 4);
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].info.leader_epoch, 100);
  EXPECT_TRUE(log::CheckBatchCrc(stored[0].bytes, stored[0].info));
  EXPECT_EQ(f.log->EpochHistory(), (std::vector<log::EpochStart>{{3, 0}, {100, 4}}));
  EXPECT_EQ(f.log->AppendAsLeader(batch.bytes, 99).status().code(), ErrorCode::kFencedLeaderEpoch);
}

TEST(AppendAsLeader, StampsLogAppendTime) {
  LogFixture f;
  f.options.config.log_append_time = true;
  ASSERT_TRUE(f.Open().ok());
  TestBatch batch = MakeBatch({.count = 2, .producer_id = 4});
  auto appended = f.log->AppendAsLeader(batch.bytes, 100);
  ASSERT_TRUE(appended.ok());
  EXPECT_EQ(appended->log_append_time, f.clock.now_ms);
  const auto stored = ReadBatches(*f.log, 0);
  EXPECT_TRUE(stored[0].info.IsLogAppendTime());
  EXPECT_EQ(stored[0].info.max_timestamp, f.clock.now_ms);
  EXPECT_TRUE(log::CheckBatchCrc(stored[0].bytes, stored[0].info));
  f.clock.now_ms += 500;
  TestBatch again = MakeBatch({.count = 2, .producer_id = 4});
  auto repeat = f.log->AppendAsLeader(again.bytes, 100);
  ASSERT_TRUE(repeat.ok() && repeat->duplicate);
  EXPECT_EQ(repeat->base_offset, 0);
  EXPECT_EQ(repeat->log_append_time, f.clock.now_ms - 500);
}

TEST(AppendAsLeader, RefusesWhatNoClientMaySend) {
  LogFixture f;
  f.options.config.max_message_bytes = 500;
  ASSERT_TRUE(f.Open().ok());
  const auto code = [&](std::vector<uint8_t> bytes) {
    return f.log->AppendAsLeader(bytes, 100).status().code();
  };
  std::vector<uint8_t> damaged = MakeBatch({}).bytes;
  damaged.back() ^= 1;
  EXPECT_EQ(code(damaged), ErrorCode::kCorruptMessage);
  std::vector<uint8_t> cut = MakeBatch({}).bytes;
  cut.pop_back();
  EXPECT_EQ(code(cut), ErrorCode::kCorruptMessage);
  EXPECT_EQ(code({}), ErrorCode::kInvalidRecord);
  EXPECT_EQ(code(MakeReset(0).bytes), ErrorCode::kInvalidRecord);
  EXPECT_EQ(code(MakeMarker(log::kControlAbort, 0, 1).bytes), ErrorCode::kInvalidRecord);
  EXPECT_EQ(code(MakeBatch({.value_bytes = 600}).bytes), ErrorCode::kMessageTooLarge);
  EXPECT_EQ(code(MakeBatch({.count = 2, .last_delta = 5}).bytes), ErrorCode::kInvalidRecord);
  EXPECT_EQ(code(MakeBatch({.timestamp = f.clock.now_ms + 3600001}).bytes),
            ErrorCode::kInvalidTimestamp);
  EXPECT_EQ(code(MakeBatch({.producer_id = 3, .transactional = true}).bytes),
            ErrorCode::kInvalidProducerIdMapping);
  std::vector<uint8_t> two = MakeBatch({.producer_id = 3}).bytes;
  const std::vector<uint8_t> more = MakeBatch({.producer_id = 3, .sequence = 1}).bytes;
  two.insert(two.end(), more.begin(), more.end());
  EXPECT_EQ(code(two), ErrorCode::kInvalidRecord);
  std::vector<uint8_t> legacy{0, 0, 0, 0, 0, 0, 0, 1, 0,   0, 0, 16, 0, 0,
                              0, 0, 0, 0, 0, 0, 0, 1, 'k', 0, 0, 0,  1, 'v'};
  EXPECT_EQ(code(legacy), ErrorCode::kUnsupportedForMessageFormat);
  EXPECT_EQ(f.log->Positions().log_end, 0);
  EXPECT_EQ(SegmentBytes(f), "");
}

TEST(AppendAsLeader, AnswersARepeatWithItsFirstOffsetAndASequenceGapWith45) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  for (int i = 0; i < 3; ++i) {
    TestBatch batch = MakeBatch({.count = 2, .producer_id = 9, .sequence = i * 2});
    ASSERT_TRUE(f.log->AppendAsLeader(batch.bytes, 100).ok());
  }
  TestBatch repeat = MakeBatch({.count = 2, .producer_id = 9, .sequence = 2});
  auto answer = f.log->AppendAsLeader(repeat.bytes, 100);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->duplicate);
  EXPECT_EQ(answer->base_offset, 2);
  TestBatch gap = MakeBatch({.producer_id = 9, .sequence = 7});
  EXPECT_EQ(f.log->AppendAsLeader(gap.bytes, 100).status().code(),
            ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_EQ(f.log->Positions().log_end, 6);
  // Over a restart the latest batch is still known.
  ASSERT_TRUE(f.CloseAndOpen().ok());
  TestBatch last = MakeBatch({.count = 2, .producer_id = 9, .sequence = 4});
  auto known = f.log->AppendAsLeader(last.bytes, 100);
  ASSERT_TRUE(known.ok());
  EXPECT_TRUE(known->duplicate);
}

TEST(AppendAsLeader, TakesAnySequenceFromAProducerAResetForgot) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(
      AppendOne(
          *f.log,
          MakeBatch({.base_offset = 0, .producer_id = 3, .producer_epoch = 4, .sequence = 50}))
          .ok());
  ASSERT_TRUE(f.log->AppendPidReset(100).ok());
  TestBatch fresh = MakeBatch({.producer_id = 3, .producer_epoch = 0, .sequence = 0});
  auto answer = f.log->AppendAsLeader(fresh.bytes, 100);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_FALSE(answer->duplicate);
  EXPECT_EQ(answer->base_offset, 2);
}

TEST(AppendAsLeader, WantsKeysOnACompactedTopic) {
  LogFixture f;
  f.options.config.compacted = true;
  ASSERT_TRUE(f.Open().ok());
  log::RecordBatchBuilder builder;
  builder.Add(1700000000000, std::nullopt, log::AsBytes("v"));
  auto bytes = builder.Build();
  EXPECT_EQ(f.log->AppendAsLeader(bytes, 100).status().code(), ErrorCode::kInvalidRecord);
}

// --- The stop ---

TEST(AppendAbort, EndsEveryOpenTransactionAsTheEntryHasIt) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const std::vector<TestBatch> set{MakeBatch({.base_offset = 0,
                                              .leader_epoch = 5,
                                              .producer_id = 11,
                                              .producer_epoch = 3,
                                              .transactional = true}),
                                   MakeMarker(log::kControlCommit, 1, 12, 1, 6, 5),
                                   MakeBatch({.base_offset = 2,
                                              .leader_epoch = 5,
                                              .producer_id = 12,
                                              .producer_epoch = 1,
                                              .transactional = true})};
  ASSERT_TRUE(AppendSet(*f.log, set).ok());
  f.log->SetLocalWrites(LocalWrites::kStopping);
  EXPECT_EQ(f.log->Positions().last_stable, 0);
  for (const log::OpenTransaction& open : f.log->OpenTransactions()) {
    ASSERT_TRUE(f.log->AppendAbort(open.producer_id, 100).ok());
  }
  EXPECT_EQ(f.log->AppendAbort(11, 100).status().code(), ErrorCode::kInvalidProducerIdMapping);
  ASSERT_TRUE(f.log->AppendPidReset(100).ok());
  const auto batches = ReadBatches(*f.log, 3);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_EQ(batches[0].info.producer_id, 11);
  EXPECT_EQ(batches[0].info.producer_epoch, 3);
  EXPECT_EQ(batches[0].info.coordinator_epoch, 0) << "never seen";
  EXPECT_EQ(batches[1].info.producer_id, 12);
  EXPECT_EQ(batches[1].info.coordinator_epoch, 6);
  EXPECT_EQ(batches[2].info.control_type, log::kControlMirrorPidReset);
  for (const TestBatch& batch : batches) EXPECT_EQ(batch.info.leader_epoch, 100);
  EXPECT_TRUE(f.log->Producers().empty());
  EXPECT_EQ(f.log->Positions().last_stable, 6);
  EXPECT_TRUE(f.log->Positions().ends_with_reset);
  EXPECT_EQ(*f.log->AbortedTransactions(0, 6), (std::vector<AbortedTransaction>{{11, 0}, {12, 2}}));
}

TEST(Leadership, RefusesAnOlderEpochAndRemembersWhereItBegan) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 0, .count = 5, .leader_epoch = 8})).ok());
  EXPECT_EQ(f.log->BecomeLeader(99, false).code(), ErrorCode::kFencedLeaderEpoch);
  ASSERT_TRUE(f.log->BecomeLeader(120, true).ok());
  EXPECT_EQ(f.log->Positions().leader_epoch_start, 5);
  EXPECT_EQ(f.log->EpochHistory(), (std::vector<log::EpochStart>{{8, 0}, {120, 5}}));
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 5, .leader_epoch = 120})).ok());
  ASSERT_TRUE(f.log->TruncateTo(0).ok());
  EXPECT_EQ(f.log->Positions().leader_epoch_start, 0) << "lowered with the end";
}

// --- Disks that refuse ---

TEST(FullDisk, LeavesNothingVisibleAndTheLogUsable) {
  for (const int error : {ENOSPC, EDQUOT, EROFS}) {
    LogFixture f;
    ASSERT_TRUE(f.Open().ok());
    const TestBatch first = MakeBatch({.base_offset = 0, .producer_id = 1, .transactional = true});
    ASSERT_TRUE(AppendOne(*f.log, first).ok());
    f.io.FailWrites(0, error, 50);
    const std::vector<TestBatch> set{MakeMarker(log::kControlAbort, 1, 1), MakeReset(2)};
    const Status refused = AppendSet(*f.log, set);
    EXPECT_EQ(refused.code(), error == EROFS ? ErrorCode::kIo : ErrorCode::kNoSpace);
    EXPECT_EQ(f.log->Positions().log_end, 1);
    EXPECT_EQ(f.log->Positions().last_stable, 0);
    EXPECT_EQ(SegmentBytes(f), Joined({{first}})) << "the torn tail is gone";
    EXPECT_EQ(f.log->Producers().size(), 1u);
    f.io.Heal();
    ASSERT_TRUE(AppendSet(*f.log, set).ok());
    EXPECT_EQ(f.log->Positions().log_end, 3);
    EXPECT_TRUE(f.log->Producers().empty());
  }
}

TEST(FullDisk, TakesBackASetWhoseTransactionIndexCouldNotBeWritten) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const TestBatch open = MakeBatch({.base_offset = 0, .producer_id = 1, .transactional = true});
  ASSERT_TRUE(AppendOne(*f.log, open).ok());
  f.io.FailWrites(1, ENOSPC, 10);  // the bytes go through, the index entry does not
  EXPECT_EQ(AppendOne(*f.log, MakeMarker(log::kControlAbort, 1, 1)).code(), ErrorCode::kNoSpace);
  f.io.Heal();
  EXPECT_EQ(f.log->Positions().log_end, 1);
  EXPECT_EQ(SegmentBytes(f), Joined({{open}}));
  EXPECT_EQ(f.log->OpenTransactions().size(), 1u);
  ASSERT_TRUE(AppendOne(*f.log, MakeMarker(log::kControlAbort, 1, 1)).ok());
  EXPECT_EQ(ReadAll(f.options.directory + "/00000000000000000000.txnindex").size(), 34u);
}

TEST(BrokenDisk, TakesTheLogOfflineWhenATornTailCannotBeCut) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  const TestBatch first = MakeBatch({.base_offset = 0});
  ASSERT_TRUE(AppendOne(*f.log, first).ok());
  f.io.FailWrites(0, EIO, 30);
  f.io.fail_truncates = true;
  EXPECT_EQ(AppendOne(*f.log, MakeBatch({.base_offset = 1})).code(), ErrorCode::kKafkaStorageError);
  f.io.Heal();
  EXPECT_FALSE(f.log->offline().ok());
  EXPECT_EQ(AppendOne(*f.log, MakeBatch({.base_offset = 1})).code(), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(ReadBatches(*f.log, 0).size(), 1u) << "what was there is still served";
  ASSERT_TRUE(f.log->Reopen().ok());
  EXPECT_EQ(f.log->load_report().torn_bytes, 30);
  EXPECT_EQ(f.log->Positions().leader_epoch, 100) << "leadership is not the disk's";
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 1})).ok());
}

class CountingListener : public PartitionLogListener {
 public:
  void OnLogChanged(PartitionLog& log) noexcept override {
    ++changes;
    end = log.Positions().log_end;
  }
  void OnLogOffline(PartitionLog&, const Status&) noexcept override { ++offline; }
  int changes = 0;
  int offline = 0;
  int64_t end = -1;
};

TEST(BrokenDisk, TakesTheLogOfflineWhenASyncFails) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  CountingListener listener;
  f.log->SetListener(&listener);
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 0, .leader_epoch = -1})).ok());
  EXPECT_EQ(listener.end, 1);
  ASSERT_TRUE(f.log->Sync().ok());
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 1, .leader_epoch = -1})).ok());
  f.io.fail_syncs = true;
  EXPECT_EQ(f.log->Sync().status().code(), ErrorCode::kKafkaStorageError);
  EXPECT_EQ(f.log->RecoveryPoint(), 1);
  EXPECT_EQ(listener.offline, 1);
  f.io.Heal();
  EXPECT_EQ(f.log->Sync().status().code(), ErrorCode::kKafkaStorageError)
      << "a second sync would lie";
  ASSERT_TRUE(f.log->Reopen().ok());
  EXPECT_EQ(*f.log->Sync(), 2);
  f.log->SetListener(nullptr);
}

TEST(Listener, HearsOfEveryChangeAfterItIsVisible) {
  LogFixture f;
  ASSERT_TRUE(f.Open().ok());
  CountingListener listener;
  f.log->SetListener(&listener);
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 0, .count = 3})).ok());
  EXPECT_EQ(listener.changes, 1);
  EXPECT_EQ(listener.end, 3);
  ASSERT_TRUE(f.log->TruncateTo(0).ok());
  EXPECT_EQ(listener.end, 0);
  f.log->SetListener(nullptr);
}

TEST(FlushMessages, SyncsAfterSoManyRecords) {
  LogFixture f;
  f.options.config.flush_messages = 3;
  ASSERT_TRUE(f.Open().ok());
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 0, .count = 2})).ok());
  EXPECT_EQ(f.log->RecoveryPoint(), 0);
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 2})).ok());
  EXPECT_EQ(f.log->RecoveryPoint(), 3);
  f.options.config.flush_messages = INT64_MAX;
  f.options.config.flush_ms = 1000;
  f.log->SetConfig(f.options.config);
  ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = 3})).ok());
  ASSERT_TRUE(f.log->MaybeFlush(f.clock.now_ms + 999).ok());
  EXPECT_EQ(f.log->RecoveryPoint(), 3);
  ASSERT_TRUE(f.log->MaybeFlush(f.clock.now_ms + 1000).ok());
  EXPECT_EQ(f.log->RecoveryPoint(), 4);
}

TEST(SyncClosedSegments, MovesTheRecoveryPointToTheActiveSegment) {
  LogFixture f;
  f.options.config.segment_bytes = 300;
  ASSERT_TRUE(f.Open().ok());
  std::vector<TestBatch> set;
  for (int i = 0; i < 7; ++i)
    set.push_back(MakeBatch({.base_offset = i, .leader_epoch = 1, .value_bytes = 30}));
  ASSERT_TRUE(AppendSet(*f.log, set).ok());
  ASSERT_EQ(f.log->SegmentCount(), 3);
  ASSERT_TRUE(f.log->SyncClosedSegments().ok());
  EXPECT_EQ(f.log->RecoveryPoint(), 6);
  const int syncs = f.io.syncs;
  ASSERT_TRUE(f.log->SyncClosedSegments().ok());
  EXPECT_EQ(f.io.syncs, syncs) << "nothing to do";
  ASSERT_TRUE(f.Crash().ok());
  EXPECT_EQ(f.log->load_report().scanned_segments, 1);
  EXPECT_EQ(f.log->Positions().log_end, 7);
  EXPECT_EQ(f.log->EpochHistory(), (std::vector<log::EpochStart>{{1, 0}}));
}

TEST(Preallocation, ReservesAheadWithoutChangingTheSize) {
  LogFixture f;
  f.options.config.preallocate_ahead_bytes = 1 << 20;
  ASSERT_TRUE(f.Open().ok());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(AppendOne(*f.log, MakeBatch({.base_offset = i, .value_bytes = 100000})).ok());
  }
  EXPECT_EQ(static_cast<int64_t>(
                std::filesystem::file_size(f.options.directory + "/00000000000000000000.log")),
            f.log->SizeBytes());
  ASSERT_TRUE(f.CloseAndOpen().ok());
  EXPECT_EQ(f.log->Positions().log_end, 8);
}

}  // namespace
}  // namespace kmirror::broker::test
