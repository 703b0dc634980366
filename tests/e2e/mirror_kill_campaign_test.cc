// kmirrord killed with -9 at random moments of a mirror's life, again and again, with and without a
// flush after every record. Nothing that was shown is taken back, every byte is the source's, and
// whatever was under way is completed after the restart (coordinator.md 6.4, 13.6; R29).
//
//   mirror_kill_campaign_test                  25 kills
//   mirror_kill_campaign_test --kills 200 [--seed 77]
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <string_view>
#include <thread>

#include "tests/e2e/mirror_fixture.h"

namespace kmirror::test {
namespace {

int kills_wanted = 25;
unsigned seed_wanted = 0;  // 0: a new one

class MirrorKillCampaign : public MirrorFixture {
 protected:
  enum class Settled { kMirroring, kPaused, kStopped };

  size_t Random(size_t below) { return random_() % below; }

  // The state changes that the running process has logged.
  std::vector<std::string> Changes() {
    std::vector<std::string> changes;
    static const std::regex change("event=state-change from=\\w+ to=(\\w+)");
    std::istringstream lines(standby_->process().err());
    for (std::string line; std::getline(lines, line);) {
      std::smatch match;
      if (line.find("topic=" + topic_ + " ") != std::string::npos &&
          std::regex_search(line, match, change)) {
        changes.push_back(match[1]);
      }
    }
    return changes;
  }

  size_t CountChanges() {
    static constexpr std::string_view kChange = " event=state-change ";
    const std::string log = standby_->process().err();
    size_t count = 0;
    for (size_t at = log.find(kChange); at != std::string::npos; at = log.find(kChange, at + 1)) {
      ++count;
    }
    return count;
  }

  // The greatest high watermark that anybody has been shown.
  void Look() {
    const auto offsets = FetchOffsets(standby_->bootstrap(), topic_, 0);
    if (offsets.ok()) shown_ = std::max(shown_, offsets->high_watermark);
  }

  // Kills while mirroring, a random number of records further.
  void KillWhileMirroring() {
    const int64_t target = shown_ + static_cast<int64_t>(Random(3000));
    written_wanted_ = target + 4000;
    ASSERT_TRUE(WaitUntil([&] {
      Look();
      return shown_ >= target;
    })) << standby_->Log();
    ++kills_["MIRRORING"];
    standby_->Kill();
  }

  // Kills while a command is carried out: after its first, second or third state change, or when
  // it has ended.
  void KillDuring(const std::string& command, const std::string& before) {
    const size_t known = Changes().size();
    const size_t wanted = known + Random(4);
    Look();
    const auto cli = standby_->CliProcess(Args(command, "5"));
    // Looks as often as it can: some states last a millisecond.
    const Deadline deadline(Seconds(30));
    while (CountChanges() < wanted && cli->Running() && !deadline.Passed()) {
    }
    standby_->Kill();
    const std::vector<std::string> changes = Changes();
    ++kills_[changes.size() > known ? changes.back() : before];
    cli->Kill();
    (void)cli->Wait();
  }

  std::vector<std::string> Args(const std::string& command, const std::string& wait) const {
    return {command, "m", "--topics", topic_, "--wait", wait};
  }

  // What is on disk is the source's, then perhaps what a stop has written.
  void CheckDisk() {
    auto ours = ReadSegments(standby_->PartitionDir(topic_));
    ASSERT_OK(ours.status());
    const int64_t end = ours->empty() ? 0 : ours->back().last_offset + 1;
    ASSERT_GE(end, shown_);
    size_t resets = 0;
    while (!ours->empty() && ours->back().ControlType() == 7) {
      ours->pop_back();
      ++resets;
    }
    ASSERT_LE(resets, 1u) << "a stop writes its reset once";
    auto theirs = FetchBatches(source_, topic_, 0);
    ASSERT_OK(theirs.status());
    ASSERT_GE(theirs->size(), ours->size());
    theirs->resize(ours->size());
    ASSERT_EQ(Difference(*ours, *theirs), "");
  }

