// The same client histories at a real Kafka and at kmirrord: every answer is equal, field by field,
// or explained by docs/protocol.md.
//
//   differential_test                          the fixed seeds of ./check
//   differential_test --seeds 300 [--first 1]  so many, from that one on
//   differential_test --seed 17                that one alone
#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "messages/init_producer_id.h"
#include "tests/differential/deviations.h"
#include "tests/differential/history.h"
#include "tests/differential/report.h"
#include "tests/server/kmirrord_fixture.h"
#include "tests/support/kafka_fixture.h"

namespace kmirror::test {
namespace {

constexpr int kSteps = 45;  // of a history, its end not counted
constexpr int kWorkers =
    4;  // histories at a time: each waits for Kafka's metadata most of the time

struct Seeds {
  uint64_t first = 1;
  uint64_t count = 50;
  bool fixed = true;  // those of ./check: they hit every deviation
};
Seeds g_seeds;

class DifferentialTest : public KmirrordTest {
 protected:
  void SetUp() override {
    const Result<SharedKafkaInfo> shared = SharedKafka();
    ASSERT_TRUE(shared.ok()) << shared.status().ToString();
    kafka_ = shared->bootstrap;
    AwaitProducerIds();
    // As scripts/kafka configures Kafka.
    StartWithConfig(
        "auto.create.topics.enable=false\nlog.retention.ms=-1\n"
        "log.retention.check.interval.ms=1000\nlog.segment.delete.delay.ms=1000\n"
        "offsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\n");
  }

  // A Kafka that has just started has no producer ids to give for a moment, and then the small ones
  // that the histories also make up.
  void AwaitProducerIds() {
    Side kafka("kafka", kafka_, "");
    protocol::InitProducerIdRequest request;
    request.transactional_id.reset();
    request.transaction_timeout_ms = 60000;
    ASSERT_TRUE(WaitUntil([&] {
      for (int i = 0; i < 100; ++i) {
        const auto answer = kafka.Call<protocol::InitProducerIdResponse>(request, 4);
        if (!answer.ok() || answer->error_code != 0) return false;
        if (answer->producer_id >= 100) return true;
      }
      return false;
    }));
  }

  void RunSeeds() {
    std::atomic<uint64_t> next{g_seeds.first};
    const uint64_t end = g_seeds.first + g_seeds.count;
    const std::string run = UniqueName("diff");
    if (g_seeds.count == 1) report_.TellTrail();
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorkers; ++i) {
      workers.emplace_back([&] {
        for (uint64_t seed; (seed = next++) < end;) RunOne(seed, run);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }

  void RunOne(uint64_t seed, const std::string& run) {
    const std::string prefix = run + "-s" + std::to_string(seed) + "-";
    Side kafka("kafka", kafka_, prefix);
    Side ours("kmirrord", bootstrap(), prefix);
    History(seed, kafka, ours, report_).Run(kSteps);
  }

  std::string kafka_;
  Report report_;
};

TEST_F(DifferentialTest, EveryAnswerIsKafkasOrDocumented) {
  RunSeeds();
  std::cout << "seeds " << g_seeds.first << " to " << g_seeds.first + g_seeds.count - 1 << ": "
            << report_.Summary();
  if (const std::string failures = report_.Failures(); !failures.empty()) {
    ADD_FAILURE() << "answers that differ and are not documented:\n" << failures;
  }
  EXPECT_TRUE(process_->Running());
  if (!g_seeds.fixed) return;
  const std::map<std::string, int64_t> hits = report_.hits();
  for (const Deviation& each : Deviations()) {
    EXPECT_TRUE(hits.contains(std::string(each.id)))
        << each.id << " (" << each.path << ") explains nothing any more: take it off the list";
  }
}

// Ids of the table of docs/protocol.md: "| D1 | ...".
std::set<std::string> DocumentedIds() {
  std::ifstream file(KMIRROR_SOURCE_DIR "/docs/protocol.md");
  std::set<std::string> ids;
  static const std::regex kRow("^\\| (D\\d+) \\|.*");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == "## Where kmirrord answers differently";
    std::smatch match;
    if (inside && std::regex_match(line, match, kRow)) ids.insert(match[1]);
  }
  return ids;
}

TEST(DifferentialDocs, TheListAndTheTableOfTheDocsAreOne) {
  std::set<std::string> listed;
  for (const Deviation& each : Deviations()) listed.insert(std::string(each.id));
  EXPECT_EQ(listed, DocumentedIds());
}

bool Number(const char* text, uint64_t* value) {
  const char* end = text + std::strlen(text);
  return std::from_chars(text, end, *value).ptr == end && *text != '\0';
}

}  // namespace

bool ReadArguments(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    uint64_t value = 0;
    if (i + 1 >= argc || !Number(argv[++i], &value)) return false;
    g_seeds.fixed = false;
    if (name == "--seeds") {
      g_seeds.count = value;
    } else if (name == "--first") {
      g_seeds.first = value;
    } else if (name == "--seed") {
      g_seeds.first = value;
      g_seeds.count = 1;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace kmirror::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!kmirror::test::ReadArguments(argc, argv)) {
    std::cerr << "usage: differential_test [--seeds N] [--first S] [--seed S]\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
