// The rules of host::PartitionLog: appends, cuts, epochs, transactions, control batches.
#include <gmock/gmock.h>

#include <algorithm>

#include "conformance/host_conformance.h"
#include "kmirror/log/checksum.h"

namespace kmirror::conformance {
namespace {

using host::AppendCode;
using testing::ElementsAre;
using testing::IsEmpty;

Bytes Data(int64_t base, int32_t epoch, int records = 1) {
  return DataBatch({.base_offset = base, .leader_epoch = epoch}, records);
}
Bytes Txn(int64_t base, int64_t producer, int16_t producer_epoch = 0, int sequence = 0) {
  return DataBatch({.base_offset = base,
                    .leader_epoch = 5,
                    .producer_id = producer,
                    .producer_epoch = producer_epoch,
                    .base_sequence = sequence,
                    .transactional = true});
}

// A batch whose records a cleaner has removed: header only, its offsets stay.
Bytes Emptied(int64_t base, int32_t last_delta, int32_t epoch) {
  Bytes batch = Data(base, epoch, last_delta + 1);
  batch.resize(log::kBatchHeaderBytes);
  auto put = [&](size_t at, uint32_t value) {
    for (int i = 0; i < 4; ++i) batch[at + static_cast<size_t>(i)] = uint8_t(value >> (24 - 8 * i));
  };
  put(8, log::kBatchHeaderBytes - log::kBatchPrefixBytes);
  put(57, 0);
  put(log::kBatchCrcOffset, log::Crc32c(0, ByteView(batch).subspan(log::kBatchCrcStart)));
  return batch;
}

Bytes Join(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<std::pair<int32_t, int64_t>> Pairs(const std::vector<host::EpochEntry>& entries) {
  std::vector<std::pair<int32_t, int64_t>> pairs;
  for (const host::EpochEntry& entry : entries) pairs.emplace_back(entry.epoch, entry.start_offset);
  return pairs;
}

// ---- AppendMirrored

TEST_P(HostConformance, AMirroredSetIsStoredUnchangedAndVisibleAtOnce) {
  MakeLog();
  const std::vector<Bytes> batches = {Data(0, 3, 4), Data(4, 3, 1), Data(5, 5, 7)};
  const host::AppendResult result = Append(log_, batches);
  ASSERT_EQ(result.code, AppendCode::kOk);
  EXPECT_EQ(result.end_offset, 12);
  const host::LogView view = log_->View();
  EXPECT_EQ(view.end, 12);
  EXPECT_EQ(view.last_batch_epoch, 5);
  EXPECT_EQ(view.latest_epoch, 5);
  ExpectConsistent(view);
  EXPECT_EQ(fixture_->ReadLog(partition_), Join(batches));
}

TEST_P(HostConformance, PiecesOfTheBytesNeedNotMatchTheBatches) {
  MakeLog();
  OwnedSet set({Data(0, 3, 4), Data(4, 3, 1), Data(5, 5, 7)}, 0, Epoch());
  set.CutPieces(37);
  ASSERT_EQ(AppendSet(log_, set.get()).code, AppendCode::kOk);
  EXPECT_EQ(fixture_->ReadLog(partition_), set.all());
}

TEST_P(HostConformance, AnAppendNotAtTheEndIsRefusedWithoutEffect) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 4)}).code, AppendCode::kOk);
  for (const int64_t expected : {0, 3, 5}) {
    OwnedSet set({Data(4, 3)}, expected, Epoch());
    EXPECT_EQ(AppendSet(log_, set.get()).code, AppendCode::kNotEnd) << expected;
  }
  EXPECT_EQ(log_->View().end, 4);
}

TEST_P(HostConformance, AnAppendUnderAnotherLeaderEpochIsFencedWithoutEffect) {
  MakeLog();
  for (const int32_t epoch : {Epoch() - 1, Epoch() + 1}) {
    OwnedSet set({Data(0, 3)}, 0, epoch);
    EXPECT_EQ(AppendSet(log_, set.get()).code, AppendCode::kFenced) << epoch;
  }
  EXPECT_EQ(log_->View().end, 0);
  EXPECT_THAT(fixture_->ReadLog(partition_), IsEmpty());
}

