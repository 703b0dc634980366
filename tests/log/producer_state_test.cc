#include "kmirror/log/producer_state.h"

#include <gtest/gtest.h>

namespace kmirror::log {
namespace {

BatchInfo Data(int64_t offset, int64_t producer, int16_t epoch, int32_t sequence, int count = 1,
               bool transactional = false) {
  BatchInfo batch;
  batch.base_offset = offset;
  batch.last_offset = offset + count - 1;
  batch.count = count;
  batch.producer_id = producer;
  batch.producer_epoch = epoch;
  batch.base_sequence = sequence;
  batch.max_timestamp = 1000 + offset;
  if (transactional) batch.attributes |= kTransactionalFlag;
  return batch;
}

BatchInfo Txn(int64_t offset, int64_t producer, int16_t epoch = 0, int32_t sequence = 0,
              int count = 1) {
  return Data(offset, producer, epoch, sequence, count, true);
}

BatchInfo Marker(int16_t type, int64_t offset, int64_t producer, int16_t epoch = 0,
                 int32_t coordinator_epoch = 0) {
  BatchInfo batch = Data(offset, producer, epoch, -1, 1, true);
  batch.attributes |= kControlFlag;
  batch.control_type = type;
  batch.coordinator_epoch = coordinator_epoch;
  return batch;
}

BatchInfo Reset(int64_t offset) {
  BatchInfo batch = Data(offset, -1, -1, -1);
  batch.attributes = kControlFlag;
  batch.control_type = kControlMirrorPidReset;
  return batch;
}

std::optional<CompletedTransaction> Apply(ProducerState& state, const BatchInfo& batch) {
  std::optional<CompletedTransaction> completed;
  const Status applied = state.Apply(batch, &completed);
  EXPECT_TRUE(applied.ok()) << applied.ToString();
  return completed;
}

TEST(ProducerState, OpensAndCompletesTransactions) {
  ProducerState state;
  Apply(state, Txn(0, 1, 0, 0, 3));
  Apply(state, Txn(3, 2));
  EXPECT_EQ(state.FirstUnstableOffset(), 0);
  EXPECT_EQ(state.LastStableOffset(4), 0);
  const auto first = Apply(state, Marker(kControlCommit, 4, 1));
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->aborted);
  EXPECT_EQ(first->first_offset, 0);
  EXPECT_EQ(first->marker_offset, 4);
  EXPECT_EQ(first->last_stable_offset, 3) << "of the other open transaction";
  EXPECT_EQ(state.FirstUnstableOffset(), 0) << "until the marker is replicated";
  EXPECT_EQ(state.FirstUndecidedOffset(), 3);
  state.OnHighWatermark(4);
  EXPECT_EQ(state.FirstUnstableOffset(), 0);
  state.OnHighWatermark(5);
  EXPECT_EQ(state.FirstUnstableOffset(), 3);
  const auto second = Apply(state, Marker(kControlAbort, 5, 2, 0, 9));
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->aborted);
  EXPECT_EQ(second->last_stable_offset, 6);
  state.OnHighWatermark(6);
  EXPECT_EQ(state.FirstUnstableOffset(), std::nullopt);
  EXPECT_EQ(state.LastStableOffset(6), 6);
  EXPECT_EQ(state.Find(2)->coordinator_epoch, 9);
}

TEST(ProducerState, HasNoCompletionForAMarkerWithoutTransaction) {
  ProducerState state;
  EXPECT_FALSE(Apply(state, Marker(kControlAbort, 0, 7, 3, 2)));
  EXPECT_EQ(state.Find(7), (ProducerInfo{7, 3, -1, -1, 0, 1000, 2, -1}));
}

TEST(ProducerState, ClearsTheBatchesAtAMarkerOfAnotherEpochOnly) {
  ProducerState state;
  Apply(state, Txn(0, 1, 4, 0));
  Apply(state, Marker(kControlCommit, 1, 1, 4));
  EXPECT_EQ(state.Find(1)->last_sequence, 0);
  Apply(state, Txn(2, 1, 4, 1));
  Apply(state, Marker(kControlCommit, 3, 1, 5));  // transaction version 2 raises the epoch
  EXPECT_EQ(state.Find(1)->last_sequence, -1);
  EXPECT_EQ(state.Find(1)->producer_epoch, 5);
}

