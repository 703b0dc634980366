#include "broker/server/http_endpoint.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "broker/server/network_thread.h"

namespace kmirror::broker {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::asio::ip::tcp;

constexpr std::chrono::seconds kPatience{30};  // for a request, and for taking the answer
constexpr int kConnectionsMax = 16;            // a scraper needs one
constexpr int kHeaderBytesMax = 8 * 1024;

}  // namespace

class HttpEndpoint::Impl {
 public:
  Impl(std::string path, std::function<std::string()> render)
      : path_(std::move(path)),
        render_(std::move(render)),
        thread_("metrics"),
        acceptor_(thread_.io()) {}

  Status Start(const HostPort& listen, HostPort* bound) {
    const auto fail = [&](const std::string& why) {
      return Status(ErrorCode::kIo, "cannot serve metrics on " + listen.ToString() + ": " + why);
    };
    beast::error_code error;
    tcp::resolver resolver(thread_.io());
    const std::string host = listen.host.empty() ? "0.0.0.0" : listen.host;
    const auto found = resolver.resolve(host, std::to_string(listen.port), error);
    if (error || found.empty()) return fail("the host name does not resolve");
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(kConnectionsMax, error);
    if (error) return fail(error.message());
    const tcp::endpoint local = acceptor_.local_endpoint(error);
    *bound = {local.address().to_string(), local.port()};
    AcceptNext();
    thread_.Start();
    return {};
  }

  void Stop() { thread_.Stop(); }

 private:
  // Kept alive by its pending operation.
  struct Session : std::enable_shared_from_this<Session> {
    Session(tcp::socket socket, Impl* owner) : stream(std::move(socket)), impl(owner) {
      ++impl->sessions_;
    }
    ~Session() { --impl->sessions_; }

    void Read() {
      parser.emplace();
      parser->header_limit(kHeaderBytesMax);
      parser->body_limit(0);
      stream.expires_after(kPatience);
      http::async_read(stream, buffer, *parser,
                       [self = shared_from_this()](beast::error_code error, size_t) {
                         if (!error) self->Answer();
                       });
    }

    void Answer() {
      const auto& request = parser->get();
      response = {};
      response.version(request.version());
      response.keep_alive(request.keep_alive());
      response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
      const bool get = request.method() == http::verb::get || request.method() == http::verb::head;
      const auto target = request.target().substr(0, request.target().find('?'));
      if (!get) {
        response.result(http::status::method_not_allowed);
      } else if (target != impl->path_) {
        response.result(http::status::not_found);
        response.body() = "metrics are at " + impl->path_ + "\n";
      } else {
        try {
          response.body() = impl->render_();
        } catch (const std::exception& problem) {
          response.result(http::status::internal_server_error);
          response.body() = problem.what();
        }
      }
      response.prepare_payload();
      if (request.method() == http::verb::head) response.body().clear();
      stream.expires_after(kPatience);
      http::async_write(stream, response,
                        [self = shared_from_this()](beast::error_code error, size_t) {
                          if (!error && self->response.keep_alive()) self->Read();
                        });
    }

    beast::tcp_stream stream;
    Impl* const impl;
    beast::flat_buffer buffer{kHeaderBytesMax};
    std::optional<http::request_parser<http::empty_body>> parser;
    http::response<http::string_body> response;
  };

  void AcceptNext() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == boost::asio::error::operation_aborted) return;
      if (!error && sessions_ < kConnectionsMax) {
        std::make_shared<Session>(std::move(socket), this)->Read();
      }
      if (!error) return AcceptNext();
      retry_ = thread_.After(std::chrono::milliseconds(100), [this] { AcceptNext(); });
    });
  }

  const std::string path_;
  const std::function<std::string()> render_;
  int sessions_ = 0;
  NetworkThread thread_;  // destroys pending operations, which touch what stands above
  tcp::acceptor acceptor_;
  std::unique_ptr<Loop::Timer> retry_;
};

HttpEndpoint::HttpEndpoint(std::string path, std::function<std::string()> render)
    : impl_(std::make_unique<Impl>(std::move(path), std::move(render))) {}
HttpEndpoint::~HttpEndpoint() { Stop(); }
Status HttpEndpoint::Start(const HostPort& listen) { return impl_->Start(listen, &address_); }
void HttpEndpoint::Stop() { impl_->Stop(); }

}  // namespace kmirror::broker
