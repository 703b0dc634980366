#include "broker/main_data_folder.h"

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

Result<std::unique_ptr<DataFolder>> DataFolder::Open(const BrokerConfig& config) {
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

  folder->directory_ = std::make_unique<LogDirectory>(folder->logs_.get(), config);
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
