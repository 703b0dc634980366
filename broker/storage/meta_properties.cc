// `meta.properties`: whose data directory this is.

#include <charconv>

#include "broker/storage/files.h"
#include "broker/storage/log_manager.h"

namespace kmirror::broker {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

Result<LogManager::MetaProperties> LogManager::ReadMetaProperties(const std::string& directory,
                                                                  FileIo* io) {
  const std::string path = directory + "/meta.properties";
  const Result<std::string> text = ReadFile(io != nullptr ? io : FileIo::Posix(), path);
  if (!text.ok()) return text.status();
  MetaProperties meta;
  bool version_seen = false;
  bool node_seen = false;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = Trim(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (line.empty() || line.front() == '#' || line.front() == '!') continue;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = Trim(line.substr(0, equals));
    const std::string_view value = Trim(line.substr(equals + 1));
    const auto number = [&](int32_t* to) {
      const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), *to);
      return error == std::errc() && stop == value.data() + value.size();
    };
    const auto bad = [&] {
      return Status(ErrorCode::kInvalidConfig,
                    path + ": " + std::string(key) + "=" + std::string(value) + " is no number");
    };
    if (key == "version") {
      if (!number(&meta.version)) return bad();
      version_seen = true;
    } else if (key == "node.id") {
      if (!number(&meta.node_id)) return bad();
      node_seen = true;
    } else if (key == "cluster.id") {
      meta.cluster_id = value;
    } else if (key == "directory.id") {
      meta.directory_id = value;
    }
  }
  if (!version_seen || meta.version != 1) {
    return Status(
        ErrorCode::kInvalidConfig,
        path + ": version 1 is needed" +
            (version_seen ? ", found " + std::to_string(meta.version) : ", none is given"));
  }
  if (meta.cluster_id.empty())
    return Status(ErrorCode::kInvalidConfig, path + ": cluster.id is missing");
  if (!node_seen) return Status(ErrorCode::kInvalidConfig, path + ": node.id is missing");
  return meta;
}

Status LogManager::Format() {
  Result<MetaProperties> found = ReadMetaProperties(options_.directory, io_);
  if (!found.ok() && found.status().code() != ErrorCode::kResourceNotFound) return found.status();
  if (found.ok()) {
    meta_ = *found;
    if (!options_.cluster_id.empty() && options_.cluster_id != meta_.cluster_id) {
      return {ErrorCode::kInconsistentClusterId, options_.directory + " belongs to cluster " +
                                                     meta_.cluster_id + ", not to " +
                                                     options_.cluster_id};
    }
    if (options_.node_id != meta_.node_id) {
      return {ErrorCode::kInvalidConfig, options_.directory + " belongs to node " +
                                             std::to_string(meta_.node_id) + ", not to node " +
                                             std::to_string(options_.node_id)};
    }
    return Status::Ok();
  }
  if (options_.cluster_id.empty()) {
    return {ErrorCode::kInvalidConfig,
            options_.directory + " is not formatted and no cluster id is given"};
  }
  // Version 4 (random) UUID, so that Kafka's tools take it for one.
  Uuid id;
  for (uint8_t& byte : id.bytes) byte = static_cast<uint8_t>(options_.random());
  id.bytes[6] = static_cast<uint8_t>((id.bytes[6] & 0x0f) | 0x40);
  id.bytes[8] = static_cast<uint8_t>((id.bytes[8] & 0x3f) | 0x80);
  meta_ = {1, options_.node_id, options_.cluster_id, id.ToString()};
  return ReplaceFile(io_, PathOf("meta.properties"),
                     "version=1\nnode.id=" + std::to_string(meta_.node_id) + "\ncluster.id=" +
                         meta_.cluster_id + "\ndirectory.id=" + meta_.directory_id + "\n");
}

}  // namespace kmirror::broker
