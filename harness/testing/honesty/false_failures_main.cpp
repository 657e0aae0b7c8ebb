// The command behind scripts/false_failures.sh: how often an honest implementation is failed.
//   false_failures [--problems N] [--top N] [--seed N] [--jobs N] [--flops MOST] [--seconds N]
//   [--impl PREFIX] [--each N] [--operation NAME] [--top-k PERCENT]
//   [--fill NAME] [--spec LINE] [PLUGIN]
// Prints a table in Markdown; exit code 1 when anything was failed, 4 when nothing was judged.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "core/operations/operation.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"
#include "testing/honesty/false_failures.hpp"

namespace attest::core::testing {
namespace {

struct Command {
  TrialOptions options;
  int64_t jobs =
      1 + int64_t(std::thread::hardware_concurrency());  // each waits for its worker now and then
  std::string plugin = ATTEST_BINARY_DIR "/tests/plugins/honest.so";
};

Command read(int count, char** words) {
  Command command;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (!word.starts_with("--")) {
      command.plugin = word;
      continue;
    }
    if (++i == count) throw Error(word + ": a value must follow");
    if (word == "--problems")
      command.options.problems = std::atoll(words[i]);
    else if (word == "--top")
      command.options.at_the_top = std::atoll(words[i]);
    else if (word == "--seed")
      command.options.seed = std::strtoull(words[i], nullptr, 10);
    else if (word == "--jobs")
      command.jobs = std::max(1ll, std::atoll(words[i]));
    else if (word == "--flops")
      command.options.limits.most_flops = std::atof(words[i]);
    else if (word == "--seconds")
      command.options.seconds = std::atof(words[i]);
    else if (word == "--spec") {
      command.options.spec = words[i];
      command.options.problems = 1;
      command.options.at_the_top = 0;
    } else if (word == "--impl")
      command.options.implementations = words[i];
    else if (word == "--each")
      command.options.each = size_t(std::max(0ll, std::atoll(words[i])));
    else if (word == "--top-k")
      command.options.limits.top_k_percent = std::atoi(words[i]);
    else if (word == "--f8")
      command.options.limits.f8_percent = std::atoi(words[i]);
    else if (word == "--operation") {
      command.options.limits.operation = words[i];
      if (!find_operation(command.options.limits.operation))
        throw Error(fmt::format("--operation: there is no operation '{}'", words[i]));
    } else if (word == "--fill")
      command.options.fill = words[i];
    else
      throw Error(word +
                  ": must be --problems, --top, --seed, --jobs, --flops, --seconds, --spec, "
                  "--impl, --each, --operation, --top-k, --f8 or --fill");
  }
  return command;
}

// One line a verdict, tabs between its words.
void write(const std::vector<FillVerdict>& verdicts, std::FILE* file) {
  for (const FillVerdict& v : verdicts)
    fmt::print(file, "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", v.implementation, v.dtype, v.fill,
               v.verdict, v.max_ratio, v.rms_ratio, v.spec, v.reason);
  std::fflush(file);
}

std::vector<FillVerdict> read_back(std::FILE* file) {
  std::vector<FillVerdict> verdicts;
  std::rewind(file);
  std::string line;
  for (int c; (c = std::fgetc(file)) != EOF;) {
    if (c != '\n') {
      line += char(c);
      continue;
    }
    std::vector<std::string> words{""};
    for (const char letter : line)
      if (letter == '\t' && words.size() < 8)
        words.emplace_back();
      else
        words.back() += letter;
    verdicts.push_back({.implementation = words[0],
                        .dtype = words[1],
                        .fill = words[2],
                        .verdict = words[3],
                        .reason = words[7],
                        .spec = words[6],
                        .max_ratio = std::atof(words[4].c_str()),
                        .rms_ratio = std::atof(words[5].c_str())});
    line.clear();
  }
  return verdicts;
}

// Each job is a process of its own, made before there are threads.
int run(const Command& command) {
  const auto start = Clock::now();
  std::vector<std::pair<pid_t, std::FILE*>> jobs;
  for (int64_t shard = 0; shard < command.jobs; ++shard) {
    std::FILE* file = std::tmpfile();
    if (!file) throw Error("no temporary file");
    const pid_t child = fork();
    if (child == 0) {
      write(judge_random_problems(command.plugin, command.options, shard, command.jobs), file);
      std::_Exit(0);
    }
    jobs.emplace_back(child, file);
  }
  std::vector<FillVerdict> all;
  bool whole = true;
  for (const auto& [child, file] : jobs) {
    int status = 0;
    waitpid(child, &status, 0);
    whole &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const std::vector<FillVerdict> part = read_back(file);
    all.insert(all.end(), part.begin(), part.end());
    std::fclose(file);
  }
  print_false_failures(all, stdout);
  fmt::print("\n{:.1f} s in {} processes, seed {}\n", seconds_since(start), command.jobs,
             command.options.seed);
  if (!whole) throw Error("a process ended early: the table is not complete");
  return exit_code(all);
}

}  // namespace
}  // namespace attest::core::testing

int main(int count, char** words) try {
  return attest::core::testing::run(attest::core::testing::read(count, words));
} catch (const std::exception& error) {
  fmt::print(stderr, "false_failures: {}\n", error.what());
  return 4;
}
