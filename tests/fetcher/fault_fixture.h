// A mirror that has copied something, and what the tests of its faults need.
#pragma once

#include <utility>
#include <vector>

#include "tests/fetcher/mirror_fixture.h"

namespace kmirror::fetcher::testing {

class FaultTest : public MirrorTest {
 protected:
  // A partition that has copied `records` records, one batch each.
  TopicIdPartition Copied(int records, int32_t source_epoch = 0) {
    const auto key = Topic("t");
    source.At("t", 0).leader_epoch = source_epoch;
    for (int i = 0; i < records; ++i) source.Append("t", 0);
    Start();
    Add(key, "t");
    EXPECT_TRUE(CaughtUp(key, "t"));
    EXPECT_TRUE(Until([&] { return !events.fetching.empty(); }));
    return key;
  }
  // Puts a batch into our log, with its own epoch.
  void Store(const TopicIdPartition& key, std::vector<uint8_t> batch) {
    conformance::OwnedSet set({std::move(batch)}, LogOf(key).View().end, kLocalEpoch);
    EXPECT_EQ(LogOf(key).AppendMirrored(set.get(), nullptr).code, host::AppendCode::kOk);
  }
  bool Stopped() {
    return Until([&] { return !events.stopped.empty(); });
  }
};

}  // namespace kmirror::fetcher::testing
