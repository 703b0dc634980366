// A small HTTP/1.1 server for scraping: GET of one path, on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kmirror/status.h"
#include "kmirror/types.h"

namespace kmirror::broker {

class HttpEndpoint {
 public:
  // `render` makes the page; called on the endpoint's thread.
  HttpEndpoint(std::string path, std::function<std::string()> render);
  ~HttpEndpoint();  // stops

  // Port 0: any. The Status names the address and the reason.
  Status Start(const HostPort& listen);
  const HostPort& address() const { return address_; }
  // Idempotent. `render` is not called after it.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  HostPort address_;
};

}  // namespace kmirror::broker
