// Bytes no client should send, to a real kmirrord under AddressSanitizer and
// UndefinedBehaviorSanitizer: nothing crashes, and a good client is served all the while.
//
// hostile_options.h tells how to run more of it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kmirror/log/batch.h"
#include "kmirror/log/checksum.h"
#include "messages/produce.h"
#include "tests/hostile/hostile_fixture.h"
#include "tests/hostile/hostile_frames.h"
#include "tests/hostile/hostile_options.h"
#include "tests/server/raw_socket.h"

namespace kmirror::test {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kThreads = 2;

// ApiVersions v0 without a client id: what a broker that still listens answers.
const Bytes kAsk = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 99, 0xff, 0xff};

class HostileBytes : public HostileTest {
 protected:
  // One conversation of each number below `count`, on a few threads; the first failures are told.
  template <typename Make>
  void ConverseAll(size_t count, Make make) {
    std::atomic<size_t> next{0};
    std::atomic<size_t> failures{0};
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (size_t number = next++; number < count && failures < 5; number = next++) {
          const HostileFrame hostile = make(number);
          const std::string wrong = Converse(hostile.bytes);
          if (wrong.empty()) continue;
          ++failures;
          const std::lock_guard lock(mutex);
          ADD_FAILURE() << hostile.how << ": " << wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(failures, 0u) << process_->err();
  }
};

TEST_F(HostileBytes, MutatedFramesOfEveryApiAndVersion) {
  const std::vector<BaseFrame> frames = Frames();
  ASSERT_GT(frames.size(), 600u);
  for (uint64_t seed = Hostile().first_seed; seed < Hostile().first_seed + Hostile().seeds;
       ++seed) {
    std::printf("seed %llu: %zu frames\n", static_cast<unsigned long long>(seed), frames.size());
    MakeVictim();
    const int64_t rounds = good_->rounds();
    ConverseAll(frames.size(), [&](size_t number) {
      Dice dice(seed * 1000003 + number);
      HostileFrame out;
      out.how = "seed " + std::to_string(seed);
      // Good ones before and between, so that some conversations get far.
      const size_t turns = 1 + dice.Below(4);
      for (size_t turn = 0; turn < turns; ++turn) {
        const BaseFrame& frame = turn == 0 ? frames[number] : frames[dice.Below(frames.size())];
        const BaseFrame& other = frames[dice.Below(frames.size())];
        HostileFrame one{frame.bytes, "as it is"};
        if (!dice.OneIn(4)) one = Mutate(frame.bytes, other.bytes, &dice);
        out.how += ", " + frame.name + " " + one.how;
        out.bytes.insert(out.bytes.end(), one.bytes.begin(), one.bytes.end());
      }
      out.bytes.insert(out.bytes.end(), kAsk.begin(), kAsk.end());
      return out;
    });
    EXPECT_GT(good_->rounds(), rounds) << "nobody else was served meanwhile";
    ASSERT_TRUE(good_->AwaitRounds(2)) << good_->problem();
  }
}

TEST_F(HostileBytes, LengthsThatLieAtEveryPlace) {
  // The newest versions hold every field, the oldest the classic encodings of them.
  std::vector<BaseFrame> chosen;
  const std::vector<BaseFrame> all = Frames();
  for (const BaseFrame& frame : all) {
    bool oldest = true, newest = true;
    for (const BaseFrame& other : all) {
      if (other.key != frame.key) continue;
      oldest = oldest && other.version >= frame.version;
      newest = newest && other.version <= frame.version;
    }
    const bool great = frame.bytes.size() > 1000;
    if (Hostile().every_lie || ((oldest || newest) && !great)) chosen.push_back(frame);
  }
  std::vector<std::pair<size_t, size_t>> lies;  // frame and number
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (size_t n = 0; n < LieCount(chosen[i].bytes); ++n) lies.emplace_back(i, n);
  }
  // By hand all of them; in ./check a fixed choice that another seed changes.
  const size_t share = Hostile().every_lie ? 1 : std::max<size_t>(1, lies.size() / 4000);
  std::printf("%zu frames, %zu lies, one in %zu is told\n", chosen.size(), lies.size(), share);
  ConverseAll(lies.size() / share, [&](size_t number) {
    const auto& [frame, lie] = lies[number * share + Hostile().first_seed % share];
    HostileFrame out = Lie(chosen[frame].bytes, lie);
    out.how = chosen[frame].name + " " + out.how;
    out.bytes.insert(out.bytes.end(), kAsk.begin(), kAsk.end());
    return out;
  });
}

