// Connections over real sockets: negotiation, order, streamed answers, and everything a peer may
// do.
#include "src/net/kafka_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "messages/api_versions.h"
#include "src/protocol/writer.h"
#include "tests/net/connection_fixture.h"
#include "tests/support/wait_until.h"

namespace kmirror::net {
namespace {

using testing::BrokerStub;
using testing::Bytes;
using testing::ConnectionOptions;
using testing::Echo;
using ::testing::ElementsAre;
using testing::GatherAll;
using ::testing::HasSubstr;
using testing::KafkaConnectionTest;
using namespace std::chrono_literals;

TEST_F(KafkaConnectionTest, NegotiatesAndLearnsFeatures) {
  BrokerStub broker(Echo);
  ASSERT_TRUE(Open(To(broker.port())).ok());
  OnLane([this] {
    EXPECT_TRUE(connection->IsOpen());
    EXPECT_EQ(connection->versions().Pick(1, {10, 17}), 16);
    EXPECT_EQ(connection->versions().Pick(1, {17, 18}), std::nullopt);
    EXPECT_EQ(connection->versions().Pick(99, {0, 0}), std::nullopt);
    EXPECT_EQ(connection->versions().finalized_features.at("mirror.version"), 1);
    connection.reset();
  });
}

TEST_F(KafkaConnectionTest, FallsBackWhenTheBrokerIsOlder) {
  std::vector<int16_t> asked;
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    BrokerStub::Request request;
    while (peer.Read(&request)) {
      asked.push_back(request.version);
      protocol::ApiVersionsResponse response;
      response.api_keys.push_back({18, 0, 2});
      response.error_code = request.version > 2 ? 35 : 0;
      if (request.version <= 2) response.api_keys.push_back({1, 0, 11});
      protocol::Writer out;
      (void)protocol::Encode(response, request.version > 2 ? int16_t{0} : request.version, out);
      peer.Answer(request.correlation, out.Flatten(), false);
    }
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  EXPECT_THAT(asked, ElementsAre(3, 2));
  OnLane([this] {
    EXPECT_EQ(connection->versions().Pick(1, {10, 17}), 11);
    connection.reset();
  });
}

TEST_F(KafkaConnectionTest, ResolvesNamesOffTheLane) {
  BrokerStub broker(Echo);
  EXPECT_TRUE(Open(To(broker.port(), "localhost")).ok());
  OnLane([this] { connection.reset(); });
  const Status status = Open(To(broker.port(), "no-such-host.invalid"));
  EXPECT_EQ(status.code(), ErrorCode::kDisconnected);
  EXPECT_THAT(status.message(), HasSubstr("no-such-host.invalid"));
}

TEST_F(KafkaConnectionTest, ANameMayBeForgottenWhileItIsLookedUp) {
  for (int i = 0; i < 20; ++i) {
    OnLane([this] {
      connection = transport.NewConnection(lane.get(), To(1, "localhost"));
      connection->Open([](Status) { ADD_FAILURE() << "a destroyed connection called back"; });
      connection.reset();
    });
  }
}

TEST_F(KafkaConnectionTest, RefusedConnectionsNameTheEndpoint) {
  int32_t port = 0;
  {
    BrokerStub gone([](BrokerStub::Peer&) {});
    port = gone.port();
  }
  const Status status = Open(To(port));
  EXPECT_EQ(status.code(), ErrorCode::kDisconnected);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:" + std::to_string(port)));
}

TEST_F(KafkaConnectionTest, ASilentBrokerTimesOut) {
  BrokerStub broker([](BrokerStub::Peer& peer) { peer.AwaitClose(); });
  ConnectionOptions options = To(broker.port());
  options.ready_timeout = 50ms;
  const Status status = Open(options);
  EXPECT_EQ(status.code(), ErrorCode::kTimedOut);
}

// Each piece is less than the low-water mark waits for. With the short timeout the whole takes many
// of them; with the long one nothing but a look at the socket finds what has come.
class SlowBrokerTest : public KafkaConnectionTest,
                       public ::testing::WithParamInterface<std::chrono::milliseconds> {};

INSTANTIATE_TEST_SUITE_P(Timeouts, SlowBrokerTest, ::testing::Values(400ms, 600'000ms));

TEST_P(SlowBrokerTest, IsNotASilentOneAndItsBytesDoNotWait) {
  constexpr size_t kPiece = 10'000;
  constexpr int kPieces = 3;
  constexpr size_t kRest = 600'000;
  ConnectionOptions options;
  options.counters = std::make_shared<fetcher::ConnectionCounters>();
  const auto counters = options.counters;
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    protocol::Writer head;
    head.PutInt32(static_cast<int32_t>(5 + kPiece * kPieces + kRest));
    head.PutInt32(request.correlation);
    head.PutInt8(0);
    int64_t seen = counters->receives;
    peer.Send(head.Flatten());
    for (int i = 0; i < kPieces; ++i) {
      // Not before the last one has been taken: the mark never sees two together.
      EXPECT_TRUE(test::WaitUntil([&] { return counters->receives > seen; }));
      seen = counters->receives;
      peer.Send(Bytes(kPiece, static_cast<uint8_t>(i)));
    }
    peer.Send(Bytes(kRest, 77));
    peer.AwaitClose();
  });
  options.endpoint = To(broker.port()).endpoint;
  options.client_id = "test-client";
  ASSERT_TRUE(Open(options).ok());
  GatherAll sink;
  OnLane([&] { connection->Stream(Fetch({1}, GetParam()), &sink); });
  const Status done = sink.done.get_future().get();
  ASSERT_TRUE(done.ok()) << done.ToString();
  ASSERT_EQ(sink.body.size(), kPiece * kPieces + kRest);
  for (int i = 0; i < kPieces; ++i) {
    ASSERT_EQ(sink.body[static_cast<size_t>(i) * kPiece], static_cast<uint8_t>(i));
  }
  EXPECT_EQ(sink.body.back(), 77);
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, ABrokerThatFallsSilentWithinAnAnswerTimesOut) {
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    peer.Send(Bytes{0, 16, 0, 0, 0, 0, 0, 2, 0, 1, 2, 3});
    peer.AwaitClose();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  const auto answer = Ask(Fetch({1}, 50ms));
  EXPECT_EQ(answer.status().code(), ErrorCode::kTimedOut);
  EXPECT_THAT(answer.status().message(), HasSubstr("no answer within 50 ms"));
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, RequestsAreAnsweredInOrderOneAtATime) {
  BrokerStub broker(Echo);
  ASSERT_TRUE(Open(To(broker.port())).ok());
  std::vector<int> order;
  std::promise<void> done;
  OnLane([&] {
    for (int i = 0; i < 50; ++i) {
      connection->Ask(Fetch(Bytes(static_cast<size_t>(1 + i * 1000), static_cast<uint8_t>(i))),
                      [&, i](Result<Bytes> answer) {
                        ASSERT_TRUE(answer.ok());
                        EXPECT_EQ(answer->size(), static_cast<size_t>(1 + i * 1000));
                        EXPECT_EQ(answer->front(), i);
                        order.push_back(i);
                        if (i == 49) done.set_value();
                      });
    }
  });
  done.get_future().wait();
  EXPECT_TRUE(std::ranges::is_sorted(order));
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, StreamsAnAnswerOfManyMegabytesToItsLastByte) {
  // Neither the low-water mark nor what came with the header may strand the end of an answer. Its
  // header has nine bytes.
  constexpr size_t kSizes[] = {0,     1,     100,       16374,           16375,   16376,
                               16384, 32768, 511 << 10, (512 << 10) + 1, 3 << 20, 10'000'001};
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    for (const size_t size : kSizes) {
      if (!peer.Read(&request)) return;
      Bytes body(size);
      for (size_t i = 0; i < size; ++i) body[i] = static_cast<uint8_t>(i * 31 >> 7);
      peer.Answer(request.correlation, body, true);
    }
    peer.AwaitClose();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  for (const size_t size : kSizes) {
    GatherAll sink;
    sink.room_bytes = 700'001;
    OnLane([&] { connection->Stream(Fetch({1}), &sink); });
    ASSERT_TRUE(sink.done.get_future().get().ok());
    EXPECT_EQ(sink.announced, size);
    ASSERT_EQ(sink.body.size(), size);
    for (size_t i = 0; i < size; i += 4999) {
      ASSERT_EQ(sink.body[i], static_cast<uint8_t>(i * 31 >> 7));
    }
  }
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, CountsWhatItAsksOfTheSystem) {
  constexpr size_t kBytes = 8 << 20;
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    peer.Answer(request.correlation, Bytes(kBytes), true);
    peer.AwaitClose();
  });
  ConnectionOptions options = To(broker.port());
  options.counters = std::make_shared<fetcher::ConnectionCounters>();
  ASSERT_TRUE(Open(options).ok());
  const fetcher::ConnectionCounters& counters = *options.counters;
  const int64_t sends = counters.sends;
  const int64_t receives = counters.receives;
  const int64_t wakeups = counters.wakeups;
  EXPECT_EQ(sends, 1);  // of the greeting
  GatherAll sink;
  OnLane([&] { connection->Stream(Fetch({1}), &sink); });
  ASSERT_TRUE(sink.done.get_future().get().ok());
  OnLane([this] { connection.reset(); });
  EXPECT_EQ(counters.sends, sends + 1);
  EXPECT_GT(counters.wakeups, wakeups);
  EXPECT_GT(counters.option_calls, 0);
  // At most 1 MiB at a time; the sizes of what arrives are the system's.
  EXPECT_GE(counters.receives, receives + static_cast<int64_t>(kBytes >> 20));
}

