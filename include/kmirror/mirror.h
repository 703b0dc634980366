// The library: cluster mirroring (KIP-1279) for a Kafka-compatible broker. One Mirror a broker.
//
// The host creates it with its services (host/host.h), hands it metadata and the requests of the
// mirror APIs, and gets topics mirrored, paused, stopped. Two Mirrors in one process do not know
// each other.
//
//   auto mirror = kmirror::Mirror::Create(host, options);
//   mirror->OnSnapshot(snapshot);           // then OnDelta for every change, in order
//   mirror->OnShardGained(0) ...            // the partitions of __mirror_state this broker leads
//   if (kmirror::Mirror::Serves(api_key)) mirror->HandleRequest(...);
//   mirror->Shutdown(deadline, done);
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kmirror/host/host.h"
#include "kmirror/mirror_partition_state.h"
#include "kmirror/options.h"
#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror {

// A mirror API and the versions the library answers (src/protocol/mirror_numbers.h holds the keys).
struct ServedApi {
  int16_t key;
  int16_t min_version;
  int16_t max_version;
};

struct RequestContext {
  int16_t api_key = 0;
  int16_t api_version = 0;
  std::string client_id;
  std::string principal = "User:ANONYMOUS";
};

// Receives metrics of one collection (Mirror::Collect). `labels` are name/value pairs.
class MetricSink {
 public:
  enum class Kind : uint8_t { kCounter, kGauge };
  struct Label {
    std::string_view name;
    std::string_view value;
  };
  virtual ~MetricSink() = default;
  virtual void Add(std::string_view name, Kind kind, std::string_view help,
                   std::span<const Label> labels, double value) = 0;
};

class KMIRROR_API Mirror {
 public:
  // `host` is copied; what it points to must outlive the Mirror. Starts nothing before OnSnapshot.
  static std::unique_ptr<Mirror> Create(const host::Host& host, const Options& options);
  // The mirror APIs, all to be advertised (R35).
  static std::span<const ServedApi> Apis();
  static bool Serves(int16_t api_key);

  virtual ~Mirror() =
      default;  // REQUIRES: Shutdown is done, or Create was never followed by OnSnapshot

  // Thread-safe; must be called in metadata order (one caller at a time).
  virtual void OnSnapshot(host::MetadataSnapshot snapshot) = 0;
  virtual void OnDelta(host::MetadataDelta delta) = 0;
  // Thread-safe. This broker became, or ceased to be, leader of that partition of __mirror_state.
  virtual void OnShardGained(int32_t shard) = 0;
  virtual void OnShardLost(int32_t shard) = 0;

  // Thread-safe. Decodes and carries out one request of a mirror API; `respond` gets the encoded
  // response body (never the header), on any thread, exactly once. A body that does not decode is
  // answered with INVALID_REQUEST (R17), an unknown version with UNSUPPORTED_VERSION.
  virtual void HandleRequest(const RequestContext& context, ByteView body,
                             std::function<void(std::vector<uint8_t>)> respond) = 0;

  // Thread-safe. May a client change this topic (partitions, records, deletion; R34)? OK for topics
  // without a mirror and for those whose every partition is STOPPED, desired and actual; otherwise
  // kMirrorTopicNotStopped with the text for the client.
  virtual Status CheckTopicChange(const Uuid& topic_id) const = 0;

  // Thread-safe. State of a partition led here, kUnknown when none or not loaded (for operators,
  // not for decisions).
  virtual MirrorPartitionState StateOf(const TopicIdPartition& partition) const = 0;

  // Thread-safe. Reports every metric of the library (docs/operations.md lists them).
  virtual void Collect(MetricSink* sink) const = 0;

  // Thread-safe, idempotent. Stops fetchers and timers; no state is written. `done` runs once, on
  // any thread, no later than `deadline` from now plus what a host call in flight takes; after it
  // the library calls nothing of the host again. Completions of host calls that were in flight may
  // still arrive then and do nothing; none may arrive once the Mirror is destroyed.
  virtual void Shutdown(std::chrono::milliseconds deadline, std::function<void()> done) = 0;
};

}  // namespace kmirror
