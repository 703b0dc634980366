// The test's own judges, against files that Kafka wrote and what Kafka's tool says about them.
#include "tests/support/raw_batch.h"

#include <gtest/gtest.h>

#include "tests/support/assert_ok.h"
#include "tests/support/dump_log.h"

namespace kmirror::test {
namespace {

const std::filesystem::path kGolden = KMIRROR_SOURCE_DIR "/tests/golden/kafka-4.4/clean";

Result<LogDump> GoldenDump(const std::string& partition) {
  const Result<std::vector<uint8_t>> text = ReadFile(kGolden / (partition + ".dump.txt"));
  if (!text.ok()) return text.status();
  return ParseDump(std::string(text->begin(), text->end()));
}

TEST(RawBatch, ReadsWhatKafkaWroteAsKafkasToolDoes) {
  for (const char* partition : {"codec-zstd-0", "epochs-0", "idempotent-0", "txn-0", "compact-0"}) {
    SCOPED_TRACE(partition);
    const auto batches = ReadLogFiles(kGolden / partition);
    ASSERT_OK(batches.status());
    const auto dump = GoldenDump(partition);
    ASSERT_OK(dump.status());
    // Compaction leaves holes, which the tool reports.
    EXPECT_EQ(dump->complaints.empty(), partition != std::string("compact-0"));
    ASSERT_FALSE(batches->empty());
    ASSERT_EQ(batches->size(), dump->batches.size());
    for (size_t i = 0; i < batches->size(); ++i) {
      EXPECT_EQ((*batches)[i].base_offset, dump->batches[i].base_offset);
      EXPECT_EQ((*batches)[i].last_offset, dump->batches[i].last_offset);
      EXPECT_EQ((*batches)[i].control(), dump->batches[i].control);
      EXPECT_TRUE(dump->batches[i].valid);
    }
  }
}

TEST(RawBatch, TellsTheMarkersOfTransactionsApart) {
  const auto batches = ReadLogFiles(kGolden / "txn-0");
  ASSERT_OK(batches.status());
  std::vector<std::string> markers;
  for (const RawBatch& batch : *batches) {
    if (!batch.control()) continue;
    ASSERT_TRUE(batch.control_type.has_value());
    markers.push_back(std::to_string(batch.base_offset) +
                      (*batch.control_type == 1 ? " COMMIT" : " ABORT"));
  }
  const auto dump = GoldenDump("txn-0");
  ASSERT_OK(dump.status());
  EXPECT_FALSE(markers.empty());
  EXPECT_EQ(markers, dump->markers);
}

TEST(RawBatch, FindsAnyFlippedByteOfABatch) {
  const auto batches = ReadLogFiles(kGolden / "epochs-0");
  ASSERT_OK(batches.status());
  const std::vector<uint8_t>& sound = batches->front().bytes;
  ASSERT_OK(SplitBatches(sound).status());
  for (size_t i = 16; i < sound.size(); ++i) {  // from magic on; before it stand offset and epoch
    std::vector<uint8_t> damaged = sound;
    damaged[i] ^= 0x40;
    EXPECT_FALSE(SplitBatches(damaged).ok()) << i;
  }
}

TEST(RawBatch, RefusesPartOfABatchUnlessAFetchMayHaveCutIt) {
  const auto batches = ReadLogFiles(kGolden / "epochs-0");
  ASSERT_OK(batches.status());
  std::vector<uint8_t> cut = batches->front().bytes;
  cut.pop_back();
  EXPECT_FALSE(SplitBatches(cut).ok());
  const auto none = SplitBatches(cut, Tail::kPartOfABatch);
  ASSERT_OK(none.status());
  EXPECT_TRUE(none->empty());
}

TEST(RawBatch, NamesTheFirstDifference) {
  const auto batches = ReadLogFiles(kGolden / "epochs-0");
  ASSERT_OK(batches.status());
  EXPECT_EQ(FirstDifference(*batches, *batches), "");
  std::vector<RawBatch> other = *batches;
  other.back().bytes[60] ^= 1;
  EXPECT_NE(FirstDifference(*batches, other).find("first other byte at 60"), std::string::npos);
  other = *batches;
  other.pop_back();
  EXPECT_NE(FirstDifference(*batches, other).find("first without a partner"), std::string::npos);
}

TEST(LogDump, KeepsWhatTheToolComplainsAbout) {
  const LogDump dump = ParseDump(
      "Dumping a/00000000000000000010.log\n"
      "Log starting offset: 10\n"
      "baseOffset: 10 lastOffset: 11 count: 2 isControl: false position: 0 isvalid: false\n"
      "Mismatches in :a/00000000000000000010.index\n"
      "  Index offset: 12, log offset: 11\n"
      "Non-consecutive offsets in a/00000000000000000010.log\n"
      "  -1 is followed by 10\n"
      "  11 is followed by 14\n");
  ASSERT_EQ(dump.batches.size(), 1u);
  EXPECT_FALSE(dump.batches[0].valid);
  ASSERT_EQ(dump.complaints.size(), 3u);
  EXPECT_EQ(dump.complaints[0], "Mismatches in :a/00000000000000000010.index");
  EXPECT_EQ(dump.complaints[2],
            "Non-consecutive offsets in a/00000000000000000010.log  11 is followed by 14");
}

}  // namespace
}  // namespace kmirror::test
