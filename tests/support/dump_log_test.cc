#include "tests/support/dump_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace kmirror::test {
namespace {

// What the tool of Kafka 4.4 printed about a folder that Kafka 4.4 wrote.
LogDump GoldenDump(const std::string& partition) {
  std::ifstream file(KMIRROR_SOURCE_DIR "/tests/golden/kafka-4.4/clean/" + partition + ".dump.txt");
  std::stringstream text;
  text << file.rdbuf();
  return ParseDump(text.str());
}

TEST(LogDump, FindsNothingWrongWithASoundFolderOfSeveralSegments) {
  const LogDump dump = GoldenDump("txn-0");
  EXPECT_EQ(dump.complaints, std::vector<std::string>());
  ASSERT_FALSE(dump.batches.empty());
  EXPECT_EQ(dump.batches.front().base_offset, 0);
  EXPECT_EQ(dump.batches.back().last_offset, 70);
  for (const DumpedBatch& batch : dump.batches) EXPECT_TRUE(batch.valid) << batch.base_offset;
  ASSERT_GE(dump.markers.size(), 2u);
  EXPECT_EQ(dump.markers[0], "10 COMMIT");
  EXPECT_EQ(dump.markers[1], "16 ABORT");
}

TEST(LogDump, KeepsTheHolesThatCompactionLeft) {
  EXPECT_FALSE(GoldenDump("compact-0").complaints.empty());
}

TEST(LogDump, KeepsWhatTheToolComplainsAbout) {
  const LogDump dump = ParseDump(
      "Dumping a/00000000000000000010.log\n"
      "Log starting offset: 10\n"
      "baseOffset: 10 lastOffset: 11 count: 2 isControl: false position: 0 isvalid: false\n"
      "| offset: 10 isvalid: true payload: x endTxnMarker: COMMIT\n"
      "Mismatches in :a/00000000000000000010.index\n"
      "  Index offset: 12, log offset: 11\n"
      "Non-consecutive offsets in a/00000000000000000010.log\n"
      "  -1 is followed by 10\n"
      "  11 is followed by 14\n");
  ASSERT_EQ(dump.batches.size(), 1u);
  EXPECT_FALSE(dump.batches[0].valid);
  EXPECT_EQ(dump.markers, std::vector<std::string>());
  ASSERT_EQ(dump.complaints.size(), 3u);
  EXPECT_EQ(dump.complaints[0], "Mismatches in :a/00000000000000000010.index");
  EXPECT_EQ(dump.complaints[2],
            "Non-consecutive offsets in a/00000000000000000010.log  11 is followed by 14");
}

}  // namespace
}  // namespace kmirror::test
