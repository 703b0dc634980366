// The log against a naive model of it: a list of batches. Random appends (of a mirror, of a
// client), truncations, restarts, log starts, syncs, stops, kills with and without a torn tail,
// full disks. After every step offsets, bytes, epochs, producers, the stable offset and the aborted
// transactions of several ranges must be the model's, which finds all of them by looking at every
// batch there is (invariants 2, 4, 6, 8, 9, 10, 21 of fetcher-and-log 9).

#include <gtest/gtest.h>
// After gtest.
#include <rapidcheck/gtest.h>

#include <map>
#include <sstream>

#include "tests/storage/log_test_support.h"

namespace kmirror::broker::test {
namespace {

using log::BatchInfo;

struct Model {
  std::vector<TestBatch> batches;  // also those below log_start: their transactions still count
  int64_t log_start = 0;
  int64_t log_end = 0;

  log::ProducerState Producers() const {
    log::ProducerState state;
    state.OnLogStart(0);
    std::optional<log::CompletedTransaction> completed;
    for (const TestBatch& batch : batches) (void)state.Apply(batch.info, &completed);
    state.OnLogStart(log_start);
    state.OnHighWatermark(log_end);
    return state;
  }

  std::vector<AbortedTransaction> Aborted(int64_t from, int64_t to) const {
    std::map<int64_t, int64_t> open;  // producer -> first offset
    std::vector<AbortedTransaction> found;
    for (const TestBatch& batch : batches) {
      const BatchInfo& info = batch.info;
      if (!info.HasProducer() || !info.IsTransactional()) continue;
      if (!info.IsControl()) {
        open.emplace(info.producer_id, info.base_offset);
        continue;
      }
      const auto begun = open.find(info.producer_id);
      if (begun == open.end()) continue;
      if (info.control_type == log::kControlAbort && info.last_offset >= from &&
          begun->second < to) {
        found.push_back({info.producer_id, begun->second});
      }
      open.erase(begun);
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first_offset < b.first_offset; });
    return found;
  }

  std::vector<log::EpochStart> Epochs() const {
    log::EpochHistory history;
    for (const TestBatch& batch : batches)
      history.Assign(batch.info.leader_epoch, batch.info.base_offset);
    history.TruncateFromStart(log_start);
    history.TruncateFromEnd(log_end);
    return history.entries();
  }

  std::vector<uint8_t> Bytes() const {
    std::vector<uint8_t> bytes;
    for (const TestBatch& batch : batches) {
      if (batch.info.last_offset < log_start) continue;
      bytes.insert(bytes.end(), batch.bytes.begin(), batch.bytes.end());
    }
    return bytes;
  }

