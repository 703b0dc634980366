#include "src/statemachine/desired_state.h"

#include <gtest/gtest.h>

namespace kmirror::statemachine {
namespace {

TEST(MirrorName, SaysWhoOwnsATopicAndWhatIsWanted) {
  EXPECT_EQ(ParseMirrorName(""), (Desired{"", DesiredState::kNone}));
  EXPECT_EQ(ParseMirrorName("m"), (Desired{"m", DesiredState::kMirroring}));
  EXPECT_EQ(ParseMirrorName("m.paused"), (Desired{"m", DesiredState::kPaused}));
  EXPECT_EQ(ParseMirrorName("m.removed"), (Desired{"m", DesiredState::kStopped}));
  EXPECT_EQ(ParseMirrorName("a.b.removed"), (Desired{"a.b", DesiredState::kStopped}));
}

TEST(MirrorName, IsFormattedAsItIsParsed) {
  for (DesiredState state :
       {DesiredState::kMirroring, DesiredState::kPaused, DesiredState::kStopped}) {
    EXPECT_EQ(ParseMirrorName(FormatMirrorName("eu.west-1_a", state)),
              (Desired{"eu.west-1_a", state}));
  }
}

TEST(MirrorName, IsRefusedWhenItCouldBeReadInTwoWays) {
  for (const char* bad : {"", ".", "..", "bad name", "a/b", "x.paused", "x.removed", "\xc3\xa9"}) {
    EXPECT_EQ(CheckMirrorName(bad).code(), ErrorCode::kInvalidRequest) << bad;
  }
  EXPECT_EQ(CheckMirrorName(std::string(250, 'a')).code(), ErrorCode::kInvalidRequest);
  EXPECT_TRUE(CheckMirrorName(std::string(249, 'a')).ok());
  for (const char* good : {"m", "a-to-b", "__foo", "A.b_c-9", "paused", "removed"}) {
    EXPECT_TRUE(CheckMirrorName(good).ok()) << good;
  }
}

}  // namespace
}  // namespace kmirror::statemachine
