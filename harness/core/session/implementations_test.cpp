// Which implementations a session judges: those that are found, named, and called so.
#include "core/session/implementations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/measure/machine/affinity.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
namespace fs = std::filesystem;

const fs::path kNaive = fs::path(ATTEST_BINARY_DIR) / "plugins/naive.so";

std::vector<std::string> chosen_names(const Implementations& all) {
  std::vector<std::string> names;
  for (const Registry::Entry& entry : all.chosen()) names.push_back(entry.implementation->name);
  return names;
}

class ChosenImplementations : public ::testing::Test {
 protected:
  ChosenImplementations() {
    fs::create_directories(folder_);
    fs::copy_file(kNaive, mine_);
  }
  ~ChosenImplementations() override { fs::remove_all(folder_); }

  std::string why_not(const Selection& selection) const {
    try {
      const Implementations all(selection, limits_);
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  }

  const Limits limits_{.threads = 1};
  const fs::path folder_ = fs::path(::testing::TempDir()) /
                           ("implementations_" + std::to_string(getpid())),
                 mine_ = folder_ / "mine.so";
};

TEST(Limits, HaveAsManyThreadsAsCpusUnlessTheyAreNamed) {
  EXPECT_EQ(settle({.threads = 0}).threads, int32_t(allowed_cpus().size()));
  EXPECT_EQ(settle({.threads = 3}).threads, 3);
  EXPECT_EQ(settle({.threads = 0, .timeout_s = 7}).timeout_s, 7);
  EXPECT_EQ(settle({.budget_s = 0.5}).budget_ns(), 0.5e9);
}

TEST_F(ChosenImplementations, AreThoseThatAGlobMatches) {
  const Implementations all({.globs = {"nai?e"}}, limits_);
  EXPECT_THAT(chosen_names(all), ElementsAre("naive"));
  EXPECT_GE(all.registry().entries().size(), all.chosen().size());
  EXPECT_EQ(all.name_width(), 14u) << "as wide as the titles of other columns";
  EXPECT_THAT(all.warnings(), IsEmpty());
  EXPECT_THAT(all.shared_names(), IsEmpty());
  EXPECT_EQ(std::ranges::count(all.cpus(), ','), 0) << "one thread has one CPU";
}

TEST_F(ChosenImplementations, AreAnErrorWhereAGlobMatchesNone) {
  EXPECT_THAT(why_not({.globs = {"naive", "nave"}}), StartsWith("--impl nave: matches none of: "));
  EXPECT_THAT(why_not({.globs = {"zzz"}, .option = "--relative-to"}),
              StartsWith("--relative-to zzz: "));
  EXPECT_THAT(why_not({.with_found = false}),
              HasSubstr("no implementation found; name a library with --plugin"));
}

// Those of attest keep their names. Those that the user names come first.
TEST_F(ChosenImplementations, OfOneNameAreToldApart) {
  const Implementations all({.plugins = {mine_}, .globs = {"naive"}}, limits_);
  EXPECT_THAT(chosen_names(all), ElementsAre("naive@mine.so", "naive"));
  EXPECT_THAT(all.warnings(),
              ElementsAre("2 implementations are called naive: naive@mine.so is that of mine.so, "
                          "naive is that of naive.so; --impl naive takes all of them"));
  EXPECT_THAT(all.shared_names(), ElementsAre(Pair("naive", "naive of naive.so"),
                                              Pair("naive@mine.so", "naive of mine.so")));
  for (const char* one : {"naive@mine.so", "naive@naive.so"})
    EXPECT_EQ(Implementations({.plugins = {mine_}, .globs = {one}}, limits_).chosen().size(), 1u)
        << one;
}

TEST_F(ChosenImplementations, OfNamedPluginsAloneWhereNoGlobSaysOtherwise) {
  const Implementations named({.plugins = {mine_}, .only_named = true}, limits_);
  EXPECT_THAT(chosen_names(named), ElementsAre("naive@mine.so"));
  EXPECT_THAT(chosen_names(Implementations(
                  {.plugins = {mine_}, .globs = {"naive"}, .only_named = true}, limits_)),
              ElementsAre("naive@mine.so", "naive"));
  EXPECT_THAT(chosen_names(Implementations({.plugins = {mine_}}, limits_)),
              AllOf(Contains("naive"), Contains("naive@mine.so")));
}

TEST_F(ChosenImplementations, AreAnErrorWhereANamedPluginDoesNotLoad) {
  const fs::path poem = folder_ / "poem.so";
  std::ofstream(poem) << "roses";
  EXPECT_THAT(why_not({.plugins = {poem}, .globs = {"naive"}}), HasSubstr("poem.so"));
}

// One that merely lies where plugins are looked for must not stop a run.
TEST_F(ChosenImplementations, AreWarnedOfWhereAFoundPluginDoesNotLoad) {
  std::ofstream(folder_ / "poem.so") << "roses";
  fs::remove(mine_);
  setenv("ATTEST_PLUGIN_PATH", folder_.c_str(), 1);
  const Implementations all({.globs = {"naive"}}, limits_);
  unsetenv("ATTEST_PLUGIN_PATH");
  EXPECT_THAT(chosen_names(all), ElementsAre("naive"));
  EXPECT_THAT(all.warnings(), ElementsAre(HasSubstr("poem.so")));
}

}  // namespace
}  // namespace attest::core
