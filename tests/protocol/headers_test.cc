// Headers against Kafka's own bytes and its own table of header versions.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "src/protocol/headers.h"
#include "src/protocol/reader.h"
#include "src/protocol/writer.h"
#include "tests/protocol/golden_case.h"

namespace kmirror::protocol {
namespace {

using nlohmann::json;

TEST(Headers, VersionsAreThoseOfKafkasTable) {
  std::istringstream lines(ReadGoldenText("header-versions.csv"));
  std::string line;
  std::getline(lines, line);
  ASSERT_TRUE(line.starts_with("api,key,version,request_header_version,response_header_version"));
  size_t compared = 0;
  while (std::getline(lines, line)) {
    std::vector<std::string> columns;
    std::istringstream fields(line);
    for (std::string column; std::getline(fields, column, ',');) columns.push_back(column);
    const auto key = static_cast<int16_t>(std::stoi(columns.at(1)));
    const auto version = static_cast<int16_t>(std::stoi(columns.at(2)));
    const ApiInfo* api = FindApi(key);
    if (api == nullptr || columns.at(0) != api->name) continue;  // 94 is another API in Kafka (R17)
    EXPECT_EQ(std::stoi(columns.at(3)), RequestHeaderVersion(key, version)) << line;
    EXPECT_EQ(std::stoi(columns.at(4)), ResponseHeaderVersion(key, version)) << line;
    ++compared;
  }
  EXPECT_GT(compared, 90u);
  EXPECT_EQ(-1, RequestHeaderVersion(97, 0));
  EXPECT_EQ(-1, ResponseHeaderVersion(97, 0));
}

TEST(Headers, RequestHeadersOfKafkaDecodeAndEncode) {
  size_t compared = 0;
  std::istringstream lines(ReadGoldenText("headers.jsonl"));
  for (std::string text; std::getline(lines, text);) {
    const json line = json::parse(text);
    if (line.at("name") != "RequestHeader") continue;
    const json& values = line.at("json");
    RequestHeader expected{values.at("requestApiKey"), values.at("requestApiVersion"),
                           values.at("correlationId"), std::nullopt};
    if (!values.at("clientId").is_null()) expected.client_id = values.at("clientId");
    const std::vector<uint8_t> bytes = FromHex(line.at("body_hex"));
    Reader reader(bytes);
    RequestHeader header;
    const Status status = DecodeRequestHeader(reader, &header);
    EXPECT_EQ(expected, header) << text;
    // The golden headers carry keys at random: only where we have the API, and agree with the line
    // on the header version, is the rest known.
    if (RequestHeaderVersion(header.api_key, header.api_version) != line.at("version")) continue;
    ASSERT_TRUE(status.ok()) << text << status.ToString();
    EXPECT_EQ(0u, reader.remaining()) << text;
    if (line.at("variant") == "unknown_tags") continue;  // which are not kept
    Writer writer;
    ASSERT_TRUE(EncodeRequestHeader(header, writer).ok());
    EXPECT_EQ(ToHex(bytes), ToHex(writer.Flatten())) << text;
    ++compared;
  }
  EXPECT_GE(compared, 1u);
}

TEST(Headers, ResponseHeadersOfKafkaDecodeAndEncode) {
  size_t compared = 0;
  std::istringstream lines(ReadGoldenText("headers.jsonl"));
  for (std::string text; std::getline(lines, text);) {
    const json line = json::parse(text);
    if (line.at("name") != "ResponseHeader") continue;
    const std::vector<uint8_t> bytes = FromHex(line.at("body_hex"));
    const int16_t version = line.at("version");
    Reader reader(bytes);
    int32_t correlation_id = 0;
    ASSERT_TRUE(DecodeResponseHeader(reader, version, &correlation_id).ok()) << text;
    EXPECT_EQ(line.at("json").at("correlationId"), correlation_id) << text;
    EXPECT_EQ(0u, reader.remaining()) << text;
    if (line.at("variant") == "unknown_tags") continue;  // which are not kept
    Writer writer;
    EncodeResponseHeader(version, correlation_id, writer);
    EXPECT_EQ(ToHex(bytes), ToHex(writer.Flatten())) << text;
    ++compared;
  }
  EXPECT_GE(compared, 2u);
}

TEST(Headers, ATooNewApiVersionsRequestGivesItsCorrelationId) {
  // v6 does not exist; its header is that of the newest flexible version.
  const std::vector<uint8_t> bytes = FromHex("00120006000000070006676f6c64656e00");
  Reader reader(bytes);
  RequestHeader header;
  ASSERT_TRUE(DecodeRequestHeader(reader, &header).ok());
  EXPECT_EQ((RequestHeader{18, 6, 7, "golden"}), header);
  EXPECT_EQ(0u, reader.remaining());
}

TEST(Headers, AnUnknownKeyStillGivesKeyVersionAndCorrelationId) {
  const std::vector<uint8_t> bytes = FromHex("03e700010000000900016100");
  Reader reader(bytes);
  RequestHeader header;
  ASSERT_TRUE(DecodeRequestHeader(reader, &header).ok());
  EXPECT_EQ((RequestHeader{999, 1, 9, "a"}), header);
  Writer writer;
  EXPECT_EQ(ErrorCode::kInvalidRequest, EncodeRequestHeader(header, writer).code());
}

}  // namespace
}  // namespace kmirror::protocol