TEST_P(HostConformance, ASetIsTakenWholeOrNotAtAll) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 4)}).code, AppendCode::kOk);
  const Bytes before = fixture_->ReadLog(partition_);
  // The last of three goes back in offsets.
  EXPECT_EQ(Append(log_, {Data(4, 3, 2), Data(6, 4, 2), Data(5, 4, 1)}).code, AppendCode::kRefused);
  EXPECT_EQ(log_->View().end, 4);
  EXPECT_EQ(log_->View().latest_epoch, 3);
  EXPECT_EQ(fixture_->ReadLog(partition_), before);
  // A batch outside the open transaction of its own producer, after one that opened it.
  const Bytes outside = DataBatch({.base_offset = 5,
                                   .leader_epoch = 5,
                                   .producer_id = 9,
                                   .producer_epoch = 0,
                                   .base_sequence = 1});
  EXPECT_EQ(Append(log_, {Txn(4, 9), outside}).code, AppendCode::kRefused);
  EXPECT_THAT(log_->OpenTransactions(), IsEmpty());
  EXPECT_EQ(fixture_->ReadLog(partition_), before);
  EXPECT_EQ(Append(log_, {Data(4, 3, 2)}).code, AppendCode::kOk);
}

TEST_P(HostConformance, HolesBetweenBatchesStay) {
  MakeLog();
  const std::vector<Bytes> batches = {Data(10, 3, 2), Data(20, 3, 1)};
  ASSERT_EQ(Append(log_, batches).code, AppendCode::kOk);
  EXPECT_EQ(log_->View().end, 21);
  EXPECT_EQ(log_->View().log_start, 0);
  EXPECT_EQ(fixture_->ReadLog(partition_), Join(batches));
}

TEST_P(HostConformance, ABatchWithoutRecordsIsAnOrdinaryBatch) {
  MakeLog();
  const std::vector<Bytes> batches = {Emptied(0, 9, 3), Data(10, 3)};
  ASSERT_EQ(Append(log_, batches).code, AppendCode::kOk);
  EXPECT_EQ(log_->View().end, 11);
  EXPECT_EQ(fixture_->ReadLog(partition_), Join(batches));
}

TEST_P(HostConformance, AnEmptyLogInsideTheFirstBatchRestartsAtThatBatch) {
  MakeLog();
  const Status status =
      Call([&](host::Completion done) { log_->RestartAt(55, Epoch(), std::move(done)); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::vector<Bytes> batches = {Data(50, 3, 10), Data(60, 3, 2)};
  ASSERT_EQ(Append(log_, batches).code, AppendCode::kOk);
  EXPECT_EQ(log_->View().end, 62);
  EXPECT_LE(log_->View().log_start, 55);
  EXPECT_EQ(fixture_->ReadLog(partition_), Join(batches));
  // With data there, a batch below the end is an error, whether it is told as the set's or the
  // end's.
  const AppendCode below = Append(log_, {Data(61, 3, 4)}).code;
  EXPECT_TRUE(below == AppendCode::kRefused || below == AppendCode::kNotEnd);
  EXPECT_EQ(log_->View().end, 62);
}

// ---- Epochs

TEST_P(HostConformance, EpochsOfBatchesMakeTheHistoryAndTheLeadersOwnDoesNot) {
  MakeLog();
  EXPECT_THAT(log_->Epochs(), IsEmpty());
  EXPECT_EQ(log_->View().last_batch_epoch, -1);
  ASSERT_EQ(Append(log_, {Data(0, 3, 60)}).code, AppendCode::kOk);
  ASSERT_EQ(Append(log_, {Data(60, 5, 20), Data(80, 7, 20)}).code, AppendCode::kOk);
  EXPECT_THAT(Pairs(log_->Epochs()),
              ElementsAre(std::pair(3, 0), std::pair(5, 60), std::pair(7, 80)));
  auto end_of = [&](int32_t epoch) {
    const host::EpochEnd end = log_->EndOffsetForEpoch(epoch);
    return std::pair<int32_t, int64_t>(end.epoch, end.end_offset);
  };
  EXPECT_EQ(end_of(3), (std::pair<int32_t, int64_t>(3, 60)));
  EXPECT_EQ(end_of(4), (std::pair<int32_t, int64_t>(3, 60)));
  EXPECT_EQ(end_of(5), (std::pair<int32_t, int64_t>(5, 80)));
  EXPECT_EQ(end_of(7), (std::pair<int32_t, int64_t>(7, 100)));
  EXPECT_EQ(end_of(8), (std::pair<int32_t, int64_t>(-1, -1)));
  EXPECT_EQ(end_of(1), (std::pair<int32_t, int64_t>(1, 0)));
  EXPECT_EQ(end_of(-1), (std::pair<int32_t, int64_t>(-1, -1)));
  EXPECT_EQ(log_->EpochBefore(100), 7);
  EXPECT_EQ(log_->EpochBefore(81), 7);
  EXPECT_EQ(log_->EpochBefore(80), 5);
  EXPECT_EQ(log_->EpochBefore(60), 3);
  EXPECT_EQ(log_->EpochBefore(0), -1);
}

TEST_P(HostConformance, ARaisedLeaderEpochMakesNoEntryWhileTheTopicIsAMirror) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 10)}).code, AppendCode::kOk);
  BumpAbove(partition_, 40);
  EXPECT_THAT(Pairs(log_->Epochs()), ElementsAre(std::pair(3, 0)));
  EXPECT_EQ(log_->View().latest_epoch, 3);
  ASSERT_EQ(Append(log_, {Data(10, 4, 10)}).code, AppendCode::kOk);
  EXPECT_THAT(Pairs(log_->Epochs()), ElementsAre(std::pair(3, 0), std::pair(4, 10)));
}

