// What is written from the help of the program: completions, tried in the shells themselves, and
// manual pages, read by groff. A shell that this machine lacks is not tested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class HelpText : public testing::FolderTest {
 protected:
  HelpText() { write("sweep.pcd", "x"); }

  bool has(const std::string& program) const {
    return testing::run_shell(folder_, "command -v " + program).code == 0;
  }
  /// Runs a program on a script: `shell OPTIONS`, with attest on its path.
  Outcome run(const std::string& shell, const std::string& script) const {
    std::ofstream(folder_ / "script") << script;
    return testing::run_shell(folder_,
                              "PATH=" ATTEST_BINARY_DIR "/bin:$PATH " + shell + " ./script");
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

// What the completion of bash answers to a command line that is typed so far.
class BashCompletion : public HelpText {
 protected:
  std::vector<std::string> complete(const std::string& typed) const {
    return lines_of(run("bash", "source <(attest completion bash)\nCOMP_LINE='" + typed + R"('
COMP_POINT=${#COMP_LINE}
IFS=' ' read -ra COMP_WORDS <<<"$COMP_LINE"
[[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_attest
((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]}"
true)")
                        .text);
  }
};

TEST_F(BashCompletion, KnowsCommandsAndOptions) {
  EXPECT_THAT(complete("attest "), AllOf(Contains("run"), Contains("completion"), Contains("man")));
  EXPECT_THAT(complete("attest repl"), ElementsAre("replay"));
  EXPECT_THAT(complete("attest run --dry"), ElementsAre("--dry-run"));
  EXPECT_THAT(complete("attest doctor --dry"), IsEmpty());
}

TEST_F(BashCompletion, KnowsWhatAnOptionTakes) {
  EXPECT_THAT(complete("attest run --relations "), ElementsAre("auto", "all", "none"));
  EXPECT_THAT(complete("attest run --tokens sw"), ElementsAre("sweep.pcd"));
  EXPECT_THAT(complete("attest run --case "), IsEmpty()) << "no file is a case";
  EXPECT_THAT(complete("attest completion "), ElementsAre("bash", "zsh", "fish"));
}

TEST_F(BashCompletion, CompletesAReasonCodeAfterItsColon) {
  EXPECT_THAT(complete("attest explain fail:tol"), ElementsAre("tolerance"));
  EXPECT_THAT(complete("attest explain suspect"),
              ElementsAre("suspect:zeros", "suspect:constant", "suspect:race"));
}

TEST_F(HelpText, FishCompletes) {
  if (!has("fish")) GTEST_SKIP() << "NOT TESTED: no fish";
  const std::string text = run("fish", R"(source (attest completion fish | psub)
complete -C 'attest run --dry'
complete -C 'attest run --relations n'
complete -C 'attest run --tokens sw'
complete -C 'attest explain fail:tol'
)")
                               .text;
  EXPECT_THAT(lines_of(text), ElementsAre("--dry-run\trun nothing and write nothing",
                                          "none\tcompare runs on changed inputs", "sweep.pcd",
                                          HasSubstr("fail:tolerance")));
}

// zsh completes only at a terminal: its own module plays one. Each read waits for what must come;
// what does not come ends the script after a minute.
TEST_F(HelpText, ZshCompletes) {
  if (!has("zsh")) GTEST_SKIP() << "NOT TESTED: no zsh";
  const Outcome outcome = run("timeout 60 zsh -f", R"(zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; autoload -U compinit; compinit -u -D; source <(attest completion zsh)'
zpty -w z 'echo re""ady'
zpty -r -m z line '*ready*'
complete() {
  zpty -w -n z "$1"$'\t'
  zpty -r -m z line "*$2*" && print -r -- "$2"
  zpty -w -n z $'\x15'
}
complete 'attest repl' 'attest replay'
complete 'attest run --dry' 'run --dry-run'
complete 'attest run --relations n' '--relations none'
complete 'attest run --tokens sw' '--tokens sweep.pcd'
complete 'attest explain fail:tol' 'explain fail:tolerance'
)");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(lines_of(outcome.text),
              ElementsAre("attest replay", "run --dry-run", "--relations none",
                          "--tokens sweep.pcd", "explain fail:tolerance"));
}

TEST_F(HelpText, ManualPagesHaveNoErrors) {
  ASSERT_EQ(run("bash", "attest man -o pages").code, 0);
  size_t pages = 0;
  for (const fs::directory_entry& page : fs::directory_iterator(folder_ / "pages")) {
    ++pages;
    if (!has("groff")) continue;
    const Outcome read =
        testing::run_shell(folder_, "groff -man -Tutf8 -ww -z " + page.path().string());
    EXPECT_EQ(read.code, 0) << page.path();
    EXPECT_EQ(read.text, "") << page.path();
  }
  EXPECT_GE(pages, 13u);
  if (!has("groff")) GTEST_SKIP() << "NOT TESTED: no groff";
  const std::string text =
      testing::run_shell(folder_, "groff -man -Tascii -P-cbou pages/attest-run.1").text;
  EXPECT_THAT(text, AllOf(HasSubstr("attest-run - judge and time"), HasSubstr("--dry-run"),
                          HasSubstr("[SUITE ...]"), HasSubstr("Example: attest run")));
  EXPECT_THAT(testing::run_shell(folder_, "groff -man -Tascii -P-cbou pages/attest.1").text,
              AllOf(HasSubstr("attest-explain(1)"), HasSubstr("130"), HasSubstr("EXIT STATUS")));
}

TEST_F(HelpText, AManualPageOfNoCommandNamesTheNearest) {
  const Outcome outcome = run("bash", "attest man rum");
  EXPECT_EQ(outcome.code, 64);
  EXPECT_THAT(outcome.text, HasSubstr("no command 'rum', did you mean 'run'?"));
  EXPECT_EQ(run("bash", "attest completion tcsh").code, 64);
}

}  // namespace
}  // namespace attest::cli
