// kmirrord as a program: arguments, config files, data folders, start and end.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "messages/describe_configs.h"
#include "messages/incremental_alter_configs.h"
#include "messages/metadata.h"
#include "tests/server/kmirrord_fixture.h"
#include "tests/server/raw_socket.h"
#include "tests/support/free_port.h"
#include "tests/support/kafka_client.h"

namespace kmirror::test {
namespace {

class ProgramTest : public KmirrordTest {
 protected:
  struct Ended {
    int code = -1;
    std::string out;
    std::string err;
  };
  static Ended Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), KmirrordPath());
    Process process(std::move(arguments));
    const auto ended = process.Wait(Seconds(60));
    if (!ended) return {-1, process.out(), process.err() + "\n(still running)"};
    return {ended->code, process.out(), process.err()};
  }
  Ended RunConfig(const std::string& text) {
    const std::filesystem::path file = dir_ / "broken.properties";
    std::ofstream(file) << text;
    return Run({"--config", file.string()});
  }
};

TEST_F(ProgramTest, HelpGoesToStdoutAndSucceeds) {
  const Ended ended = Run({"--help"});
  EXPECT_EQ(ended.code, 0);
  for (const char* word : {"--config", "--dev", "--data", "--listen", "--metrics", "adopt"}) {
    EXPECT_NE(ended.out.find(word), std::string::npos) << word;
  }
}

TEST_F(ProgramTest, BadUsageExitsWithTwo) {
  EXPECT_EQ(Run({}).code, 2);
  EXPECT_EQ(Run({"--no-such-option"}).code, 2);
  EXPECT_EQ(Run({"--dev", "--config", "x"}).code, 2);
  EXPECT_EQ(Run({"--data", "x"}).code, 2) << "--data needs --dev";
  EXPECT_EQ(Run({"adopt"}).code, 2);
  EXPECT_EQ(Run({"--dev", "--data", data().string(), "--listen", "nonsense"}).code, 2);
}

TEST_F(ProgramTest, BadUsageNamesProgramAndOption) {
  const Ended unknown = Run({"--no-such-option"});
  EXPECT_TRUE(unknown.err.starts_with("kmirrord: ")) << unknown.err;
  EXPECT_NE(unknown.err.find("--no-such-option"), std::string::npos) << unknown.err;
  const Ended address = Run({"--dev", "--data", data().string(), "--listen", "127.0.0.1:99999"});
  EXPECT_NE(address.err.find("--listen"), std::string::npos) << address.err;
  EXPECT_NE(address.err.find("HOST:PORT"), std::string::npos) << address.err;
}

TEST_F(ProgramTest, AWrongConfigNamesFileKeyAndLine) {
  const std::string good = "node.id=1\nlog.dirs=" + data().string() + "\n";
  Ended ended = RunConfig(good + "listeners=PLAINTEXT://127.0.0.1:0\nno.such.key=1\n");
  EXPECT_NE(ended.code, 0);
  EXPECT_NE(ended.err.find("broken.properties:4"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("no.such.key"), std::string::npos) << ended.err;

  ended = RunConfig(good + "listeners=PLAINTEXT://127.0.0.1:0\n\nnum.network.threads=many\n");
  EXPECT_NE(ended.code, 0);
  EXPECT_NE(ended.err.find("broken.properties:5"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("num.network.threads"), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(data())) << "nothing is made for a config that is wrong";
}

TEST_F(ProgramTest, SaysWhichPortIsTaken) {
  Start();
  const Ended ended = Run({"--dev", "--data", (dir_ / "other").string(), "--listen", bootstrap()});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find(bootstrap()), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("in use"), std::string::npos) << ended.err;
}

TEST_F(ProgramTest, RefusesADataFolderThatAnotherProcessUses) {
  Start();
  const Ended ended = Run({"--dev", "--data", data().string(), "--listen", "127.0.0.1:0"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("in use"), std::string::npos) << ended.err;
}

TEST_F(ProgramTest, RefusesADataFolderOfAnotherClusterOrVersion) {
  Start();
  Stop();
  const std::string config =
      "node.id=1\nlog.dirs=" + data().string() +
      "\nlisteners=PLAINTEXT://127.0.0.1:0\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n";
  Ended ended = RunConfig(config);
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find(cluster_id()), std::string::npos) << ended.err;

  std::ofstream(data() / "meta.properties")
      << "version=7\nnode.id=1\ncluster.id=" << cluster_id() << "\n";
  ended = Run({"--dev", "--data", data().string(), "--listen", "127.0.0.1:0"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("version"), std::string::npos) << ended.err;
}

// Every file with its bytes, every folder.
std::map<std::string, std::string> Contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    contents[entry.path().string()] = entry.is_directory()
                                          ? std::string("folder")
                                          : std::string{std::istreambuf_iterator<char>(in), {}};
  }
  return contents;
}

