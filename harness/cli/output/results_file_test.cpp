// The results file keeps what was written, whatever happens, and replaces nothing unasked.
#include "cli/output/results_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// No file may become larger while this exists.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

class ResultsFiles : public ::testing::Test {
 protected:
  ResultsFiles() { fs::create_directories(folder_); }
  ~ResultsFiles() override { fs::remove_all(folder_); }

  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_, std::ios::binary).rdbuf();
    return all.str();
  }
  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  // The message of the error, which is of the machine or of the user.
  template <class Expected>
  static std::string message(const std::function<void()>& action) {
    try {
      action();
    } catch (const Expected& error) {
      return error.what();
    }
    return "no error";
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("results_" + std::to_string(getpid()));
  const std::string path_ = (folder_ / "r.jsonl").string();
};

TEST_F(ResultsFiles, HaveEachLineAsSoonAsItIsWritten) {
  ResultsFile file(path_);
  file.write({{"a", 1}});
  EXPECT_EQ(text(), "{\"a\":1}\n");
  file.write({{"b", "\xff"}});
  EXPECT_EQ(text(), "{\"a\":1}\n{\"b\":\"\xef\xbf\xbd\"}\n") << "what is no UTF-8 is replaced";
}

TEST_F(ResultsFiles, KeepWhatARunThatWasCutShortHasWritten) {
  put("{\"a\":1}\n{\"torn");
  {
    ResultsFile file(path_, 8);
    EXPECT_EQ(text(), "{\"a\":1}\n");
    file.write({{"b", 2}});
  }
  EXPECT_EQ(text(), "{\"a\":1}\n{\"b\":2}\n");
  ResultsFile anew(path_);
  EXPECT_EQ(text(), "");
}

TEST_F(ResultsFiles, HaveOneWriter) {
  std::optional<ResultsFile> first(path_);
  first->write({{"a", 1}});
  EXPECT_THAT(message<core::MachineError>([&] { ResultsFile second(path_); }),
              HasSubstr("r.jsonl: another attest writes to it"));
  EXPECT_EQ(text(), "{\"a\":1}\n") << "the second did not cut it";
  const ResultsFile moved(std::move(*first));
  first.reset();
  EXPECT_THAT(message<core::MachineError>([&] { ResultsFile second(path_); }),
              HasSubstr("another attest writes to it"))
      << "the lock moves with the file";
}

TEST_F(ResultsFiles, AreFreeAgainWhenTheirWriterIsGone) {
  {
    ResultsFile first(path_);
  }
  EXPECT_EQ(message<core::MachineError>([&] { ResultsFile second(path_); }), "no error");
}

TEST_F(ResultsFiles, HaveWholeLinesAloneWhenTheDiskIsFull) {
  ResultsFile file(path_);
  file.write({{"a", 1}});
  {
    const SizeLimit limit(20);
    EXPECT_THAT(message<core::MachineError>([&] { file.write({{"long", std::string(40, 'x')}}); }),
                AllOf(HasSubstr("r.jsonl: File too large"), HasSubstr("lines before are kept")));
    EXPECT_EQ(text(), "{\"a\":1}\n");
    file.write({{"b", 2}});
  }
  EXPECT_EQ(text(), "{\"a\":1}\n{\"b\":2}\n");
}

TEST_F(ResultsFiles, SayWhyTheyCannotBeWritten) {
  EXPECT_THAT(message<core::MachineError>([&] { ResultsFile file(folder_.string()); }),
              HasSubstr("cannot be written: Is a directory"));
  EXPECT_THAT(message<core::MachineError>([&] { ResultsFile((folder_ / "no/r.jsonl").string()); }),
              HasSubstr("cannot be written: No such file or directory"));
  ResultsFile full("/dev/full");
  EXPECT_THAT(message<core::MachineError>([&] { full.write({{"a", 1}}); }),
              HasSubstr("/dev/full: No space left on device"));
  ResultsFile none("");
  none.write({{"a", 1}});
}

TEST_F(ResultsFiles, AreNotReplacedUnasked) {
  refuse_to_replace("");
  refuse_to_replace(path_);
  refuse_to_replace("/dev/null");
  put("");
  refuse_to_replace(path_);
  refuse_to_replace_table(path_);
  put("roses\n");
  EXPECT_THAT(message<core::Error>([&] { refuse_to_replace(path_); }),
              HasSubstr("holds something that is no results"));
  EXPECT_THAT(message<core::Error>([&] { refuse_to_replace_table(path_); }),
              HasSubstr("--table " + path_ + ": the file exists"));
  core::Record record;
  record.impl = "naive";
  put(to_json(core::Header{}).dump() + "\n" + to_json(record).dump() + "\n");
  EXPECT_THAT(
      message<core::Error>([&] { refuse_to_replace(path_); }),
      HasSubstr("holds 1 results; --overwrite replaces the file, --resume " + path_ + " goes on"));
  EXPECT_EQ(read_one(path_).records.size(), 1u);
}

TEST_F(ResultsFiles, WithoutAHeaderAreNone) {
  put("");
  EXPECT_THAT(message<core::Error>([&] { read_one(path_); }), HasSubstr("holds no results"));
}

TEST_F(ResultsFiles, NeedThePeerThatTimesAreRelativeToAndAnother) {
  core::Results naive, flash;
  naive.records.resize(1);
  naive.records[0].impl = "naive";
  flash.records.resize(1);
  flash.records[0].impl = "flash";
  require_peer({naive}, {flash}, "");
  require_peer({naive}, {flash}, "naive");
  EXPECT_THAT(message<core::Error>([&] { require_peer({naive}, {flash}, "nave"); }),
              HasSubstr("--relative-to 'nave': no file has records of it"));
  EXPECT_THAT(message<core::Error>([&] { require_peer({naive}, {naive}, "naive"); }),
              HasSubstr("no file has records of another"));
  EXPECT_THAT(message<core::Error>([&] { require_peer({naive}, {flash}, "roofline"); }),
              HasSubstr("no record has it"));
  flash.records[0].roofline.emplace();
  require_peer({naive}, {flash}, "roofline");
}

}  // namespace
}  // namespace attest::cli