TEST_F(KafkaConnectionTest, AReaderWithoutRoomStopsAndResumes) {
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    peer.Answer(request.correlation, Bytes(4 << 20, 7), true);
    peer.AwaitClose();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  GatherAll sink;
  sink.rooms = 5;
  std::promise<void> full;
  sink.on_full = [&] { full.set_value(); };
  OnLane([&] { connection->Stream(Fetch({1}), &sink); });
  full.get_future().wait();
  OnLane([&] {
    EXPECT_LT(sink.used, size_t{4} << 20);
    connection->Resume();
  });
  ASSERT_TRUE(sink.done.get_future().get().ok());
  EXPECT_EQ(sink.used, size_t{4} << 20);
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, ASmallAnswerIsOneReceive) {
  BrokerStub broker(Echo);
  ConnectionOptions options = To(broker.port());
  options.counters = std::make_shared<fetcher::ConnectionCounters>();
  ASSERT_TRUE(Open(options).ok());
  const int64_t before = options.counters->receives;
  constexpr int kAnswers = 20;
  for (int i = 0; i < kAnswers; ++i) {
    const auto answer = Ask(Fetch(Bytes(3000, static_cast<uint8_t>(i))));
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(*answer, Bytes(3000, static_cast<uint8_t>(i)));
  }
  OnLane([this] { connection.reset(); });
  EXPECT_EQ(options.counters->receives - before, kAnswers);
}

