#include "broker/server/socket_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "tests/server/raw_socket.h"
#include "tests/support/assert_ok.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace kmirror::broker {
namespace {

using test::RawSocket;
using test::WaitUntil;

Outcome Text(const std::string& text) {
  protocol::Writer writer;
  writer.PutInt32(static_cast<int32_t>(text.size()));
  writer.PutRaw({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return Outcome::Send(std::move(writer));
}

// Echoes, unless the frame says otherwise: "hold" waits until the test answers it, "work" is worked
// on until then, "close" closes, "quiet" has no answer, "file" is answered with the whole of
// `file`, whose bytes count as changed when `changes` counts.
class Echo final : public FrameHandler {
 public:
  void OnFrame(std::unique_ptr<RequestFrame> frame,
               const std::shared_ptr<ConnectionInfo>& connection, Reply reply) override {
    const std::string text(frame->bytes().begin(), frame->bytes().end());
    if (text == "hold" || text == "work") {
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(reply));
      if (text == "hold") connection->on_close = [this] { ++closed_while_held; };
      return;
    }
    if (text == "close") return reply(Outcome::Close("asked to"));
    if (text == "quiet") return reply(Outcome{});
    if (text == "file") return reply(File());
    reply(Text(text.size() > 100 ? std::to_string(text.size()) : text));
  }

  size_t held() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  Reply TakeHeld() {
    const std::lock_guard lock(mutex_);
    Reply reply = std::move(held_.front());
    held_.pop_front();
    return reply;
  }

  std::string file;
  const std::shared_ptr<std::atomic<uint64_t>> changes = std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<int> closed_while_held{0};

 private:
  Outcome File() const {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    const auto size = static_cast<size_t>(::lseek(fd, 0, SEEK_END));
    protocol::Writer writer;
    writer.PutInt32(static_cast<int32_t>(size));
    writer.WriteFile({fd, 0, size,
                      std::shared_ptr<const void>(nullptr, [fd](const void*) { ::close(fd); }),
                      changes, *changes});
    return Outcome::Send(std::move(writer));
  }

  std::mutex mutex_;
  std::deque<Reply> held_;
};

class SocketServerTest : public ::testing::Test {
 protected:
  void Start(SocketServer::Options options = {}) {
    options.listeners = {{"127.0.0.1", 0}};
    options.network_threads = 2;
    server_ = std::make_unique<SocketServer>(options, &handler_,
                                             [](std::string_view, const std::string&) {});
    ASSERT_OK(server_->Start());
    server_->Accept();
  }
  const HostPort& address() const { return server_->addresses().front(); }
  // Frames as they go out in one piece.
  static std::vector<uint8_t> Frames(std::initializer_list<std::string> bodies) {
    std::vector<uint8_t> all;
    for (const std::string& body : bodies) {
      for (int shift = 24; shift >= 0; shift -= 8) {
        all.push_back(static_cast<uint8_t>(body.size() >> shift));
      }
      all.insert(all.end(), body.begin(), body.end());
    }
    return all;
  }
  std::string WriteFile(size_t bytes) {
    handler_.file = (dir_ / "segment").string();
    std::string content;
    for (int i = 0; content.size() < bytes; ++i) content += std::to_string(i) + " ";
    std::ofstream(handler_.file, std::ios::binary) << content;
    return content;
  }

  test::TempDir dir_;
  Echo handler_;
  std::unique_ptr<SocketServer> server_;
};

TEST_F(SocketServerTest, AnswersRequestsOfAConnectionInOrder) {
  Start();
  RawSocket client(address());
  ASSERT_TRUE(client.SendFrame("one"));
  ASSERT_TRUE(client.SendFrame("hold"));
  ASSERT_TRUE(client.SendFrame("three"));
  EXPECT_EQ(client.ReceiveFrame(), "one");
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  // Answered from another thread than the connection's.
  handler_.TakeHeld()(Text("two"));
  EXPECT_EQ(client.ReceiveFrame(), "two");
  EXPECT_EQ(client.ReceiveFrame(), "three");
}

TEST_F(SocketServerTest, KeepsGoingAfterARequestWithoutAnswer) {
  Start();
  RawSocket client(address());
  ASSERT_TRUE(client.SendFrame("quiet"));
  ASSERT_TRUE(client.SendFrame("heard"));
  EXPECT_EQ(client.ReceiveFrame(), "heard");
}

TEST_F(SocketServerTest, HandlesManySmallFramesSentAtOnce) {
  Start();
  RawSocket client(address());
  std::vector<uint8_t> all;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = std::to_string(i);
    all.insert(all.end(), {0, 0, 0, static_cast<uint8_t>(text.size())});
    all.insert(all.end(), text.begin(), text.end());
  }
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(client.ReceiveFrame(), std::to_string(i));
}

// Wherever in a frame, also in its size, what is received at a time ends.
TEST_F(SocketServerTest, HandlesFramesThatEndAnywhereInItsBuffer) {
  Start();
  RawSocket client(address());
  for (size_t shift = 1; shift <= 9; ++shift) {
    std::vector<uint8_t> all = Frames({std::string(shift, 's')});
    for (int i = 10000; i < 26000; ++i) {  // 9 bytes each, more than two buffers in all
      const std::vector<uint8_t> one = Frames({std::to_string(i)});
      all.insert(all.end(), one.begin(), one.end());
    }
    ASSERT_TRUE(client.Send(all));
    ASSERT_EQ(client.ReceiveFrame(), std::string(shift, 's'));
    for (int i = 10000; i < 26000; ++i) ASSERT_EQ(client.ReceiveFrame(), std::to_string(i));
  }
}

// Answers to requests that came together may wait for each other, but not for one that waits.
TEST_F(SocketServerTest, AnswersWhatCameBeforeARequestThatWaits) {
  Start();
  for (const std::string waiting : {"hold", "work"}) {
    RawSocket client(address());
    ASSERT_TRUE(client.Send(Frames({"one", "two", waiting, "four", "five"})));
    EXPECT_EQ(client.ReceiveFrame(), "one");
    EXPECT_EQ(client.ReceiveFrame(), "two");
    ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
    handler_.TakeHeld()(Text("three"));
    EXPECT_EQ(client.ReceiveFrame(), "three");
    EXPECT_EQ(client.ReceiveFrame(), "four");
    EXPECT_EQ(client.ReceiveFrame(), "five");
  }
}

TEST_F(SocketServerTest, AnswersWhatCameBeforeAFrameOfAnImpossibleSize) {
  const std::string content = WriteFile(100000);
  Start();
  RawSocket client(address());
  std::vector<uint8_t> bytes = Frames({"one", "quiet", "file", "two"});
  bytes.insert(bytes.end(), {0xff, 0xff, 0xff, 0xff});
  ASSERT_TRUE(client.Send(bytes));
  EXPECT_EQ(client.ReceiveFrame(), "one");
  EXPECT_EQ(client.ReceiveFrame(), content);
  EXPECT_EQ(client.ReceiveFrame(), "two");
  EXPECT_TRUE(client.ClosedByPeer());
}

TEST_F(SocketServerTest, TakesAFrameThatArrivesByteByByte) {
  Start();
  RawSocket client(address());
  for (const uint8_t byte : std::vector<uint8_t>{0, 0, 0, 2, 'o', 'k'})
    ASSERT_TRUE(client.Send({byte}));
  EXPECT_EQ(client.ReceiveFrame(), "ok");
}

TEST_F(SocketServerTest, ClosesAConnectionWithAnImpossibleSize) {
  SocketServer::Options options;
  options.request_bytes_max = 1000;
  Start(options);
  for (const int32_t size : {0, -1, 1001, INT32_MIN, INT32_MAX}) {
    RawSocket client(address());
    ASSERT_TRUE(client.SendSize(size));
    EXPECT_TRUE(client.ClosedByPeer()) << size;
  }
  EXPECT_EQ(server_->metrics().closed_bad_frame, 5);
}

TEST_F(SocketServerTest, MemoryFollowsWhatArrivedAndNotWhatWasClaimed) {
  Start();
  constexpr int kClients = 20;
  std::vector<std::unique_ptr<RawSocket>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawSocket>(address()));
    ASSERT_TRUE(clients.back()->SendSize(100 * 1024 * 1024));
    ASSERT_TRUE(clients.back()->Send(std::vector<uint8_t>(1000)));
  }
  ASSERT_TRUE(WaitUntil([&] { return server_->metrics().received_bytes == kClients * 1004; }));
  EXPECT_LE(server_->request_memory_used(), kClients * 64 * 1024);
  // At most twice what has come.
  ASSERT_TRUE(clients[0]->Send(std::vector<uint8_t>(1000 * 1000)));
  ASSERT_TRUE(
      WaitUntil([&] { return server_->metrics().received_bytes == kClients * 1004 + 1000000; }));
  EXPECT_LE(server_->request_memory_used(), kClients * 64 * 1024 + 2 * 1024 * 1024);
  clients.clear();
  EXPECT_TRUE(WaitUntil([&] { return server_->request_memory_used() == 0; }));
}