// A Kafka may be running on it: nothing in it may change.
TEST_F(ProgramTest, RefusesAFolderOfKafkaThatWasNotAdoptedAndTouchesNothing) {
  std::filesystem::create_directories(data());
  std::filesystem::copy(Golden("kafka-4.4/clean/txn-0"), data() / "txn-0",
                        std::filesystem::copy_options::recursive);
  std::ofstream(data() / "meta.properties")
      << "version=1\nnode.id=1\ncluster.id=kmirrorGoldenCluster0g\n"
         "directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n";
  std::ofstream(data() / "recovery-point-offset-checkpoint") << "0\n1\ntxn 0 3\n";
  std::ofstream(data() / ".lock");
  const auto before = Contents(data());
  const Ended ended = Run({"--dev", "--data", data().string(), "--listen", "127.0.0.1:0"});
  EXPECT_EQ(ended.code, 1);
  for (const char* word : {"txn-0", "kmirrorGoldenCluster0g", "kmirrord adopt", "next:"}) {
    EXPECT_NE(ended.err.find(word), std::string::npos) << ended.err;
  }
  EXPECT_EQ(Contents(data()), before);
}

TEST_F(ProgramTest, ServesFromAConfigFileAndKeepsItsIdentity) {
  StartWithConfig("cluster.id=kmirrorTestsClusterIdg\nnum.partitions=3\n");
  EXPECT_EQ(cluster_id(), "kmirrorTestsClusterIdg");
  protocol::MetadataRequest request;
  request.topics->emplace_back().name = "made-by-asking";
  auto response = Call<protocol::MetadataResponse>(request, 9);
  EXPECT_EQ(response.cluster_id, "kmirrorTestsClusterIdg");
  ASSERT_EQ(response.topics.size(), 1u);
  EXPECT_EQ(response.topics[0].partitions.size(), 3u);
  Stop();
  StartWithConfig("");
  EXPECT_EQ(cluster_id(), "kmirrorTestsClusterIdg");
}

TEST_F(ProgramTest, ARestartKeepsTopicsIdsAndConfigs) {
  for (const bool killed : {false, true}) {
    const std::string topic = killed ? "killed" : "stopped";
    Start();
    CreateTopic(topic, 2);
    const Uuid id = TopicId(topic);
    protocol::IncrementalAlterConfigsRequest alter;
    auto& resource = alter.resources.emplace_back();
    resource.resource_type = 2;
    resource.resource_name = topic;
    auto& config = resource.configs.emplace_back();
    config.name = "retention.ms";
    config.value = "123456789";
    const auto altered = Call<protocol::IncrementalAlterConfigsResponse>(alter, 1);
    ASSERT_EQ(altered.responses.at(0).error_code, 0);
    if (killed)
      Kill();
    else
      Stop();
    Start();
    EXPECT_EQ(TopicId(topic), id);
    protocol::DescribeConfigsRequest describe;
    auto& described = describe.resources.emplace_back();
    described.resource_type = 2;
    described.resource_name = topic;
    described.configuration_keys = std::vector<std::string>{"retention.ms"};
    const auto configs = Call<protocol::DescribeConfigsResponse>(describe, 4);
    ASSERT_EQ(configs.results.at(0).configs.size(), 1u);
    EXPECT_EQ(configs.results[0].configs[0].value, "123456789");
    EXPECT_EQ(configs.results[0].configs[0].config_source, 1) << "dynamic topic config";
    Stop();
  }
}

