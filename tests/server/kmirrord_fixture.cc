#include "tests/server/kmirrord_fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>

#include "kmirror/log/record_batch_builder.h"
#include "messages/create_topics.h"
#include "messages/metadata.h"

namespace kmirror::test {

std::string KmirrordPath() { return KMIRROR_BINARY_DIR "/bin/kmirrord"; }

std::filesystem::path Golden(const std::string& path) {
  return std::filesystem::path(KMIRROR_SOURCE_DIR) / "tests" / "golden" / path;
}

void KmirrordTest::StartOn(const std::string& listen) {
  process_ = std::make_unique<Process>(std::vector<std::string>{KmirrordPath(), "--dev", "--data",
                                                                data().string(), "--listen", listen,
                                                                "--metrics", "127.0.0.1:0"});
  AwaitReady();
}

void KmirrordTest::StartWithConfig(const std::string& lines) {
  const std::filesystem::path file = dir_ / "server.properties";
  std::ofstream(file) << "node.id=1\nlog.dirs=" << data().string()
                      << "\nlisteners=PLAINTEXT://127.0.0.1:0\n"
                      << "kmirror.metrics.listener=127.0.0.1:0\n"
                      << lines;
  process_ = std::make_unique<Process>(
      std::vector<std::string>{KmirrordPath(), "--config", file.string()});
  AwaitReady();
}

void KmirrordTest::AwaitReady() {
  client_.reset();
  const auto line = process_->WaitForLine("^kmirrord ready ", Seconds(60));
  ASSERT_TRUE(line) << process_->err();
  std::smatch match;
  ASSERT_TRUE(
      std::regex_match(*line, match, std::regex("kmirrord ready (\\S+:\\d+) cluster (\\S+)")))
      << *line;
  bootstrap_ = match[1];
  cluster_id_ = match[2];
  const std::string log = process_->err();
  if (std::regex_search(log, match, std::regex("event=metrics address=(\\S+)")))
    metrics_ = match[1];
}

void KmirrordTest::Kill() {
  process_->Kill();
  ASSERT_TRUE(process_->Wait());
  client_.reset();
}

void KmirrordTest::Stop() {
  process_->Terminate();
  const auto ended = process_->Wait();
  ASSERT_TRUE(ended) << "it does not stop\n" << process_->err();
  EXPECT_TRUE(ended->Success()) << ended->code << " " << ended->signal << "\n" << process_->err();
  client_.reset();
}

WireClient KmirrordTest::Connect() {
  Result<WireClient> client = WireClient::Connect(bootstrap_);
  if (!client.ok()) {
    ADD_FAILURE() << client.status().ToString() << "\n" << process_->err();
    std::abort();
  }
  return std::move(*client);
}

void KmirrordTest::CreateTopic(const std::string& name, int32_t partitions) {
  protocol::CreateTopicsRequest request;
  auto& topic = request.topics.emplace_back();
  topic.name = name;
  topic.num_partitions = partitions;
  topic.replication_factor = -1;
  const auto response = Call<protocol::CreateTopicsResponse>(request, 7);
  ASSERT_EQ(response.topics.size(), 1u);
  ASSERT_EQ(response.topics[0].error_code, 0) << response.topics[0].error_message.value_or("");
}

Uuid KmirrordTest::TopicId(const std::string& name) {
  protocol::MetadataRequest request;
  request.topics->emplace_back().name = name;
  request.allow_auto_topic_creation = false;
  const auto response = Call<protocol::MetadataResponse>(request, 12);
  if (response.topics.size() != 1 || response.topics[0].error_code != 0) {
    ADD_FAILURE() << "no topic " << name;
    return {};
  }
  return response.topics[0].topic_id;
}

int64_t KmirrordTest::ResidentBytes() const {
  std::ifstream statm("/proc/" + std::to_string(process_->pid()) + "/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::vector<uint8_t> Batch(const BatchOptions& options) {
  log::RecordBatchBuilder builder;
  builder.producer_id = options.producer_id;
  builder.producer_epoch = options.producer_epoch;
  builder.base_sequence = options.base_sequence;
  builder.transactional = options.transactional;
  for (int i = 0; i < options.count; ++i) {
    const std::string key = "k" + std::to_string(options.first + i);
    const std::string value = options.bytes > 0 ? std::string(options.bytes, 'x')
                                                : "v" + std::to_string(options.first + i);
    builder.Add(options.timestamp_ms + i, log::AsBytes(key), log::AsBytes(value));
  }
  return builder.Build();
}

}  // namespace kmirror::test
