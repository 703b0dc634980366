// A producer that costs little: what a broker's appends cost is what is measured.
//
//   produce HOST PORT TOPIC PARTITIONS BATCH_BYTES COUNT WINDOW [ACKS]
// Sends COUNT requests of one prepared batch each, to the partitions in turn, with up to WINDOW of
// them on the way on one connection. Records are of about 1 KiB. Every answer is looked at.
// Prints: BATCHES BYTES CPU_SECONDS WALL_SECONDS (of itself; bytes of batches).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "bench/client/client.h"

namespace {

std::vector<uint8_t> ProduceFrame(const std::string& topic, int partition, int acks,
                                  const std::vector<uint8_t>& batch) {
  std::vector<uint8_t> frame = bench::BeginRequest(0, 7);
  bench::Put(&frame, -1, 2);  // no transaction
  bench::Put(&frame, acks, 2);
  bench::Put(&frame, 30000, 4);
  bench::Put(&frame, 1, 4);
  bench::PutString(&frame, topic);
  bench::Put(&frame, 1, 4);
  bench::Put(&frame, partition, 4);
  bench::Put(&frame, static_cast<int64_t>(batch.size()), 4);
  frame.insert(frame.end(), batch.begin(), batch.end());
  bench::FinishRequest(&frame);
  return frame;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8 && argc != 9) {
    std::fprintf(stderr,
                 "usage: produce HOST PORT TOPIC PARTITIONS BATCH_BYTES COUNT WINDOW [ACKS]\n");
    return 2;
  }
  bench::Connection connection(argv[1], argv[2]);
  const std::string topic = argv[3];
  const int partitions = std::atoi(argv[4]);
  const size_t batch_bytes = std::strtoul(argv[5], nullptr, 10);
  const size_t count = std::strtoul(argv[6], nullptr, 10);
  const size_t window = std::strtoul(argv[7], nullptr, 10);
  const int acks = argc == 9 ? std::atoi(argv[8]) : 1;
  const int records = static_cast<int>(std::max<size_t>(1, batch_bytes >> 10));
  const std::vector<uint8_t> batch =
      bench::MakeBatch(batch_bytes, records, static_cast<int64_t>(std::time(nullptr)) * 1000);

  // The requests in a row, so that several go with one call: as many as may be on the way, in
  // whole rounds of the partitions.
  std::vector<uint8_t> row;
  size_t frame_bytes = 0;
  size_t frames = 0;
  do {
    for (int i = 0; i < partitions; ++i) {
      const std::vector<uint8_t> frame = ProduceFrame(topic, i, acks, batch);
      frame_bytes = frame.size();
      row.insert(row.end(), frame.begin(), frame.end());
      ++frames;
    }
  } while (frames < window);

  // Size, correlation; topic, partition, error, base offset, append time, log start, throttling.
  const size_t answer_bytes = 4 + 4 + 4 + 2 + topic.size() + 4 + 4 + 2 + 8 + 8 + 8 + 4;
  const size_t error_at = 4 + 4 + 4 + 2 + topic.size() + 4 + 4;
  std::vector<uint8_t> answers(answer_bytes * window);
  size_t held = 0;  // bytes of them that have come
  size_t sent = 0;
  size_t answered = 0;
  const double wall = bench::WallSeconds();
  const double cpu = bench::CpuSeconds();
  while (answered < count) {
    while (sent < count && sent - answered < window) {
      const size_t from = sent % frames;
      const size_t now = std::min({window - (sent - answered), count - sent, frames - from});
      connection.Send(row.data() + from * frame_bytes, now * frame_bytes);
      sent += now;
    }
    held += connection.Receive(answers.data() + held, answers.size() - held, 1);
    const size_t whole = held / answer_bytes;
    for (size_t i = 0; i < whole; ++i) {
      const uint8_t* answer = answers.data() + i * answer_bytes;
      const int64_t error = bench::LoadBig(answer + error_at, 2);
      if (bench::LoadBig(answer, 4) + 4 != static_cast<int64_t>(answer_bytes) || error != 0) {
        bench::Fail("produce: error " + std::to_string(error));
      }
    }
    answered += whole;
    std::copy(answers.begin() + static_cast<ptrdiff_t>(whole * answer_bytes),
              answers.begin() + static_cast<ptrdiff_t>(held), answers.begin());
    held -= whole * answer_bytes;
  }
  std::printf("%zu %zu %.6f %.6f\n", count, count * batch.size(), bench::CpuSeconds() - cpu,
              bench::WallSeconds() - wall);
}