TEST_F(SocketServerTest, TakesALargeFrameWhole) {
  Start();
  RawSocket client(address());
  ASSERT_TRUE(client.SendFrame(std::string(20 * 1024 * 1024, 'x')));
  EXPECT_EQ(client.ReceiveFrame(), std::to_string(20 * 1024 * 1024));
  EXPECT_EQ(server_->request_memory_used(), 0);
}

TEST_F(SocketServerTest, RequestsPastTheMemoryLimitWaitAndAreAllServed) {
  SocketServer::Options options;
  options.request_memory_bytes = 256 * 1024;
  Start(options);
  const std::string large(1024 * 1024, 'x');
  std::vector<std::unique_ptr<RawSocket>> clients;
  std::vector<std::thread> senders;
  for (int i = 0; i < 6; ++i) clients.push_back(std::make_unique<RawSocket>(address()));
  for (auto& client : clients) senders.emplace_back([&] { client->SendFrame(large); });
  for (auto& client : clients) EXPECT_EQ(client->ReceiveFrame(), std::to_string(large.size()));
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(server_->request_memory_used(), 0);
}

TEST_F(SocketServerTest, AnswersWhatCameBeforeARequestWithoutMemory) {
  SocketServer::Options options;
  options.request_memory_bytes = 10000;
  Start(options);
  const auto begin = [&](RawSocket& client, int32_t size) {
    const int64_t before = server_->metrics().received_bytes;
    return client.SendSize(size) && client.Send({'x'}) &&
           WaitUntil([&] { return server_->metrics().received_bytes == before + 5; });
  };
  RawSocket first(address());
  RawSocket past_limit(address());
  ASSERT_TRUE(begin(first, 9000));
  ASSERT_TRUE(begin(past_limit, 2000));
  ASSERT_TRUE(first.Send(std::vector<uint8_t>(8999)));
  EXPECT_EQ(first.ReceiveFrame(), "9000");
  RawSocket client(address());
  ASSERT_TRUE(client.Send(Frames({"one", std::string(9000, 'x'), "three"})));
  EXPECT_EQ(client.ReceiveFrame(), "one");
  ASSERT_TRUE(past_limit.Send(std::vector<uint8_t>(1999)));
  EXPECT_EQ(past_limit.ReceiveFrame(), "2000");
  EXPECT_EQ(client.ReceiveFrame(), "9000");
  EXPECT_EQ(client.ReceiveFrame(), "three");
}

