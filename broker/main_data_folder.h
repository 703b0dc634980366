// The data folder of a broker, opened: its logs, its metadata, and the one that keeps them in step.
#pragma once

#include <memory>
#include <string>

#include "broker/config/broker_config.h"
#include "broker/controller/controller.h"
#include "broker/controller/file_metadata_store.h"
#include "broker/controller/log_directory.h"
#include "broker/storage/log_manager.h"
#include "kmirror/status.h"

namespace kmirror::broker {

// For one thread at a time; what it hands out is as thread-safe as it says.
class DataFolder {
 public:
  // Formats a folder that has no meta.properties, with the cluster id of the config or a random
  // one. Refused with the reason: in use, of another cluster, node or version, damaged metadata.
  static Result<std::unique_ptr<DataFolder>> Open(const BrokerConfig& config);
  ~DataFolder();  // as a crash, unless Close() was called

  LogManager& logs() { return *logs_; }
  LogDirectory& log_directory() { return *directory_; }
  Controller& controller() { return *controller_; }

  // In order: everything on disk, the clean mark last. Idempotent.
  Status Close();

 private:
  DataFolder() = default;

  // Each needs those above it.
  std::unique_ptr<LogManager> logs_;
  std::unique_ptr<FileMetadataStore> store_;
  std::unique_ptr<LogDirectory> directory_;
  std::unique_ptr<Controller> controller_;
};

// 22 characters, as Kafka makes its cluster ids.
std::string RandomClusterId();

}  // namespace kmirror::broker