  void CutTo(int64_t offset) {
    if (offset >= log_end) return;
    if (offset <= log_start) return Restart(offset);
    while (!batches.empty() && batches.back().info.last_offset >= offset) batches.pop_back();
    const int64_t end = batches.empty() ? 0 : batches.back().info.last_offset + 1;
    if (end <= log_start) return Restart(log_start);
    log_end = end;
  }
  void Restart(int64_t offset) {
    batches.clear();
    log_start = log_end = offset;
  }
};

struct Op {
  uint32_t kind = 0;
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
};

void showValue(const Op& op, std::ostream& out) {
  out << "{" << op.kind << ", " << op.a << ", " << op.b << ", " << op.c << "}";
}

// A small generator of its own, so that an operation is the same wherever it stands.
class Dice {
 public:
  explicit Dice(const Op& op)
      : state_(op.a * 0x9E3779B97F4A7C15ull + op.b * 0xBF58476D1CE4E5B9ull + op.c) {}
  uint32_t Below(uint32_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

class Runner {
 public:
  Runner() {
    f_.options.config.segment_bytes = 1200;
    f_.options.config.index_interval_bytes = 150;
    f_.options.config.file_delete_delay_ms = 0;
    Require(f_.Open(), "open");
    epoch_ = 1;
  }

  void Run(const Op& op) {
    Dice dice(op);
    std::ostringstream text;
    switch (op.kind) {
      case 0:
      case 1:
      case 2:
      case 3:
        AppendMirrored(dice, false);
        text << "append";
        break;
      case 4:
        AppendClient(dice);
        text << "client append";
        break;
      case 5: {
        const int64_t to = Offset(dice);
        text << "truncate to " << to;
        auto end = f_.log->TruncateTo(to);
        Require(end.status(), "truncate");
        model_.CutTo(to);
        RC_ASSERT(*end == model_.log_end);
        break;
      }
      case 6: {
        const int64_t to = dice.Below(4) == 0 ? Offset(dice) : model_.log_end + dice.Below(20);
        text << "restart at " << to;
        Require(f_.log->ResetTo(to), "restart");
        model_.Restart(to);
        break;
      }
      case 7: {
        const int64_t to = Offset(dice);
        text << "raise log start to " << to;
        auto raised = f_.log->RaiseLogStart(to);
        if (to > model_.log_end) {
          RC_ASSERT(raised.status().code() == ErrorCode::kOffsetOutOfRange);
        } else {
          Require(raised.status(), "raise");
          model_.log_start = std::max(model_.log_start, to);
        }
        break;
      }
      case 8:
        text << "stop and start";
        Require(f_.CloseAndOpen(), "stop and start");
        break;
      case 9:
        Kill(dice);
        text << "kill";
        break;
      case 10:
        text << "sync";
        Require(f_.log->Sync().status(), "sync");
        break;
      case 11:
        AppendMirrored(dice, true);
        text << "append to a full disk";
        break;
      case 12:
        f_.log->RemoveDeletedFiles(f_.clock.now_ms);
        text << "remove files";
        break;
      default: break;
    }
    history_ += text.str() + "; ";
    Compare(dice);
  }

 private:
  void Require(const Status& status, const char* what) {
    if (!status.ok()) RC_FAIL(std::string(what) + ": " + status.ToString() + " after " + history_);
  }

  int64_t Offset(Dice& dice) {
    const int64_t low = std::max<int64_t>(model_.log_start - 3, 0);
    return low + dice.Below(static_cast<uint32_t>(model_.log_end - low + 4));
  }

  TestBatch RandomBatch(Dice& dice, int64_t offset) {
    const int64_t producer = 1 + dice.Below(4);
    const auto epoch = static_cast<int16_t>(dice.Below(2));
    const auto sequence = static_cast<int32_t>(dice.Below(100));
    if (dice.Below(5) == 0 && epoch_ < 100) ++epoch_;
    const int64_t timestamp = 1700000000000 + dice.Below(100000);
    switch (dice.Below(8)) {
      case 0: return MakeReset(offset, epoch_);
      case 1: return MakeMarker(log::kControlCommit, offset, producer, epoch, 3, epoch_, timestamp);
      case 2:
      case 3: return MakeMarker(log::kControlAbort, offset, producer, epoch, 4, epoch_, timestamp);
      case 4:
        return MakeBatch({.base_offset = offset,
                          .count = 1 + static_cast<int>(dice.Below(3)),
                          .leader_epoch = epoch_,
                          .timestamp = timestamp,
                          .value_bytes = static_cast<int>(dice.Below(200))});
      case 5:
        return MakeBatch({.base_offset = offset,
                          .count = 2,
                          .leader_epoch = epoch_,
                          .producer_id = producer,
                          .producer_epoch = epoch,
                          .sequence = sequence,
                          .timestamp = timestamp,
                          .last_delta = 4});
      default:
        return MakeBatch({.base_offset = offset,
                          .count = 1 + static_cast<int>(dice.Below(2)),
                          .leader_epoch = epoch_,
                          .producer_id = producer,
                          .producer_epoch = epoch,
                          .sequence = sequence,
                          .transactional = true,
                          .timestamp = timestamp});
    }
  }

  void AppendMirrored(Dice& dice, bool full_disk) {
    std::vector<TestBatch> set;
    int64_t offset = model_.log_end;
    const bool inside = !full_disk && model_.log_start == model_.log_end && model_.log_end > 2 &&
                        dice.Below(2) == 0;
    if (inside) offset -= 2;  // 2.4: the source's start lies inside its first batch
    const uint32_t count = 1 + dice.Below(5);
    for (uint32_t i = 0; i < count; ++i) {
      if (i > 0 || !inside) offset += dice.Below(6) == 0 ? dice.Below(5) : 0;
      set.push_back(i == 0 && inside
                        ? MakeBatch({.base_offset = offset, .count = 4, .leader_epoch = epoch_})
                        : RandomBatch(dice, offset));
      offset = set.back().info.last_offset + 1;
    }
    log::ProducerState state = inside ? log::ProducerState() : model_.Producers();
    std::vector<BatchInfo> infos;
    for (const TestBatch& batch : set) infos.push_back(batch.info);
    const bool valid = state.Check(infos).ok();
    if (full_disk) f_.io.FailWrites(static_cast<int>(dice.Below(3)), ENOSPC, dice.Below(200));
    const Status appended = AppendSet(*f_.log, set);
    f_.io.Heal();
    if (!valid) {
      RC_ASSERT(appended.code() == ErrorCode::kInvalidTxnState);
      return;
    }
    if (full_disk && !appended.ok()) {
      if (appended.code() != ErrorCode::kNoSpace) Require(appended, "append to a full disk");
      return;
    }
    Require(appended, "append");
    if (inside) model_.Restart(set[0].info.base_offset);
    for (const TestBatch& batch : set) model_.batches.push_back(batch);
    model_.log_end = offset;
  }

  void AppendClient(Dice& dice) {
    TestBatch batch = MakeBatch({.base_offset = 0, .count = 1 + static_cast<int>(dice.Below(3))});
    const int64_t expected = model_.log_end;
    auto appended = f_.log->AppendAsLeader(batch.bytes, 100);
    Require(appended.status(), "client append");
    RC_ASSERT(appended->base_offset == expected);
    model_.batches.push_back(Parse(batch.bytes));
    model_.log_end = model_.batches.back().info.last_offset + 1;
    RC_ASSERT(model_.batches.back().info.base_offset == expected);
    // From here on batches carry this leader's epoch.
    epoch_ = 100;
  }

  // kill -9; sometimes the last batch did not reach the disk whole.
  void Kill(Dice& dice) {
    const std::string active = ActiveSegment();
    const auto size = static_cast<int64_t>(std::filesystem::file_size(active));
    const int64_t rp = f_.log->RecoveryPoint();
    const bool torn = dice.Below(2) == 0 && size > 0 && !model_.batches.empty() &&
                      model_.batches.back().info.base_offset >= rp &&
                      model_.batches.back().info.base_offset >= model_.log_start;
    f_.options.log_start = f_.log->LogStartToCheckpoint().value_or(-1);
    f_.log.reset();
    if (torn) {
      const TestBatch& last = model_.batches.back();
      std::filesystem::resize_file(
          active, static_cast<uintmax_t>(size - last.info.bytes +
                                         dice.Below(static_cast<uint32_t>(last.info.bytes))));
      const int64_t base = last.info.base_offset;
      model_.batches.pop_back();
      const int64_t end = model_.batches.empty() ? 0 : model_.batches.back().info.last_offset + 1;
      // An emptied segment ends where it begins.
      const bool emptied = size == last.info.bytes;
      model_.log_end = emptied ? std::max(SegmentBase(active), end) : end;
      RC_ASSERT(model_.log_end <= base);
      if (model_.log_end < model_.log_start) model_.Restart(model_.log_start);
    } else if (dice.Below(3) == 0 && size > 0) {
      std::ofstream(active, std::ios::binary | std::ios::app) << std::string(dice.Below(100), '\0');
    }
    Require(f_.Open(false, rp == 0              ? 0
                           : dice.Below(2) == 0 ? rp
                                                : dice.Below(static_cast<uint32_t>(rp))),
            "start after a kill");
  }

  std::string ActiveSegment() const {
    std::string last;
    for (const auto& file : std::filesystem::directory_iterator(f_.options.directory)) {
      if (file.path().extension() == ".log" && file.path().string() > last) last = file.path();
    }
    return last;
  }
  static int64_t SegmentBase(const std::string& path) {
    return std::stoll(std::filesystem::path(path).stem().string());
  }

  void Compare(Dice& dice) {
    const LogPositions positions = f_.log->Positions();
    const log::ProducerState producers = model_.Producers();
    const auto fail = [&](const std::string& what) { RC_FAIL(what + " after: " + history_); };
    const auto equal = [&](int64_t got, int64_t expected, const char* what) {
      if (got != expected) {
        fail(std::string(what) + " is " + std::to_string(got) + ", not " +
             std::to_string(expected));
      }
    };
    equal(positions.log_end, model_.log_end, "log end");
    equal(positions.log_start, model_.log_start, "log start");
    equal(positions.high_watermark, model_.log_end, "high watermark");
    equal(positions.last_stable, producers.LastStableOffset(model_.log_end), "stable offset");
    const auto bytes = ReadBatches(*f_.log, model_.log_start);
    std::vector<uint8_t> all;
    for (const TestBatch& batch : bytes)
      all.insert(all.end(), batch.bytes.begin(), batch.bytes.end());
    if (all != model_.Bytes()) fail("other bytes");
    if (f_.log->Producers() != producers.Producers()) {
      std::ostringstream text;
      for (const auto& list : {f_.log->Producers(), producers.Producers()}) {
        for (const auto& each : list) {
          text << "[" << each.producer_id << " e" << each.producer_epoch << " seq"
               << each.last_sequence << " last" << each.last_offset << " txn"
               << each.txn_first_offset << "]";
        }
        text << " / ";
      }
      fail("other producers: " + text.str());
    }
    if (Live(f_.log->EpochHistory()) != Live(model_.Epochs())) fail("other epochs");
    for (int i = 0; i < 4; ++i) {
      const int64_t from = model_.log_start +
                           dice.Below(static_cast<uint32_t>(model_.log_end - model_.log_start + 1));
      const int64_t to = from + dice.Below(30);
      auto aborted = f_.log->AbortedTransactions(from, to);
      Require(aborted.status(), "aborted transactions");
      if (*aborted != model_.Aborted(from, to)) fail("other aborted transactions");
    }
  }

  // What the entries say of batches that are there: where an epoch begins below the first of them,
  // or above the last, is the log's own affair.
  std::vector<log::EpochStart> Live(std::vector<log::EpochStart> epochs) const {
    int64_t first = model_.log_end;
    for (const TestBatch& batch : model_.batches) {
      if (batch.info.last_offset >= model_.log_start)
        first = std::min(first, batch.info.base_offset);
    }
    while (!epochs.empty() && epochs.back().start_offset >= model_.log_end) epochs.pop_back();
    while (epochs.size() > 1 && epochs[1].start_offset <= first) epochs.erase(epochs.begin());
    if (!epochs.empty()) epochs[0].start_offset = std::max(epochs[0].start_offset, first);
    return first == model_.log_end ? std::vector<log::EpochStart>() : epochs;
  }

  LogFixture f_;
  Model model_;
  int32_t epoch_;
  std::string history_;
};

RC_GTEST_PROP(LogModel, EqualsAListOfBatchesWhateverHappens, ()) {
  const auto ops = *rc::gen::container<std::vector<Op>>(
      rc::gen::build<Op>(rc::gen::set(&Op::kind, rc::gen::inRange<uint32_t>(0, 13)),
                         rc::gen::set(&Op::a), rc::gen::set(&Op::b), rc::gen::set(&Op::c)));
  Runner runner;
  for (const Op& op : ops) runner.Run(op);
}

}  // namespace
}  // namespace kmirror::broker::test