TEST_F(SocketServerTest, RefusesConnectionsOverTheLimitUntilOneIsGone) {
  SocketServer::Options options;
  options.connections_max = 2;
  Start(options);
  auto first = std::make_unique<RawSocket>(address());
  RawSocket second(address());
  ASSERT_TRUE(first->SendFrame("a"));
  ASSERT_TRUE(second.SendFrame("b"));
  EXPECT_EQ(first->ReceiveFrame(), "a");
  EXPECT_EQ(second.ReceiveFrame(), "b");
  {
    RawSocket third(address());
    EXPECT_TRUE(third.ClosedByPeer());
  }
  EXPECT_EQ(server_->metrics().refused, 1);
  first.reset();
  ASSERT_TRUE(WaitUntil([&] { return server_->metrics().connections == 1; }));
  RawSocket fourth(address());
  ASSERT_TRUE(fourth.SendFrame("d"));
  EXPECT_EQ(fourth.ReceiveFrame(), "d");
}

TEST_F(SocketServerTest, LimitsConnectionsOfOneAddress) {
  SocketServer::Options options;
  options.connections_max_per_ip = 1;
  Start(options);
  RawSocket first(address());
  ASSERT_TRUE(first.SendFrame("a"));
  EXPECT_EQ(first.ReceiveFrame(), "a");
  RawSocket second(address());
  EXPECT_TRUE(second.ClosedByPeer());
}

