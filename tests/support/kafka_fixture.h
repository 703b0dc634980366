// Real Apache Kafka for tests: scripts/kafka behind C++.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kmirror/status.h"
#include "tests/support/temp_dir.h"

namespace kmirror::test {

// Runs one of Kafka's command line tools by the name scripts/kafka knows ("topics", "dump-log",
// ...) and returns its stdout. The error holds both outputs.
Result<std::string> KafkaTool(const std::string& name, const std::vector<std::string>& args);

// A Kafka of the test's own: for tests that stop, kill or reconfigure it. Its nodes die with the
// object, or with this process however that ends.
class RealKafka {
 public:
  struct Options {
    int nodes = 1;
    std::vector<std::string> properties;  // "key=value", for every node
    std::string listener;  // one more, NAME://HOST:PORT, which bootstrap() does not name
  };

  // Returns when every node serves.
  static Result<std::unique_ptr<RealKafka>> Start(Options options);
  static Result<std::unique_ptr<RealKafka>> Start() { return Start(Options()); }
  ~RealKafka();

  // "127.0.0.1:PORT,..." of all nodes, the same for the object's life.
  const std::string& bootstrap() const { return bootstrap_; }
  // The folder that holds the partition folders of node `id` (1 .. nodes).
  std::filesystem::path LogDir(int id = 1) const;

  // A node by its id, or all with 0. Stop and Kill return when the process is gone (a clean stop
  // and SIGKILL), Restart when the node serves again, with the same port and data.
  Status Stop(int id = 0);
  Status Kill(int id = 0);
  Status Restart(int id = 0);

 private:
  RealKafka() = default;
  Status Do(const std::string& verb, int id);

  TempDir dir_;
  std::string bootstrap_;
};

// The Kafka that one ctest run shares (fixture RealKafka of tests/support/CMakeLists.txt). A test
// uses topics of its own on it and never stops it. Outside of ctest: run `scripts/kafka start DIR`
// and set KMIRROR_SHARED_KAFKA=DIR.
struct SharedKafkaInfo {
  std::string bootstrap;
  std::filesystem::path log_dir;  // holds the partition folders
};
Result<SharedKafkaInfo> SharedKafka();

// `prefix` with a random ending: topics of repeated and parallel runs never meet.
std::string UniqueName(const std::string& prefix);

}  // namespace kmirror::test
