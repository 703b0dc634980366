#include "tools/lab/live_progress.h"

#include <iomanip>
#include <map>
#include <ostream>
#include <sstream>
#include <thread>

#include "tools/client/cluster_client.h"
#include "tools/kmirror/mirror_admin.h"
#include "tools/kmirror/output.h"
#include "tools/lab/kafka_reader.h"

namespace kmirror::lab {
namespace {

using Clock = std::chrono::steady_clock;

int64_t Sum(const Result<std::vector<Bounds>>& bounds) {
  if (!bounds.ok()) return -1;
  int64_t sum = 0;
  for (const Bounds& one : *bounds) sum += one.end;
  return sum;
}

}  // namespace

Status WatchMirror(const std::string& source, const std::string& destination,
                   const std::string& mirror, const std::string& topic,
                   std::chrono::seconds seconds, bool until_caught_up, bool terminal,
                   std::ostream& out) {
  const auto servers = tools::ParseServers(destination);
  if (!servers.ok()) return servers.status();
  tools::ClusterClient cluster(*servers, std::chrono::seconds(20));
  tools::MirrorAdmin admin(&cluster);
  const Clock::time_point start = Clock::now();
  const auto interval = terminal ? std::chrono::milliseconds(250) : std::chrono::milliseconds(1000);
  int64_t before = -1;
  Clock::time_point before_at = start;
  while (true) {
    const auto description = admin.Describe(mirror);
    if (!description.ok()) return description.status();
    std::map<std::string, int> states;
    int64_t lag = -1;
    int64_t age = -1;
    int64_t here = 0;
    int partitions = 0;
    int caught_up = 0;
    for (const tools::PartitionRow& row : description->rows) {
      if (row.topic != topic) continue;
      ++partitions;
      ++states[row.state];
      if (row.CaughtUp()) ++caught_up;
      if (row.lag > lag) lag = row.lag;
      if (row.lag_age_ms > age) age = row.lag_age_ms;
      if (row.destination_offset > 0) here += row.destination_offset;
    }
    const int64_t there = Sum(TopicBounds(source, topic));
    const Clock::time_point now = Clock::now();
    const double span = std::chrono::duration<double>(now - before_at).count();
    std::ostringstream line;
    line << "  source " << there << "  mirrored " << here << "  greatest lag ";
    if (lag < 0) {
      line << "not known yet";
    } else {
      line << lag << " (as of " << tools::AgeText(age) << " ago)";
    }
    if (before >= 0 && span > 0) {
      line << "  " << std::fixed << std::setprecision(0)
           << static_cast<double>(here - before) / span << " records/s";
    }
    line << "  " << tools::StatesText(states);
    before = here;
    before_at = now;
    if (terminal) {
      out << "\r\033[K" << line.str() << std::flush;
    } else {
      out << line.str() << std::endl;
    }
    const bool reached = until_caught_up && partitions > 0 && caught_up == partitions;
    const bool over = now - start >= seconds;
    if (reached || over) {
      if (terminal) out << std::endl;
      if (until_caught_up && !reached) {
        return {ErrorCode::kTimedOut,
                "not caught up after " + std::to_string(seconds.count()) + " s"};
      }
      return {};
    }
    std::this_thread::sleep_for(interval);
  }
}

}  // namespace kmirror::lab
