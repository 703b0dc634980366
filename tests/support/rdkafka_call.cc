#include "tests/support/rdkafka_call.h"

namespace kmirror::test {

ClientHandle::~ClientHandle() {
  if (handle_ != nullptr) rd_kafka_destroy(handle_);
}

int CallPatienceMs() { return static_cast<int>(kCallPatience.count() * 1000 * TimeFactor()); }

Status ToStatus(rd_kafka_resp_err_t code, const std::string& what) {
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
  const std::string text = what + ": " + rd_kafka_err2name(code) + ": " + rd_kafka_err2str(code);
  if (code > 0) return {static_cast<ErrorCode>(code), text};
  if (code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT) {
    return {ErrorCode::kTimedOut, text};
  }
  return {ErrorCode::kUnknownServerError, text};
}

Status ToStatus(rd_kafka_error_t* error, const std::string& what) {
  const OwnedError owned(error);
  if (owned == nullptr) return {};
  return ToStatus(rd_kafka_error_code(error), what).WithContext(rd_kafka_error_string(error));
}

Result<ClientHandle> MakeClient(rd_kafka_type_t type, const std::string& bootstrap,
                                const ClientConfig& config, DeliveryCallback delivery) {
  ClientConfig all = {
      {"bootstrap.servers", bootstrap},
      {"log_level", "2"},  // a broker that a test stops is no news
      {"broker.address.family", "v4"},
      {"reconnect.backoff.ms", "20"},
      {"reconnect.backoff.max.ms", "500"},
      {"topic.metadata.refresh.fast.interval.ms", "50"},
  };
  for (const auto& [name, value] : config) all[name] = value;

  OwnedConf conf(rd_kafka_conf_new());
  char error[512];
  for (const auto& [name, value] : all) {
    if (rd_kafka_conf_set(conf.get(), name.c_str(), value.c_str(), error, sizeof error) !=
        RD_KAFKA_CONF_OK) {
      return {ErrorCode::kInvalidConfig, name + "=" + value + ": " + error};
    }
  }
  if (delivery != nullptr) rd_kafka_conf_set_dr_msg_cb(conf.get(), delivery);
  rd_kafka_t* handle = rd_kafka_new(type, conf.get(), error, sizeof error);
  if (handle == nullptr) return {ErrorCode::kInvalidConfig, error};
  (void)conf.release();  // belongs to the handle now
  return ClientHandle(handle);
}

}  // namespace kmirror::test
