// Restarts in turn on both sides while producers write (scenario S78).
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

// A source of its own: it is restarted.
class MirrorRestarts : public MirrorFixture {
 protected:
  void SetUp() override { OwnSource(); }
};

TEST_F(MirrorRestarts, S78BytesStayEqualWhileBothSidesAreRestarted) {
  const std::vector<std::pair<std::string, int>> topics = {
      {UniqueName("s78-three"), 3}, {UniqueName("s78-two"), 2}, {UniqueName("s78-one"), 1}};
  std::vector<std::string> names;
  for (const auto& [name, partitions] : topics) {
    ASSERT_OK(admin_->CreateTopic(name, partitions));
    names.push_back(name);
    for (int p = 0; p < partitions; ++p) Send(name, Numbered(3), Producer::Options(), p);
  }
  Mirror(names);
  // One idempotent producer a topic: it goes on by itself when the source is back.
  std::atomic<bool> enough{false};
  std::atomic<int64_t> acknowledged{0};
  std::vector<std::thread> writers;
  for (const auto& [name, partitions] : topics) {
    writers.emplace_back([&, name = name, partitions = partitions] {
      Producer::Options options;
      options.idempotent = true;
      options.more = {{"message.timeout.ms", "60000"}};
      auto producer = Producer::Connect(source_, options);
      if (!producer.ok()) return;
      for (int i = 0; !enough; ++i) {
        if (producer->SendNumbered(name, i % partitions, 5, i * 5).ok()) acknowledged += 5;
      }
    });
  }
  auto progress = [&] {
    const int64_t before = acknowledged;
    EXPECT_TRUE(WaitUntil([&] { return acknowledged >= before + 50; }, Seconds(60)));
  };
  const std::string order = "BBABAB";
  for (const char side : order) {
    progress();
    if (side == 'B') {
      EXPECT_OK(standby_->Stop());
      EXPECT_OK(standby_->Restart());
    } else {
      EXPECT_OK(kafka_->Stop());
      EXPECT_OK(kafka_->Restart());
    }
  }
  progress();
  enough = true;
  for (std::thread& writer : writers) writer.join();
  std::printf("%ld records acknowledged by the source\n", static_cast<long>(acknowledged));
  for (const auto& [name, partitions] : topics) {
    for (int p = 0; p < partitions; ++p) {
      ExpectBytesEqual(name, p);
      for (const std::string& state : standby_->States(name, p)) EXPECT_NE(state, "FAILED");
    }
  }
}

}  // namespace
}  // namespace kmirror::test
