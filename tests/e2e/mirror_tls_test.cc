// Mirrors of a real Kafka through its SSL listener, with PEM files as an operator makes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "messages/describe_configs.h"
#include "messages/incremental_alter_configs.h"
#include "src/protocol/mirror_numbers.h"
#include "tests/e2e/mirror_fixture.h"
#include "tests/support/free_port.h"

namespace kmirror::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPassword[] = "open-sesame";

class MirrorTls : public MirrorFixture {
 protected:
  std::string File(const std::string& name) const { return pem_ / name; }
  std::string Content(const std::string& name) const {
    std::ifstream file(File(name));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  void OpenSsl(std::vector<std::string> args) {
    args.insert(args.begin(), "openssl");
    const RunResult run = RunProgram(args, Seconds(30));
    ASSERT_TRUE(run.Success()) << run.err;
  }
  void MakeAuthority(const std::string& name) {
    OpenSsl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", "/CN=" + name, "-keyout", File(name + ".key"), "-out",
             File(name + ".pem")});
  }
  // NAME.key and NAME.crt, signed by `authority`.
  void Issue(const std::string& name, const std::string& authority, const std::string& names) {
    std::ofstream(File(name + ".cnf")) << "subjectAltName=" << names << "\n";
    OpenSsl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             "/CN=" + name, "-keyout", File(name + ".key"), "-out", File(name + ".csr")});
    OpenSsl({"x509", "-req", "-in", File(name + ".csr"), "-CA", File(authority + ".pem"), "-CAkey",
             File(authority + ".key"), "-CAcreateserial", "-days", "2", "-extfile",
             File(name + ".cnf"), "-out", File(name + ".crt")});
  }

  void StartKafka(const std::string& client_auth) {
    MakeAuthority("authority");
    Issue("broker", "authority", "DNS:localhost");
    std::ofstream(File("broker.pem"))
        << Content("broker.key") << Content("broker.crt") << Content("authority.pem");
    const std::string port = std::to_string(FreePort());
    tls_ = "localhost:" + port;
    by_address_ = "127.0.0.1:" + port;
    OwnSource(
        {.properties = {"ssl.keystore.type=PEM", "ssl.keystore.location=" + File("broker.pem"),
                        "ssl.truststore.type=PEM",
                        "ssl.truststore.location=" + File("authority.pem"),
                        "ssl.client.auth=" + client_auth},
         .listener = "SSL://" + tls_});
  }

  std::vector<std::string> CreateArguments(const std::string& source,
                                           std::vector<std::string> configs) const {
    std::vector<std::string> create = {"create", "m",        "--source",
                                       source,   "--config", "security.protocol=SSL"};
    for (std::string& config : configs) {
      create.push_back("--config");
      create.push_back(std::move(config));
    }
    return create;
  }
  std::string Refusal(const std::string& source, std::vector<std::string> configs) {
    const RunResult run = standby_->Cli(CreateArguments(source, std::move(configs)));
    EXPECT_FALSE(run.Success()) << run.out;
    return run.err;
  }
  std::vector<std::string> Trust(const std::string& authority = "authority") const {
    return {"ssl.truststore.type=PEM", "ssl.truststore.location=" + File(authority + ".pem")};
  }

  int16_t Alter(const std::string& key, std::optional<std::string> value) {
    auto client = WireClient::Connect(standby_->bootstrap());
    EXPECT_OK(client.status());
    protocol::IncrementalAlterConfigsRequest alter;
    auto& resource = alter.resources.emplace_back();
    resource.resource_type = protocol::kClusterMirrorConfigResource;
    resource.resource_name = "m";
    const int8_t operation = value ? 0 : 1;
    resource.configs.push_back({key, operation, std::move(value)});
    const auto altered = client->Call<protocol::IncrementalAlterConfigsResponse>(alter, 1);
    EXPECT_OK(altered.status());
    return altered->responses.at(0).error_code;
  }

  TempDir pem_;
  std::string tls_, by_address_;
};