// ---- Cuts

TEST_P(HostConformance, TruncateRemovesWholeBatchesAndWhatTheyMeant) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 4), Txn(4, 9), Data(5, 5, 5), Txn(10, 8)}).code,
            AppendCode::kOk);
  // 7 lies inside the batch 5..9, which goes as a whole.
  Status status = Call([&](host::Completion done) { log_->Truncate(7, Epoch(), std::move(done)); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  host::LogView view = log_->View();
  EXPECT_EQ(view.end, 5);
  EXPECT_EQ(view.high_watermark, 5);
  EXPECT_EQ(view.last_stable_offset, 4);
  ExpectConsistent(view);
  ASSERT_EQ(log_->OpenTransactions().size(), 1u);
  EXPECT_EQ(log_->OpenTransactions()[0].producer_id, 9);
  EXPECT_EQ(fixture_->ReadLog(partition_), Join({Data(0, 3, 4), Txn(4, 9)}));
  status = Call([&](host::Completion done) { log_->Truncate(4, Epoch(), std::move(done)); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_THAT(log_->OpenTransactions(), IsEmpty());
  EXPECT_THAT(Pairs(log_->Epochs()), ElementsAre(std::pair(3, 0)));
  EXPECT_EQ(log_->View().last_stable_offset, 4);
  ASSERT_EQ(Append(log_, {Data(4, 9, 2)}).code, AppendCode::kOk);
  EXPECT_THAT(Pairs(log_->Epochs()), ElementsAre(std::pair(3, 0), std::pair(9, 4)));
}

TEST_P(HostConformance, TruncateAtOrAboveTheEndKeepsEveryBatch) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 4)}).code, AppendCode::kOk);
  for (const int64_t offset : {4, 1000}) {
    const Status status =
        Call([&](host::Completion done) { log_->Truncate(offset, Epoch(), std::move(done)); });
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  EXPECT_EQ(log_->View().end, 4);
  EXPECT_EQ(fixture_->ReadLog(partition_), Data(0, 3, 4));
}

