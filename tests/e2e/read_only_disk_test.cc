// Folders that cannot be written, of one partition and of everything (S79).
//
// As root, who may write anywhere, a folder is made read-only by mounting it so; elsewhere these
// tests are skipped, and CI does not accept a skip.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "tests/e2e/faulty_source_fixture.h"
#include "tests/e2e/mount.h"

namespace kmirror::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchBytes = 100 * 1024;

class ReadOnlyDisk : public FaultySource {
 protected:
  void SetUp() override {
    if (!MayMount()) GTEST_SKIP() << "mounting needs root";
    bad_ = std::make_unique<ProxiedSource>();
    source_ = bad_->direct();
    Standby::Options options;
    // Small segments, so that appends need new files soon.
    options.properties["log.segment.bytes"] = "1048576";
    StartStandby(options);
  }

  // `paused`: the mirror is, while the source is filled.
  void FailsAloneAndGoesOn(bool paused);

  // kmirrord on the folder, which must refuse it; what it says.
  static std::string RefusedStart(const fs::path& data) {
    const RunResult run = RunProgram({KMIRROR_BINARY_DIR "/bin/kmirrord", "--dev", "--data",
                                      data.string(), "--listen", "127.0.0.1:0"},
                                     Seconds(30));
    EXPECT_TRUE(run.status && run.status->code == 1)
        << (run.status ? std::to_string(run.status->code) : "it runs") << run.out << run.err;
    return run.err;
  }
  static void ExpectClear(const std::string& said, const fs::path& data) {
    EXPECT_NE(said.find("Read-only file system"), std::string::npos) << said;
    EXPECT_NE(said.find(data.string()), std::string::npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << "one line\n" << said;
  }
};

void ReadOnlyDisk::FailsAloneAndGoesOn(bool paused) {
  bad_->CreateTopic("t", 2);
  bad_->Append("t", 60, 0);
  bad_->Append("t", 60, 1);
  StartMirror("m", *bad_, "t");
  const fs::path dir = standby_->PartitionDir("t", 0);
  int64_t end = 0;
  {
    Mount over(dir);
    ASSERT_OK(over.Tmpfs("64k"));
    ASSERT_OK(over.ReadOnly());
    // What is open can still be written; the next file cannot be made.
    if (paused) ASSERT_OK(standby_->Run({"pause", "m", "--topics", "t", "--wait", "30"}));
    for (int i = 0; i < 30; ++i) end = bad_->Append("t", kBatchBytes, 0);
    // Not waited for: it will not catch up.
    if (paused) (void)standby_->Cli({"resume", "m", "--topics", "t", "--wait", "0"});
    ASSERT_OK(standby_->AwaitState("t", "FAILED", 0));
    const auto row = standby_->Row("t", 0);
    ASSERT_OK(row.status());
    EXPECT_GE(row->retry_attempt, 1);
    EXPECT_NE(row->error_message.find("writing to the log failed"), std::string::npos)
        << row->error_message;
    EXPECT_NE(standby_->Log().find("Read-only file system"), std::string::npos);
    // The other one goes on, and this one tries again and again.
    const int64_t other = bad_->Append("t", 60, 1);
    ASSERT_TRUE(WaitUntil([&] { return StandbyEnd("t", 1) == other; })) << standby_->Log();
    ASSERT_TRUE(WaitUntil([&] {
      const auto now = standby_->Row("t", 0);
      return now.ok() && now->retry_attempt > row->retry_attempt;
    })) << row->retry_attempt
        << standby_->Log();
    EXPECT_LT(StandbyEnd("t", 0), end);
  }
  ASSERT_OK(standby_->AwaitCaughtUp("t", end, 0));
  ExpectBytesEqual("t", 0);
  ExpectBytesEqual("t", 1);
  ASSERT_OK(standby_->Stop());
}

TEST_F(ReadOnlyDisk, OnePartitionFailsAloneAndGoesOnWhenItCanBeWritten) {
  FailsAloneAndGoesOn(false);
}

// All of it comes at once: the file that cannot be made is wanted in the middle of an append, and
// what was written of that is taken back.
TEST_F(ReadOnlyDisk, AnAppendThatFailsHalfWayIsTakenBack) { FailsAloneAndGoesOn(true); }

TEST_F(ReadOnlyDisk, APartitionThatCannotBeWrittenAtTheStartHoldsUpNoOther) {
  bad_->CreateTopic("t", 2);
  bad_->Append("t", 60, 0);
  bad_->Append("t", 60, 1);
  StartMirror("m", *bad_, "t");
  ASSERT_OK(standby_->Stop());
  {
    Mount locked(standby_->PartitionDir("t", 0));
    ASSERT_OK(locked.ReadOnly());
    ASSERT_OK(standby_->Restart());
    const int64_t end = bad_->Append("t", 60, 1);
    bad_->Append("t", 60, 0);
    ASSERT_TRUE(WaitUntil([&] { return StandbyEnd("t", 1) == end; })) << standby_->Log();
    EXPECT_NE(standby_->Log().find("Read-only file system"), std::string::npos) << standby_->Log();
    ASSERT_OK(standby_->Stop());
  }
  ASSERT_OK(standby_->Restart());
  ExpectBytesEqual("t", 0);
  ExpectBytesEqual("t", 1);
  ASSERT_OK(standby_->Stop());
}

TEST_F(ReadOnlyDisk, ADataFolderThatCannotBeWrittenIsRefusedWithItsName) {
  ASSERT_OK(standby_->Stop());
  TempDir dir;
  const fs::path fresh = dir / "fresh";
  const fs::path used = dir / "used";
  fs::create_directory(fresh);
  fs::copy(standby_->data_dir(), used, fs::copy_options::recursive);
  for (const fs::path& data : {fresh, used}) {
    Mount locked(data);
    ASSERT_OK(locked.ReadOnly());
    ExpectClear(RefusedStart(data), data);
  }
  // Not even the folder can be made.
  Mount locked(dir.path());
  ASSERT_OK(locked.ReadOnly());
  ExpectClear(RefusedStart(dir / "new"), dir / "new");
}

TEST_F(ReadOnlyDisk, ADataFolderThatBecomesReadOnlyTakesNothingBack) {
  bad_->CreateTopic("t");
  int64_t end = bad_->Append("t");
  StartMirror("m", *bad_, "t");
  {
    Mount locked(standby_->data_dir());
    ASSERT_OK(locked.ReadOnly());
    for (int i = 0; i < 30; ++i) end = bad_->Append("t", kBatchBytes);
    ASSERT_TRUE(WaitUntil([&] {
      const auto row = standby_->Row("t");
      return row.ok() && !row->error_message.empty();
    })) << standby_->Log();
    EXPECT_LT(StandbyEnd("t"), end);
  }
  const int64_t shown = StandbyEnd("t");
  EXPECT_GE(shown, 1);
  ASSERT_OK(standby_->AwaitCaughtUp("t", end));
  EXPECT_GE(StandbyEnd("t"), shown);
  ExpectBytesEqual("t");
  ASSERT_OK(standby_->Stop());
}

}  // namespace
}  // namespace kmirror::test