TEST_F(MirrorTls, ATopicComesOverTlsAndWhoIsNotTheSourceIsRefused) {
  StartKafka("none");
  MakeAuthority("stranger");
  ASSERT_OK(admin_->CreateTopic("t", 2));
  Send("t", Numbered(2000));
  Send("t", Numbered(10), Producer::Options(), 1);
  StartStandby();

  EXPECT_THAT(Refusal(tls_, {}), HasSubstr("no authority that the truststore knows"));
  EXPECT_THAT(Refusal(tls_, Trust("stranger")),
              AllOf(HasSubstr("no authority that the truststore knows"),
                    HasSubstr("issued by CN=authority")));
  EXPECT_THAT(Refusal(by_address_, Trust()), HasSubstr("not for 127.0.0.1 but for localhost"));
  EXPECT_THAT(Refusal(source_, Trust()), HasSubstr("does it speak TLS at that port?"));
  EXPECT_THAT(Refusal(tls_, {"ssl.truststore.location=/etc/ca.jks"}),
              HasSubstr("set ssl.truststore.type=PEM"));
  EXPECT_THAT(Refusal(tls_, {"ssl.truststore.type=PEM", "ssl.truststore.location=/no/ca.pem"}),
              HasSubstr("ssl.truststore.location: /no/ca.pem: No such file"));
  EXPECT_THAT(Refusal(tls_, {"security.protocol=SASL_SSL"}), HasSubstr("is not supported"));

  ASSERT_OK(standby_->Run(CreateArguments(tls_, Trust())));
  created_ = true;
  const RunResult all = standby_->Cli({"start", "m", "--all"});
  EXPECT_THAT(all.err, HasSubstr("name each topic with --topics"));
  Mirror({"t"});
  ExpectBytesEqual("t");
  ExpectBytesEqual("t", 1);

  // Another authority from now on: the fetchers start again, and get no further.
  EXPECT_EQ(Alter("ssl.truststore.location", "/etc/ca.jks"), 0);
  EXPECT_EQ(Alter("ssl.truststore.type", "JKS"), 40);
  EXPECT_EQ(Alter("ssl.truststore.location", File("stranger.pem")), 0);
  Send("t", Numbered(10, 2000));
  PartitionRow row;
  EXPECT_TRUE(WaitUntil([&] {
    auto described = standby_->Row("t");
    if (described.ok()) row = *described;
    return row.error_message.find("no authority that the truststore knows") != std::string::npos;
  })) << row.state
      << " " << row.error_message;
  EXPECT_EQ(row.destination_offset, 2000);
  EXPECT_EQ(Alter("ssl.truststore.location", File("authority.pem")), 0);
  ExpectBytesEqual("t");
}

TEST_F(MirrorTls, ASourceThatAsksForACertificateIsShownOneAndNobodyElseIsShownItsKey) {
  StartKafka("required");
  Issue("standby", "authority", "DNS:standby");
  MakeAuthority("stranger");
  Issue("impostor", "stranger", "DNS:standby");
  OpenSsl({"pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", File("standby.key"), "-out",
           File("standby.p8"), "-passout", std::string("pass:") + kPassword});
  std::ofstream(File("impostor.pem")) << Content("impostor.key") << Content("impostor.crt");
  ASSERT_OK(admin_->CreateTopic("t"));
  Send("t", Numbered(2000));
  StartStandby();

  EXPECT_THAT(Refusal(tls_, Trust()), HasSubstr("the broker asks for a certificate"));
  std::vector<std::string> configs = Trust();
  configs.push_back("ssl.keystore.type=PEM");
  std::vector<std::string> impostor = configs;
  impostor.push_back("ssl.keystore.location=" + File("impostor.pem"));
  EXPECT_THAT(Refusal(tls_, impostor), HasSubstr("the broker refuses our certificate"));

  configs.push_back("ssl.keystore.key=" + Content("standby.p8"));
  configs.push_back("ssl.keystore.certificate.chain=" + Content("standby.crt"));
  EXPECT_THAT(Refusal(tls_, configs), HasSubstr("ssl.key.password: is needed"));
  std::vector<std::string> wrong = configs;
  wrong.push_back("ssl.key.password=close-sesame");
  EXPECT_THAT(Refusal(tls_, wrong), HasSubstr("ssl.key.password: does not open"));
  configs.push_back(std::string("ssl.key.password=") + kPassword);
  ASSERT_OK(standby_->Run(CreateArguments(tls_, configs)));
  created_ = true;
  Mirror({"t"});
  ExpectBytesEqual("t");
  ASSERT_OK(standby_->Stop());
  ASSERT_OK(standby_->Restart());
  Send("t", Numbered(10, 2000));
  ExpectBytesEqual("t");

  auto client = WireClient::Connect(standby_->bootstrap());
  ASSERT_OK(client.status());
  protocol::DescribeConfigsRequest describe;
  describe.include_synonyms = true;
  auto& resource = describe.resources.emplace_back();
  resource.resource_type = protocol::kClusterMirrorConfigResource;
  resource.resource_name = "m";
  resource.configuration_keys.reset();
  const auto described = client->Call<protocol::DescribeConfigsResponse>(describe, 4);
  ASSERT_OK(described.status());
  int secrets = 0;
  for (const auto& config : described->results.at(0).configs) {
    if (config.name == "security.protocol") EXPECT_EQ(config.value, "SSL");
    if (config.config_type != 9) continue;  // a password
    ++secrets;
    EXPECT_TRUE(config.is_sensitive) << config.name;
    EXPECT_EQ(config.value, std::nullopt) << config.name;
    for (const auto& synonym : config.synonyms) EXPECT_EQ(synonym.value, std::nullopt);
  }
  EXPECT_GE(secrets, 6);
  const std::string key = Content("standby.p8");
  const std::string piece = key.substr(key.find('\n') + 1, 40);
  for (const std::string& text : {standby_->Log(), standby_->Cli({"describe", "--json"}).out,
                                  standby_->Cli({"list", "--json"}).out}) {
    EXPECT_THAT(text, Not(HasSubstr("sesame")));
    EXPECT_THAT(text, Not(HasSubstr(piece)));
  }
}

}  // namespace
}  // namespace kmirror::test
