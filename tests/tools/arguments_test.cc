// Arguments: lists, patterns, addresses and files, taken apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/client/kafka_connection.h"
#include "tools/kmirror/mirror_config_file.h"
#include "tools/kmirror/topic_selection.h"

namespace kmirror::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Arguments, ListsAreSplitAtCommasOutsideBraces) {
  EXPECT_THAT(SplitList("a,b , c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(SplitList("x{1,3},y"), ElementsAre("x{1,3}", "y"));
  EXPECT_THAT(SplitList(" , ,"), IsEmpty());
}

TEST(Arguments, ANameIsItselfAndAPatternMatchesWhole) {
  const std::set<std::string> present = {"orders", "orders.eu", "ordersXeu", "payments"};
  EXPECT_THAT(*SelectTopics({"orders.eu"}, present), ElementsAre("orders.eu"));
  EXPECT_THAT(*SelectTopics({"orders.*", "payments"}, present),
              ElementsAre("orders", "orders.eu", "ordersXeu", "payments"));
  const auto none = SelectTopics({"order"}, present);
  EXPECT_EQ(none.status().code(), ErrorCode::kUnknownTopicOrPartition);
  EXPECT_THAT(none.status().message(), HasSubstr("\"order\""));
  EXPECT_EQ(SelectTopics({"a("}, present).status().code(), ErrorCode::kUsage);
}

TEST(Arguments, ServersAreHostAndPort) {
  EXPECT_THAT(*ParseServers("a:1, b:65535"), ElementsAre(HostPort{"a", 1}, HostPort{"b", 65535}));
  EXPECT_THAT(*ParseServers("[::1]:9092"), ElementsAre(HostPort{"::1", 9092}));
  for (const char* wrong :
       {"", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a:1,", "a:-1", "a:99999999999"}) {
    const auto servers = ParseServers(wrong);
    EXPECT_EQ(servers.status().code(), ErrorCode::kUsage) << wrong;
  }
}

TEST(Arguments, PropertiesFilesAreReadAsKafkaWritesThem) {
  const auto configs = ParseProperties(
      "# a comment\n! another\n\nbootstrap.servers = a:1,b:2\r\nsource.gap:fail\nempty=\n", "f");
  ASSERT_TRUE(configs.ok()) << configs.status().ToString();
  EXPECT_THAT(*configs, ElementsAre(std::pair("bootstrap.servers", "a:1,b:2"),
                                    std::pair("empty", ""), std::pair("source.gap", "fail")));
}

TEST(Arguments, ALineThatEndsInABackslashGoesOn) {
  const auto configs = ParseProperties(
      "ssl.keystore.key=-----BEGIN PRIVATE KEY----- \\\n    MIG= \\\r\n  -----END PRIVATE "
      "KEY-----\n"
      "# a comment \\\npattern=a\\\\\nlast=x\\",
      "f");
  ASSERT_TRUE(configs.ok()) << configs.status().ToString();
  EXPECT_THAT(*configs,
              ElementsAre(std::pair("last", "x"), std::pair("pattern", "a\\\\"),
                          std::pair("ssl.keystore.key",
                                    "-----BEGIN PRIVATE KEY----- MIG= -----END PRIVATE KEY-----")));
}

TEST(Arguments, AWrongLineOfAFileIsNamed) {
  const auto configs = ParseProperties("a=1\n\nrubbish\n", "mirror.properties");
  EXPECT_EQ(configs.status().code(), ErrorCode::kUsage);
  EXPECT_THAT(configs.status().message(), HasSubstr("mirror.properties:3"));
  EXPECT_EQ(ParseProperties("=x", "f").status().code(), ErrorCode::kUsage);
  EXPECT_EQ(ReadProperties("/nowhere/at/all").status().code(), ErrorCode::kUsage);
}

TEST(Arguments, AConfigOptionKeepsEqualSignsInItsValue) {
  EXPECT_EQ(*ParseConfig("a=b=c"), std::pair(std::string("a"), std::string("b=c")));
  EXPECT_EQ(ParseConfig("novalue").status().code(), ErrorCode::kUsage);
  EXPECT_EQ(ParseConfig("=v").status().code(), ErrorCode::kUsage);
}

}  // namespace
}  // namespace kmirror::tools
