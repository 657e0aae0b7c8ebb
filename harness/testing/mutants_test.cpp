// Planted bugs never pass, at any size; the healthy kernel that they are planted in always does.
//
// A mutant is equivalent where it refuses the problem because its bug changes nothing there (a causal bound where nothing is
// causal), or where it writes the healthy kernel's very bytes on every fill. Everything else has to be caught.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <ostream>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"

namespace attest::core {
namespace {

struct Size {
  int64_t tokens;
  const char* dtypes[3];
};

void PrintTo(const Size& size, std::ostream* out) { *out << size.tokens << " tokens"; }

// Nine kernels in one plugin: the healthy one comes first.
class Mutants : public ::testing::TestWithParam<Size> {
 protected:
  Mutants()
      : plugin_(ATTEST_BINARY_DIR "/tests/plugins/mutants.so",
                {.executable = find_worker(), .cpus = "", .threads = 1, .timeout_s = 60}) {
    options_.timed = false, options_.case_limit_s = 1e6;  // slow machines too
  }

  std::map<std::string, std::string> hashes(const Record& record) {
    std::map<std::string, std::string> found;
    for (const FillRecord& fill : record.fills) found[fill.fill] = fill.outputs_hash;
    return found;
  }

  void try_case(const std::string& spec) {
    const Problem problem = parse_problem(spec);
    CaseRunner runner(problem, print_problem(problem), {"mutants", spec, "random", ""}, nullptr, options_, rates_);
    const auto& all = plugin_.implementations();
    ASSERT_EQ(all.size(), 9u);
    const Record healthy = runner.run(plugin_, all[0]);
    ASSERT_EQ(healthy.verdict, Verdict::kPass) << spec << ": " << healthy.reason;
    EXPECT_GE(healthy.fills.size(), 3u);
    for (size_t i = 1; i < all.size(); ++i) {
      const Record mutant = runner.run(plugin_, all[i]);
      const bool refuses = mutant.code == "unsupported:query" && mutant.reason.find("nothing is wrong here") != std::string::npos;
      const bool equivalent = refuses || (mutant.verdict == Verdict::kPass && hashes(mutant) == hashes(healthy));
      EXPECT_TRUE(equivalent || mutant.verdict == Verdict::kFail || mutant.verdict == Verdict::kSuspect)
          << all[i].name << " is " << name(mutant.verdict) << " (" << mutant.reason << ") on " << spec << ": worst "
          << mutant.max_ratio << ", rms " << mutant.rms_ratio;
      ++(equivalent ? equivalent_ : caught_);
    }
  }

  RunOptions options_;
  Rates rates_;
  Plugin plugin_;
  int caught_ = 0, equivalent_ = 0;
};

TEST_P(Mutants, NeverPass) {
  const int64_t tokens = GetParam().tokens, queries = tokens > 16000 ? 515 : tokens;
  for (const char* dtype : GetParam().dtypes) {
    if (!dtype) continue;
    for (const char* diagonal : {"", " window_right=0 diagonal=1"})
      try_case("softmax dtype=" + std::string(dtype) + " num_heads=2 seq_len_q=" + std::to_string(queries) +
               " seq_len_kv=" + std::to_string(tokens) + " head_dim=64" + diagonal);
  }
  std::printf("%lld tokens: %d caught, %d equivalent\n", static_cast<long long>(tokens), caught_, equivalent_);
  EXPECT_GE(caught_, equivalent_ * 2) << "a mutant that does nothing proves nothing";
}

INSTANTIATE_TEST_SUITE_P(Sizes, Mutants,
                         ::testing::Values(Size{61, {"f32", "f16", "bf16"}}, Size{197, {"f32", "f16", "bf16"}},
                                           Size{4099, {"f32", "f16", "bf16"}}, Size{65551, {"f32", "f16", "bf16"}}),
                         [](const auto& size) { return std::to_string(size.param.tokens) + "_tokens"; });

}  // namespace
}  // namespace attest::core
