// No message is served that was only ever compared with itself.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "src/protocol/mirror_numbers.h"
#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

using Message = std::tuple<int16_t, int16_t, Direction>;  // key, version

// What no foreign program is known to have written, and why (protocol.md 11).
const std::map<Message, std::string>& Exempt() {
  static const std::map<Message, std::string> exempt = {
      {{kReadMirrorOffsetsKey, 0, Direction::kRequest}, "key 106 is not in the prototype that ran"},
      {{kReadMirrorOffsetsKey, 0, Direction::kResponse},
       "key 106 is not in the prototype that ran"},
      {{kRecoverMirrorTopicsKey, 0, Direction::kRequest},
       "key 107 is not in the prototype that ran"},
      {{kRecoverMirrorTopicsKey, 0, Direction::kResponse},
       "key 107 is not in the prototype that ran"},
      {{kReadMirrorStatesKey, 0, Direction::kRequest},
       "R6: newest order, between our own brokers; the frames that exist are older"},
      {{kReadMirrorStatesKey, 0, Direction::kResponse}, "as its request"},
      {{kWriteMirrorStatesKey, 0, Direction::kRequest}, "as ReadMirrorStates"},
      {{kWriteMirrorStatesKey, 0, Direction::kResponse}, "as ReadMirrorStates"},
      {{19, 8, Direction::kResponse},
       "CreateTopics v8 changes the request alone; the answer is that of v7"},
  };
  return exempt;
}

std::set<Message> MessagesWithForeignBytes() {
  std::set<Message> out;
  for (const auto& cases : {KafkaCases(), PrototypeCases(), PrototypeCaptures()}) {
    for (const GoldenCase& golden : cases) {
      out.insert({golden.key, golden.version, golden.direction});
    }
  }
  // Their frames are of the older order and prove nothing of ours.
  for (const int16_t key : {kReadMirrorStatesKey, kWriteMirrorStatesKey}) {
    out.erase({key, 0, Direction::kRequest});
    out.erase({key, 0, Direction::kResponse});
  }
  return out;
}

TEST(Coverage, EveryServedMessageHasAGoldenCaseOfForeignOrigin) {
  const std::set<Message> foreign = MessagesWithForeignBytes();
  size_t served = 0;
  for (const ApiInfo& api : AllApis()) {
    for (int16_t version = api.min_version; version <= api.max_version; ++version) {
      for (const Direction direction : {Direction::kRequest, Direction::kResponse}) {
        ++served;
        const Message message{api.key, version, direction};
        const bool exempt = Exempt().contains(message);
        EXPECT_EQ(!exempt, foreign.contains(message))
            << api.name << " v" << version
            << (direction == Direction::kRequest ? " request" : " response")
            << (exempt ? " is exempt although there is a golden case"
                       : " has no golden case of foreign origin");
      }
    }
  }
  EXPECT_GT(served, 200u);
}

TEST(Coverage, TheTableHasOneEntryAKeyInTheirOrder) {
  int previous = -1;
  for (const ApiInfo& api : AllApis()) {
    EXPECT_LT(previous, api.key) << api.name;
    EXPECT_EQ(&api, FindApi(api.key)) << api.name;
    previous = api.key;
  }
  EXPECT_EQ(nullptr, FindApi(97));
  EXPECT_EQ(nullptr, FindApi(-1));
}

}  // namespace
}  // namespace kmirror::protocol