TEST_F(ProgramTest, AnswersMetricsOverHttp) {
  Start();
  CreateTopic("counted");
  auto producer = Producer::Connect(bootstrap());
  ASSERT_OK(producer.status());
  ASSERT_OK(producer->SendNumbered("counted", 0, 7).status());
  const auto get = [&](const std::string& target) {
    RawSocket http(FirstServer(metrics()));
    const std::string request =
        "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    EXPECT_TRUE(http.Send({request.begin(), request.end()}));
    const std::vector<uint8_t> all = http.Receive(1 << 24, Seconds(20));
    return std::string(all.begin(), all.end());
  };
  const std::string page = get("/metrics");
  EXPECT_EQ(page.find("HTTP/1.1 200"), 0u) << page;
  for (const char* line :
       {"kmirror_log_end_offset{topic=\"counted\",partition=\"0\"} 7",
        "kmirror_server_produced_records_total 7", "# TYPE kmirror_server_requests_total counter",
        "process_resident_memory_bytes"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line;
  }
  EXPECT_EQ(get("/secrets").find("HTTP/1.1 404"), 0u);
}

TEST_F(ProgramTest, StopsOnSigtermWhileClientsWait) {
  Start();
  CreateTopic("quiet");
  RawSocket idle(address());
  Process reader({"kcat", "-C", "-b", bootstrap(), "-t", "quiet"});
  // Long poll of the reader: counted on the metrics page.
  ASSERT_TRUE(WaitUntil([&] {
    RawSocket http(FirstServer(metrics()));
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    if (!http.Send({request.begin(), request.end()})) return false;
    const std::vector<uint8_t> all = http.Receive(1 << 24, Seconds(20));
    return std::string(all.begin(), all.end()).find("\nkmirror_server_fetches_waiting 1") !=
           std::string::npos;
  }));
  Stop();
  EXPECT_TRUE(idle.ClosedByPeer());
  EXPECT_TRUE(std::filesystem::exists(data() / ".kafka_cleanshutdown"));
}

// ---- adopt

class AdoptTest : public ProgramTest {
 protected:
  // A Kafka log directory with the golden partitions; the hidden files are not part of the golden
  // copy.
  std::filesystem::path Kafka(const std::string& kind = "clean") {
    const std::filesystem::path to = dir_ / "kafka";
    std::filesystem::copy(Golden("kafka-4.4/" + kind), to,
                          std::filesystem::copy_options::recursive);
    return to;
  }
  Ended Adopt(const std::filesystem::path& kafka, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"adopt", kafka.string(), "--data", data().string()});
    return Run(more);
  }
};

TEST_F(AdoptTest, TakesTopicsWithIdsOffsetsAndOpenTransactions) {
  const std::filesystem::path kafka = Kafka();
  const Ended ended = Adopt(kafka);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("adopted txn-0 id "), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("offsets [0, 71) open transactions 1"), std::string::npos) << ended.out;
  EXPECT_TRUE(std::filesystem::exists(kafka / "txn-0" / "partition.metadata"))
      << "copied, not moved";

  Start();
  std::ifstream metadata(kafka / "txn-0" / "partition.metadata");
  std::string version, key, id;
  std::getline(metadata, version);
  metadata >> key >> id;
  EXPECT_EQ(TopicId("txn").ToString(), id);
  auto admin = AdminClient::Connect(bootstrap());
  ASSERT_OK(admin.status());
  auto topics = admin->Topics();
  ASSERT_OK(topics.status());
  for (const auto& topic : *topics) EXPECT_NE(topic.name.substr(0, 2), "__") << topic.name;
  // Every topic is there, readable, and takes new records.
  EXPECT_GE(topics->size(), 8u);
  for (const auto& topic : *topics) {
    auto producer = Producer::Connect(bootstrap());
    ASSERT_OK(producer.status());
    EXPECT_OK(producer->SendNumbered(topic.name, 0, 1).status()) << topic.name;
    EXPECT_OK(ReadPartition(bootstrap(), topic.name, 0, {.from_offset = -2}).status())
        << topic.name;
  }
}

