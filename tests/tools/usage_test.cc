// The program itself: how it reads its arguments, and the exit codes that scripts rely on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace {

struct Ran {
  int code = -1;
  std::string text;  // stdout and stderr
};

Ran Kmirror(const std::string& arguments) {
  Ran ran;
  const std::string command =
      "env -u KMIRROR_BOOTSTRAP " KMIRROR_BINARY_DIR "/bin/kmirror " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  char buffer[4096];
  for (size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ran.text.append(buffer, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.code = WEXITSTATUS(status);
  return ran;
}

constexpr char kNobody[] = "--bootstrap-server 127.0.0.1:1 ";

TEST(Usage, WrongArgumentsAreCodeTwo) {
  for (const char* arguments : {
           "",
           "nonsense",
           "list",                                     // no verb, no such verb, no destination
           "--bootstrap-server 127.0.0.1:1 create",    // no name
           "--bootstrap-server 127.0.0.1:1 create m",  // no source
           "--bootstrap-server 127.0.0.1:1 start m",   // no topics
           "--bootstrap-server 127.0.0.1:1 start m --topics a --all",
           "--bootstrap-server 127.0.0.1:1 start m --topics ,",
           "--bootstrap-server 127.0.0.1:1 stop m --topics ''",  // an unset variable
           "--bootstrap-server 127.0.0.1:1 stop m --all --wait soon",
           "--bootstrap-server 127.0.0.1:1 stop m --all --wait -1",
           "--bootstrap-server 127.0.0.1:1 stop m --all --discard-local",
           "--bootstrap-server 127.0.0.1 list",  // no port
           "--bootstrap-server 127.0.0.1:1 list extra",
           "api-versions 127.0.0.1",
       }) {
    EXPECT_EQ(Kmirror(arguments).code, 2) << arguments;
  }
}

TEST(Usage, AVerbThatDoesNotExistIsNamed) {
  EXPECT_THAT(Kmirror("--bootstrap-server 127.0.0.1:1 strat m --all").text,
              testing::HasSubstr("\"strat\""));
}

TEST(Usage, HelpAndVersionAreNoErrors) {
  for (const char* arguments : {"--help", "--version", "start --help"}) {
    const Ran ran = Kmirror(arguments);
    EXPECT_EQ(ran.code, 0) << arguments;
    EXPECT_FALSE(ran.text.empty()) << arguments;
  }
}

TEST(Usage, TheDestinationMayStandBeforeOrAfterTheVerbOrInTheEnvironment) {
  for (const std::string& arguments :
       {std::string(kNobody) + "list", std::string("list ") + kNobody,
        std::string("list; KMIRROR_BOOTSTRAP=127.0.0.1:1 " KMIRROR_BINARY_DIR
                    "/bin/kmirror list")}) {
    const Ran ran = Kmirror(arguments);
    EXPECT_EQ(ran.code, 1) << arguments;
    EXPECT_THAT(ran.text, testing::HasSubstr("127.0.0.1:1")) << arguments;
  }
}

}  // namespace