TEST(ProducerState, RefusesDataOutsideAnOpenTransaction) {
  ProducerState state;
  Apply(state, Txn(0, 1));
  std::optional<CompletedTransaction> completed;
  EXPECT_EQ(state.Apply(Data(1, 1, 0, 1), &completed).code(), ErrorCode::kInvalidTxnState);
  EXPECT_EQ(state.Find(1)->last_sequence, 0) << "nothing changed";
  const std::vector<BatchInfo> bad{Marker(kControlCommit, 1, 1), Data(2, 1, 0, 1), Txn(3, 1, 0, 2),
                                   Data(4, 1, 0, 3)};
  EXPECT_EQ(state.Check(bad).code(), ErrorCode::kInvalidTxnState);
  EXPECT_TRUE(state.Check(std::span(bad).first(3)).ok());
  // A producer nobody knows yet.
  const std::vector<BatchInfo> fresh{Txn(1, 50), Data(2, 50, 0, 1)};
  EXPECT_EQ(state.Check(fresh).code(), ErrorCode::kInvalidTxnState);
  const std::vector<BatchInfo> fine{Txn(1, 50), Marker(kControlAbort, 2, 50), Data(3, 50, 0, 1)};
  EXPECT_TRUE(state.Check(fine).ok());
  EXPECT_EQ(state.Check(bad).code(), ErrorCode::kInvalidTxnState) << "checks leave nothing behind";
}

TEST(ProducerState, IgnoresControlBatchesThatAreEmptyOrUnknown) {
  ProducerState state;
  Apply(state, Txn(0, 1));
  BatchInfo emptied = Marker(-1, 1, 1);
  emptied.count = 0;
  EXPECT_FALSE(Apply(state, emptied));
  BatchInfo unknown = Reset(2);
  unknown.control_type = 42;
  EXPECT_FALSE(Apply(state, unknown));
  EXPECT_EQ(state.size(), 1u);
  EXPECT_EQ(state.FirstUndecidedOffset(), 0);
  EXPECT_EQ(state.map_end_offset(), 3);
}

// S94: the state does not depend on how batches were grouped, because there are no groups; and a
// new producer with an id from before the reset starts from nothing.
TEST(ProducerState, KeepsOnlyWhatFollowsAReset) {
  const std::vector<BatchInfo> log{Data(0, 1, 5, 100), Data(1, 2, 0, 0),
                                   Txn(2, 3, 1, 0),    Marker(kControlAbort, 3, 3, 1, 7),
                                   Reset(4),           Data(5, 1, 0, 0, 2)};
  ProducerState state;
  EXPECT_TRUE(state.Check(log).ok());
  for (const BatchInfo& batch : log) Apply(state, batch);
  EXPECT_EQ(state.Producers(), (std::vector<ProducerInfo>{{1, 0, 1, 6, 1, 1005, -1, -1}}));
  EXPECT_EQ(state.resets_applied(), 1);
  EXPECT_EQ(state.reset_violations(), 0);
  EXPECT_EQ(state.max_producer_id(), 3);
}

TEST(ProducerState, KeepsAProducerWhoseTransactionAResetFindsOpen) {
  ProducerState state;
  Apply(state, Txn(0, 1, 2, 0));
  Apply(state, Data(1, 9, 0, 0));
  Apply(state, Reset(2));
  EXPECT_EQ(state.reset_violations(), 1);
  ASSERT_EQ(state.size(), 1u);
  const auto open = state.OpenTransactions();
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].producer_epoch, 2);
  EXPECT_EQ(state.LastStableOffset(3), 0);
  EXPECT_TRUE(Apply(state, Marker(kControlAbort, 3, 1, 2)));
}

TEST(ProducerState, ListsOpenTransactionsByFirstOffset) {
  ProducerState state;
  Apply(state, Txn(5, 30, 1));
  Apply(state, Txn(6, 10, 2));
  Apply(state, Marker(kControlCommit, 7, 20, 0, 4));
  Apply(state, Txn(8, 20, 0));
  const auto open = state.OpenTransactions();
  ASSERT_EQ(open.size(), 3u);
  EXPECT_EQ(open[0].producer_id, 30);
  EXPECT_EQ(open[0].coordinator_epoch, -1);
  EXPECT_EQ(open[1].producer_id, 10);
  EXPECT_EQ(open[2].producer_id, 20);
  EXPECT_EQ(open[2].coordinator_epoch, 4);
}

TEST(ClientCheck, FindsRepeatsOfTheLastFiveBatches) {
  ProducerState state;
  for (int i = 0; i < 7; ++i) Apply(state, Data(i * 2, 1, 0, i * 2, 2));
  for (int i = 0; i < 7; ++i) {
    const auto check = state.CheckClient(Data(99, 1, 0, i * 2, 2));
    EXPECT_EQ(check.duplicate, i >= 2) << i;
    if (check.duplicate) EXPECT_EQ(check.base_offset, i * 2);
    if (!check.duplicate) EXPECT_EQ(check.status.code(), ErrorCode::kOutOfOrderSequenceNumber);
  }
  EXPECT_FALSE(state.CheckClient(Data(99, 1, 0, 12, 1)).duplicate) << "another last sequence";
  const auto next = state.CheckClient(Data(99, 1, 0, 14));
  EXPECT_TRUE(next.status.ok() && !next.duplicate);
  EXPECT_EQ(state.CheckClient(Data(99, 1, 0, 15)).status.code(),
            ErrorCode::kOutOfOrderSequenceNumber);
}