TEST_F(AdoptTest, ReadCommittedSeesWhatKafkaShowed) {
  const Ended ended = Adopt(Kafka(), {"--topics", "txn"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  Start();
  // Golden facts of txn-0: end 71, stable offset 60 below the open transaction, three aborted ones.
  auto uncommitted = AdminClient::Connect(bootstrap(), {{"isolation.level", "read_uncommitted"}});
  ASSERT_OK(uncommitted.status());
  EXPECT_EQ(uncommitted->QueryWatermarks("txn", 0)->high, 71);
  auto committed = ReadPartition(bootstrap(), "txn", 0, {.read_committed = true});
  auto all = ReadPartition(bootstrap(), "txn", 0);
  ASSERT_OK(committed.status());
  ASSERT_OK(all.status());
  EXPECT_EQ(committed->next_offset, 60);
  EXPECT_EQ(all->next_offset, 71);
  // Offsets 11 to 15, 27 to 31 and 44 to 53 were aborted.
  std::vector<int64_t> expected;
  for (const auto& [from, to] : {std::pair{0, 9}, {17, 26}, {32, 41}, {55, 59}}) {
    for (int offset = from; offset <= to; ++offset) expected.push_back(offset);
  }
  std::vector<int64_t> seen;
  for (const ClientRecord& record : committed->records) seen.push_back(record.offset);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(all->records.size(), 65u);
}

TEST_F(AdoptTest, TakesAnUncleanCopyAndCutsItsTornTail) {
  const Ended ended = Adopt(Kafka("unclean"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  Start();
  auto admin = AdminClient::Connect(bootstrap());
  ASSERT_OK(admin.status());
  const auto topics = admin->Topics();
  ASSERT_OK(topics.status());
  EXPECT_GE(topics->size(), 3u);
  for (const auto& topic : *topics) {
    EXPECT_OK(ReadPartition(bootstrap(), topic.name, 0, {.from_offset = -2}).status())
        << topic.name;
  }
}

TEST_F(AdoptTest, RefusesATopicThatIsThereAlreadyAndChangesNothing) {
  const std::filesystem::path kafka = Kafka();
  ASSERT_EQ(Adopt(kafka, {"--topics", "txn"}).code, 0);
  const Ended again = Adopt(kafka);
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("txn"), std::string::npos) << again.err;
  Start();
  auto admin = AdminClient::Connect(bootstrap());
  ASSERT_OK(admin.status());
  EXPECT_EQ(admin->Topics()->size(), 1u) << "none of the others was taken either";
}

TEST_F(AdoptTest, RefusesFoldersInUse) {
  const std::filesystem::path kafka = Kafka();
  Start();
  Ended ended = Adopt(kafka);
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("in use"), std::string::npos) << ended.err;

  // Our own data folder as the source, while its broker runs.
  ended = Run({"adopt", data().string(), "--data", (dir_ / "third").string()});
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("in use"), std::string::npos) << ended.err;
}

TEST_F(AdoptTest, RefusesAFolderWithoutPartitionsOrIds) {
  std::filesystem::create_directories(dir_ / "empty");
  EXPECT_EQ(Adopt(dir_ / "empty").code, 1);
  EXPECT_EQ(Adopt(dir_ / "missing").code, 1);
  const std::filesystem::path kafka = Kafka();
  std::filesystem::remove(kafka / "txn-0" / "partition.metadata");
  const Ended ended = Adopt(kafka);
  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.err.find("partition.metadata"), std::string::npos) << ended.err;
  EXPECT_EQ(Adopt(kafka, {"--topics", "no-such-topic"}).code, 1);
}

}  // namespace
}  // namespace kmirror::test
