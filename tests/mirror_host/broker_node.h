// One broker without network, in a folder of its own: data folder, metadata, logs. Can be killed.
#pragma once

#include <memory>
#include <string>

#include "broker/controller/controller.h"
#include "broker/controller/file_metadata_store.h"
#include "broker/controller/log_directory.h"
#include "broker/storage/log_manager.h"
#include "tests/support/temp_dir.h"

namespace kmirror::broker {

class BrokerNode {
 public:
  explicit BrokerNode(std::string more_config = "") : more_config_(std::move(more_config)) {}

  Status Start() {
    Result<BrokerConfig> config = BrokerConfig::Parse(
        "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=" + (dir_ / "data").string() +
            "\n" + more_config_,
        "test");
    if (!config.ok()) return config.status();
    config_ = std::move(*config);
    LogManager::Options options;
    options.directory = config_.log_dir;
    options.cluster_id = "cluster-under-test";
    options.node_id = 1;
    auto manager = LogManager::Open(options);
    if (!manager.ok()) return manager.status();
    manager_ = std::move(*manager);
    auto store = FileMetadataStore::Open({config_.metadata_dir});
    if (!store.ok()) return store.status();
    store_ = std::move(*store);
    auto controller = Controller::Open({store_.get(), config_, manager_->meta().cluster_id});
    if (!controller.ok()) return controller.status();
    controller_ = std::move(*controller);
    logs_ = std::make_unique<LogDirectory>(manager_.get(), config_);
    controller_->AddListener(logs_.get());
    return controller_->Start();
  }

  // Closes nothing in order.
  void Kill() {
    controller_.reset();
    logs_.reset();
    store_.reset();
    manager_.reset();
  }

  Controller& controller() { return *controller_; }
  LogDirectory& logs() { return *logs_; }
  const BrokerConfig& config() const { return config_; }

 private:
  test::TempDir dir_;
  const std::string more_config_;
  BrokerConfig config_;
  std::unique_ptr<LogManager> manager_;
  std::unique_ptr<FileMetadataStore> store_;
  std::unique_ptr<LogDirectory> logs_;
  std::unique_ptr<Controller> controller_;
};

}  // namespace kmirror::broker
