#include "broker/server/request_memory.h"

#include <gtest/gtest.h>

#include <memory>

namespace kmirror::broker {
namespace {

using Reservation = RequestMemory::Reservation;

TEST(RequestMemory, GivesBackWhatWasReserved) {
  RequestMemory memory(0);
  {
    Reservation request(&memory);
    EXPECT_TRUE(memory.Reserve(&request, 100, [] {}));
    EXPECT_TRUE(memory.Reserve(&request, 50, [] {}));
    EXPECT_EQ(memory.used(), 150);
  }
  EXPECT_EQ(memory.used(), 0);
}

TEST(RequestMemory, OneRequestAtATimeMayPassTheLimit) {
  RequestMemory memory(100);
  int retries = 0;
  const auto retry = [&] { ++retries; };
  auto first = std::make_unique<Reservation>(&memory);
  Reservation second(&memory);
  EXPECT_TRUE(memory.Reserve(first.get(), 80, retry));
  EXPECT_TRUE(memory.Reserve(first.get(), 80, retry)) << "it would wait for itself otherwise";
  EXPECT_FALSE(memory.Reserve(&second, 10, retry));
  EXPECT_TRUE(memory.Reserve(first.get(), 1000, retry)) << "it may go on to its end";
  EXPECT_EQ(retries, 0);
  first.reset();
  EXPECT_EQ(retries, 1);
  EXPECT_TRUE(memory.Reserve(&second, 10, retry));
}

TEST(RequestMemory, EveryReleaseLetsTheWaitingTryAgain) {
  RequestMemory memory(100);
  int retries = 0;
  Reservation large(&memory);
  ASSERT_TRUE(memory.Reserve(&large, 150, [] {}));
  auto small = std::make_unique<Reservation>(&memory);
  auto other = std::make_unique<Reservation>(&memory);
  EXPECT_FALSE(memory.Reserve(small.get(), 1, [&] { ++retries; }));
  EXPECT_FALSE(memory.Reserve(other.get(), 1, [&] { ++retries; }));
  small.reset();
  EXPECT_EQ(retries, 2);
}

}  // namespace
}  // namespace kmirror::broker
