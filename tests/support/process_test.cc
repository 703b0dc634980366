#include "tests/support/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "tests/support/free_port.h"
#include "tests/support/temp_dir.h"

namespace kmirror::test {
namespace {

TEST(Process, RunsToItsEndAndKeepsBothOutputs) {
  const RunResult run = RunProgram({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(run.status.has_value());
  EXPECT_EQ(run.status->code, 3);
  EXPECT_EQ(run.out, "out\n");
  EXPECT_EQ(run.err, "err\n");
}

TEST(Process, SaysWhyAProgramCannotBeRun) {
  const RunResult run = RunProgram({"no-such-program"});
  ASSERT_TRUE(run.status.has_value());
  EXPECT_EQ(run.status->code, 127);
  EXPECT_NE(run.err.find("no-such-program: No such file"), std::string::npos) << run.err;
}

TEST(Process, WaitsForALineAndPassesOverThoseBefore) {
  Process process({"sh", "-c", "echo starting; echo ready 1; echo ready 2; exec cat"});
  EXPECT_EQ(process.WaitForLine("^ready"), "ready 1");
  EXPECT_EQ(process.WaitForLine("^ready"), "ready 2");
  EXPECT_TRUE(process.Running());
}

TEST(Process, GivesUpWaitingForALineWhenTheOutputEnds) {
  Process process({"echo", "other"});
  EXPECT_EQ(process.WaitForLine("^ready", Seconds(60)), std::nullopt);
}

TEST(Process, ReadsItsInputAndEnvironment) {
  Process process({"sh", "-c", "cat; echo $GREETING"}, {{"GREETING", "hello"}});
  process.WriteInput("typed\n");
  ASSERT_TRUE(process.Wait().has_value());
  EXPECT_EQ(process.out(), "typed\nhello\n");
}

TEST(Process, ReportsTheSignalThatEndedIt) {
  Process process({"cat"});
  process.Kill();
  const std::optional<ExitStatus> status = process.Wait();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->signal, SIGKILL);
  EXPECT_FALSE(status->Success());
  EXPECT_FALSE(process.Running());
}

TEST(Process, IsGoneWhenTheObjectIs) {
  pid_t pid;
  {
    Process process({"cat"});
    pid = process.pid();
    ASSERT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(Process, ReadsMoreThanAPipeHolds) {
  const RunResult run = RunProgram({"head", "-c", "3000000", "/dev/zero"});
  EXPECT_EQ(run.out.size(), 3000000u);
}

TEST(TempDir, IsGoneWithAllItHolds) {
  std::filesystem::path path;
  {
    const TempDir dir;
    path = dir.path();
    std::filesystem::create_directories(dir / "a" / "b");
    std::ofstream(dir / "a" / "file") << "text";
    ASSERT_TRUE(std::filesystem::exists(dir / "a" / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FreePort, NeverGivesOnePortTwice) {
  const uint16_t first = FreePort();
  EXPECT_NE(first, FreePort());
  EXPECT_GE(first, 1024);
}

}  // namespace
}  // namespace kmirror::test