TEST_F(SocketServerTest, ClosesIdleConnectionsAndNotThoseBeingServed) {
  SocketServer::Options options;
  options.idle_max = std::chrono::milliseconds(50);
  Start(options);
  RawSocket served(address());
  ASSERT_TRUE(served.SendFrame("hold"));
  RawSocket idle(address());
  RawSocket half(address());
  ASSERT_TRUE(half.SendSize(10));
  EXPECT_TRUE(idle.ClosedByPeer());
  EXPECT_TRUE(half.ClosedByPeer());
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  handler_.TakeHeld()(Text("late"));
  EXPECT_EQ(served.ReceiveFrame(), "late");
}

TEST_F(SocketServerTest, TellsAWaitingRequestThatItsClientIsGone) {
  Start();
  auto client = std::make_unique<RawSocket>(address());
  ASSERT_TRUE(client->SendFrame("hold"));
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  EXPECT_EQ(handler_.closed_while_held, 0);
  client.reset();
  EXPECT_TRUE(WaitUntil([&] { return handler_.closed_while_held == 1; }));
  // A reply that comes too late is harmless.
  handler_.TakeHeld()(Text("nobody"));
}

TEST_F(SocketServerTest, NoticesThatAClientIsGoneWhoseNextRequestsHaveCome) {
  Start();
  auto client = std::make_unique<RawSocket>(address());
  ASSERT_TRUE(client->SendFrame("hold"));
  ASSERT_TRUE(client->SendFrame("next"));
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  client.reset();
  EXPECT_TRUE(WaitUntil([&] { return handler_.closed_while_held == 1; }));
  handler_.TakeHeld()(Text("nobody"));
}

TEST_F(SocketServerTest, NoticesThatAClientIsGoneWhoHadSentMoreThanIsReadAhead) {
  SocketServer::Options options;
  options.idle_max = std::chrono::milliseconds(40);  // looks at all connections every 10 ms
  Start(options);
  auto client = std::make_unique<RawSocket>(address());
  ASSERT_TRUE(client->SendFrame("hold"));
  ASSERT_TRUE(client->SendFrame(std::string(100 * 1024, 'x')));
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  client.reset();
  EXPECT_TRUE(WaitUntil([&] { return handler_.closed_while_held == 1; }));
  handler_.TakeHeld()(Text("nobody"));
}

TEST_F(SocketServerTest, GoesOnWithWhatWasReadAheadOfAWaitingRequest) {
  Start();
  RawSocket client(address());
  const std::string large(100 * 1024, 'x');
  ASSERT_TRUE(client.SendFrame("hold"));
  ASSERT_TRUE(client.SendFrame("second"));
  ASSERT_TRUE(client.SendFrame(large));
  ASSERT_TRUE(client.SendFrame("last"));
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  handler_.TakeHeld()(Text("first"));
  EXPECT_EQ(client.ReceiveFrame(), "first");
  EXPECT_EQ(client.ReceiveFrame(), "second");
  EXPECT_EQ(client.ReceiveFrame(), std::to_string(large.size()));
  EXPECT_EQ(client.ReceiveFrame(), "last");
}