  std::string topic_;
  std::mt19937 random_;
  int64_t shown_ = 0;
  std::atomic<int64_t> written_wanted_{4000};
  std::map<std::string, int> kills_;
};

TEST_F(MirrorKillCampaign, NothingShownIsTakenBack) {
  UseSharedSource();
  const unsigned seed = seed_wanted != 0 ? seed_wanted : std::random_device{}();
  std::printf("seed %u, %d kills\n", seed, kills_wanted);
  random_.seed(seed);
  topic_ = UniqueName("campaign");
  ASSERT_OK(admin_->CreateTopic(topic_));
  StartStandby();
  Mirror({topic_});
  std::atomic<bool> done{false};
  std::thread writer([&] {
    Producer::Options options;
    options.linger_ms = 1;
    auto producer = Producer::Connect(source_, options);
    int64_t written = 0;
    while (producer.ok() && !done) {
      if (!WaitUntil([&] { return done || written < written_wanted_; })) continue;
      if (done || !producer->SendNumbered(topic_, 0, 200, static_cast<int>(written)).ok()) break;
      written += 200;
    }
  });
  const auto campaign = [&] {
    Settled settled = Settled::kMirroring;
    for (int round = 0; round < kills_wanted; ++round) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
      std::string command;
      if (settled == Settled::kMirroring) {
        const size_t choice = Random(4);
        command = choice == 0 ? "pause" : choice == 1 ? "stop" : "";
      } else if (settled == Settled::kPaused) {
        command = Random(2) == 0 ? "resume" : "stop";
      } else {
        command = "start";
      }
      if (command.empty()) {
        KillWhileMirroring();
      } else {
        const bool starts_again = command == "start";
        KillDuring(command, settled == Settled::kMirroring ? "MIRRORING"
                            : settled == Settled::kPaused  ? "PAUSED"
                                                           : "STOPPED");
        if (starts_again && !HasFatalFailure()) {
          // A start in the same direction goes back to where the stop was: as its operator wants.
          const auto ours = ReadSegments(standby_->PartitionDir(topic_));
          ASSERT_OK(ours.status());
          shown_ = std::min(shown_, ours->empty() ? 0 : ours->back().last_offset + 1);
        }
      }
      if (HasFatalFailure()) return;
      CheckDisk();
      if (HasFatalFailure()) return;
      standby_->Configure("log.flush.interval.messages",
                          round % 2 == 0 ? "1" : "9223372036854775807");
      ASSERT_OK(standby_->Restart());
      if (command != "start") {
        const auto after = FetchOffsets(standby_->bootstrap(), topic_, 0);
        ASSERT_OK(after.status());
        ASSERT_GE(after->high_watermark, shown_);
      }
      if (command.empty()) continue;
      // Whatever of it was done: asked again, it ends as if it had been asked once.
      ASSERT_OK(standby_->Run(Args(command, "30"), Seconds(60)));
      settled = command == "pause"  ? Settled::kPaused
                : command == "stop" ? Settled::kStopped
                                    : Settled::kMirroring;
      if (command == "start") shown_ = 0;
      Look();
    }
    const auto row = standby_->Row(topic_);
    ASSERT_OK(row.status());
    if (settled == Settled::kPaused) ASSERT_OK(standby_->Run(Args("resume", "30"), Seconds(60)));
    if (settled == Settled::kStopped) ASSERT_OK(standby_->Run(Args("start", "30"), Seconds(60)));
  };
  campaign();
  done = true;
  writer.join();
  if (!HasFatalFailure()) ExpectBytesEqual(topic_);
  for (const std::string& state : standby_->States(topic_)) EXPECT_NE(state, "FAILED");
  for (const auto& [state, count] : kills_) std::printf("kills in %s: %d\n", state.c_str(), count);
}

}  // namespace
}  // namespace kmirror::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--kills") kmirror::test::kills_wanted = std::atoi(argv[i + 1]);
    if (option == "--seed") {
      kmirror::test::seed_wanted = static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10));
    }
  }
  return RUN_ALL_TESTS();
}
