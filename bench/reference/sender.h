// The source of every fetch benchmark: one process, one connection, Fetch answers out of memory.
//
// Plain sockets and a hand-made byte stream, nothing of the library: what is compared must be fed
// the same way. Frozen: changing it invalidates earlier figures.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

struct SenderOptions {
  std::size_t batch_bytes = 16384;          // one record batch v2, header included
  std::size_t answer_bytes = 10u << 20;     // records of one Fetch answer, whole batches
  std::size_t total_bytes = 1000u << 20;    // then answers are empty
  int cpu = 0;                              // pinned there
};

// Bytes of records that will be sent in all: whole batches, at most total_bytes.
std::size_t TotalBytes(const SenderOptions& options);
// Records per batch; offsets count from 0.
constexpr int32_t kRecordsPerBatch = 16;

// What stands before the records in a Fetch v12+ answer of one partition, frame size included, and
// after them. The records' length is a varint of 4 bytes as long as answers are 2 MiB to 256 MiB.
constexpr std::size_t kAnswerHeadBytes =
    4 + 4 + 1 + 4 + 2 + 4 + 1 + 16 + 1 + 4 + 2 + 8 + 8 + 8 + 1 + 4 + 4;
constexpr std::size_t kAnswerTailBytes = 3;

// Accepts one connection on `listen_fd` and serves it until the peer closes. Never returns.
[[noreturn]] void RunSender(int listen_fd, const SenderOptions& options);

// A listening socket on a free port of 127.0.0.1.
int Listen(uint16_t* port);

// The id of the one topic: sixteen bytes of 7. Partition 0.
constexpr uint8_t kTopicIdByte = 7;

}  // namespace bench