TEST_F(KafkaConnectionTest, WhatCameWithTheHeaderWaitsForRoomToo) {
  // All of the answer has been received when there is no room for it: nothing more will come to say
  // that it can be read.
  BrokerStub broker(Echo);
  ASSERT_TRUE(Open(To(broker.port())).ok());
  for (const int rooms : {1, 2, 3}) {
    GatherAll sink;
    sink.room_bytes = 1000;
    sink.rooms = rooms;
    std::promise<void> full;
    sink.on_full = [&] { full.set_value(); };
    OnLane([&] { connection->Stream(Fetch(Bytes(5000, 7)), &sink); });
    full.get_future().wait();
    OnLane([&] {
      EXPECT_LT(sink.used, 5000u);
      connection->Resume();
    });
    ASSERT_TRUE(sink.done.get_future().get().ok());
    EXPECT_EQ(sink.body, Bytes(5000, 7));
  }
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, ManySmallRoomsForWhatCameWithTheHeader) {
  // More of them than a wake-up reads: nothing will wake the lane for the rest.
  BrokerStub broker(Echo);
  ASSERT_TRUE(Open(To(broker.port())).ok());
  GatherAll sink;
  sink.room_bytes = 50;
  OnLane([&] { connection->Stream(Fetch(Bytes(12'000, 7)), &sink); });
  ASSERT_TRUE(sink.done.get_future().get().ok());
  EXPECT_EQ(sink.body, Bytes(12'000, 7));
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, AnAnswerThatIsKeptWholeMayBeShorterThanAStreamedOne) {
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    for (uint8_t asked = 2; peer.Read(&request); ++asked) {
      peer.Send(Bytes{4, 0x60, 0, 0, 0, 0, 0, asked, 0, 1, 2, 3});  // 70 MiB, it says
    }
  });
  ConnectionOptions options = To(broker.port());
  options.max_response_bytes = 100 << 20;
  ASSERT_TRUE(Open(options).ok());
  GatherAll sink;
  OnLane([&] { connection->Stream(Fetch({1}, 50ms), &sink); });
  EXPECT_EQ(sink.done.get_future().get().code(), ErrorCode::kTimedOut);
  EXPECT_EQ(sink.used, 3u);
  ASSERT_EQ(closed.get_future().wait_for(testing::kPatience), std::future_status::ready);
  OnLane([this] { closed = {}; });
  ASSERT_TRUE(Open(options).ok());
  const auto answer = Ask(Fetch({1}));
  EXPECT_EQ(answer.status().code(), ErrorCode::kMalformed);
  EXPECT_THAT(answer.status().message(), HasSubstr("an answer of 73400320 bytes"));
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, BytesBehindAnAnswerThatNobodyAskedForCloseTheConnection) {
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    peer.Send(Bytes{0, 0, 0, 6, 0, 0, 0, 2, 0, 42, 0, 0, 0, 5, 0, 0, 0, 3, 0});
    peer.AwaitClose();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  const auto answer = Ask(Fetch({1}));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(*answer, Bytes{42});
  auto future = closed.get_future();
  ASSERT_EQ(future.wait_for(testing::kPatience), std::future_status::ready);
  EXPECT_THAT(future.get().message(), HasSubstr("answer no request"));
  OnLane([this] { connection.reset(); });
}

TEST_F(KafkaConnectionTest, AnAnswerToAnotherRequestClosesTheConnection) {
  BrokerStub broker([](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    peer.Answer(request.correlation + 1, {1, 2, 3}, true);
    peer.AwaitClose();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  const auto answer = Ask(Fetch({1}));
  EXPECT_EQ(answer.status().code(), ErrorCode::kMalformed);
  EXPECT_EQ(closed.get_future().get().code(), ErrorCode::kMalformed);
  EXPECT_EQ(Ask(Fetch({1})).status().code(), ErrorCode::kMalformed) << "it stays closed";
}

TEST_F(KafkaConnectionTest, AnImpossibleSizeClosesTheConnection) {
  for (const uint32_t size : {0u, 3u, 0x7fffffffu, 0xffffffffu}) {
    closed = {};
    BrokerStub broker([size](BrokerStub::Peer& peer) {
      if (!BrokerStub::Greet(peer)) return;
      BrokerStub::Request request;
      if (!peer.Read(&request)) return;
      Bytes frame;
      for (int i = 0; i < 4; ++i) frame.push_back(static_cast<uint8_t>(size >> (24 - 8 * i)));
      for (int i = 0; i < 4; ++i) {
        frame.push_back(static_cast<uint8_t>(request.correlation >> (24 - 8 * i)));
      }
      frame.push_back(0);
      peer.Send(frame);
      peer.AwaitClose();
    });
    ASSERT_TRUE(Open(To(broker.port())).ok());
    EXPECT_EQ(Ask(Fetch({1})).status().code(), ErrorCode::kMalformed) << size;
    OnLane([this] { connection.reset(); });
  }
}

TEST_F(KafkaConnectionTest, ACutWithinAnAnswerFailsItAndAllThatWait) {
  BrokerStub broker([](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    BrokerStub::Request request;
    if (!peer.Read(&request)) return;
    peer.Send({0, 0, 16, 0, 0, 0, 0, static_cast<uint8_t>(request.correlation), 0, 1, 2, 3});
    peer.Close();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  GatherAll sink;
  std::promise<Status> second;
  OnLane([&] {
    connection->Stream(Fetch({1}), &sink);
    connection->Ask(Fetch({2}), [&](Result<Bytes> answer) { second.set_value(answer.status()); });
  });
  EXPECT_EQ(sink.done.get_future().get().code(), ErrorCode::kDisconnected);
  EXPECT_EQ(second.get_future().get().code(), ErrorCode::kDisconnected);
  EXPECT_EQ(closed.get_future().get().code(), ErrorCode::kDisconnected);
}

TEST_F(KafkaConnectionTest, ABrokerThatClosesAnIdleConnectionIsNoticed) {
  std::promise<void> opened;
  BrokerStub broker([&](BrokerStub::Peer& peer) {
    if (!BrokerStub::Greet(peer)) return;
    opened.get_future().wait();
    peer.Close();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  opened.set_value();
  EXPECT_EQ(closed.get_future().get().code(), ErrorCode::kDisconnected);
}

TEST_F(KafkaConnectionTest, ARequestWithoutAnAnswerTimesOut) {
  BrokerStub broker([](BrokerStub::Peer& peer) {
    if (BrokerStub::Greet(peer)) peer.AwaitClose();
  });
  ASSERT_TRUE(Open(To(broker.port())).ok());
  EXPECT_EQ(Ask(Fetch({1}, 50ms)).status().code(), ErrorCode::kTimedOut);
}

TEST_F(KafkaConnectionTest, ASinkThatRefusesTheAnswerClosesTheConnection) {
  BrokerStub broker(Echo);
  ASSERT_TRUE(Open(To(broker.port())).ok());
  GatherAll sink;
  sink.refuse = true;
  OnLane([&] { connection->Stream(Fetch({1}), &sink); });
  EXPECT_EQ(sink.done.get_future().get().code(), ErrorCode::kInvalidRequest);
}

TEST_F(KafkaConnectionTest, TheOwnerMayDestroyTheConnectionInAnAnswer) {
  BrokerStub broker(Echo);
  ASSERT_TRUE(Open(To(broker.port())).ok());
  std::promise<void> done;
  OnLane([&] {
    connection->Ask(Fetch({1}), [&](Result<Bytes>) {
      connection.reset();
      done.set_value();
    });
    connection->Ask(Fetch({2}), [](Result<Bytes>) { ADD_FAILURE() << "called after its end"; });
  });
  done.get_future().wait();
}

}  // namespace
}  // namespace kmirror::net