TEST_F(HostileBytes, RecordBatchesThatLieUnderARightChecksum) {
  constexpr size_t kPerSeed = 1500;
  for (uint64_t seed = Hostile().first_seed; seed < Hostile().first_seed + Hostile().seeds;
       ++seed) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    MakeVictim();
    ConverseAll(kPerSeed, [&](size_t number) {
      Dice dice(seed * 7368787 + number);
      BatchOptions options{.count = static_cast<int>(1 + dice.Below(4))};
      if (dice.OneIn(2)) {
        options.producer_id = static_cast<int64_t>(dice.Below(5));
        options.producer_epoch = static_cast<int16_t>(dice.Below(3));
        options.base_sequence = static_cast<int32_t>(dice.Below(20));
      }
      options.transactional = dice.OneIn(8);
      const Bytes good = Batch(options);
      // As a frame, the batch has the size prefix that the mutations keep away from.
      HostileFrame changed = Mutate(WithSize(good), WithSize(Batch({.count = 2})), &dice);
      Bytes batch(changed.bytes.begin() + 4, changed.bytes.end());
      if (batch.size() >= log::kBatchHeaderBytes && !dice.OneIn(8)) {
        if (dice.OneIn(2)) {
          const auto size = static_cast<uint32_t>(batch.size() - log::kBatchPrefixBytes);
          for (int i = 0; i < 4; ++i) batch[8 + i] = static_cast<uint8_t>(size >> (24 - 8 * i));
        }
        if (dice.OneIn(2)) batch[log::kBatchMagicOffset] = 2;
        const uint32_t crc = log::Crc32c(0, ByteView(batch).subspan(log::kBatchCrcStart));
        for (int i = 0; i < 4; ++i) {
          batch[log::kBatchCrcOffset + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
        }
      }
      protocol::ProduceRequest request;
      request.acks = static_cast<int16_t>(dice.Below(3)) - 1;
      request.timeout_ms = 1000;
      auto& topic = request.topic_data.emplace_back();
      topic.name = kVictim;
      topic.partition_data.emplace_back().records = protocol::RecordsView(ByteView(batch));
      protocol::Writer out;
      EXPECT_TRUE(protocol::EncodeRequestFrame(request, 9, 7, "hostile", out).ok());
      HostileFrame frame{out.Flatten(), "seed " + std::to_string(seed) + " " + changed.how};
      frame.bytes.insert(frame.bytes.end(), kAsk.begin(), kAsk.end());
      return frame;
    });
  }
  // What was accepted of it is read back, by a restart too.
  Kill();
  Start();
  good_.reset();
}

TEST_F(HostileBytes, WhatIsNotKafkaAtAllIsClosed) {
  const std::vector<std::string> strangers = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      "POST /topics HTTP/1.1\r\nContent-Length: 2000000000\r\n\r\n",
      "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
      "EHLO mail.example\r\n",
      // A TLS client hello: what a client with the wrong security.protocol sends.
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(512, 'r'),
      "\r\n\r\n",
      std::string(1, '\0'),
      std::string(3, '\xff'),
      std::string(100000, '\0'),
      std::string(100000, '\xff'),
      "",
  };
  for (const std::string& text : strangers) {
    EXPECT_EQ(Converse({text.begin(), text.end()}), "") << text.substr(0, 20);
    // The same byte by byte.
    const auto socket = RawSocket::Try(address());
    ASSERT_TRUE(socket);
    for (size_t i = 0; i < std::min<size_t>(text.size(), 200); ++i) {
      if (!socket->Send({static_cast<uint8_t>(text[i])})) break;
    }
    socket->EndSending();
    EXPECT_TRUE(socket->ReceiveToEnd()) << text.substr(0, 20);
  }
  Dice dice(Hostile().first_seed);
  ConverseAll(300, [&](size_t number) {
    Dice own(Hostile().first_seed * 99991 + number);
    Bytes noise(own.Below(own.OneIn(10) ? 200000 : 400));
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(own.Next());
    return HostileFrame{noise, "noise of " + std::to_string(noise.size()) + " bytes"};
  });
}

