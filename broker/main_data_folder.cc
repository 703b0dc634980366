#include "broker/main_data_folder.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>

#include "kmirror/types.h"

namespace kmirror::broker {

std::string RandomClusterId() {
  std::random_device random;
  std::string text;
  do {  // Kafka avoids ids that look like an option
    Uuid id;
    for (uint8_t& byte : id.bytes) byte = static_cast<uint8_t>(random());
    id.bytes[6] = static_cast<uint8_t>((id.bytes[6] & 0x0f) | 0x40);
    id.bytes[8] = static_cast<uint8_t>((id.bytes[8] & 0x3f) | 0x80);
    text = id.ToString();
  } while (text.starts_with('-'));
  return text;
}

namespace {

namespace fs = std::filesystem;

// `<topic>-<number>`
bool IsPartitionFolder(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const size_t dash = name.rfind('-');
  std::error_code error;
  return dash != std::string::npos && dash > 0 && dash + 1 < name.size() &&
         std::all_of(name.begin() + static_cast<ptrdiff_t>(dash) + 1, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; }) &&
         entry.is_directory(error);
}

// Opening a folder rewrites checkpoints and indexes. A Kafka may be running on this one: whatever
// is not ours is refused before anything in it is touched. Ours has metadata before it has a
// partition.
Status RefuseForeignFolder(const BrokerConfig& config) {
  std::error_code error;
  if (fs::exists(config.metadata_dir, error) && !fs::is_empty(config.metadata_dir, error)) {
    return Status::Ok();
  }
  std::string found;
  for (const auto& entry : fs::directory_iterator(config.log_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "bootstrap.checkpoint" || IsPartitionFolder(entry)) found = name;
    if (found == "__cluster_metadata-0") break;
  }
  if (found.empty()) return Status::Ok();
  std::string owner;
  if (const auto meta = LogManager::ReadMetaProperties(config.log_dir); meta.ok()) {
    owner = " of cluster " + meta->cluster_id + ", node " + std::to_string(meta->node_id);
  }
  return {ErrorCode::kInconsistentClusterId,
          config.log_dir + " is a log folder" + owner + " (it has " + found +
              ") without the metadata of a kmirrord, which would be in " + config.metadata_dir +
              "; nothing in it was changed. next: to serve what a stopped Kafka left, `kmirrord "
              "adopt " +
              config.log_dir +
              " --data NEW_FOLDER`; if this is a kmirrord's folder, "
              "set kmirror.metadata.dir"};
}

constexpr int kCreators = 8;  // of the partitions of a new topic

}  // namespace

Result<std::unique_ptr<DataFolder>> DataFolder::Open(const BrokerConfig& config) {
  if (Status ours = RefuseForeignFolder(config); !ours.ok()) return ours;
  std::unique_ptr<DataFolder> folder(new DataFolder);
  LogManager::Options options;
  options.directory = config.log_dir;
  options.node_id = config.node_id;
  options.cluster_id = config.cluster_id;
  options.defaults = LogConfigFor({}, config);
  options.open_files_max = config.open_files_max;
  options.checkpoint_interval_ms = config.log_flush_offset_checkpoint_interval_ms;
  options.high_watermark_checkpoint_interval_ms =
      config.replica_high_watermark_checkpoint_interval_ms;
  options.retention_check_interval_ms = config.log_retention_check_interval_ms;
  const Result<LogManager::MetaProperties> meta = LogManager::ReadMetaProperties(config.log_dir);
  if (!meta.ok() && meta.status().code() != ErrorCode::kResourceNotFound) return meta.status();
  if (!meta.ok() && options.cluster_id.empty()) options.cluster_id = RandomClusterId();
  Result<std::unique_ptr<LogManager>> logs = LogManager::Open(options);
  if (!logs.ok()) return logs.status();
  folder->logs_ = std::move(*logs);

  FileMetadataStore::Options store_options;
  store_options.directory = config.metadata_dir;
  Result<std::unique_ptr<FileMetadataStore>> store = FileMetadataStore::Open(store_options);
  if (!store.ok()) return store.status();
  folder->store_ = std::move(*store);

  folder->directory_ = std::make_unique<LogDirectory>(folder->logs_.get(), config, kCreators);
  Result<std::unique_ptr<Controller>> controller =
      Controller::Open({.store = folder->store_.get(),
                        .config = config,
                        .cluster_id = folder->logs_->meta().cluster_id});
  if (!controller.ok()) return controller.status();
  folder->controller_ = std::move(*controller);
  folder->controller_->AddListener(folder->directory_.get());
  if (Status started = folder->controller_->Start(); !started.ok()) return started;
  return folder;
}

DataFolder::~DataFolder() = default;

Status DataFolder::Close() { return logs_->Shutdown(); }

}  // namespace kmirror::broker