TEST(ClientCheck, ComparesEpochs) {
  ProducerState state;
  Apply(state, Data(0, 1, 3, 0));
  EXPECT_EQ(state.CheckClient(Data(1, 1, 2, 1)).status.code(), ErrorCode::kInvalidProducerEpoch);
  EXPECT_TRUE(state.CheckClient(Data(1, 1, 4, 0)).status.ok());
  EXPECT_EQ(state.CheckClient(Data(1, 1, 4, 1)).status.code(),
            ErrorCode::kOutOfOrderSequenceNumber);
  EXPECT_TRUE(state.CheckClient(Data(1, 77, 9, 1234)).status.ok())
      << "an unknown producer may start anywhere";
}

TEST(ClientCheck, WrapsSequences) {
  ProducerState state;
  Apply(state, Data(0, 1, 0, INT32_MAX));
  EXPECT_TRUE(state.CheckClient(Data(1, 1, 0, 0)).status.ok());
  Apply(state, Data(1, 1, 0, 0));
  EXPECT_TRUE(state.CheckClient(Data(9, 1, 0, INT32_MAX)).duplicate);
  Apply(state, Data(2, 2, 0, INT32_MAX - 1, 4));  // wraps inside: last sequence 1
  EXPECT_EQ(state.Find(2)->last_sequence, 1);
  EXPECT_TRUE(state.CheckClient(Data(9, 2, 0, INT32_MAX - 1, 4)).duplicate);
  EXPECT_TRUE(state.CheckClient(Data(9, 2, 0, 2)).status.ok());
}

TEST(MarkerCheck, RefusesOldEpochs) {
  ProducerState state;
  Apply(state, Marker(kControlCommit, 0, 1, 5, 8));
  EXPECT_TRUE(state.CheckMarker(Marker(kControlAbort, 1, 1, 5, 8)).ok());
  EXPECT_EQ(state.CheckMarker(Marker(kControlAbort, 1, 1, 4, 8)).code(),
            ErrorCode::kInvalidProducerEpoch);
  EXPECT_EQ(state.CheckMarker(Marker(kControlAbort, 1, 1, 5, 7)).code(),
            ErrorCode::kTransactionCoordinatorFenced);
}

TEST(Snapshot, ComesBackAsItWas) {
  ProducerState state;
  for (int i = 0; i < 3; ++i) Apply(state, Data(i, 1, 0, i));
  Apply(state, Txn(3, 2, 1, 0, 2));
  Apply(state, Marker(kControlCommit, 5, 3, 4, 6));
  const auto bytes = state.EncodeSnapshot();
  EXPECT_EQ(bytes.size(), 10u + 3 * 46);
  auto entries = ProducerState::DecodeSnapshot(bytes);
  ASSERT_TRUE(entries.ok());
  ProducerState loaded;
  loaded.Load(*entries, 6, -1, 0);
  EXPECT_EQ(loaded.Producers(), state.Producers());
  EXPECT_EQ(loaded.FirstUndecidedOffset(), 3);
  EXPECT_EQ(loaded.map_end_offset(), 6);
  EXPECT_TRUE(loaded.CheckClient(Data(9, 1, 0, 2)).duplicate) << "the latest batch is kept";
  EXPECT_FALSE(loaded.CheckClient(Data(9, 1, 0, 1)).duplicate) << "earlier ones are not";
  EXPECT_EQ(ProducerState().EncodeSnapshot().size(), 10u);
}

TEST(Snapshot, RefusesEveryDamage) {
  ProducerState state;
  Apply(state, Data(0, 1, 0, 0));
  const auto good = state.EncodeSnapshot();
  for (size_t at = 0; at < good.size(); ++at) {
    auto bad = good;
    bad[at] ^= 0x40;
    EXPECT_FALSE(ProducerState::DecodeSnapshot(bad).ok()) << at;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(ProducerState::DecodeSnapshot(ByteView(good).first(size)).ok()) << size;
  }
}

TEST(ProducerState, TimestampsMayBeAsFarAwayAsInt64Goes) {
  ProducerState state;
  BatchInfo past = Data(0, 1, 0, 0);
  past.max_timestamp = INT64_MIN;
  BatchInfo future = Data(10, 2, 0, 0);
  future.max_timestamp = INT64_MAX;
  Apply(state, past);
  Apply(state, future);
  state.Expire(1700000000000, 86400000);
  EXPECT_FALSE(state.Find(1));
  EXPECT_TRUE(state.Find(2));
}

TEST(ProducerState, ForgetsIdleProducersWithoutOpenTransaction) {
  ProducerState state;
  Apply(state, Data(0, 1, 0, 0));   // timestamp 1000
  Apply(state, Txn(1, 2));          // 1001
  Apply(state, Data(50, 3, 0, 0));  // 1050
  state.Expire(2000, 1001);
  EXPECT_TRUE(state.Find(1));
  state.Expire(2000, 1000);
  EXPECT_FALSE(state.Find(1));
  EXPECT_TRUE(state.Find(2)) << "its transaction is open";
  EXPECT_TRUE(state.Find(3)) << "not idle for long enough";
}

}  // namespace
}  // namespace kmirror::log