TEST_F(HostileBytes, SlowSendersAreServedAndHoldUpNobody) {
  // A frame of each API by its typical request, all at once, a byte of each in turn.
  std::vector<BaseFrame> frames;
  for (const BaseFrame& frame : Frames()) {
    const bool known = !frames.empty() && frames.back().key == frame.key;
    if (!known && frame.bytes.size() < 400) frames.push_back(frame);
  }
  struct Slow {
    std::unique_ptr<RawSocket> socket;
    Bytes bytes;
    std::string name;
    bool good;
  };
  std::vector<Slow> slow;
  size_t longest = 0;
  for (const BaseFrame& frame : frames) {
    // Not good: a version of another's bytes, and Produce 0 to 2, which are advertised alone.
    const bool good =
        frame.name.starts_with("ours") && frame.name.find(" as v") == std::string::npos;
    Slow one{RawSocket::Try(address()), frame.bytes, frame.name, good};
    ASSERT_TRUE(one.socket);
    one.bytes.insert(one.bytes.end(), kAsk.begin(), kAsk.end());
    longest = std::max(longest, one.bytes.size());
    slow.push_back(std::move(one));
  }
  ASSERT_GT(slow.size(), 30u);
  for (size_t at = 0; at < longest; ++at) {
    for (Slow& one : slow) {
      if (at < one.bytes.size()) (void)one.socket->Send({one.bytes[at]});
    }
    if (at % 20 == 0) ASSERT_TRUE(good_->AwaitRounds(1)) << good_->problem();
  }
  for (Slow& one : slow) {
    one.socket->EndSending();
    const auto answer = one.socket->ReceiveToEnd();
    ASSERT_TRUE(answer) << one.name;
    // Good requests: the last answer is that to the question behind them.
    if (one.good) {
      const std::string text(answer->begin(), answer->end());
      EXPECT_NE(text.find(std::string("\0\0\0\x63\0\0", 6)), std::string::npos) << one.name;
    }
  }
}

TEST_F(HostileBytes, HalfClosedClientsGetTheirAnswersAndLeaveNothingBehind) {
  const std::vector<BaseFrame> frames = Frames();
  const int64_t before = OpenConnections();
  ASSERT_GE(before, 1);
  size_t answered = 0;
  for (size_t i = 0; i < frames.size(); i += 3) {
    const auto socket = RawSocket::Try(address());
    ASSERT_TRUE(socket);
    // A whole request and the end; a part of one and the end; the end alone.
    Bytes bytes = frames[i].bytes;
    if (i % 9 == 3) bytes.resize(bytes.size() / 2);
    if (i % 9 == 6) bytes.clear();
    if (!bytes.empty()) (void)socket->Send(bytes);
    socket->EndSending();
    const auto answer = socket->ReceiveToEnd();
    ASSERT_TRUE(answer) << frames[i].name;
    if (i % 9 == 0 && !answer->empty()) ++answered;
    if (i % 9 != 0) EXPECT_TRUE(answer->empty()) << frames[i].name;
  }
  EXPECT_GT(answered, frames.size() / 18) << "half of the whole ones, at the least";
  EXPECT_TRUE(WaitUntil([&] { return OpenConnections() <= before; }));
}

}  // namespace
}  // namespace kmirror::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!kmirror::test::ParseHostileOptions(&argc, argv)) return 2;
  return RUN_ALL_TESTS();
}
