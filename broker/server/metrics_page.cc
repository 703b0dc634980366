#include "broker/server/metrics_page.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

#include "broker/server/fetch_sessions.h"
#include "src/protocol/registry.h"

namespace kmirror::broker {
namespace {

class Page final : public MetricSink {
 public:
  void Add(std::string_view name, Kind kind, std::string_view help, std::span<const Label> labels,
           double value) override {
    prometheus::MetricFamily& family = families_[std::string(name)];
    if (family.name.empty()) {
      family.name = name;
      family.help = help;
      family.type =
          kind == Kind::kCounter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    }
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    for (const Label& label : labels) {
      metric.label.push_back({std::string(label.name), std::string(label.value)});
    }
    metric.counter.value = value;
    metric.gauge.value = value;
  }
  void Counter(std::string_view name, std::string_view help, double value) {
    Add(name, Kind::kCounter, help, {}, value);
  }
  void Gauge(std::string_view name, std::string_view help, double value) {
    Add(name, Kind::kGauge, help, {}, value);
  }

  std::string Text() {
    std::vector<prometheus::MetricFamily> all;
    all.reserve(families_.size());
    for (auto& [name, family] : families_) all.push_back(std::move(family));
    return prometheus::TextSerializer().Serialize(all);
  }

 private:
  std::map<std::string, prometheus::MetricFamily> families_;
};

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

void AddProcess(Page* page) {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    page->Counter("process_cpu_seconds_total", "User and system CPU time.",
                  Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  }
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  if (statm >> total_pages >> resident_pages) {
    const auto page_bytes = static_cast<double>(sysconf(_SC_PAGESIZE));
    page->Gauge("process_virtual_memory_bytes", "Virtual memory.",
                static_cast<double>(total_pages) * page_bytes);
    page->Gauge("process_resident_memory_bytes", "Resident memory.",
                static_cast<double>(resident_pages) * page_bytes);
  }
  std::error_code error;
  int64_t descriptors = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++descriptors;
  }
  page->Gauge("process_open_fds", "Open file descriptors.", static_cast<double>(descriptors));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    page->Gauge("process_max_fds", "Greatest number of open file descriptors.",
                static_cast<double>(limit.rlim_cur));
  }
}

void AddSockets(const SocketServer& sockets, Page* page) {
  const SocketMetrics& metrics = sockets.metrics();
  const auto value = [](const std::atomic<int64_t>& count) {
    return static_cast<double>(count.load());
  };
  page->Gauge("kmirror_server_connections", "Open client connections.", value(metrics.connections));
  page->Counter("kmirror_server_connections_accepted_total", "Accepted client connections.",
                value(metrics.accepted));
  page->Counter("kmirror_server_connections_refused_total",
                "Connections refused because of max.connections or max.connections.per.ip.",
                value(metrics.refused));
  page->Counter("kmirror_server_connections_idle_closed_total",
                "Connections closed after connections.max.idle.ms.", value(metrics.closed_idle));
  page->Counter("kmirror_server_frames_refused_total", "Frames of an impossible size.",
                value(metrics.closed_bad_frame));
  page->Counter("kmirror_server_received_bytes_total", "Bytes received from clients.",
                value(metrics.received_bytes));
  page->Counter("kmirror_server_sent_bytes_total", "Bytes sent to clients.",
                value(metrics.sent_bytes));
  page->Gauge("kmirror_server_request_memory_bytes", "Memory held by requests now.",
              static_cast<double>(sockets.request_memory_used()));
}

void AddRequests(const Services& services, Page* page) {
  const BrokerMetrics& metrics = *services.metrics;
  for (size_t key = 0; key < BrokerMetrics::kKeys; ++key) {
    const int64_t count = metrics.requests[key].load();
    const protocol::ApiInfo* api = protocol::FindApi(static_cast<int16_t>(key));
    if (count == 0 || api == nullptr) continue;
    const MetricSink::Label label{"api", api->name};
    page->Add("kmirror_server_requests_total", MetricSink::Kind::kCounter, "Requests by API.",
              {&label, 1}, static_cast<double>(count));
  }
  const auto value = [](const std::atomic<int64_t>& count) {
    return static_cast<double>(count.load());
  };
  page->Counter("kmirror_server_requests_malformed_total",
                "Requests that ended their connection: not decodable, or of an unknown API.",
                value(metrics.requests_malformed));
  page->Counter("kmirror_server_produced_records_total", "Records appended by producers.",
                value(metrics.messages_in));
  page->Counter("kmirror_server_produced_bytes_total", "Bytes of batches appended by producers.",
                value(metrics.bytes_in));
  page->Counter("kmirror_server_fetched_bytes_total", "Bytes of batches handed to consumers.",
                value(metrics.bytes_out));
  page->Counter("kmirror_server_read_only_refusals_total",
                "Produces refused because a mirror owns the partition.",
                value(metrics.produce_refused_read_only));
  page->Gauge("kmirror_server_fetches_waiting", "Fetches that wait for records now.",
              value(metrics.fetches_waiting));
  page->Gauge("kmirror_server_fetch_sessions", "Fetch sessions.",
              static_cast<double>(services.sessions->size()));
  page->Gauge("kmirror_server_fetch_session_partitions", "Partitions in fetch sessions.",
              static_cast<double>(services.sessions->partitions()));
  page->Counter("kmirror_server_fetch_session_evictions_total",
                "Fetch sessions that made room for others.",
                static_cast<double>(services.sessions->evictions()));
}

void AddLogs(const Services& services, Page* page) {
  for (const std::shared_ptr<Replica>& replica : services.logs->All()) {
    const std::string partition = std::to_string(replica->id().partition);
    const MetricSink::Label labels[] = {{"topic", replica->topic()}, {"partition", partition}};
    const LogPositions positions = replica->log().Positions();
    const auto add = [&](std::string_view name, std::string_view help, int64_t value) {
      page->Add(name, MetricSink::Kind::kGauge, help, labels, static_cast<double>(value));
    };
    add("kmirror_log_start_offset", "First offset of the log.", positions.log_start);
    add("kmirror_log_end_offset", "Next offset of the log.", positions.log_end);
    add("kmirror_log_high_watermark", "First offset that consumers do not see.",
        positions.high_watermark);
    add("kmirror_log_stable_offset", "First offset that committed readers do not see.",
        positions.last_stable);
    add("kmirror_log_size_bytes", "Bytes of the log's segments.", replica->log().SizeBytes());
    add("kmirror_log_read_only", "1 while a mirror owns the partition, or its stop is under way.",
        positions.local_writes == LocalWrites::kAllowed ? 0 : 1);
  }
  page->Gauge("kmirror_log_offline_partitions", "Partitions whose log could not be opened.",
              static_cast<double>(services.logs->offline().size()));
}

}  // namespace

std::string RenderMetrics(const Services& services, const SocketServer& sockets) {
  Page page;
  AddProcess(&page);
  AddSockets(sockets, &page);
  AddRequests(services, &page);
  AddLogs(services, &page);
  if (const Mirror* mirror = services.mirror ? services.mirror() : nullptr) mirror->Collect(&page);
  return page.Text();
}

}  // namespace kmirror::broker