TEST_F(SocketServerTest, AClientThatHasSentItsLastIsStillAnswered) {
  Start();
  RawSocket client(address());
  ASSERT_TRUE(client.SendFrame("one"));
  ASSERT_TRUE(client.SendFrame("work"));
  ASSERT_TRUE(client.SendFrame("three"));
  client.EndSending();
  EXPECT_EQ(client.ReceiveFrame(), "one");
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  handler_.TakeHeld()(Text("two"));
  EXPECT_EQ(client.ReceiveFrame(), "two");
  EXPECT_EQ(client.ReceiveFrame(), "three");
  EXPECT_TRUE(client.ClosedByPeer());
}

TEST_F(SocketServerTest, SendsAFileToASlowReaderByteForByte) {
  const std::string content = WriteFile(8 * 1024 * 1024);
  Start();
  RawSocket slow(address(), 4096);
  ASSERT_TRUE(slow.SendFrame("file"));
  // While it does not read, others are served, and little of the file has left its page cache.
  RawSocket other(address());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(other.SendFrame("still here"));
    ASSERT_EQ(other.ReceiveFrame(), "still here");
  }
  const std::string got = slow.ReceiveFrame();
  ASSERT_EQ(got.size(), content.size());
  EXPECT_TRUE(got == content);
}

// An answer that is not whole is none: the client drops it with the connection.
TEST_F(SocketServerTest, EndsAnAnswerWhoseFileChangedOrBecameShorter) {
  const std::string content = WriteFile(16 * 1024 * 1024);
  Start();
  for (const bool shorter : {false, true}) {
    RawSocket slow(address(), 4096);
    ASSERT_TRUE(slow.SendFrame("file"));
    const std::vector<uint8_t> head = slow.Receive(4);
    ASSERT_EQ(head.size(), 4u);
    if (shorter) {
      ASSERT_EQ(::truncate(handler_.file.c_str(), static_cast<off_t>(content.size() / 2)), 0);
    } else {
      // As a cut does: it counts before it touches the file.
      ++*handler_.changes;
    }
    const auto got = slow.ReceiveToEnd();
    ASSERT_TRUE(got.has_value());
    EXPECT_LT(got->size(), content.size());
    EXPECT_TRUE(std::equal(got->begin(), got->end(), content.begin()));
    // Others go on, also with the file as it is now.
    RawSocket other(address());
    ASSERT_TRUE(other.SendFrame("file"));
    EXPECT_EQ(other.ReceiveFrame().size(), shorter ? content.size() / 2 : content.size());
  }
}

TEST_F(SocketServerTest, SaysWhichAddressIsTaken) {
  Start();
  SocketServer::Options options;
  options.listeners = {address()};
  SocketServer second(options, &handler_, [](std::string_view, const std::string&) {});
  const Status started = second.Start();
  EXPECT_EQ(started.code(), ErrorCode::kIo);
  EXPECT_NE(started.message().find(address().ToString()), std::string::npos) << started.message();
  EXPECT_NE(started.message().find("in use"), std::string::npos) << started.message();
}

TEST_F(SocketServerTest, StopsWhileRequestsWaitAndDropsTheirReplies) {
  Start();
  RawSocket client(address());
  ASSERT_TRUE(client.SendFrame("hold"));
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  server_->Stop(std::chrono::milliseconds(1));
  EXPECT_TRUE(client.ClosedByPeer());
  const Reply late = handler_.TakeHeld();
  server_.reset();
  late(Text("too late"));
  EXPECT_EQ(handler_.closed_while_held, 1);
}

TEST_F(SocketServerTest, StopLetsARequestInProgressFinish) {
  Start();
  RawSocket client(address());
  ASSERT_TRUE(client.SendFrame("hold"));
  ASSERT_TRUE(WaitUntil([&] { return handler_.held() == 1; }));
  std::thread stopper([&] { server_->Stop(std::chrono::seconds(20)); });
  handler_.TakeHeld()(Text("done"));
  EXPECT_EQ(client.ReceiveFrame(), "done");
  EXPECT_TRUE(client.ClosedByPeer());
  stopper.join();
}

}  // namespace
}  // namespace kmirror::broker
