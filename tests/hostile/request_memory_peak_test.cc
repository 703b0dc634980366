// What clients claim costs kmirrord nothing; what they send costs what it weighs.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/kmirrord_fixture.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {
namespace {

constexpr int kClients = 100;
constexpr int32_t kClaim = 100 * 1024 * 1024;
constexpr int64_t kAllowance = 16 << 20;

class RequestMemoryPeak : public KmirrordTest {
 protected:
  int64_t PeakBytes() const {
    std::ifstream status("/proc/" + std::to_string(process_->pid()) + "/status");
    for (std::string word; status >> word;) {
      int64_t kib = 0;
      if (word == "VmHWM:" && status >> kib) return kib * 1024;
    }
    ADD_FAILURE() << "no VmHWM";
    return 0;
  }
  // The peak begins anew at what is resident now.
  void ForgetPeak() const {
    std::ofstream("/proc/" + std::to_string(process_->pid()) + "/clear_refs") << "5";
  }
  int64_t Received() const {
    RawSocket http(FirstServer(metrics()));
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    if (!http.Send({request.begin(), request.end()})) return -1;
    const auto all = http.ReceiveToEnd();
    const std::string page(all->begin(), all->end());
    const std::string name = "\nkmirror_server_received_bytes_total ";
    const size_t at = page.find(name);
    return at == std::string::npos ? -1 : std::stoll(page.substr(at + name.size(), 20));
  }

  // Every client claims, then sends `bytes` in pieces of `piece`, all of them in turn.
  void Trickle(size_t bytes, size_t piece) {
    Start();
    ASSERT_GE(Received(), 0);
    ForgetPeak();
    const int64_t before = PeakBytes();
    std::vector<std::unique_ptr<RawSocket>> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(std::make_unique<RawSocket>(address()));
      ASSERT_TRUE(clients.back()->SendSize(kClaim));
    }
    for (size_t sent = 0; sent < bytes; sent += piece) {
      const std::vector<uint8_t> bytes_now(std::min(piece, bytes - sent), uint8_t{0x5a});
      for (const auto& client : clients) ASSERT_TRUE(client->Send(bytes_now));
    }
    const int64_t all = kClients * static_cast<int64_t>(bytes + 4);
    ASSERT_TRUE(WaitUntil([&] { return Received() >= all; }, Seconds(60))) << Received();
    const int64_t rise = PeakBytes() - before;
    std::printf("%lld bytes sent, peak +%lld\n", static_cast<long long>(all),
                static_cast<long long>(rise));
    EXPECT_LT(rise, all + kAllowance) << "10 GB are claimed";
  }
};

TEST_F(RequestMemoryPeak, OfAFewBytesEach) { Trickle(100, 10); }
TEST_F(RequestMemoryPeak, OfAThousandBytesEach) { Trickle(1000, 100); }
// One byte past each size at which the memory of a request grows.
TEST_F(RequestMemoryPeak, JustPastTheFirstBuffer) { Trickle(64 * 1024 + 1, 8 * 1024); }
TEST_F(RequestMemoryPeak, JustPastAHalfMebibyte) { Trickle(512 * 1024 + 1, 100 * 1000); }
TEST_F(RequestMemoryPeak, JustPastTwoMebibytes) { Trickle(2048 * 1024 + 1, 64 * 1024); }

}  // namespace
}  // namespace kmirror::test
