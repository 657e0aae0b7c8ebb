// Results files are read back: whole ones, torn ones; and what is none is named, with its line.
#include "core/record/results.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

class ResultsRead : public ::testing::Test {
 protected:
  ResultsRead()
      : path_(::testing::TempDir() + "attest_results_" + std::to_string(getpid()) + ".jsonl") {}
  ~ResultsRead() override { std::filesystem::remove(path_); }

  Results read(const std::string& text) const {
    std::ofstream(path_) << text;
    return read_results(path_);
  }
  std::string error(const std::string& text) const {
    try {
      read(text);
    } catch (const Error& error) {
      return std::string(error.what()).substr(path_.size());
    }
    return "none";
  }
  static std::string line(const nlohmann::json& json) { return json.dump() + "\n"; }

  const std::string path_;
  const std::string header_ =
      line(to_json(Header{"attest run", "2026-01-01T00:00:00Z", {{"cpu", {{"model", "x"}}}}}));
  const std::string record_ =
      line(to_json(Record{.suite = "vit", .case_name = "a", .impl = "mine"}));
  const std::string end_ = line(to_json(Closing::of({}, "2026-01-01T00:00:01Z")));
};

TEST_F(ResultsRead, WholeFiles) {
  const Results results = read(header_ + record_ + record_ + end_);
  EXPECT_TRUE(results.begun && results.complete);
  EXPECT_EQ(results.header.environment.at("cpu").at("model"), "x");
  EXPECT_EQ(results.header.started, "2026-01-01T00:00:00Z");
  ASSERT_EQ(results.records.size(), 2u);
  EXPECT_EQ(results.records[1].impl, "mine");
  EXPECT_EQ(results.bytes, header_.size() + 2 * record_.size() + end_.size());
}

TEST_F(ResultsRead, NewerSchemasAreRefused) {
  nlohmann::json header = nlohmann::json::parse(header_);
  for (const nlohmann::json& schema : {nlohmann::json(kSchemaVersion + 1), nlohmann::json("1.5")}) {
    header["schema"] = schema;
    EXPECT_EQ(error(line(header)),
              ": line 1: is of schema " + schema.dump() +
                  "; this attest reads schemas up to 1: use the attest that wrote the file, or a "
                  "newer one");
  }
}

TEST_F(ResultsRead, ASchemaThatNeverWasIsNoNewerOne) {
  nlohmann::json header = nlohmann::json::parse(header_);
  for (const int schema : {0, -1}) {
    header["schema"] = schema;
    EXPECT_EQ(error(line(header)),
              ": line 1: is of schema " + std::to_string(schema) +
                  ", which no attest has written: schemas are numbered from 1 on. The line is "
                  "damaged, or another program wrote it");
  }
}

TEST_F(ResultsRead, AReasonCodeOfANewerAttestKeepsItsVerdict) {
  nlohmann::json record = nlohmann::json::parse(record_);
  record["code"] = "fail:later";
  EXPECT_EQ(error(header_ + line(record)),
            ": line 2: record: verdict 'error' with reason code 'fail:later'");
  record["verdict"] = "fail";
  const Results results = read(header_ + line(record));
  ASSERT_EQ(results.records.size(), 1u);
  EXPECT_EQ(results.records[0].outcome.verdict(), Verdict::kFail);
  EXPECT_EQ(to_json(results.records[0]), record);
}

// Lines that were written before the race was seen are read as those after it.
TEST_F(ResultsRead, PassesBesideARaceAreSuspect) {
  Record before{.suite = "vit", .case_name = "a", .impl = "mine"}, race = before;
  before.outcome = {};
  race.fills.push_back({.fill = "random", .reruns = RerunRecord{.runs = 1, .apart = true}});
  const Results results = read(header_ + line(to_json(before)) + line(to_json(race)));
  EXPECT_EQ(results.records.at(0).outcome.code, ReasonCode::kSuspectRace);
}

TEST_F(ResultsRead, TheClosingLineIsKept) {
  Closing closing = Closing::of({}, "2026-01-01T00:00:01Z");
  closing.never_judged = {{"mine", {"VARLEN"}}};
  closing.races = {{"mine", "a rerun of a gave other outputs"}};
  const Results results = read(header_ + line(to_json(closing)));
  EXPECT_EQ(to_json(results.closing), to_json(closing));
}

TEST_F(ResultsRead, APictureOfTokensIsKeptOnce) {
  TokenPicture picture{
      .inputs = "lidar:curve=z", .tokens = 1, .cell_metres = 0.5, .cells = {"00  "}};
  const std::string first = line(to_json(picture));
  picture.tokens = 2;  // of a run that was resumed
  const Results results = read(header_ + first + record_ + line(to_json(picture)) + record_);
  ASSERT_EQ(results.tokens.size(), 1u);
  EXPECT_EQ(line(to_json(results.tokens.at("lidar:curve=z"))), first);
  EXPECT_EQ(results.records.size(), 2u);
}

TEST_F(ResultsRead, ATornLineDoesNotCount) {
  const Results results = read(header_ + record_ + record_.substr(0, record_.size() / 2));
  EXPECT_FALSE(results.complete);
  EXPECT_EQ(results.records.size(), 1u);
  EXPECT_EQ(results.bytes, header_.size() + record_.size());
  EXPECT_EQ(read(header_ + record_.substr(0, record_.size() - 1)).records.size(),
            0u);  // whole, but for the end of the line
  EXPECT_FALSE(read("").begun);
  EXPECT_FALSE(read(header_.substr(0, 20)).begun);
}

TEST_F(ResultsRead, WhatIsNoResultsFileIsNamed) {
  EXPECT_EQ(error("a poem\nof two lines\n"), ": line 1 is no line of results; name another file");
  EXPECT_EQ(error("a poem"), ": holds no results; name another file");
  EXPECT_EQ(error(record_), ": line 1: is no header of results");
  EXPECT_EQ(error(header_ + "{}\n"), ": line 2 is no line of results; name another file");
  EXPECT_EQ(error(header_ + record_.substr(0, 30) + "\n" + record_),
            ": line 2 is no line of results; name another file");
  EXPECT_EQ(error(header_ + "{\"type\": \"result\"}\n"),
            ": line 2: record: key 'suite' is missing");
  EXPECT_EQ(error(header_ + record_ + end_ + header_),
            ": line 4: begins another run; give each run as a file of its own");
  EXPECT_THROW(read_results(path_ + ".none"), Error);
  EXPECT_THROW(read_results(::testing::TempDir()), Error);
}

}  // namespace
}  // namespace attest::core
