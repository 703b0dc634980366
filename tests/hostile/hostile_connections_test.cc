// Thousands of connections, held and churned, against kmirrord under the sanitizers.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "tests/hostile/hostile_fixture.h"
#include "tests/hostile/hostile_frames.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kConnections = 2500;
const Bytes kAsk = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 99, 0xff, 0xff};

class HostileConnections : public HostileTest {
 protected:
  void SetUp() override {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_GE(limit.rlim_max, kConnections + 200) << "too few descriptors are allowed here";
    HostileTest::SetUp();
  }
  size_t Descriptors() const {
    size_t count = 0;
    const std::string folder = "/proc/" + std::to_string(process_->pid()) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      (void)entry;
      ++count;
    }
    return count;
  }
};

TEST_F(HostileConnections, ThousandsAreHeldAndServed) {
  const int64_t before = OpenConnections();
  std::vector<std::unique_ptr<RawSocket>> held;
  for (size_t i = 0; i < kConnections; ++i) {
    held.push_back(RawSocket::Try(address()));
    ASSERT_TRUE(held.back()) << i;
    // Silent, in the middle of a size, in the middle of a frame, or asking.
    if (i % 4 == 1) ASSERT_TRUE(held.back()->Send({0, 0}));
    if (i % 4 == 2) ASSERT_TRUE(held.back()->Send({0, 0, 1, 0, 0, 18}));
    if (i % 4 == 3) ASSERT_TRUE(held.back()->Send(kAsk));
    // The kernel keeps few that wait to be accepted; one more than that costs a second.
    if (i % 20 == 3) ASSERT_GT(held.back()->ReceiveFrame().size(), 10u) << i;
  }
  ASSERT_TRUE(
      WaitUntil([&] { return OpenConnections() >= before + static_cast<int64_t>(kConnections); }));
  ASSERT_TRUE(good_->AwaitRounds(20)) << good_->problem();
  for (size_t i = 3; i < kConnections; i += 4) {
    if (i % 20 != 3) ASSERT_GT(held[i]->ReceiveFrame().size(), 10u) << i;
  }
  // What was half said can still be said to its end.
  for (size_t i = 1; i < kConnections; i += 4) {
    ASSERT_TRUE(held[i]->Send({kAsk.begin() + 2, kAsk.end()}));
  }
  for (size_t i = 1; i < kConnections; i += 4) {
    ASSERT_GT(held[i]->ReceiveFrame().size(), 10u) << i;
  }
  held.clear();
  EXPECT_TRUE(WaitUntil([&] { return OpenConnections() <= before; }));
}

TEST_F(HostileConnections, AChurnOfThemLeavesNothingBehind) {
  const int64_t connections = OpenConnections();
  const size_t descriptors = Descriptors();
  const std::vector<BaseFrame> frames = Frames();
  Dice dice(1);
  std::vector<std::unique_ptr<RawSocket>> some(50);
  for (size_t i = 0; i < 5000; ++i) {
    std::unique_ptr<RawSocket>& place = some[dice.Below(some.size())];
    place.reset();  // at whatever moment the old one is
    place = RawSocket::Try(address());
    ASSERT_TRUE(place) << i;
    const Bytes& frame = frames[dice.Below(frames.size())].bytes;
    switch (dice.Below(4)) {
      case 0: break;
      case 1: (void)place->Send(kAsk); break;
      case 2: (void)place->Send({frame.begin(), frame.begin() + 5}); break;
      default: (void)place->Send(frame); break;
    }
    if (i % 20 == 0) {
      // They are accepted in order: when this one is answered, the others have been.
      place = RawSocket::Try(address());
      ASSERT_TRUE(place && place->Send(kAsk)) << i;
      ASSERT_GT(place->ReceiveFrame().size(), 10u) << i;
    }
    if (i % 500 == 0) ASSERT_TRUE(good_->AwaitRounds(1)) << good_->problem();
  }
  some.clear();
  EXPECT_TRUE(WaitUntil([&] { return OpenConnections() <= connections; }));
  // Topics that the requests made have files of their own; connections must not.
  client_.reset();
  EXPECT_TRUE(WaitUntil([&] { return Descriptors() <= descriptors + 300; }))
      << descriptors << " before, " << Descriptors() << " now";
}

}  // namespace
}  // namespace kmirror::test
