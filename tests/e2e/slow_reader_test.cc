// Readers that take their time while the log under their answer is cut and grows again.
#include <cstdint>
#include <vector>

#include "messages/fetch.h"
#include "src/protocol/body.h"
#include "tests/e2e/faulty_source_fixture.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {
namespace {

class SlowReader : public FaultySource {};

// A client drops an answer that is not whole. One that went on after the cut would mix two
// histories of the log.
TEST_F(SlowReader, NeverGetsAWholeAnswerOutOfALogThatWasCutMeanwhile) {
  bad_->CreateTopic("t");
  bad_->Append("t");
  StartMirror("m", *bad_, "t");
  ASSERT_OK(standby_->Run({"stop", "m", "--topics", "t", "--wait", "30"}, Seconds(60)));

  // What only the standby has: more than all buffers on the way to a client.
  constexpr int kBatches = 30;
  constexpr size_t kBatchBytes = 900'000;
  auto client = WireClient::Connect(standby_->listen_address());
  ASSERT_OK(client.status());
  for (int i = 0; i < kBatches; ++i) {
    log::RecordBatchBuilder builder;
    const std::string value(kBatchBytes, 'x');
    builder.Add(1700000000000 + i, std::nullopt, log::AsBytes(value));
    const std::vector<uint8_t> batch = builder.Build();
    protocol::ProduceRequest request;
    request.acks = 1;
    request.timeout_ms = 10000;
    auto& to = request.topic_data.emplace_back();
    to.name = "t";
    to.partition_data.emplace_back().records = protocol::RecordsView(ByteView(batch));
    const auto response = client->Call<protocol::ProduceResponse>(request, 9);
    ASSERT_OK(response.status());
    ASSERT_EQ(response->responses.at(0).partition_responses.at(0).error_code, 0);
  }
  protocol::FetchRequest fetch;
  fetch.max_bytes = 1 << 25;
  auto& topic = fetch.topics.emplace_back();
  topic.topic = "t";
  auto& partition = topic.partitions.emplace_back();
  partition.fetch_offset = 1;
  partition.partition_max_bytes = 1 << 25;
  protocol::Writer frame;
  ASSERT_OK(protocol::EncodeRequestFrame(fetch, 12, 1, "slow", frame));
  RawSocket slow(FirstServer(standby_->listen_address()), 4096);
  ASSERT_TRUE(slow.Send(frame.Flatten()));
  const std::vector<uint8_t> prefix = slow.Receive(4);
  ASSERT_EQ(prefix.size(), 4u);
  size_t promised = 0;
  for (const uint8_t byte : prefix) promised = promised << 8 | byte;
  ASSERT_GT(promised, kBatches * kBatchBytes);

  // The failback: the standby's own records go, and as many bytes of the source's come.
  int64_t end = 0;
  for (int i = 0; i < kBatches + 5; ++i) end = bad_->Append("t", kBatchBytes);
  ASSERT_OK(standby_->Run({"start", "m", "--topics", "t", "--wait", "60"}, Seconds(90)));
  ASSERT_TRUE(AwaitEnd("t", end)) << standby_->Log();

  const auto rest = slow.ReceiveToEnd();
  ASSERT_TRUE(rest.has_value()) << "the answer went on over the cut";
  EXPECT_LT(rest->size(), promised);
  ExpectBytesEqual("t");
}

}  // namespace
}  // namespace kmirror::test