TEST_P(HostConformance, TruncateToTheStartEmptiesTheLog) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 4), Txn(4, 9)}).code, AppendCode::kOk);
  const Status status =
      Call([&](host::Completion done) { log_->Truncate(0, Epoch(), std::move(done)); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  const host::LogView view = log_->View();
  EXPECT_EQ(view.end, 0);
  EXPECT_EQ(view.last_batch_epoch, -1);
  EXPECT_THAT(log_->Epochs(), IsEmpty());
  EXPECT_THAT(log_->OpenTransactions(), IsEmpty());
  EXPECT_THAT(fixture_->ReadLog(partition_), IsEmpty());
  EXPECT_EQ(Append(log_, {Data(0, 6, 2)}).code, AppendCode::kOk);
}

TEST_P(HostConformance, RestartAtLeavesAnEmptyLogThere) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 4), Txn(4, 9)}).code, AppendCode::kOk);
  const Status status =
      Call([&](host::Completion done) { log_->RestartAt(500, Epoch(), std::move(done)); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  const host::LogView view = log_->View();
  EXPECT_EQ(view.log_start, 500);
  EXPECT_EQ(view.last_stable_offset, 500);
  EXPECT_EQ(view.high_watermark, 500);
  EXPECT_EQ(view.end, 500);
  EXPECT_THAT(log_->Epochs(), IsEmpty());
  EXPECT_THAT(log_->OpenTransactions(), IsEmpty());
  EXPECT_THAT(fixture_->ReadLog(partition_), IsEmpty());
  ASSERT_EQ(Append(log_, {Data(500, 6, 3)}).code, AppendCode::kOk);
  EXPECT_EQ(log_->View().end, 503);
}

TEST_P(HostConformance, CutsUnderAnotherLeaderEpochAreFencedWithoutEffect) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 4)}).code, AppendCode::kOk);
  const int32_t stale = Epoch() - 1;
  EXPECT_EQ(Call([&](host::Completion done) { log_->Truncate(0, stale, std::move(done)); }).code(),
            ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(Call([&](host::Completion done) { log_->RestartAt(9, stale, std::move(done)); }).code(),
            ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(Call([&](host::Completion done) { log_->AppendReset(stale, std::move(done)); }).code(),
            ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(
      Call([&](host::Completion done) { log_->AwaitReplicated(stale, std::move(done)); }).code(),
      ErrorCode::kFencedLeaderEpoch);
  EXPECT_EQ(log_->View().end, 4);
}

TEST_P(HostConformance, TheLogStartRisesToTheHighWatermarkAtMostAndNeverFalls) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 3, 10), Data(10, 5, 10)}).code, AppendCode::kOk);
  EXPECT_TRUE(log_->RaiseLogStart(12).ok());
  EXPECT_EQ(log_->View().log_start, 12);
  EXPECT_THAT(Pairs(log_->Epochs()), ElementsAre(std::pair(5, 12)));
  EXPECT_TRUE(log_->RaiseLogStart(3).ok());
  EXPECT_TRUE(log_->RaiseLogStart(-1).ok());
  EXPECT_EQ(log_->View().log_start, 12);
  EXPECT_TRUE(log_->RaiseLogStart(1000).ok());
  const host::LogView view = log_->View();
  EXPECT_EQ(view.log_start, view.high_watermark);
  EXPECT_EQ(view.end, 20);
  ExpectConsistent(view);
  EXPECT_EQ(Append(log_, {Data(20, 5)}).code, AppendCode::kOk);
}

// ---- Transactions and control batches

