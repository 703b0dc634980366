#include "tests/hostile/hostile_fixture.h"

#include <cstdlib>

#include "messages/api_versions.h"
#include "messages/create_topics.h"
#include "messages/metadata.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {

void HostileTest::SetUp() {
  Start();
  good_ = std::make_unique<GoodClient>(bootstrap(), "the-topic-of-the-good-client");
  ASSERT_TRUE(good_->AwaitRounds(1)) << good_->problem() << "\n" << process_->err();
  MakeVictim();
}

void HostileTest::TearDown() {
  if (!process_) return;
  EXPECT_TRUE(process_->Running()) << process_->err();
  if (good_) {
    EXPECT_TRUE(good_->AwaitRounds(3)) << good_->problem();
    good_.reset();
  }
  if (process_->Running()) Stop();
  const std::string said = process_->err();
  for (const char* word : {"Sanitizer", "runtime error:", "Assertion"}) {
    EXPECT_EQ(said.find(word), std::string::npos) << said;
  }
}

void HostileTest::MakeVictim() {
  protocol::CreateTopicsRequest request;
  auto& topic = request.topics.emplace_back();
  topic.name = kVictim;
  topic.num_partitions = 1;
  topic.replication_factor = -1;
  const auto response = Call<protocol::CreateTopicsResponse>(request, 7);
  ASSERT_EQ(response.topics.size(), 1u);
  const int16_t error = response.topics[0].error_code;
  EXPECT_TRUE(error == 0 || error == 36) << error << ", not made and not there";
}

std::vector<BaseFrame> HostileTest::Frames() {
  protocol::ApiVersionsRequest request;
  request.client_software_name = "kmirror-test";
  request.client_software_version = "1";
  const auto response = Call<protocol::ApiVersionsResponse>(request, 3);
  std::vector<ServedVersions> served;
  for (const auto& api : response.api_keys) {
    served.push_back({api.api_key, api.min_version, api.max_version});
  }
  std::vector<BaseFrame> frames = BaseFrames(served, kVictim, TopicId(kVictim));
  // None of what is served is left out.
  for (const ServedVersions& api : served) {
    for (int version = api.min; version <= api.max; ++version) {
      bool found = false;
      for (const BaseFrame& frame : frames) {
        found = found || (frame.key == api.key && frame.version == version);
      }
      EXPECT_TRUE(found) << "no frame of API " << api.key << " version " << version;
    }
  }
  return frames;
}

std::string HostileTest::Converse(const std::vector<uint8_t>& bytes, Seconds patience) const {
  const auto socket = RawSocket::Try(address());
  if (!socket) return "the broker refuses connections";
  // A close in the middle of it is an answer too.
  const bool sent = socket->Send(bytes);
  if (sent) socket->EndSending();
  bool reset = false;
  const auto answer = socket->ReceiveToEnd(patience, &reset);
  if (!answer) return "the broker does not end the conversation";
  if (!sent || reset) return "";
  size_t at = 0;
  while (at + 4 <= answer->size()) {
    uint32_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | (*answer)[at + i];
    at += 4 + size_t{size};
  }
  return at == answer->size() ? "" : "the broker's answers are not whole frames";
}

int64_t HostileTest::OpenConnections() const {
  const auto http = RawSocket::Try(FirstServer(metrics()));
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  if (!http || !http->Send({request.begin(), request.end()})) return -1;
  const auto all = http->ReceiveToEnd();
  if (!all) return -1;
  const std::string page(all->begin(), all->end());
  const std::string name = "\nkmirror_server_connections ";
  const size_t at = page.find(name);
  if (at == std::string::npos) return -1;
  return std::strtoll(page.c_str() + at + name.size(), nullptr, 10);
}

}  // namespace kmirror::test
