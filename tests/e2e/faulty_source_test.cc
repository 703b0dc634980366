// Sources and links that cut, lie, stall and hang, byte by byte, between real processes.
#include <atomic>
#include <regex>
#include <sstream>

#include "messages/fetch.h"
#include "messages/metadata.h"
#include "tests/e2e/faulty_source_fixture.h"

namespace kmirror::test {
namespace {

constexpr int16_t kFetch = 1;
constexpr int16_t kMetadata = 3;
constexpr int16_t kApiVersions = 18;
// An answer with records is longer than any without.
constexpr size_t kWithRecords = 150;

bool IsData(const KafkaProxy::Answer& answer) {
  return answer.api_key == kFetch && answer.bytes.size() > kWithRecords &&
         answer.client_id.find("-fetcher-") != std::string::npos;
}

void PutSize(std::vector<uint8_t>* frame, uint32_t size) {
  for (int i = 0; i < 4; ++i) (*frame)[i] = static_cast<uint8_t>(size >> (24 - 8 * i));
}

TEST_F(FaultySource, EveryAnswerMayComeByteByByte) {
  bad_->proxy.SetScript([](KafkaProxy::Answer* answer) { answer->piece = 1; });
  bad_->CreateTopic("t");
  for (int i = 0; i < 10; ++i) bad_->Append("t");
  StartMirror("m", *bad_, "t");
  int64_t end = 0;
  for (int i = 0; i < 10; ++i) end = bad_->Append("t");
  ASSERT_TRUE(AwaitEnd("t", end)) << standby_->Log();
  ExpectBytesEqual("t");
  ExpectNeverFailed("t");
}

// S27 in full.
TEST_F(FaultySource, AFetchAnswerMayBeCutAtEveryByte) {
  bad_->CreateTopic("t");
  bad_->Append("t");
  StartMirror("m", *bad_, "t", {"fetch.wait.max.ms=100"});
  std::atomic<int64_t> cut_at{-1};
  std::atomic<size_t> length{0};
  bad_->proxy.SetScript([&](KafkaProxy::Answer* answer) {
    if (!IsData(*answer) || cut_at < 0) return;
    length = std::max(length.load(), answer->bytes.size());
    answer->cut_after = static_cast<size_t>(cut_at.exchange(-1));
  });
  int64_t shown = StandbyEnd("t");
  size_t cuts = 0;
  for (size_t at = 0; at == 0 || at < length; ++at) {
    cut_at = static_cast<int64_t>(at);
    const int64_t end = bad_->Append("t", 170);
    ASSERT_TRUE(WaitUntil([&] {
      const int64_t now = StandbyEnd("t");
      EXPECT_GE(now, shown) << "the end went back";
      shown = std::max(shown, now);
      return cut_at < 0 && now == end;
    })) << "cut at "
        << at << "\n"
        << standby_->Log();
    ++cuts;
  }
  EXPECT_GE(length, 290u);
  EXPECT_LE(length, 400u);
  std::printf("%zu cuts of answers of %zu bytes\n", cuts, length.load());
  ExpectBytesEqual("t");
  ExpectNeverFailed("t");
}

TEST_F(FaultySource, AnswersToOtherRequestsAreNotBelieved) {
  bad_->CreateTopic("t");
  bad_->Append("t");
  StartMirror("m", *bad_, "t");
  for (const int16_t key : {kFetch, kMetadata, kApiVersions}) {
    SCOPED_TRACE(key);
    std::atomic<int> wrong{0};
    const int64_t before = StandbyEnd("t");
    bad_->proxy.SetScript([&](KafkaProxy::Answer* answer) {
      if (answer->api_key != key) return;
      answer->bytes[7] ^= 0x55;  // of the correlation id
      ++wrong;
    });
    bad_->proxy.Cut();  // new connections ask for versions
    ASSERT_TRUE(WaitUntil([&] { return wrong >= 3; }));
    // Metadata is not what a fetch waits for; nor is its trouble the partition's.
    if (key != kMetadata) EXPECT_TRUE(AwaitTrouble("t", "answer to another request")) << trouble_;
    const int64_t end = bad_->Append("t");
    if (key != kMetadata) EXPECT_EQ(StandbyEnd("t"), before);
    bad_->proxy.SetScript(nullptr);
    ASSERT_TRUE(AwaitEnd("t", end)) << standby_->Log();
  }
  ExpectBytesEqual("t");
  ExpectNeverFailed("t");
}

TEST_F(FaultySource, SizesThatLieCloseTheConnectionOrTimeOut) {
  bad_->CreateTopic("t");
  bad_->Append("t");
  StartMirror("m", *bad_, "t", {"request.timeout.ms=1000", "fetch.wait.max.ms=100"});
  struct Lie {
    int64_t size;  // or, added to the right one, below 1000
    const char* reason;
  };
  for (const Lie& lie : {Lie{-1, "an answer of -1 bytes"}, Lie{0, "an answer of 0 bytes"},
                         Lie{2147483647, "an answer of 2147483647 bytes"},
                         Lie{50 << 20, "no answer within"}, Lie{100, "no answer within"}}) {
    SCOPED_TRACE(lie.size);
    bad_->proxy.SetScript([&](KafkaProxy::Answer* answer) {
      if (!IsData(*answer)) return;
      const size_t right = answer->bytes.size() - 4;
      PutSize(&answer->bytes, static_cast<uint32_t>(
                                  lie.size == 100 ? static_cast<int64_t>(right) + 100 : lie.size));
      answer->silent_afterwards = true;
    });
    const int64_t end = bad_->Append("t");
    EXPECT_TRUE(AwaitTrouble("t", lie.reason)) << trouble_;
    // An answer that may be as long as it says is taken as it comes: its batches are whole.
    const bool possible = lie.size == 100 || lie.size == 50 << 20;
    EXPECT_EQ(StandbyEnd("t"), possible ? end : end - 1);
    bad_->proxy.SetScript(nullptr);
    ASSERT_TRUE(AwaitEnd("t", end)) << standby_->Log();
  }
  ExpectBytesEqual("t");
  ExpectNeverFailed("t");
}

TEST_F(FaultySource, WhatASourceClaimsCostsNothing) {
  bad_->CreateTopic("t");
  bad_->Append("t");
  StartMirror("m", *bad_, "t",
              {"request.timeout.ms=1000", "socket.timeout.ms=1000", "fetch.wait.max.ms=100"});
  ForgetPeakMemory();
  const int64_t before = PeakMemory();
  std::atomic<int> lies{0};
  // Every answer, of whatever request, says 60 MiB, and gives what it has.
  bad_->proxy.SetScript([&](KafkaProxy::Answer* answer) {
    PutSize(&answer->bytes, 60 << 20);
    answer->silent_afterwards = true;
    ++lies;
  });
  bad_->proxy.Cut();
  ASSERT_TRUE(WaitUntil([&] { return lies >= 4; }, Seconds(60)));
  EXPECT_LT(PeakMemory() - before, 16 << 20);
  bad_->proxy.SetScript(nullptr);
  bad_->proxy.Cut();
  const int64_t end = bad_->Append("t");
  ASSERT_TRUE(AwaitEnd("t", end, Seconds(60))) << standby_->Log();
  ExpectBytesEqual("t");
  ExpectNeverFailed("t");
}

TEST_F(FaultySource, AHealthySourceIsMirroredBesideABadOne) {
  ProxiedSource good;
  bad_->CreateTopic("t");
  good.CreateTopic("u");
  bad_->Append("t");
  int64_t good_end = good.Append("u");
  StartMirror("m", *bad_, "t");
  StartMirror("n", good, "u");
  // One answer is spoilt at a place of its own after the other.
  std::atomic<size_t> spoilt{0};
  bad_->proxy.SetScript([&](KafkaProxy::Answer* answer) {
    if (answer->api_key == kApiVersions) return;
    const size_t at = 8 + spoilt * 7 % std::max<size_t>(answer->bytes.size() - 8, 1);
    // Offsets and epochs of a batch are under no checksum; the source alone can know them.
    if (IsData(*answer)) {
      answer->bytes[answer->bytes.size() - 20] ^= 0xff;
    } else if (at < answer->bytes.size()) {
      answer->bytes[at] ^= 0xff;
    }
    ++spoilt;
  });
  bad_->Append("t");
  for (int i = 0; i < 30; ++i) {
    good_end = good.Append("u");
    ASSERT_TRUE(AwaitEnd("u", good_end)) << standby_->Log();
  }
  ASSERT_TRUE(WaitUntil([&] { return spoilt > 10; }));
  for (const std::string& state : standby_->States("u")) EXPECT_NE(state, "FAILED");
  source_ = good.direct();
  ExpectBytesEqual("u");
}

// S91.
TEST_F(FaultySource, AHungSourceHoldsUpNobody) {
  constexpr int kPartitions = 10;
  ProxiedSource good;
  bad_->CreateTopic("t", kPartitions);
  good.CreateTopic("u", kPartitions);
  for (int p = 0; p < kPartitions; ++p) {
    bad_->Append("t", 60, p);
    good.Append("u", 60, p);
  }
  StartMirror("m1", *bad_, "t");
  StartMirror("m2", good, "u");
  bad_->proxy.Hang(true);
  ASSERT_OK(standby_->Stop());
  ASSERT_OK(standby_->Restart());
  const int64_t connections = bad_->proxy.connections();
  for (int p = 0; p < kPartitions; ++p) ASSERT_OK(standby_->AwaitState("u", "MIRRORING", p));

  // The partitions of m2 fail: their batches come from where the log has been for a while.
  std::atomic<bool> spoil{true};
  good.proxy.SetScript([&](KafkaProxy::Answer* answer) {
    if (!spoil || !IsData(*answer)) return;
    // The new batches are those of offset 1; nothing checks what a batch says of its place.
    static constexpr uint8_t kOffset1[11] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
    for (size_t at = 8; at + 61 < answer->bytes.size(); ++at) {
      uint8_t* batch = answer->bytes.data() + at;
      if (std::equal(std::begin(kOffset1), std::end(kOffset1), batch) && batch[16] == 2) {
        batch[7] = 0;
      }
    }
  });
  for (int p = 0; p < kPartitions; ++p) good.Append("u", 71, p);
  for (int p = 0; p < kPartitions; ++p) {
    ASSERT_TRUE(WaitUntil([&] {
      const auto row = standby_->Row("u", p);
      return row.ok() && row->retry_attempt >= 1;
    })) << p
        << "\n"
        << standby_->Log();
  }
  spoil = false;
  // Requests are answered meanwhile, those about the hung mirror too.
  const Deadline second(Seconds(1));
  EXPECT_TRUE(standby_->Describe().ok());
  EXPECT_FALSE(second.Passed()) << "describe took more than a second";
  for (int p = 0; p < kPartitions; ++p) ASSERT_OK(standby_->AwaitState("u", "MIRRORING", p));
  EXPECT_GT(bad_->proxy.connections(), connections - 1);

  // Each retry was armed once: attempts of a partition rise by one.
  const std::string log = standby_->Log();
  for (int p = 0; p < kPartitions; ++p) {
    const std::regex change("topic=u partition=" + std::to_string(p) +
                            " event=state-change .*to=FAILED.* attempt=(\\d+)");
    int last = 0;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, change)) continue;
      EXPECT_EQ(std::stoi(match[1]), last + 1) << line;
      last = std::stoi(match[1]);
    }
    EXPECT_GE(last, 1) << p;
  }
  source_ = good.direct();
  for (int p = 0; p < kPartitions; ++p) ExpectBytesEqual("u", p);

  // The hung one has not failed, tells its trouble, can be stopped, and goes on when it wakes.
  const auto row = standby_->Row("t");
  ASSERT_OK(row.status());
  EXPECT_EQ(row->state, "MIRRORING");
  bad_->proxy.Hang(false);
  bad_->proxy.Cut();
  const int64_t end = bad_->Append("t");
  ASSERT_TRUE(AwaitEnd("t", end, Seconds(90))) << standby_->Log();
}

}  // namespace
}  // namespace kmirror::test
