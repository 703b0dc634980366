// Request frames as nobody should send them, made from good ones. Pure: a seed gives the same
// frames on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kmirror::test {

// Small and the same everywhere, which the distributions of <random> are not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // 0 to below - 1. REQUIRES: below > 0.
  size_t Below(size_t below) { return static_cast<size_t>(Next() % below); }
  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

struct HostileFrame {
  std::vector<uint8_t> bytes;  // as sent, its size prefix included
  std::string how;             // for the message of a failing test
};

// One change, drawn from all kinds: bits flipped, cut, extended, a length that lies at any place, a
// size that lies, tags that lie, another header, a part of `other` or of itself, noise.
HostileFrame Mutate(const std::vector<uint8_t>& frame, const std::vector<uint8_t>& other,
                    Dice* dice);

// Every lie at every place: `frame` with one of a fixed list of hostile numbers (int16, int32,
// int64 and varint) written at one position after its size prefix. The size prefix stays right.
size_t LieCount(const std::vector<uint8_t>& frame);
HostileFrame Lie(const std::vector<uint8_t>& frame, size_t number);

// Body bytes with the size prefix they should have.
std::vector<uint8_t> WithSize(std::vector<uint8_t> body);

}  // namespace kmirror::test
