// What the cheap clients of the figures share. They speak to a real Kafka and to kmirrord alike,
// and use nothing of the library: whoever is compared must be asked the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

// Prints what failed, with errno, and ends the program.
[[noreturn]] void Die(const char* what);
// The same for what errno does not know.
[[noreturn]] void Fail(const std::string& what);

double WallSeconds();
double CpuSeconds();  // of this process

// Big endian fields at the end of `to`; strings have a length of two bytes.
void Put(std::vector<uint8_t>* to, int64_t value, int bytes);
void PutString(std::vector<uint8_t>* to, std::string_view text);
// At `at`.
void StoreBig(uint8_t* at, int64_t value, int bytes);
int64_t LoadBig(const uint8_t* at, int bytes);

// The start of a request: room for the size, then header version 1. Finish writes the size.
std::vector<uint8_t> BeginRequest(int16_t key, int16_t version);
void FinishRequest(std::vector<uint8_t>* frame);

// A batch v2 of about `bytes` bytes, without compression and producer: `records` records of equal
// size with the time `now_ms`. The checksum is right.
std::vector<uint8_t> MakeBatch(size_t bytes, int records, int64_t now_ms);

// One connection, non-blocking; waits with poll and a low-water mark, as a client that wants to
// cost little does.
class Connection {
 public:
  Connection(const char* host, const char* port);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // All of it, in one call where the socket has room. Reads nothing meanwhile: REQUIRES that the
  // peer takes it.
  void Send(const uint8_t* bytes, size_t size);
  // At least one byte of what has come; waits until `mark` bytes are there.
  size_t Receive(uint8_t* to, size_t room, size_t mark);

 private:
  int fd_ = -1;
  int mark_ = 1;
};

}  // namespace bench
