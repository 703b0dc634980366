// The conformance suite on the in-memory host, with both ways of answering.
#include "conformance/host_conformance.h"
#include "conformance/memory_host/memory_host.h"

namespace kmirror::conformance {
namespace {

class MemoryFixture final : public HostFixture {
 public:
  explicit MemoryFixture(bool inline_answers)
      : host_(&runtime_, {.state_partitions = 5, .inline_answers = inline_answers}) {}
  ~MemoryFixture() override {
    for (const std::string& violation : host_.violations()) {
      ADD_FAILURE() << "the suite broke the contract: " << violation;
    }
  }

  host::Host AsHost() override { return host_.AsHost(); }
  void Attach(Mirror* mirror) override { host_.Attach(mirror); }
  bool WaitFor(const std::function<bool()>& condition) override {
    return runtime_.RunUntil(condition, std::chrono::minutes(1));
  }
  Result<int64_t> Produce(const TopicIdPartition& partition, Bytes batch) override {
    return host_.logs().Get(partition)->Produce(std::move(batch));
  }
  Bytes ReadLog(const TopicIdPartition& partition) override {
    return host_.logs().Get(partition)->Bytes();
  }
  bool Restart() override {
    host_.Restart(/*lose_unsynced=*/true);
    return true;
  }
  std::optional<int64_t> NextProducerId() override {
    return host_.controller().producer_id_floor();
  }

 private:
  ManualRuntime runtime_;
  MemoryHost host_;
};

std::unique_ptr<HostFixture> Posted() { return std::make_unique<MemoryFixture>(false); }
std::unique_ptr<HostFixture> Inline() { return std::make_unique<MemoryFixture>(true); }

INSTANTIATE_TEST_SUITE_P(Memory, HostConformance, testing::Values(&Posted, &Inline),
                         [](const auto& info) { return info.index == 0 ? "Posted" : "Inline"; });

}  // namespace
}  // namespace kmirror::conformance
