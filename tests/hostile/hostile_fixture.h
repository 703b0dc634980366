// A kmirrord under attack, with a good client that must be served all the while.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/hostile/base_frames.h"
#include "tests/hostile/good_client.h"
#include "tests/server/kmirrord_fixture.h"

namespace kmirror::test {

class HostileTest : public KmirrordTest {
 protected:
  void SetUp() override;
  // The broker lives, no sanitizer has said anything, the good client was served to the end, and
  // the broker stops in order.
  void TearDown() override;

  // A topic that hostile frames are about; made again when one of them has deleted it.
  static constexpr char kVictim[] = "victim";
  void MakeVictim();
  std::vector<BaseFrame> Frames();

  // Sends the bytes and then nothing more; the broker must end the conversation, and what it
  // answers must be whole frames, unless it resets the connection. Empty: as it should be.
  std::string Converse(const std::vector<uint8_t>& bytes, Seconds patience = Seconds(60)) const;

  // Open connections as the broker counts them.
  int64_t OpenConnections() const;

  std::unique_ptr<GoodClient> good_;
};

}  // namespace kmirror::test
