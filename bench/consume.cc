// A consumer that costs little: what a broker's answers to it cost is what is measured.
//
//   consume HOST PORT TOPIC PARTITIONS FETCH_KIB PARTITION_KIB TOTAL_MIB
// Fetches all partitions with one request at a time, from their starts to their ends and again,
// until TOTAL_MIB of records have come. Looks at batch headers alone.
// Prints: BYTES ANSWERS BATCHES CPU_SECONDS WALL_SECONDS (of itself).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/client/client.h"

namespace {

constexpr size_t kLowWater = 512u << 10;
constexpr size_t kHeadBytes = 1u << 16;  // of an answer: everything but records

class Consumer {
 public:
  Consumer(bench::Connection* connection, std::string topic, int partitions, int32_t fetch_bytes,
           int32_t partition_bytes)
      : connection_(connection), topic_(std::move(topic)), next_(static_cast<size_t>(partitions)) {
    // At least one batch comes however small the limits are.
    buffer_.resize(static_cast<size_t>(fetch_bytes) + (1u << 20) + kHeadBytes);
    request_ = bench::BeginRequest(1, 11);
    bench::Put(&request_, -1, 4);   // no replica
    bench::Put(&request_, 500, 4);  // wait, ms
    bench::Put(&request_, 1, 4);    // least bytes
    bench::Put(&request_, fetch_bytes, 4);
    bench::Put(&request_, 0, 1);  // isolation
    bench::Put(&request_, 0, 4);  // no session
    bench::Put(&request_, -1, 4);
    bench::Put(&request_, 1, 4);
    bench::PutString(&request_, topic_);
    bench::Put(&request_, partitions, 4);
    for (int i = 0; i < partitions; ++i) {
      bench::Put(&request_, i, 4);
      bench::Put(&request_, -1, 4);  // leader epoch
      places_.push_back(request_.size());
      bench::Put(&request_, 0, 8);
      bench::Put(&request_, -1, 8);  // log start
      bench::Put(&request_, partition_bytes, 4);
    }
    bench::Put(&request_, 0, 4);  // forgotten
    bench::PutString(&request_, "");
    bench::FinishRequest(&request_);
  }

  void Round() {
    for (size_t i = 0; i < next_.size(); ++i) {
      bench::StoreBig(request_.data() + places_[i], next_[i], 8);
    }
    connection_->Send(request_.data(), request_.size());
    Take(ReceiveAnswer());
    ++answers;
  }

  size_t bytes = 0;
  size_t answers = 0;
  size_t batches = 0;

 private:
  size_t ReceiveAnswer() {
    size_t got = 0;
    size_t whole = 4;
    while (got < whole) {
      const size_t left = whole - got;
      const size_t room = got < 4 ? buffer_.size() - got : left;
      got += connection_->Receive(buffer_.data() + got, room, std::min(left, kLowWater));
      if (whole == 4 && got >= 4) {
        const int64_t size = bench::LoadBig(buffer_.data(), 4);
        if (size < 0 || static_cast<size_t>(size) + 4 > buffer_.size()) {
          bench::Fail("an answer of " + std::to_string(size) + " bytes");
        }
        whole += static_cast<size_t>(size);
      }
    }
    return whole;
  }

  int64_t Field(int size) {
    if (at_ + static_cast<size_t>(size) > end_) bench::Fail("an answer that ends too early");
    at_ += static_cast<size_t>(size);
    return bench::LoadBig(buffer_.data() + at_ - static_cast<size_t>(size), size);
  }
  void Skip(int64_t size) {
    if (size < 0 || static_cast<size_t>(size) > end_ - at_) bench::Fail("a length that lies");
    at_ += static_cast<size_t>(size);
  }

  void Take(size_t size) {
    at_ = 4;
    end_ = size;
    Skip(8);  // correlation, throttling
    if (const int64_t error = Field(2); error != 0) {
      bench::Fail("fetch: error " + std::to_string(error));
    }
    Skip(4);
    for (int64_t topics = Field(4); topics > 0; --topics) {
      Skip(Field(2));
      for (int64_t left = Field(4); left > 0; --left) TakePartition();
    }
  }

  void TakePartition() {
    const auto index = static_cast<size_t>(Field(4));
    const int64_t error = Field(2);
    const int64_t high_watermark = Field(8);
    Skip(16);
    Skip(16 * std::max<int64_t>(Field(4), 0));  // aborted transactions
    Skip(4);
    const int64_t records = std::max<int64_t>(Field(4), 0);
    if (error != 0 || index >= next_.size()) {
      bench::Fail("partition " + std::to_string(index) + ": error " + std::to_string(error));
    }
    const size_t begin = at_;
    Skip(records);
    bytes += static_cast<size_t>(records);
    // Whole batches; a part of one at the end comes again.
    for (size_t batch = begin; batch + 61 <= at_;) {
      const uint8_t* head = buffer_.data() + batch;
      const int64_t length = bench::LoadBig(head + 8, 4) + 12;
      if (length < 61) bench::Fail("a batch of an impossible size");
      batch += static_cast<size_t>(length);
      if (batch > at_) break;
      next_[index] = bench::LoadBig(head, 8) + bench::LoadBig(head + 23, 4) + 1;
      ++batches;
    }
    if (next_[index] >= high_watermark) next_[index] = 0;
  }

  bench::Connection* const connection_;
  const std::string topic_;
  std::vector<int64_t> next_;
  std::vector<size_t> places_;  // of the offsets in the request
  std::vector<uint8_t> request_;
  std::vector<uint8_t> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: consume HOST PORT TOPIC PARTITIONS FETCH_KIB PARTITION_KIB TOTAL_MIB\n");
    return 2;
  }
  bench::Connection connection(argv[1], argv[2]);
  const auto kib = [](const char* text) { return std::atoi(text) << 10; };
  Consumer consumer(&connection, argv[3], std::atoi(argv[4]), kib(argv[5]), kib(argv[6]));
  const size_t total = std::strtoul(argv[7], nullptr, 10) << 20;
  const double wall = bench::WallSeconds();
  const double cpu = bench::CpuSeconds();
  while (consumer.bytes < total) consumer.Round();
  std::printf("%zu %zu %zu %.6f %.6f\n", consumer.bytes, consumer.answers, consumer.batches,
              bench::CpuSeconds() - cpu, bench::WallSeconds() - wall);
}
