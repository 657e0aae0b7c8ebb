// Loading plugins: the good ones, and one clear line for each kind of bad one.
#include "core/run/plugins/plugin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/problem/spec.hpp"
#include "core/run/plugins/isolation_cost.hpp"
#include "core/run/plugins/registry.hpp"
#include "core/tensor/error.hpp"
#include "testing/scale_operation.hpp"
#include "testing/shell.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

const std::string kPlugins = ATTEST_BINARY_DIR "/tests/plugins/";
WorkerOptions worker() {
  return {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 5}};
}

std::string load_error(const std::string& path) {
  try {
    Plugin plugin(path, worker());
    plugin.implementations();
    return "loaded";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Plugin, ReadsEveryTable) {
  Plugin plugin(kPlugins + "scale.so", worker());
  const auto& implementations = plugin.implementations();
  ASSERT_EQ(implementations.size(), 17u);
  EXPECT_EQ(implementations[0].name, "scale_right");
  EXPECT_EQ(implementations[0].operation, ATTEST_PRIVATE);
  EXPECT_EQ(implementations[0].plugin, "scale.so");
  EXPECT_NE(implementations[0].binary_hash, 0u);
  EXPECT_EQ(implementations[1].table, 1u);
}

// A worker starts for every plugin, and for many a check (highway_load.cpp).
TEST(Plugin, ItsWorkerLoadsHighwayWithoutMeasuringTheTimer) {
  const testing::Outcome loaded = testing::run_shell(
      "/tmp", "LD_DEBUG=bindings " + find_worker().string() + " 2>&1 | grep TimerResolution");
  if (loaded.code != 0) GTEST_SKIP() << "this Highway measures no timer when it is loaded";
  EXPECT_THAT(loaded.text, HasSubstr("attest-worker [0]: normal symbol"));
}

TEST(Plugin, AWorkerThatIsDismissedEndsByItself) {
  Worker dismissed(kPlugins + "scale.so", worker()), other(kPlugins + "scale.so", worker());
  dismissed.dismiss();
  EXPECT_TRUE(dismissed.ended(20));
  EXPECT_FALSE(other.ended(0));
  EXPECT_EQ(dismissed.end(), 0);
}

TEST(Plugin, SaysWhatIsWrongWithALibrary) {
  EXPECT_THAT(load_error("/nowhere/x.so"), HasSubstr("no such plugin file"));
  const std::string text = ::testing::TempDir() + "/text.so";
  std::ofstream(text) << "not a library\n";
  EXPECT_THAT(load_error(text), HasSubstr("text.so: not a loadable library"));
  EXPECT_THAT(
      load_error(kPlugins + "broken/version_two.so"),
      HasSubstr(
          "version_two.so: exports attest_plugin_v2 where this harness reads attest_plugin_v1"));
  EXPECT_THAT(load_error(kPlugins + "broken/no_symbol.so"),
              HasSubstr("no_symbol.so: exports no attest_plugin_v1"));
  EXPECT_THAT(load_error(kPlugins + "broken/short_table.so"), HasSubstr("struct_size is"));
  EXPECT_THAT(load_error(kPlugins + "broken/null_run.so"), HasSubstr("run is NULL"));
  EXPECT_THAT(load_error(kPlugins + "broken/no_tables.so"), HasSubstr("no implementation in it"));
}

TEST(Plugin, ARegistryGoesOnWithoutABadOne) {
  const std::string text = ::testing::TempDir() + "/other.so";
  std::ofstream(text) << "not a library\n";
  const Registry registry({text, kPlugins + "scale.so", kPlugins + "scale.so"}, {}, worker());
  EXPECT_EQ(registry.entries().size(), 17u);
  ASSERT_EQ(registry.warnings().size(), 1u);
  EXPECT_THROW(Registry({}, {text}, worker()), Error);
}

TEST(Plugin, SaysWhatAProcessOfItsOwnCosts) {
  const IsolationCost cost =
      measure_isolation(kPlugins + "scale.so", 0, attest::testing::scale_problem(4, 4), worker());
  EXPECT_GT(cost.start_ns, cost.query_ns);
  EXPECT_GT(cost.run_ns, 0);
}

TEST(Plugin, TheHostRefusesWhatATableDoesNotList) {
  Implementation implementation{.operation = ATTEST_SOFTMAX,
                                .dtypes = ATTEST_BIT(ATTEST_F32),
                                .features = ATTEST_WITH_CAUSAL};
  EXPECT_EQ(refuses(implementation, attest::testing::scale_problem(2, 2)),
            "is not an implementation of scale");
  EXPECT_EQ(print_dtypes(ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_F8E4M3)), "f16,f8e4m3");
  Problem problem = blank_problem(*find_operation("softmax"), ATTEST_F32);
  problem.as<attest_softmax_params>().seq_len_q = 8;
  problem.as<attest_softmax_params>().head_dim = 16;
  problem.as<attest_softmax_params>().window_right = 0;
  problem.as<attest_softmax_params>().softcap = 30;
  finish_problem(problem);
  EXPECT_EQ(refuses(implementation, problem), "does not support SOFTCAP");
  implementation.features |= ATTEST_WITH_SOFTCAP;
  EXPECT_EQ(refuses(implementation, problem), "");
  problem.features |= uint64_t{1} << 40;  // a bit of a header to come
  EXPECT_EQ(refuses(implementation, problem), "does not support OWN(8)");
  const Problem gradients = parse_problem(
      "softmax_backward seq_len_q=8 head_dim=16 bias=[1,1,8,8] dbias=[1,1,8,8] sinks dsinks");
  implementation.operation = ATTEST_SOFTMAX_BACKWARD;
  EXPECT_EQ(refuses(implementation, gradients), "does not support BIAS+SINKS+DBIAS+DSINKS");
  implementation.operation = ATTEST_SOFTMAX;
  implementation.device = 7;  // it would get addresses that it cannot reach
  EXPECT_EQ(refuses(implementation, problem), "runs on device 7, which this attest does not know");
}

}  // namespace
}  // namespace attest::core
