// kmirrord: the reference broker.

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "broker/config/broker_config.h"
#include "broker/main_adopt.h"
#include "broker/main_serve.h"
#include "broker/storage/log_manager.h"
#include "src/base/config_value.h"

namespace kmirror::broker {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

struct Arguments {
  std::string config_file;
  bool dev = false;
  std::string data = "kmirror-data";
  std::string listen = "127.0.0.1:9092";
  std::string metrics;
  std::string kafka_dir;
  std::vector<std::string> topics;
  bool internal = false;
};

int Complain(const std::string& text, int code) {
  std::fprintf(stderr, "kmirrord: %s\n", text.c_str());
  return code;
}

std::string Escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\') text += '\\';
    text += c;
  }
  return text;
}

// The config that --dev and adopt stand for: a node with its data in one folder. A folder that
// exists keeps the node id it was made with.
Result<BrokerConfig> FolderConfig(const Arguments& arguments) {
  int32_t node_id = 1;
  const Result<LogManager::MetaProperties> meta = LogManager::ReadMetaProperties(arguments.data);
  if (meta.ok()) node_id = meta->node_id;
  std::string text = "node.id=" + std::to_string(node_id) + "\n";
  text += "log.dirs=" + Escaped(std::filesystem::absolute(arguments.data).string()) + "\n";
  text += "listeners=PLAINTEXT://" + arguments.listen + "\n";
  if (!arguments.metrics.empty()) text += "kmirror.metrics.listener=" + arguments.metrics + "\n";
  // One node at a desk: a shard of state costs a log, and fifty of them a slow first start.
  text += "mirror.state.topic.num.partitions=4\n";
  return BrokerConfig::Parse(text, "--dev");
}

void SetUpLogging(const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("kmirrord",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %n %v", spdlog::pattern_time_type::utc);
  logger->set_level(spdlog::level::from_str(level == "warn" ? "warning" : level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int Serve(const BrokerConfig& config) {
  SetUpLogging(config.log_level);
  RaiseDescriptorLimit();
  // Before any thread starts, so that all of them leave the signals to this one.
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  const std::shared_ptr<spdlog::logger> logger = spdlog::default_logger();
  Result<std::unique_ptr<RunningBroker>> broker =
      RunningBroker::Start(config, [logger](std::string_view level, const std::string& line) {
        logger->log(level == "warn"    ? spdlog::level::warn
                    : level == "debug" ? spdlog::level::debug
                                       : spdlog::level::info,
                    line);
      });
  if (!broker.ok()) return Complain(broker.status().message(), kFailed);
  if ((*broker)->metrics_address().port != 0) {
    logger->info("event=metrics address={}", (*broker)->metrics_address().ToString());
  }
  std::printf("kmirrord ready %s cluster %s\n", (*broker)->address().ToString().c_str(),
              (*broker)->cluster_id().c_str());
  std::fflush(stdout);

  int signal = 0;
  sigwait(&stops, &signal);
  logger->info("event=stopping signal={}", signal);
  // A second signal ends a stop that takes too long.
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
  if (Status stopped = (*broker)->Stop(); !stopped.ok()) {
    return Complain("the logs were not closed in order: " + stopped.ToString(), kFailed);
  }
  logger->info("event=stopped");
  return kDone;
}

int TakeOver(const Arguments& arguments) {
  SetUpLogging("warn");
  Result<BrokerConfig> config = FolderConfig(arguments);
  if (!config.ok()) return Complain(config.status().message(), kBadUsage);
  AdoptOptions options;
  options.kafka_dir = arguments.kafka_dir;
  options.config = *config;
  options.topics = arguments.topics;
  options.internal = arguments.internal;
  const Result<AdoptReport> report = Adopt(options);
  if (!report.ok()) return Complain(report.status().message(), kFailed);
  for (const std::string& line : report->skipped) std::printf("skipped %s\n", line.c_str());
  for (const AdoptedPartition& each : report->partitions) {
    std::printf("adopted %s-%d id %s offsets [%lld, %lld)", each.topic.c_str(), each.partition,
                each.topic_id.ToString().c_str(), static_cast<long long>(each.log_start),
                static_cast<long long>(each.log_end));
    if (each.open_transactions > 0) {
      std::printf(" open transactions %lld", static_cast<long long>(each.open_transactions));
    }
    if (each.torn_bytes > 0)
      std::printf(" torn bytes cut %lld", static_cast<long long>(each.torn_bytes));
    if (each.missing) std::printf(" (not in the folder: made empty)");
    std::printf("\n");
  }
  std::printf("serve them with: kmirrord --dev --data %s\n", arguments.data.c_str());
  return kDone;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("A Kafka-compatible broker that mirrors topics of other clusters.", "kmirrord");
  app.set_version_flag("--version", std::string("kmirrord ") + KMIRROR_VERSION);
  auto* file = app.add_option("--config", arguments.config_file, "Kafka-style properties file");
  auto* dev =
      app.add_flag("--dev", arguments.dev, "Serve without a file, one node, data in a folder");
  auto* data = app.add_option("--data", arguments.data, "With --dev: the data folder")
                   ->capture_default_str();
  auto* listen =
      app.add_option("--listen", arguments.listen, "With --dev: HOST:PORT; port 0 is any")
          ->capture_default_str();
  auto* metrics =
      app.add_option("--metrics", arguments.metrics, "With --dev: HOST:PORT of /metrics");
  for (CLI::Option* option : {listen, metrics}) {
    option->check([](const std::string& text) {
      return ParseHostPort(text, 0) ? std::string() : "\"" + text + "\" is not HOST:PORT";
    });
  }
  file->excludes(dev);
  for (CLI::Option* option : {data, listen, metrics}) option->needs(dev);

  auto* adopt =
      app.add_subcommand("adopt", "Take the partitions of a stopped Kafka into a data folder");
  adopt->add_option("KAFKA_LOG_DIR", arguments.kafka_dir, "Log directory of the stopped Kafka")
      ->required();
  adopt->add_option("--data", arguments.data, "The data folder that takes them")->required();
  adopt->add_option("--topics", arguments.topics, "Only these topics")->delimiter(',');
  adopt->add_flag("--include-internal", arguments.internal,
                  "Also __consumer_offsets, __transaction_state and __share_group_state");
  app.require_subcommand(0, 1);
  app.footer("Exit codes: 0 done, 1 failed, 2 bad usage.");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("kmirrord: ") + error.what() +
           "\n  next: kmirrord --help lists the options\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kBadUsage;
  }
  if (adopt->parsed()) {
    if (!arguments.config_file.empty() || arguments.dev) {
      return Complain("adopt takes neither --config nor --dev", kBadUsage);
    }
    return TakeOver(arguments);
  }
  if (arguments.config_file.empty() && !arguments.dev) {
    return Complain("give --config FILE or --dev; --help tells more", kBadUsage);
  }
  const Result<BrokerConfig> config =
      arguments.dev ? FolderConfig(arguments) : BrokerConfig::Load(arguments.config_file);
  if (!config.ok()) return Complain(config.status().message(), kBadUsage);
  return Serve(*config);
}

}  // namespace
}  // namespace kmirror::broker

int main(int argc, char** argv) {
  try {
    return kmirror::broker::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kmirrord: %s\n", error.what());
    return 1;
  }
}
