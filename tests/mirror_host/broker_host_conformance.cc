// The host conformance suite against kmirrord's own seam.
#include "broker/mirror_host/broker_host.h"
#include "conformance/host_conformance.h"
#include "src/net/epoll_runtime.h"
#include "tests/mirror_host/broker_node.h"
#include "tests/support/assert_ok.h"
#include "tests/support/wait_until.h"

namespace kmirror::broker {
namespace {

class BrokerFixture final : public conformance::HostFixture {
 public:
  BrokerFixture() { Start(); }
  ~BrokerFixture() override { host_.reset(); }

  host::Host AsHost() override { return host_->AsHost(); }
  void Attach(Mirror* mirror) override { EXPECT_OK(host_->Attach(mirror)); }
  bool WaitFor(const std::function<bool()>& condition) override {
    return test::WaitUntil(condition);
  }

  Result<int64_t> Produce(const TopicIdPartition& partition, conformance::Bytes batch) override {
    const std::shared_ptr<Replica> replica = node_.logs().Find(partition);
    if (replica == nullptr) return Status(ErrorCode::kUnknownTopicOrPartition, "no such log");
    const auto appended = replica->log().AppendAsLeader(batch, replica->leader_epoch());
    if (!appended.ok()) return appended.status();
    return appended->base_offset;
  }

  conformance::Bytes ReadLog(const TopicIdPartition& partition) override {
    const std::shared_ptr<Replica> replica = node_.logs().Find(partition);
    conformance::Bytes all;
    const LogPositions at = replica->log().Positions();
    for (int64_t next = at.log_start; next < at.log_end;) {
      const auto bytes = replica->log().ReadBytes(next, 1 << 20, ReadBound::kLogEnd);
      EXPECT_OK(bytes.status());
      if (!bytes.ok() || bytes->empty()) break;
      all.insert(all.end(), bytes->begin(), bytes->end());
      log::BatchWalker walker(*bytes);
      log::BatchInfo info;
      ByteView batch;
      while (walker.Next(&info, &batch) == log::BatchWalker::kBatch) next = info.last_offset + 1;
    }
    return all;
  }

  bool Restart() override {
    host_.reset();
    node_.Kill();
    Start();
    return true;
  }

  std::optional<int64_t> NextProducerId() override {
    const auto ids = node_.controller().AllocateProducerIds(1);
    EXPECT_OK(ids.status());
    return ids->begin;
  }

 private:
  void Start() {
    EXPECT_OK(node_.Start());
    host_ =
        std::make_unique<BrokerHost>(node_.controller(), node_.logs(), node_.config(), runtime_);
  }

  net::EpollRuntime runtime_{nullptr};
  // Few shards: making the directories of 50 takes most of a test's time.
  BrokerNode node_{"mirror.state.topic.num.partitions=3\n"};
  std::unique_ptr<BrokerHost> host_;
};

std::unique_ptr<conformance::HostFixture> MakeBroker() { return std::make_unique<BrokerFixture>(); }

}  // namespace
}  // namespace kmirror::broker

namespace kmirror::conformance {
INSTANTIATE_TEST_SUITE_P(Kmirrord, HostConformance, testing::Values(&broker::MakeBroker));
}  // namespace kmirror::conformance
