// Runs honest implementations on random problems through the whole harness, and counts what is
// failed without a reason.
//
//   const auto verdicts = judge_random_problems("honest.so", {.problems = 1000}, 0, 1);
//   print_false_failures(verdicts, stdout);  // Markdown: both ratios by implementation and dtype
#pragma once
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "testing/honesty/random_problem.hpp"

namespace attest::core::testing {

struct TrialOptions {
  uint64_t seed = 1;
  int64_t problems = 1000;  // drawn from `limits`
  int64_t at_the_top = 20;  // more, with as many keys and flops as `limits` has at most
  ProblemLimits limits;
  double seconds = 1e9;         // no problem is begun after so long
  std::string spec;             // this problem alone, in place of random ones
  std::string implementations;  // only those whose names begin with this
  size_t each = 0;              // implementations a problem, drawn from the seed; 0: all
  std::string inputs;           // tokens, as in a suite: "image:width=224,..."; empty: none
  std::string fill;             // this one alone, or "all"; empty: those that judge by default
  bool relations = true;        // one problem in four is asked for them too
};

/// One implementation on one problem and fill.
struct FillVerdict {
  std::string implementation, dtype, fill, verdict, reason, spec;
  double max_ratio = 0, rms_ratio = 0;
  bool pass() const { return verdict == "pass"; }
  bool tried() const { return verdict != "unsupported" && verdict != "skipped"; }
};

/// Problems with index % shards == shard, each on every implementation of the plugin that takes it
/// and every fill that it has; some are asked for the relations between runs too. A verdict other
/// than pass ends the fills of its implementation and problem; "unsupported" has an entry without a
/// fill.
std::vector<FillVerdict> judge_random_problems(const std::filesystem::path& plugin,
                                               const TrialOptions& options, int64_t shard,
                                               int64_t shards);

/// Counts and quantiles of both ratios by implementation; by what they declare, where names are
/// "prob_f16__first__tiles": then every verdict that is neither pass nor unsupported, with its spec
/// line.
void print_false_failures(const std::vector<FillVerdict>& verdicts, std::FILE* out);
/// How many were tried and do not pass.
int64_t count_false_failures(const std::vector<FillVerdict>& verdicts);
/// The command's exit code: 0; 1 with a false failure; 4 where nothing was judged.
int exit_code(const std::vector<FillVerdict>& verdicts);

}  // namespace attest::core::testing
