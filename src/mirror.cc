// Mirror::Create: the coordinator with real fetchers over TCP.
#include "kmirror/mirror.h"

#include <memory>
#include <utility>

#include "src/coordinator/mirror_impl.h"
#include "src/fetcher/mirror_fetcher_manager.h"
#include "src/fetcher/source_cluster_client.h"
#include "src/mirror_over.h"
#include "src/net/tcp_transport.h"

namespace kmirror {
namespace {

class ClientFactory final : public fetcher::SourceClusterFactory {
 public:
  ClientFactory(host::Runtime* runtime, std::shared_ptr<fetcher::Transport> transport,
                int32_t broker_id)
      : runtime_(runtime), transport_(std::move(transport)), broker_id_(broker_id) {}

  std::unique_ptr<fetcher::SourceCluster> Open(
      std::shared_ptr<const fetcher::MirrorSourceConfig> config, host::Lane* lane) override {
    return std::make_unique<fetcher::SourceClusterClient>(runtime_, lane, transport_.get(),
                                                          std::move(config), broker_id_);
  }

 private:
  host::Runtime* const runtime_;
  const std::shared_ptr<fetcher::Transport> transport_;
  const int32_t broker_id_;
};

}  // namespace

std::unique_ptr<Mirror> CreateMirrorOver(std::shared_ptr<fetcher::Transport> transport,
                                         const host::Host& host, const Options& options) {
  const auto make_parts = [&](host::Lane* lane, fetcher::FetchEvents* events) {
    auto manager = std::make_unique<fetcher::MirrorFetcherManager>(
        host.runtime, lane, events, transport.get(),
        fetcher::MirrorFetcherManager::Options{options.broker_id, options.num_replica_fetchers});
    coordinator::Parts parts;
    parts.keep_alive = transport;
    parts.collect = [fetchers = manager.get()](MetricSink* sink) { fetchers->Collect(sink); };
    parts.shutdown = [fetchers = manager.get()](std::function<void()> done) {
      fetchers->Shutdown(std::move(done));
    };
    parts.fetching = std::move(manager);
    parts.sources =
        std::make_unique<ClientFactory>(host.runtime, std::move(transport), options.broker_id);
    return parts;
  };
  return std::make_unique<coordinator::MirrorImpl>(host, options, make_parts);
}

std::unique_ptr<Mirror> Mirror::Create(const host::Host& host, const Options& options) {
  return CreateMirrorOver(std::make_shared<net::TcpTransport>(), host, options);
}

}  // namespace kmirror
