// A client that does nothing wrong while others do, and sees whether it is served as it should be.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "tests/support/wait_until.h"

namespace kmirror::test {

// One connection, round after round: a produce, its fetch byte for byte, metadata, list offsets.
// A topic of its own, which it makes. It never connects anew: a closed connection is a failure.
class GoodClient {
 public:
  GoodClient(std::string bootstrap, std::string topic);
  ~GoodClient();
  GoodClient(const GoodClient&) = delete;
  GoodClient& operator=(const GoodClient&) = delete;

  // Rounds that were right from the first answer to the last.
  int64_t rounds() const { return rounds_; }
  // Waits for so many more of them; false: it failed, or the patience ended.
  [[nodiscard]] bool AwaitRounds(int64_t more, Seconds patience = Seconds(60)) const;
  // What was wrong; empty: nothing.
  std::string problem() const;

 private:
  void Run();
  std::string Round(class WireClient& client, int64_t number);

  const std::string bootstrap_;
  const std::string topic_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> rounds_{0};
  mutable std::mutex mutex_;
  std::string problem_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace kmirror::test
