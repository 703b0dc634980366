#include "tests/e2e/standby.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/server/raw_socket.h"
#include "tests/support/free_port.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {
namespace {

std::string Binary(const std::string& name) {
  return std::string(KMIRROR_BINARY_DIR) + "/bin/" + name;
}

std::string Both(const RunResult& result) {
  return "exit " + (result.status ? std::to_string(result.status->code) : std::string("none")) +
         "\n" + result.out + result.err;
}

}  // namespace

Result<std::unique_ptr<Standby>> Standby::Start(Options options) {
  std::unique_ptr<Standby> standby(new Standby);
  standby->port_ = FreePort();
  standby->environment_ = options.environment;
  if (options.prepare) {
    std::filesystem::create_directories(standby->data_dir());
    options.prepare(standby->data_dir());
  }
  standby->properties_ = {
      {"node.id", "1"},
      {"listeners", "PLAINTEXT://127.0.0.1:" + std::to_string(standby->port_)},
      {"log.dirs", standby->data_dir().string()},
      {"mirror.metadata.refresh.interval.ms", "1000"},
      {"mirror.failed.retry.max.backoff.ms", "1000"},
      {"log.retention.ms", "-1"},
      {"kmirror.metrics.listener", "127.0.0.1:0"},
  };
  for (const auto& [key, value] : options.properties) standby->properties_[key] = value;
  standby->WriteConfig();
  if (Status status = standby->Launch(standby->environment_); !status.ok()) return status;
  return standby;
}

void Standby::WriteConfig() const {
  std::ofstream file(data_.path() / "kmirrord.properties");
  for (const auto& [key, value] : properties_) file << key << '=' << value << '\n';
}

void Standby::Configure(const std::string& key, const std::string& value) {
  properties_[key] = value;
  WriteConfig();
}

Status Standby::Launch(const std::map<std::string, std::string>& environment) {
  if (process_ != nullptr) earlier_log_ += process_->err();
  process_ = std::make_unique<Process>(
      std::vector<std::string>{Binary("kmirrord"), "--config",
                               (data_.path() / "kmirrord.properties").string()},
      environment);
  const auto line = process_->WaitForLine("^kmirrord ready ", Seconds(60));
  if (!line) {
    return {ErrorCode::kTimedOut, "kmirrord did not start: " + process_->out() + process_->err()};
  }
  std::smatch match;
  if (!std::regex_match(*line, match, std::regex("kmirrord ready (\\S+) cluster (\\S+)"))) {
    return {ErrorCode::kMalformed, "unexpected: " + *line};
  }
  bootstrap_ = match[1];
  cluster_id_ = match[2];
  return Status::Ok();
}

Standby::~Standby() = default;

std::string Standby::Log() const { return earlier_log_ + process_->err(); }

void Standby::Kill() {
  process_->Kill();
  (void)process_->Wait();
}

Status Standby::Stop() {
  process_->Terminate();
  const auto end = process_->Wait(Seconds(30));
  if (!end) return {ErrorCode::kTimedOut, "kmirrord did not end on SIGTERM"};
  if (!end->Success())
    return {ErrorCode::kUnknownServerError, "kmirrord ended badly: " + process_->err()};
  return Status::Ok();
}

Status Standby::Restart(std::map<std::string, std::string> environment) {
  for (const auto& [key, value] : environment_) environment.try_emplace(key, value);
  return Launch(environment);
}

std::unique_ptr<Process> Standby::CliProcess(std::vector<std::string> args) const {
  args.insert(args.begin(), {Binary("kmirror"), "--bootstrap-server", bootstrap_});
  return std::make_unique<Process>(std::move(args));
}

RunResult Standby::Cli(std::vector<std::string> args, Seconds patience) const {
  args.insert(args.begin(), {Binary("kmirror"), "--bootstrap-server", bootstrap_});
  return RunProgram(std::move(args), patience);
}

Status Standby::Run(std::vector<std::string> args, Seconds patience) const {
  std::string shown = "kmirror";
  for (const std::string& arg : args) shown += " " + arg;
  const RunResult result = Cli(std::move(args), patience);
  if (result.Success()) return Status::Ok();
  return {ErrorCode::kUnknownServerError, shown + ": " + Both(result)};
}

