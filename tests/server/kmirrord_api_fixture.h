// The broker's own APIs over the wire: what their tests share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "messages/list_offsets.h"
#include "messages/produce.h"
#include "tests/server/kmirrord_fixture.h"

namespace kmirror::test {

// A kmirrord for each test, and the requests that many of them make.
class ApiTest : public KmirrordTest {
 protected:
  void SetUp() override { Start(); }

  // One batch to one partition; keeps `records_` alive.
  protocol::ProduceRequest ProduceOf(const std::string& topic, const std::vector<uint8_t>& records,
                                     int16_t acks = 1, int32_t partition = 0) {
    records_ = records;
    protocol::ProduceRequest request;
    request.acks = acks;
    request.timeout_ms = 10000;
    auto& data = request.topic_data.emplace_back();
    data.name = topic;
    auto& part = data.partition_data.emplace_back();
    part.index = partition;
    part.records = protocol::RecordsView(ByteView(records_));
    return request;
  }
  protocol::ProduceResponse::PartitionProduceResponse Produce(const std::string& topic,
                                                              const std::vector<uint8_t>& records,
                                                              int16_t version = 12,
                                                              int16_t acks = 1,
                                                              int32_t partition = 0) {
    protocol::ProduceRequest request = ProduceOf(topic, records, acks, partition);
    if (version >= 13) {
      request.topic_data[0].name.clear();
      request.topic_data[0].topic_id = TopicId(topic);
    }
    const auto response = Call<protocol::ProduceResponse>(request, version);
    if (response.responses.size() != 1 || response.responses[0].partition_responses.size() != 1) {
      ADD_FAILURE() << "no answer for the partition";
      return {};
    }
    return response.responses[0].partition_responses[0];
  }
  protocol::ListOffsetsResponse::ListOffsetsPartitionResponse ListOffset(const std::string& topic,
                                                                         int64_t timestamp,
                                                                         int16_t version = 10) {
    protocol::ListOffsetsRequest request;
    request.replica_id = -1;
    auto& wanted = request.topics.emplace_back();
    wanted.name = topic;
    auto& partition = wanted.partitions.emplace_back();
    partition.timestamp = timestamp;
    const auto response = Call<protocol::ListOffsetsResponse>(request, version);
    if (response.topics.size() != 1) return {};
    return response.topics[0].partitions.at(0);
  }
  int64_t End(const std::string& topic) { return ListOffset(topic, -1).offset; }

  std::vector<uint8_t> records_;
};

}  // namespace kmirror::test
