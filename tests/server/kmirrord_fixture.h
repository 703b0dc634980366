// A kmirrord of the test's own, as a process.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kmirror/types.h"
#include "tests/support/assert_ok.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wire_client.h"

namespace kmirror::test {

std::string KmirrordPath();
// A file of tests/golden.
std::filesystem::path Golden(const std::string& path);

class KmirrordTest : public ::testing::Test {
 protected:
  // Starts with `--dev` on the data folder, waits until it serves.
  void Start() { StartOn("127.0.0.1:0"); }
  void StartOn(const std::string& listen);
  // Starts with a config file made of `lines`; node.id, log.dirs and listeners are added.
  void StartWithConfig(const std::string& lines);
  void Kill();  // -9
  // SIGTERM; expects a clean end.
  void Stop();

  WireClient Connect();
  // Connect, and the answer; a failure of either fails the test and gives an empty answer.
  template <typename Response, typename Request>
  Response Call(const Request& request, int16_t version, Seconds patience = Seconds(30)) {
    if (!client_) client_ = std::make_unique<WireClient>(Connect());
    Result<Response> response = client_->Call<Response>(request, version, patience);
    EXPECT_OK(response.status()) << Request::kName << " v" << version << "\n" << process_->err();
    return response.ok() ? *response : Response();
  }
  void CreateTopic(const std::string& name, int32_t partitions = 1);
  Uuid TopicId(const std::string& name);
  // Resident memory of the process, bytes.
  int64_t ResidentBytes() const;

  std::filesystem::path data() const { return dir_ / "data"; }
  const std::string& bootstrap() const { return bootstrap_; }
  const std::string& metrics() const { return metrics_; }
  const std::string& cluster_id() const { return cluster_id_; }
  HostPort address() const { return FirstServer(bootstrap_); }

  TempDir dir_;
  std::unique_ptr<Process> process_;
  std::unique_ptr<WireClient> client_;  // of Call; made anew after a restart

 private:
  void AwaitReady();
  std::string bootstrap_;
  std::string metrics_;
  std::string cluster_id_;
};

// A batch of `count` records "k<i>" -> "v<i>", i from `first`, or of one record of `bytes` bytes.
struct BatchOptions {
  int count = 1;
  int first = 0;
  size_t bytes = 0;
  int64_t timestamp_ms = 1700000000000;
  int64_t producer_id = -1;
  int16_t producer_epoch = -1;
  int32_t base_sequence = -1;
  bool transactional = false;
};
std::vector<uint8_t> Batch(const BatchOptions& options);

}  // namespace kmirror::test