Result<std::vector<PartitionRow>> Standby::Describe(const std::string& mirror) const {
  std::vector<std::string> args = {"describe"};
  if (!mirror.empty()) args.push_back(mirror);
  args.push_back("--json");
  const RunResult result = Cli(args);
  if (!result.Success()) return Status(ErrorCode::kUnknownServerError, Both(result));
  const auto json = nlohmann::json::parse(result.out, nullptr, false);
  if (!json.is_array()) return Status(ErrorCode::kMalformed, "describe --json: " + result.out);
  std::vector<PartitionRow> rows;
  for (const auto& item : json) {
    auto text = [&](const char* key) {
      return item.contains(key) && item[key].is_string() ? item[key].get<std::string>()
                                                         : std::string();
    };
    auto number = [&](const char* key) {
      return item.contains(key) && item[key].is_number() ? item[key].get<int64_t>() : int64_t{-1};
    };
    PartitionRow row;
    row.mirror = text("mirror");
    row.topic = text("topic");
    row.state = text("state");
    row.error_message = text("errorMessage");
    row.step = text("step");
    row.partition = static_cast<int32_t>(number("partition"));
    row.source_offset = number("sourceOffset");
    row.destination_offset = number("destinationOffset");
    row.lag = number("lag");
    row.lag_age_ms = number("lagAgeMs");
    row.last_mirror_epoch = static_cast<int32_t>(number("lastMirrorEpoch"));
    row.last_mirror_offset = number("lastMirrorOffset");
    row.retry_attempt = static_cast<int>(number("retryAttempt"));
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<PartitionRow> Standby::Row(const std::string& topic, int32_t partition) const {
  auto rows = Describe();
  if (!rows.ok()) return rows.status();
  for (PartitionRow& row : *rows) {
    if (row.topic == topic && row.partition == partition) return row;
  }
  return Status(ErrorCode::kUnknownTopicOrPartition, topic + " is not described");
}

Status Standby::AwaitState(const std::string& topic, const std::string& state, int32_t partition,
                           Seconds patience) const {
  std::string last;
  const bool reached = WaitUntil(
      [&] {
        const auto row = Row(topic, partition);
        if (!row.ok()) {
          last = row.status().ToString();
          return false;
        }
        last = row->state + " lag " + std::to_string(row->lag) + " step '" + row->step + "' " +
               row->error_message;
        return row->state == state && (state != "MIRRORING" || row->lag == 0);
      },
      patience);
  if (reached) return Status::Ok();
  return {ErrorCode::kTimedOut,
          topic + " did not become " + state + "; it is " + last + "\n" + Log()};
}

Status Standby::AwaitCaughtUp(const std::string& topic, int64_t end_offset, int32_t partition,
                              Seconds patience) const {
  std::string last;
  const bool reached = WaitUntil(
      [&] {
        const auto row = Row(topic, partition);
        if (!row.ok()) {
          last = row.status().ToString();
          return false;
        }
        last = row->state + " source " + std::to_string(row->source_offset) + " destination " +
               std::to_string(row->destination_offset) + " step '" + row->step + "' " +
               row->error_message;
        return row->state == "MIRRORING" && row->lag == 0 && row->destination_offset == end_offset;
      },
      patience);
  if (reached) return Status::Ok();
  return {ErrorCode::kTimedOut, topic + " did not reach " + std::to_string(end_offset) +
                                    "; it is " + last + "\n" + Log()};
}

std::optional<double> Standby::Metric(const std::string& name) const {
  std::smatch match;
  const std::string log = process_->err();
  if (!std::regex_search(log, match, std::regex("event=metrics address=(\\S+)"))) {
    return std::nullopt;
  }
  RawSocket http(FirstServer(match[1]));
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  if (!http.Send({request.begin(), request.end()})) return std::nullopt;
  const std::vector<uint8_t> all = http.Receive(1 << 24);
  std::istringstream lines(std::string(all.begin(), all.end()));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with(name + " ")) return std::stod(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

Status Standby::AwaitRefreshes(int times, const std::string& mirror) const {
  const std::string name = "kmirror_source_refreshes_total{mirror=\"" + mirror + "\"}";
  const double before = Metric(name).value_or(0);
  if (WaitUntil([&] { return Metric(name).value_or(0) >= before + times; })) return Status::Ok();
  return {ErrorCode::kTimedOut,
          "the source was not refreshed " + std::to_string(times) + " times\n" + Log()};
}

std::vector<std::string> Standby::States(const std::string& topic, int32_t partition) const {
  std::vector<std::string> states;
  const std::regex change("topic=" + topic + " partition=" + std::to_string(partition) +
                          " event=state-change from=(\\w+) to=(\\w+)");
  std::istringstream lines(Log());
  std::string line;
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_search(line, match, change)) {
      if (states.empty() || states.back() != match[2]) states.push_back(match[2]);
    }
  }
  return states;
}

}  // namespace kmirror::test
