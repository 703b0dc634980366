// kmirror-lab: the parts of ./demo that a shell cannot do. For people to look at mirroring with a
// client that is none of ours.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>

#include "messages/create_topics.h"
#include "tools/client/cluster_client.h"
#include "tools/kmirror/mirror_admin.h"
#include "tools/lab/batch_listing.h"
#include "tools/lab/failover_report.h"
#include "tools/lab/kafka_reader.h"
#include "tools/lab/live_progress.h"
#include "tools/lab/refused_produce.h"
#include "tools/lab/steady_producer.h"

namespace kmirror::lab {
namespace {

Status CreateTopic(const std::string& bootstrap, const std::string& topic, int partitions) {
  const auto servers = tools::ParseServers(bootstrap);
  if (!servers.ok()) return servers.status();
  tools::ClusterClient cluster(*servers, std::chrono::seconds(20));
  const auto connection = cluster.Any();
  if (!connection.ok()) return connection.status();
  protocol::CreateTopicsRequest request;
  request.timeout_ms = 20'000;
  auto& one = request.topics.emplace_back();
  one.name = topic;
  one.num_partitions = partitions;
  one.replication_factor = 1;
  const auto answer = (*connection)->Call<protocol::CreateTopicsResponse>(request);
  if (!answer.ok()) return answer.status();
  for (const auto& result : answer->topics) {
    if (result.error_code != 0) {
      return {static_cast<ErrorCode>(result.error_code), result.error_message.value_or("")};
    }
  }
  return {};
}

// Names of the topics with the number of offsets in each, smallest first; empty ones are left out.
Status ListTopics(const std::string& bootstrap, std::ostream& out) {
  const auto servers = tools::ParseServers(bootstrap);
  if (!servers.ok()) return servers.status();
  const auto source = tools::ReadSource(*servers, std::chrono::seconds(20));
  if (!source.ok()) return source.status();
  std::vector<std::pair<int64_t, std::string>> sizes;
  for (const auto& [name, topic] : source->topics) {
    const auto bounds = TopicBounds(bootstrap, name);
    if (!bounds.ok()) continue;
    int64_t size = 0;
    for (const Bounds& one : *bounds) size += one.end - one.start;
    if (size > 0) sizes.emplace_back(size, name);
  }
  std::sort(sizes.begin(), sizes.end());
  for (const auto& [size, name] : sizes) out << name << ' ' << size << '\n';
  return {};
}

int Main(int argc, char** argv) {
  CLI::App app("Parts of ./demo", "kmirror-lab");
  app.require_subcommand(1);
  std::string bootstrap, source, destination, mirror, topic, journal;
  int partitions = 1, partition = 0, last = 8, seconds = 5;
  int64_t max_records = 1'000'000;
  bool until_caught_up = false, expect_abort = false;
  ProduceOptions produce_options;

  CLI::App* create = app.add_subcommand("create-topic", "Create a topic");
  create->add_option("--partitions", partitions);
  CLI::App* produce = app.add_subcommand("produce", "Write numbered records; commands on stdin");
  produce->add_option("--rate", produce_options.rate);
  produce->add_option("--journal", produce_options.journal)->required();
  CLI::App* try_produce = app.add_subcommand("try-produce", "Write one record, show the answer");
  CLI::App* batches = app.add_subcommand("batches", "The last batches of a partition");
  batches->add_option("--partition", partition);
  batches->add_option("--last", last);
  batches->add_flag("--expect-abort-and-reset", expect_abort, "Fail unless both are among them");
  CLI::App* committed = app.add_subcommand("committed", "What a read_committed consumer sees");
  for (CLI::App* one : {create, produce, try_produce, batches, committed}) {
    one->add_option("--bootstrap", bootstrap)->required();
    one->add_option("--topic", topic)->required();
  }
  CLI::App* topics = app.add_subcommand("topics", "Topics that are not empty, smallest first");
  topics->add_option("--bootstrap", bootstrap)->required();
  CLI::App* watch = app.add_subcommand("watch", "Live progress of a mirror");
  watch->add_option("--seconds", seconds);
  watch->add_flag("--until-caught-up", until_caught_up);
  CLI::App* report = app.add_subcommand("report", "What a failover lost");
  report->add_option("--journal", journal)->required();
  CLI::App* equal = app.add_subcommand("equal", "Compare both sides record by record");
  equal->add_option("--max-records", max_records);
  for (CLI::App* one : {watch, report, equal}) {
    one->add_option("--source", source)->required();
    one->add_option("--destination", destination)->required();
    one->add_option("--mirror", mirror)->required();
    one->add_option("--topic", topic)->required();
  }
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGPIPE, SIG_IGN);

  Status status;
  if (create->parsed()) {
    status = CreateTopic(bootstrap, topic, partitions);
  } else if (produce->parsed()) {
    produce_options.bootstrap = bootstrap;
    produce_options.topic = topic;
    status = ProduceSteadily(produce_options, STDIN_FILENO, std::cout);
  } else if (try_produce->parsed()) {
    status = ExpectRefusedProduce(bootstrap, topic, std::cout);
  } else if (batches->parsed()) {
    int aborts = 0, resets = 0;
    status = ListBatches(bootstrap, topic, partition, last, std::cout, &aborts, &resets);
    if (status.ok() && expect_abort && (aborts == 0 || resets == 0)) {
      status = {ErrorCode::kUnknownServerError, "ABORT or MIRROR_PID_RESET is missing"};
    }
  } else if (committed->parsed()) {
    const auto summary =
        ReadTopic(bootstrap, topic, true, {}, std::chrono::seconds(30), [](const ReadRecord&) {});
    const auto bounds = TopicBounds(bootstrap, topic);
    if (!summary.ok()) {
      status = summary.status();
    } else if (!bounds.ok()) {
      status = bounds.status();
    } else {
      int64_t position = 0, end = 0;
      for (const int64_t one : summary->positions) position += one;
      for (const Bounds& one : *bounds) end += one.end;
      std::cout << summary->records << " records, and it stands at offset " << position << " of "
                << end
                << (position < end ? ": held up by the open transaction\n"
                                   : ": nothing holds it up\n");
    }
  } else if (topics->parsed()) {
    status = ListTopics(bootstrap, std::cout);
  } else if (watch->parsed()) {
    status = WatchMirror(source, destination, mirror, topic, std::chrono::seconds(seconds),
                         until_caught_up, isatty(STDOUT_FILENO) == 1, std::cout);
  } else {
    const auto sound =
        report->parsed()
            ? ReportFailover(source, destination, mirror, topic, journal, std::cout)
            : ReportEquality(source, destination, mirror, topic, max_records, std::cout);
    status = sound.status();
    if (sound.ok() && !*sound) return 1;
  }
  if (status.ok()) return 0;
  std::cerr << "kmirror-lab: " << status.ToString() << '\n';
  return 1;
}

}  // namespace
}  // namespace kmirror::lab

int main(int argc, char** argv) { return kmirror::lab::Main(argc, argv); }