TEST_P(HostConformance, OpenTransactionsComeInOrderOfFirstOffsetWithTheEpochsTheyHold) {
  MakeLog();
  EXPECT_EQ(log_->MaxProducerId(), -1);
  ASSERT_EQ(Append(log_, {Txn(0, 30, 2), Txn(1, 10), Txn(2, 20, 1), Txn(3, 10, 0, 1)}).code,
            AppendCode::kOk);
  std::vector<host::OpenTransaction> open = log_->OpenTransactions();
  ASSERT_EQ(open.size(), 3u);
  EXPECT_EQ(open[0].producer_id, 30);
  EXPECT_EQ(open[0].producer_epoch, 2);
  EXPECT_EQ(open[0].coordinator_epoch, -1);
  EXPECT_EQ(open[1].producer_id, 10);
  EXPECT_EQ(open[1].first_offset, 1);
  EXPECT_EQ(open[2].producer_id, 20);
  EXPECT_EQ(log_->View().last_stable_offset, 0);
  EXPECT_EQ(log_->MaxProducerId(), 30);

  const Bytes commit =
      Marker(log::kControlCommit,
             {.base_offset = 4, .leader_epoch = 5, .producer_id = 30, .producer_epoch = 2},
             /*coordinator_epoch=*/7);
  ASSERT_EQ(Append(log_, {commit, Txn(5, 30, 2, 1)}).code, AppendCode::kOk);
  open = log_->OpenTransactions();
  ASSERT_EQ(open.size(), 3u);
  EXPECT_EQ(open[0].producer_id, 10);
  EXPECT_EQ(open[2].producer_id, 30);
  EXPECT_EQ(open[2].first_offset, 5);
  EXPECT_EQ(open[2].coordinator_epoch, 7);
  EXPECT_EQ(log_->View().last_stable_offset, 1);
  ExpectConsistent(log_->View());
}

