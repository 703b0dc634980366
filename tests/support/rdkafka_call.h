// Shared by the .cc files of kafka_client.h alone.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <string>

#include "tests/support/kafka_client.h"

namespace kmirror::test {

template <auto kDestroy>
struct CallDestroy {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
template <typename T, auto kDestroy>
using Owned = std::unique_ptr<T, CallDestroy<kDestroy>>;

using OwnedConf = Owned<rd_kafka_conf_t, rd_kafka_conf_destroy>;
using OwnedQueue = Owned<rd_kafka_queue_t, rd_kafka_queue_destroy>;
using OwnedEvent = Owned<rd_kafka_event_t, rd_kafka_event_destroy>;
using OwnedError = Owned<rd_kafka_error_t, rd_kafka_error_destroy>;
using OwnedPartitions =
    Owned<rd_kafka_topic_partition_list_t, rd_kafka_topic_partition_list_destroy>;

inline constexpr Seconds kCallPatience{30};
int CallPatienceMs();

// librdkafka's codes above zero are Kafka's; those below are its own.
Status ToStatus(rd_kafka_resp_err_t code, const std::string& what);
// Takes the error; OK for null.
Status ToStatus(rd_kafka_error_t* error, const std::string& what);

// A configuration with what every client of a test wants, then `config` over it. `delivery` is the
// report callback of producers.
using DeliveryCallback = void (*)(rd_kafka_t*, const rd_kafka_message_t*, void*);
Result<ClientHandle> MakeClient(rd_kafka_type_t type, const std::string& bootstrap,
                                const ClientConfig& config, DeliveryCallback delivery = nullptr);

}  // namespace kmirror::test
