#include "tests/hostile/hostile_frames.h"

#include <algorithm>
#include <array>
#include <span>

namespace kmirror::test {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kPrefix = 4;

Bytes Big(uint64_t value, size_t width) {
  Bytes out(width);
  for (size_t i = 0; i < width; ++i) out[width - 1 - i] = static_cast<uint8_t>(value >> (8 * i));
  return out;
}

// What a length, a count, an id or an offset may be made to say.
struct HostileNumber {
  const char* name;
  Bytes bytes;
};

const std::vector<HostileNumber>& Numbers() {
  static const std::vector<HostileNumber> all = {
      {"int16 -1", Big(0xffff, 2)},
      {"int16 -2", Big(0xfffe, 2)},
      {"int16 max", Big(0x7fff, 2)},
      {"int16 min", Big(0x8000, 2)},
      {"int32 0", Big(0, 4)},
      {"int32 -1", Big(0xffffffff, 4)},
      {"int32 -2", Big(0xfffffffe, 4)},
      {"int32 max", Big(0x7fffffff, 4)},
      {"int32 min", Big(0x80000000, 4)},
      {"int32 1000", Big(1000, 4)},
      {"int32 2^24", Big(0x01000000, 4)},
      {"int64 -1", Big(~uint64_t{0}, 8)},
      {"int64 max", Big(0x7fffffffffffffff, 8)},
      {"int64 min", Big(0x8000000000000000, 8)},
      {"varint 0", {0x00}},
      {"varint 127", {0x7f}},
      {"varint 2^14", {0x80, 0x80, 0x01}},
      {"varint int32 max", {0xff, 0xff, 0xff, 0xff, 0x07}},
      {"varint uint32 max", {0xff, 0xff, 0xff, 0xff, 0x0f}},
      {"varint of 35 bits", {0xff, 0xff, 0xff, 0xff, 0x7f}},
      {"varint without end", {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
      {"varint of needless zeros", {0x80, 0x80, 0x80, 0x80, 0x00}},
  };
  return all;
}

void Overwrite(Bytes* frame, size_t at, std::span<const uint8_t> with) {
  const size_t size = std::min(with.size(), frame->size() - at);
  std::copy_n(with.begin(), size, frame->begin() + static_cast<ptrdiff_t>(at));
}

void FixSize(Bytes* frame) {
  const Bytes size = Big(frame->size() - kPrefix, 4);
  std::copy(size.begin(), size.end(), frame->begin());
}

void Insert(Bytes* frame, size_t at, const Bytes& what) {
  frame->insert(frame->begin() + static_cast<ptrdiff_t>(at), what.begin(), what.end());
}

Bytes Noise(size_t size, Dice* dice) {
  Bytes out(size);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(dice->Next());
  return out;
}

void PutVarint(uint32_t value, Bytes* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<uint8_t>(value | 0x80));
  out->push_back(static_cast<uint8_t>(value));
}

// A tag buffer that is deep, long, unordered or lies about its count or its sizes.
Bytes Tags(Dice* dice) {
  static constexpr std::array<uint32_t, 8> kTags = {0, 1, 2, 5, 10000, 10001, 16384, 0xffffffff};
  const auto count = static_cast<uint32_t>(1 + dice->Below(dice->OneIn(8) ? 3000 : 8));
  Bytes out;
  PutVarint(dice->OneIn(4) ? static_cast<uint32_t>(dice->Next()) : count, &out);
  for (uint32_t i = 0; i < count; ++i) {
    PutVarint(dice->OneIn(2) ? kTags[dice->Below(kTags.size())] : i, &out);
    const size_t size = dice->Below(dice->OneIn(16) ? 2000 : 6);
    PutVarint(dice->OneIn(8) ? static_cast<uint32_t>(dice->Next()) : static_cast<uint32_t>(size),
              &out);
    // A value that may itself be tags within tags.
    Bytes value = Noise(size, dice);
    if (dice->OneIn(2)) std::fill(value.begin(), value.end(), uint8_t{1});
    out.insert(out.end(), value.begin(), value.end());
  }
  return out;
}

}  // namespace

// SplitMix64.
uint64_t Dice::Next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Bytes WithSize(Bytes body) {
  Bytes frame = Big(body.size(), kPrefix);
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

size_t LieCount(const Bytes& frame) { return (frame.size() - kPrefix) * Numbers().size(); }

HostileFrame Lie(const Bytes& frame, size_t number) {
  const HostileNumber& lie = Numbers()[number % Numbers().size()];
  const size_t at = kPrefix + number / Numbers().size();
  HostileFrame out{frame, std::string(lie.name) + " at " + std::to_string(at)};
  Overwrite(&out.bytes, at, lie.bytes);
  return out;
}

HostileFrame Mutate(const Bytes& frame, const Bytes& other, Dice* dice) {
  HostileFrame out{frame, ""};
  Bytes& bytes = out.bytes;
  const size_t body = bytes.size() - kPrefix;
  const size_t place = kPrefix + dice->Below(body);
  const std::string at = " at " + std::to_string(place);
  switch (dice->Below(12)) {
    case 0: {
      const size_t flips = 1 + dice->Below(dice->OneIn(3) ? 30 : 3);
      for (size_t i = 0; i < flips; ++i) {
        bytes[kPrefix + dice->Below(body)] ^= static_cast<uint8_t>(1u << dice->Below(8));
      }
      out.how = std::to_string(flips) + " bits flipped";
      break;
    }
    case 1:
      bytes.resize(place);
      FixSize(&bytes);
      out.how = "cut" + at;
      break;
    case 2:
      bytes.resize(place);
      out.how = "ends" + at + " and its size says more";
      break;
    case 3: {
      const size_t more = 1 + dice->Below(dice->OneIn(8) ? 100000 : 64);
      Bytes extra = dice->OneIn(2) ? Noise(more, dice)
                                   : Bytes(more, static_cast<uint8_t>(dice->OneIn(2) ? 0 : 0xff));
      bytes.insert(bytes.end(), extra.begin(), extra.end());
      FixSize(&bytes);
      out.how = std::to_string(more) + " bytes more";
      break;
    }
    case 4:
    case 5: out = Lie(frame, dice->Below(LieCount(frame))); break;
    case 6: {
      // Several lies at once, and a size that lets the first of them be reached.
      const size_t lies = 2 + dice->Below(4);
      for (size_t i = 0; i < lies; ++i) bytes = Lie(bytes, dice->Below(LieCount(bytes))).bytes;
      out.how = std::to_string(lies) + " lies";
      break;
    }
    case 7: {
      static constexpr std::array<uint32_t, 9> kSizes = {
          0, 1, 7, 0xffffffff, 0x80000000, 0x7fffffff, 104857600, 104857601, 0x00010000};
      const uint32_t size = dice->OneIn(2) ? static_cast<uint32_t>(body + dice->Below(5) - 2)
                                           : kSizes[dice->Below(kSizes.size())];
      Overwrite(&bytes, 0, Big(size, kPrefix));
      out.how = "its size says " + std::to_string(static_cast<int32_t>(size));
      break;
    }
    case 8: {
      // In place of the tag count that ends most flexible structs, or anywhere.
      const size_t end = dice->OneIn(2) ? bytes.size() - 1 : place;
      const Bytes tags = Tags(dice);
      bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(end));
      Insert(&bytes, end, tags);
      FixSize(&bytes);
      out.how = "tags of " + std::to_string(tags.size()) + " bytes at " + std::to_string(end);
      break;
    }
    case 9: {
      // Another API or version than the body's.
      const Bytes key = Big(dice->OneIn(4) ? dice->Next() : dice->Below(110), 2);
      const Bytes version = Big(dice->OneIn(4) ? dice->Next() : dice->Below(20), 2);
      if (dice->OneIn(2)) Overwrite(&bytes, kPrefix, key);
      Overwrite(&bytes, kPrefix + 2, version);
      out.how = "another header";
      break;
    }
    case 10: {
      // A part of another frame, or a part of this one repeated: more elements than are counted.
      const Bytes& from = dice->OneIn(2) ? other : frame;
      const size_t begin = kPrefix + dice->Below(from.size() - kPrefix);
      const size_t size = 1 + dice->Below(from.size() - begin);
      const Bytes part(from.begin() + static_cast<ptrdiff_t>(begin),
                       from.begin() + static_cast<ptrdiff_t>(begin + size));
      const size_t times = dice->OneIn(4) ? 1 + dice->Below(50) : 1;
      for (size_t i = 0; i < times; ++i) Insert(&bytes, place, part);
      FixSize(&bytes);
      out.how = std::to_string(size) + " bytes " + std::to_string(times) + " times" + at;
      break;
    }
    default: {
      const size_t size = 1 + dice->Below(300);
      bytes = WithSize(Noise(size, dice));
      // Half of them have a header that is good, so that the noise reaches a decoder.
      if (dice->OneIn(2)) Overwrite(&bytes, kPrefix, std::span(frame).subspan(kPrefix, 10));
      out.how = "noise";
      break;
    }
  }
  return out;
}

}  // namespace kmirror::test
