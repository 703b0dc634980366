// What a bad source may cost: bounded memory of the standby, trouble that names the source, and
// nothing of what a good source's mirror gets at the same time.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "tests/e2e/faulty_source_fixture.h"

namespace kmirror::test {
namespace {

using namespace std::chrono_literals;

constexpr int16_t kFetch = 1;
constexpr int64_t kMiB = 1 << 20;
// Of any allocation that is not the fetcher's buffer: connections, requests, the allocator's own.
constexpr int64_t kSlack = 12 * kMiB;
constexpr int64_t kBuffer = 3 * kMiB;  // fetch.buffer.bytes of the bad source's mirror

void PutInt32(uint8_t* at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

class BadSource : public FaultySource {
 protected:
  void SetUp() override {
    bad_ = std::make_unique<ProxiedSource>(
        std::map<std::string, std::string>{{"message.max.bytes", "67108864"}});
    good_ = std::make_unique<ProxiedSource>();
    source_ = bad_->direct();
    StartStandby();
    bad_->CreateTopic("t");
    good_->CreateTopic("u");
    bad_->Append("t");
    good_->Append("u");
    StartMirror("n", *good_, "u");
    StartMirror(
        "m", *bad_, "t",
        {"request.timeout.ms=1000", "fetch.wait.max.ms=100", "fetch.max.bytes=102400",
         "fetch.response.max.bytes=102400", "fetch.buffer.bytes=" + std::to_string(kBuffer)});
    ForgetPeakMemory();
    before_ = PeakMemory();
  }

  // What fetchers receive is spoilt; the bad source's other answers are right.
  void SpoilFetches(std::function<void(KafkaProxy::Answer*)> spoil) {
    bad_->proxy.SetScript([this, spoil = std::move(spoil)](KafkaProxy::Answer* answer) {
      if (answer->api_key != kFetch) return;
      spoil(answer);
      ++spoilt_;
    });
  }

  // Until `over`, and ten times at least, a record of the good source is mirrored at once.
  void GoodSourceGoesOnUntil(const std::function<bool()>& over) {
    const Deadline patience(Seconds(60));
    bool done = false;
    for (int i = 0; i < 10 || !done; ++i) {
      const int64_t end = good_->Append("u");
      ASSERT_TRUE(AwaitEnd("u", end, Seconds(5))) << standby_->Log();
      done = done || over();
      ASSERT_FALSE(patience.Passed()) << trouble_ << "\n" << standby_->Log();
    }
  }
  bool HasEnd(int64_t end) { return StandbyEnd("t") == end; }
  bool HasTrouble(const std::string& words) {
    const auto row = standby_->Row("t");
    if (row.ok()) trouble_ = row->state + ": " + row->error_message;
    return row.ok() && row->error_message.find(words) != std::string::npos;
  }

  void ExpectMemoryBelow(int64_t bytes) {
    EXPECT_LT(PeakMemory() - before_, bytes) << (PeakMemory() - before_) / kMiB << " MiB more";
  }
  void ExpectAllIsRight(int64_t end) {
    bad_->proxy.SetScript(nullptr);
    bad_->proxy.SetRequestScript(nullptr);
    ASSERT_TRUE(AwaitEnd("t", end)) << standby_->Log();
    ExpectBytesEqual("t");
    ExpectNeverFailed("t");
    ExpectNeverFailed("u");
    source_ = good_->direct();
    ExpectBytesEqual("u");
  }

  std::unique_ptr<ProxiedSource> good_;
  std::atomic<int> spoilt_{0};
  int64_t before_ = 0;
};

TEST_F(BadSource, SlowAnswersAreTakenAtTheirPace) {
  // 10 KB a second: a large answer takes many of its timeouts, each piece is less than a wake-up.
  SpoilFetches([](KafkaProxy::Answer* answer) {
    answer->piece = 1000;
    answer->pause = 100ms;
  });
  const int64_t end = bad_->Append("t", 40'000);
  GoodSourceGoesOnUntil([&] { return HasEnd(end); });
  ExpectMemoryBelow(kBuffer + kSlack);
  ExpectAllIsRight(end);
  EXPECT_EQ(standby_->Log().find("no answer within"), std::string::npos) << standby_->Log();
}

TEST_F(BadSource, ASourceThatFallsSilentWithinAnAnswerIsNamed) {
  SpoilFetches([](KafkaProxy::Answer* answer) {
    if (answer->bytes.size() < 5000) return;
    answer->cut_after = 3000;
    answer->silent_afterwards = true;
  });
  const int64_t end = bad_->Append("t", 40'000);
  GoodSourceGoesOnUntil([&] { return HasTrouble(bad_->bootstrap() + ": no answer within 1"); });
  EXPECT_FALSE(HasEnd(end));
  ExpectMemoryBelow(kBuffer + kSlack);
  ExpectAllIsRight(end);
}

TEST_F(BadSource, OneByteAtATimeCostsNobodyAnything) {
  SpoilFetches([](KafkaProxy::Answer* answer) { answer->piece = 1; });
  const int64_t end = bad_->Append("t", 100'000);
  GoodSourceGoesOnUntil([&] { return HasEnd(end); });
  ExpectMemoryBelow(kBuffer + kSlack);
  ExpectAllIsRight(end);
}

TEST_F(BadSource, AHugeFirstBatchIsTakenAloneAndWhole) {
  SpoilFetches([](KafkaProxy::Answer*) {});
  const int64_t huge = 40 * kMiB;
  bad_->Append("t", static_cast<size_t>(huge));
  int64_t end = 0;
  for (int i = 0; i < 20; ++i) end = bad_->Append("t", 50'000);
  GoodSourceGoesOnUntil([&] { return HasEnd(end); });
  ExpectMemoryBelow(huge + kBuffer + kSlack);
  ExpectAllIsRight(end);
}

TEST_F(BadSource, ALengthThatLiesIsAnErrorThatNamesTheSource) {
  // What a frame may hold is the limit that was asked for and one batch of the greatest size.
  SpoilFetches([](KafkaProxy::Answer* answer) { PutInt32(answer->bytes.data(), 1 << 30); });
  const int64_t end = bad_->Append("t", 5000);
  GoodSourceGoesOnUntil(
      [&] { return HasTrouble(bad_->bootstrap() + ": an answer of 1073741824 bytes"); });
  EXPECT_FALSE(HasEnd(end));
  ExpectMemoryBelow(kBuffer + kSlack);
  ExpectAllIsRight(end);
}

TEST_F(BadSource, ALengthThatLiesWithinItsLimitsCostsWhatCame) {
  SpoilFetches([](KafkaProxy::Answer* answer) {
    PutInt32(answer->bytes.data(), 400 << 20);
    answer->silent_afterwards = true;
  });
  const int64_t end = bad_->Append("t", 5000);
  GoodSourceGoesOnUntil([&] { return HasTrouble(bad_->bootstrap() + ": no answer within 1"); });
  ExpectMemoryBelow(kBuffer + kSlack);
  ExpectAllIsRight(end);
}

TEST_F(BadSource, MoreThanWasAskedForIsTakenInBoundedMemory) {
  // The standby asks for 100 KiB, the source hears that 64 MiB are wanted.
  std::atomic<int> raised{0};
  bad_->proxy.SetRequestScript([&](std::vector<uint8_t>* frame) {
    if (frame->size() < 100 || (*frame)[5] != kFetch || (*frame)[7] < 15) return;
    // Size, key, version, correlation, client id, tags; then the wait and the least bytes.
    const size_t body = 14 + static_cast<size_t>((*frame)[12] << 8 | (*frame)[13]) + 1;
    const size_t answer_max = body + 8;
    // Isolation, session; one topic: its id, one partition: index, epochs, offset, log start.
    const size_t topics = answer_max + 4 + 1 + 8;
    const size_t partition_max = topics + 1 + 16 + 1 + 4 + 4 + 8 + 4 + 8;
    PutInt32(frame->data() + answer_max, 64 << 20);
    if ((*frame)[topics] != 2 || partition_max + 4 > frame->size()) return;
    PutInt32(frame->data() + partition_max, 64 << 20);
    ++raised;
  });
  std::atomic<size_t> largest{0};
  SpoilFetches([&](KafkaProxy::Answer* answer) {
    largest = std::max(largest.load(), answer->bytes.size());
  });
  bad_->proxy.Hang(true);  // until there is enough to be too much
  int64_t end = 0;
  for (int i = 0; i < 40; ++i) end = bad_->Append("t", 1'000'000);
  bad_->proxy.Hang(false);
  bad_->proxy.Cut();
  GoodSourceGoesOnUntil([&] { return HasEnd(end); });
  EXPECT_GT(raised, 0);
  EXPECT_GT(largest, size_t{20'000'000});
  ExpectMemoryBelow(kBuffer + kSlack);
  ExpectAllIsRight(end);
}

}  // namespace
}  // namespace kmirror::test
