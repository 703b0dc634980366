#include <nlohmann/json.hpp>

#include "tools/kmirror/output.h"

namespace kmirror::tools {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const PartitionRow& row) {
  Json json;
  json["mirror"] = row.mirror;
  json["topic"] = row.topic;
  json["partition"] = row.partition;
  json["state"] = row.state;
  json["sourceOffset"] = row.source_offset;
  json["destinationOffset"] = row.destination_offset;
  json["lag"] = row.lag;
  json["lagAgeMs"] = row.lag_age_ms;
  json["lastMirrorEpoch"] = row.last_mirror_epoch;
  json["lastMirrorOffset"] = row.last_mirror_offset;
  json["retryAttempt"] = row.retry_attempt;
  json["errorMessage"] = row.error_message ? Json(*row.error_message) : Json(nullptr);
  json["step"] = row.step;
  return json;
}

// Names and reasons come from a broker and need not be UTF-8.
std::string Text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string DescriptionJson(const std::vector<PartitionRow>& rows) {
  Json array = Json::array();
  for (const PartitionRow& row : rows) array.push_back(ToJson(row));
  return Text(array);
}

std::string SummaryJson(const std::vector<MirrorSummary>& summaries) {
  Json array = Json::array();
  for (const MirrorSummary& summary : summaries) {
    Json json;
    json["mirror"] = summary.mirror.name;
    json["sourceClusterId"] = summary.mirror.source_cluster_id;
    json["sourceBootstrap"] = summary.mirror.source_bootstrap;
    json["topicCount"] = summary.mirror.topic_count;
    json["topics"] = summary.mirror.topics;
    json["partitionCount"] = summary.rows.size();
    json["states"] = Json::object();
    for (const auto& [state, count] : summary.states) json["states"][state] = count;
    json["greatestLag"] = summary.greatest_lag;
    json["greatestLagAgeMs"] = summary.greatest_lag_age_ms;
    json["partitions"] = Json::array();
    for (const PartitionRow& row : summary.rows) json["partitions"].push_back(ToJson(row));
    array.push_back(std::move(json));
  }
  return Text(array);
}

}  // namespace kmirror::tools