TEST_P(HostConformance, AnAbortMarkerHasExactlyTheBytesOfTheSpecification) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 5, 3), Txn(3, 4002, 3)}).code, AppendCode::kOk);
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  const host::OpenTransaction txn = log_->OpenTransactions().at(0);
  const Status status =
      Call([&](host::Completion done) { log_->AppendAbort(txn, Epoch(), std::move(done)); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(log_->View().end, 5);
  EXPECT_EQ(log_->View().high_watermark, 5);
  EXPECT_EQ(log_->View().last_stable_offset, 5);
  EXPECT_EQ(log_->View().last_batch_epoch, Epoch());
  EXPECT_THAT(log_->OpenTransactions(), IsEmpty());
  const Bytes all = fixture_->ReadLog(partition_);
  ASSERT_GE(all.size(), log::kEndTxnBatchBytes);
  const Bytes stored(all.end() - log::kEndTxnBatchBytes, all.end());
  log::BatchInfo info;
  ASSERT_EQ(log::ParseBatchHeader(stored, &info), log::ParseResult::kOk);
  // A coordinator epoch never seen is written as 0 (R18).
  const auto expected =
      log::EndTxnBatch(log::kControlAbort, 4, Epoch(), info.max_timestamp, 4002, 3, 0);
  EXPECT_EQ(stored, Bytes(expected.begin(), expected.end()));
}

TEST_P(HostConformance, AResetHasExactlyItsBytesAndForgetsEveryProducer) {
  MakeLog();
  const Bytes idempotent = DataBatch({.base_offset = 0,
                                      .leader_epoch = 5,
                                      .producer_id = 77,
                                      .producer_epoch = 4,
                                      .base_sequence = 10});
  ASSERT_EQ(Append(log_, {idempotent}).code, AppendCode::kOk);
  EXPECT_FALSE(log_->EndsWithReset());
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  Status status = Call([&](host::Completion done) { log_->AppendReset(Epoch(), std::move(done)); });
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(log_->EndsWithReset());
  const Bytes all = fixture_->ReadLog(partition_);
  ASSERT_GE(all.size(), log::kPidResetBatchBytes);
  const Bytes stored(all.end() - log::kPidResetBatchBytes, all.end());
  log::BatchInfo info;
  ASSERT_EQ(log::ParseBatchHeader(stored, &info), log::ParseResult::kOk);
  const auto expected = log::PidResetBatch(1, Epoch(), info.max_timestamp);
  EXPECT_EQ(stored, Bytes(expected.begin(), expected.end()));

  // The producer is unknown now: a lower epoch and a sequence out of order are taken.
  status = log_->SetLocalWrites(host::LocalWrites::kAllowed, Epoch(), mirror_->version());
  ASSERT_TRUE(status.ok()) << status.ToString();
  const Result<int64_t> offset = fixture_->Produce(
      partition_, DataBatch({.producer_id = 77, .producer_epoch = 1, .base_sequence = 500}));
  ASSERT_TRUE(offset.ok()) << offset.status().ToString();
  EXPECT_EQ(*offset, 2);
  EXPECT_FALSE(log_->EndsWithReset());
}

TEST_P(HostConformance, AResetInsideASetForgetsWhatStandsBeforeItAndNothingAfter) {
  MakeLog();
  const Bytes before = DataBatch({.base_offset = 0,
                                  .leader_epoch = 5,
                                  .producer_id = 77,
                                  .producer_epoch = 4,
                                  .base_sequence = 10});
  const Bytes after = DataBatch({.base_offset = 2,
                                 .leader_epoch = 5,
                                 .producer_id = 78,
                                 .producer_epoch = 4,
                                 .base_sequence = 10});
  ASSERT_EQ(Append(log_, {before, Reset(1, 5), after}).code, AppendCode::kOk);
  ASSERT_TRUE(SetName(topic_, "m.removed").ok());
  ASSERT_TRUE(log_->SetLocalWrites(host::LocalWrites::kAllowed, Epoch(), mirror_->version()).ok());
  EXPECT_TRUE(
      fixture_
          ->Produce(partition_,
                    DataBatch({.producer_id = 77, .producer_epoch = 1, .base_sequence = 500}))
          .ok());
  const Result<int64_t> known = fixture_->Produce(
      partition_, DataBatch({.producer_id = 78, .producer_epoch = 1, .base_sequence = 500}));
  ASSERT_FALSE(known.ok());
  EXPECT_EQ(known.status().code(), ErrorCode::kInvalidProducerEpoch);
}

TEST_P(HostConformance, AHealthyLogIsReplicatedTruncatedAndSyncedWhenAsked) {
  MakeLog();
  ASSERT_EQ(Append(log_, {Data(0, 5, 3), Data(3, 5, 3)}).code, AppendCode::kOk);
  EXPECT_TRUE(
      Call([&](host::Completion done) { log_->AwaitReplicated(Epoch(), std::move(done)); }).ok());
  EXPECT_EQ(log_->View().high_watermark, 6);
  ASSERT_TRUE(
      Call([&](host::Completion done) { log_->Truncate(3, Epoch(), std::move(done)); }).ok());
  for (const bool all : {false, true}) {
    EXPECT_TRUE(Call([&](host::Completion done) {
                  log_->AwaitTruncated(all, Epoch(), std::move(done));
                }).ok());
  }
  EXPECT_TRUE(Call([&](host::Completion done) { log_->Sync(std::move(done)); }).ok());
}

TEST_P(HostConformance, AfterAKillEverythingSyncedIsThereWithAllItMeant) {
  MakeLog();
  const std::vector<Bytes> batches = {Data(0, 3, 4), Txn(4, 30, 2), Txn(5, 10), Data(6, 5, 4)};
  ASSERT_EQ(Append(log_, batches).code, AppendCode::kOk);
  ASSERT_TRUE(Call([&](host::Completion done) { log_->Sync(std::move(done)); }).ok());
  const int32_t epoch = Epoch();
  if (!RestartHost()) return;  // this host cannot be killed in process; nothing to say about it
  log_ = LogOf(partition_);
  ASSERT_NE(log_, nullptr);
  const host::LogView view = log_->View();
  EXPECT_EQ(view.end, 10);
  EXPECT_GE(view.leader_epoch, epoch);
  EXPECT_EQ(view.last_batch_epoch, 5);
  ExpectConsistent(view);
  EXPECT_EQ(fixture_->ReadLog(partition_), Join(batches));
  const std::vector<host::OpenTransaction> open = log_->OpenTransactions();
  ASSERT_EQ(open.size(), 2u);
  EXPECT_EQ(open[0].producer_id, 30);
  EXPECT_EQ(open[0].producer_epoch, 2);
  EXPECT_EQ(open[1].producer_id, 10);
  EXPECT_THAT(Pairs(log_->Epochs()), ElementsAre(std::pair(3, 0), std::pair(5, 4)));
  EXPECT_EQ(fixture_->Produce(partition_, Data(0, 0)).status().code(), ErrorCode::kReadOnly);
  EXPECT_EQ(Append(log_, {Data(10, 6)}).code, AppendCode::kOk);
}

}  // namespace
}  // namespace kmirror::conformance
