// The plugins as they are built, through dlopen, against the definition in float64: the naive ones
// and the healthy mutant on random problems of every feature they list, the planted bugs on
// problems where they show, and the fixtures of older and newer headers.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "testing/reference.hpp"

namespace {

using abi_test::Reference, abi_test::Tensor, abi_test::Trial;

const attest_impl* find_table(const std::string& file, const std::string& name) {
  void* library =
      dlopen((std::string(ATTEST_BINARY_DIR "/") + file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  const auto entry =
      reinterpret_cast<const attest_impl* (*)(size_t)>(dlsym(library, "attest_plugin_v1"));
  for (size_t n = 0; entry && entry(n); ++n)
    if (entry(n)->name == name) return entry(n);
  return nullptr;
}

/// Why the implementation refuses a problem; empty if it does not.
std::string refusal(const attest_impl& table, Trial& trial) {
  trial.finish();
  alignas(64) unsigned char room[ATTEST_ROOM]{};
  auto& support = *reinterpret_cast<attest_support*>(room);
  support.struct_size = sizeof support;
  return table.query(&trial.problem(), &support) == ATTEST_UNSUPPORTED ? support.reason : "";
}

/// 256-aligned, filled with NaN bytes, with a guard behind it.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes), memory_(bytes + 512, 0xff) {
    begin_ = memory_.data() + (256 - reinterpret_cast<uintptr_t>(memory_.data()) % 256);
    std::memset(begin_ + bytes, 0x5b, kGuard);
  }
  void* data() { return begin_; }
  bool guard_untouched() const {
    return std::all_of(begin_ + bytes_, begin_ + bytes_ + kGuard,
                       [](unsigned char byte) { return byte == 0x5b; });
  }

 private:
  static constexpr size_t kGuard = 128;
  size_t bytes_;
  std::vector<unsigned char> memory_;
  unsigned char* begin_;
};

/// query, create, run, run, destroy, as a host does it.
void run(const attest_impl& table, Trial& trial) {
  std::vector<void*> data = trial.finish();
  alignas(64) unsigned char room[ATTEST_ROOM]{};
  auto& support = *reinterpret_cast<attest_support*>(room);
  support.struct_size = sizeof support;
  ASSERT_EQ(table.query(&trial.problem(), &support), ATTEST_OK)
      << support.reason << table.last_error();
  Workspace workspace(support.workspace_bytes);
  void* plan = nullptr;
  ASSERT_EQ(table.create(&trial.problem(), &plan), ATTEST_OK) << table.last_error();
  for (int n = 0; n < 2; ++n)
    ASSERT_EQ(table.run(plan, data.data(), workspace.data(), nullptr), ATTEST_OK)
        << table.last_error();
  table.destroy(plan);
  EXPECT_TRUE(workspace.guard_untouched()) << "wrote past the workspace";
  for (const Tensor& tensor : trial.tensor)
    EXPECT_TRUE(!tensor || tensor.surroundings_untouched())
        << "wrote outside of a tensor's elements";
}

/// |got - expected| in units of `bound`; infinite where one is NaN or infinite and the other is not
/// the same.
double error_ratio(double got, double expected, double bound) {
  if (std::isnan(expected)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(expected)) return got == expected ? 0 : INFINITY;
  return std::isfinite(got) ? std::fabs(got - expected) / bound : INFINITY;
}

double unit_roundoff(int32_t dtype) {
  return dtype == ATTEST_F16 ? 0x1p-11 : dtype == ATTEST_BF16 ? 0x1p-8 : 0x1p-24;
}

/// The largest error of O and LSE over a bound for arithmetic in float32: 1 and less is right.
/// Looks at the last rows first, and no further than to an error above `enough`.
double worst_error(const Trial& trial, double enough = INFINITY) {
  const Tensor &o = trial.tensor[ATTEST_O], &lse = trial.tensor[ATTEST_LSE];
  double worst = 0;
  const auto check_row = [&](const abi_test::Cell& at, int64_t h, const Reference& expected) {
    if (expected.is_unclear) return;
    for (int64_t d = 0; d < trial.p().head_dim_v; ++d) {
      const double value = expected.o[size_t(d)];
      const double bound = unit_roundoff(o.spec.dtype) * std::fabs(value) + 0x1p-25 +
                           1e-6 * (4 + expected.largest) * expected.magnitude[size_t(d)];
      worst = std::max(worst, error_ratio(o.at({at.batch, h, at.row, d}), value, bound));
    }
    if (lse)
      worst = std::max(worst, error_ratio(lse.at({at.batch, h, at.row}), expected.lse,
                                          1e-6 * (4 + expected.largest)));
  };
  for (int64_t b = 0; b < trial.p().batch; ++b)
    for (int64_t h = 0; h < trial.p().num_heads; ++h) {
      // attend() of a place that does not count sees nothing.
      const int64_t rows =
          trial.tensor[ATTEST_CU_SEQLENS_Q] ? abi_test::length_q(trial, b) : trial.p().seq_len_q;
      for (int64_t i = rows - 1; i >= 0 && worst <= enough; --i)
        check_row(abi_test::query_cell(trial, b, i), h, abi_test::attend(trial, b, h, i));
    }
  return worst;
}

/// The largest error of the gradients, likewise.
double worst_gradient(const Trial& trial) {
  const abi_test::Gradients expected = abi_test::differentiate(trial);
  double worst = 0;
  if (expected.is_unclear) return worst;
  const auto check = [&](int role, const abi_test::Gradient& gradient) {
    const Tensor& got = trial.tensor[role];
    size_t n = 0;
    got.each([&](const auto& index) {
      const double value = gradient.value[n];
      const double bound = unit_roundoff(got.spec.dtype) * std::fabs(value) + 0x1p-25 +
                           1e-6 * (4 + expected.largest) * gradient.magnitude[n];
      worst = std::max(worst, error_ratio(got.at(index), value, bound));
      ++n;
    });
  };
  check(ATTEST_DQ, expected.dq);
  check(ATTEST_DK, expected.dk);
  check(ATTEST_DV, expected.dv);
  if (trial.tensor[ATTEST_DBIAS]) check(ATTEST_DBIAS, expected.dbias);
  if (trial.tensor[ATTEST_DREL_BIAS]) check(ATTEST_DREL_BIAS, expected.drel_bias);
  if (trial.tensor[ATTEST_DSINKS]) check(ATTEST_DSINKS, expected.dsinks);
  return worst;
}

struct Case {
  const char *file, *name;
  uint64_t without = 0;  // features that it lists, but refuses in some of these problems
  const char* (*refuses)(const Trial&) = nullptr;  // why a problem; null: it is taken
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class RightPlugin : public ::testing::TestWithParam<Case> {};

TEST_P(RightPlugin, AgreesWithTheDefinitionOnRandomProblems) {
  const attest_impl* table = find_table(GetParam().file, GetParam().name);
  ASSERT_NE(table, nullptr) << dlerror();
  uint64_t met = 0;
  double worst = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Trial trial;
    abi_test::randomize(trial, seed, table->features, table->dtypes);
    met |= trial.features;
    ASSERT_NO_FATAL_FAILURE(run(*table, trial));
    const double error = worst_error(trial);
    ASSERT_LE(error, 1) << "features " << std::hex << trial.features;
    worst = std::max(worst, error);
  }
  EXPECT_EQ(met, table->features) << "features listed and met";
  EXPECT_GT(worst, 1e-3) << "a bound that nothing comes near shows nothing";
}

INSTANTIATE_TEST_SUITE_P(Plugins, RightPlugin,
                         ::testing::Values(Case{"plugins/naive.so", "naive"},
                                           Case{"tests/plugins/naive_minimal.so", "naive_minimal"},
                                           Case{"tests/plugins/mutants.so", "mutant_none"},
                                           Case{"tests/plugins/steps.so", "step_none_t16"},
                                           Case{"tests/plugins/steps.so", "step_none_t32"},
                                           Case{"tests/plugins/steps.so", "step_none_t64"},
                                           Case{"tests/plugins/steps.so", "step_none_t128"},
                                           Case{"tests/plugins/steps.so", "step_none_t256"},
                                           Case{"tests/plugins/plugin_c.so", "plugin_c"},
                                           Case{"tests/plugins/older_header.so", "older_header"}),
                         [](const auto& instance) { return std::string(instance.param.name); });

/// What flash_backward_cpu refuses beside its features.
const char* flash_refuses(const Trial& trial) {
  const Tensor& dbias = trial.tensor[ATTEST_DBIAS];
  if (dbias && dbias.spec.dim[3] != trial.p().seq_len_kv) return "all keys share";
  const bool grid = (trial.features & ATTEST_WITH_GRID) != 0;
  if (grid && (dbias || trial.tensor[ATTEST_BLOCK_MASK])) return "a grid with DBIAS";
  return nullptr;
}

class RightGradients : public ::testing::TestWithParam<Case> {};

TEST_P(RightGradients, AgreeWithTheDefinitionOnRandomProblems) {
  const attest_impl* table = find_table(GetParam().file, GetParam().name);
  ASSERT_NE(table, nullptr) << dlerror();
  const uint64_t features = table->features & ~GetParam().without;
  uint64_t met = 0;
  double worst = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Trial trial;
    abi_test::randomize_gradients(trial, seed, features, table->dtypes);
    if (const char* reason = GetParam().refuses ? GetParam().refuses(trial) : nullptr) {
      EXPECT_THAT(refusal(*table, trial), ::testing::HasSubstr(reason));
      continue;
    }
    met |= trial.features;
    ASSERT_NO_FATAL_FAILURE(run(*table, trial));
    const double error = worst_gradient(trial);
    ASSERT_LE(error, 1) << "features " << std::hex << trial.features;
    worst = std::max(worst, error);
  }
  EXPECT_EQ(met, features) << "features listed and met";
  EXPECT_GT(worst, 1e-3) << "a bound that nothing comes near shows nothing";
}

// flash_backward_cpu takes strides but for those within rows.
INSTANTIATE_TEST_SUITE_P(
    Plugins, RightGradients,
    ::testing::Values(Case{"plugins/naive_backward.so", "naive_backward"},
                      Case{"tests/plugins/backward_minimal.so", "backward_minimal"},
                      Case{"plugins/flash_backward_cpu.so", "flash_backward_cpu",
                           ATTEST_WITH_STRIDES, flash_refuses},
                      Case{"tests/plugins/honest.so", "honest_backward_pairs"},
                      Case{"tests/plugins/backward_bugs.so", "backward_none"}),
    [](const auto& instance) { return std::string(instance.param.name); });

/// Bugs, and features with which they are some.
struct GradientBug {
  const char* name;
  uint64_t needs;
};
void PrintTo(const GradientBug& bug, std::ostream* out) { *out << bug.name; }

class GradientBugs : public ::testing::TestWithParam<GradientBug> {};

TEST_P(GradientBugs, AreFarFromTheDefinition) {
  const auto [name, needs] = GetParam();
  const attest_impl* table = find_table("tests/plugins/backward_bugs.so", name);
  ASSERT_NE(table, nullptr);
  int wrong = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Trial trial;
    abi_test::randomize_gradients(
        trial, seed, needs,
        ATTEST_BIT(ATTEST_F32) |
            (needs & ATTEST_WITH_DESCALE ? ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2)
                                         : 0));
    if ((trial.features & needs) != needs) continue;
    ASSERT_NO_FATAL_FAILURE(run(*table, trial));
    wrong += worst_gradient(trial) > 3;
  }
  EXPECT_GE(wrong, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Planted, GradientBugs,
    ::testing::Values(
        GradientBug{"backward_delta_forgotten", 0}, GradientBug{"backward_lse_of_next_row", 0},
        GradientBug{"backward_gqa_tiled", ATTEST_WITH_GQA},
        GradientBug{"backward_bias_of_next_key", ATTEST_WITH_BIAS},
        GradientBug{"backward_hidden_leaks", ATTEST_WITH_MASK},
        GradientBug{"backward_cap_slope_forgotten", ATTEST_WITH_SOFTCAP},
        GradientBug{"backward_slope_of_next_head", ATTEST_WITH_ALIBI},
        GradientBug{"backward_sink_divided_out", ATTEST_WITH_SINKS},
        GradientBug{"backward_blocks_of_next_key", ATTEST_WITH_BLOCK_MASK},
        GradientBug{"backward_global_queries_lost", ATTEST_WITH_CAUSAL | ATTEST_WITH_GLOBAL},
        GradientBug{"backward_length_ignored", ATTEST_WITH_SEQ_LENS},
        GradientBug{"backward_borrowed_keys_lost", ATTEST_WITH_PATCHES},
        GradientBug{"backward_last_block_of_next_sequence", ATTEST_WITH_VARLEN},
        GradientBug{"backward_last_sequence_lost", ATTEST_WITH_VARLEN},
        GradientBug{"backward_lse_at_padded_row", ATTEST_WITH_VARLEN},
        GradientBug{"backward_order_forgotten_in_dk", ATTEST_WITH_ORDER},
        GradientBug{"backward_order_forgotten_in_delta", ATTEST_WITH_ORDER},
        GradientBug{"backward_seam_seen", ATTEST_WITH_GRID},
        GradientBug{"backward_window_unshifted_in_dv", ATTEST_WITH_GRID},
        GradientBug{"backward_rel_bias_transposed", ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS},
        GradientBug{"backward_drel_bias_transposed",
                    ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS | ATTEST_WITH_DREL_BIAS},
        GradientBug{"backward_top_k_one_more", ATTEST_WITH_TOP_K},
        GradientBug{"backward_top_k_delta_of_all", ATTEST_WITH_TOP_K},
        GradientBug{"backward_dsinks_of_weights", ATTEST_WITH_SINKS | ATTEST_WITH_DSINKS},
        GradientBug{"backward_f8_dk_by_stored", ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_DESCALE},
        GradientBug{"backward_f8_q_factor_forgotten_in_dk",
                    ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_DESCALE},
        GradientBug{"backward_f8_v_factor_forgotten_in_ds",
                    ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_DESCALE}),
    [](const auto& instance) { return std::string(instance.param.name); });

/// Two heads, causal where asked, random inputs: what every mutant is tried on.
void make_problem(Trial& trial, int32_t dtype, int64_t tokens, bool causal) {
  trial.p().num_heads = trial.p().num_kv_heads = 2;
  trial.p().seq_len_q = trial.p().seq_len_kv = tokens;
  trial.p().head_dim = trial.p().head_dim_v = 32;
  trial.p().softmax_scale = 0.176776695f;
  if (causal) {
    trial.p().window_right = 0;
    trial.features |= ATTEST_WITH_CAUSAL;
  }
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
    Tensor& x = trial.tensor[role] = abi_test::make_tensor(dtype, {1, 2, tokens, 32});
    x.each(
        [&](const auto& index) { x.set(index, role == ATTEST_O ? std::nan("") : normal(random)); });
  }
}

class MutantTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MutantTest, IsWrongWhereItDoesNotRefuse) {
  const attest_impl* table = find_table("tests/plugins/mutants.so", GetParam());
  ASSERT_NE(table, nullptr);
  int judged = 0;
  for (const int64_t tokens : {61, 197, 331})
    for (const bool causal : {false, true})
      for (const int32_t dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
        Trial trial;
        make_problem(trial, dtype, tokens, causal);
        trial.finish();
        attest_support support{};
        if (table->query(&trial.problem(), &support) == ATTEST_UNSUPPORTED) {
          EXPECT_THAT(support.reason, ::testing::HasSubstr("nothing is wrong here"));
          continue;
        }
        ASSERT_NO_FATAL_FAILURE(run(*table, trial));
        EXPECT_GT(worst_error(trial, 3), 3)
            << tokens << " tokens, causal " << causal << ", dtype " << dtype;
        ++judged;
      }
  EXPECT_GE(judged, 6);
}

INSTANTIATE_TEST_SUITE_P(Mutants, MutantTest,
                         ::testing::Values("mutant_dropped_tile", "mutant_sum_not_rescaled",
                                           "mutant_wrong_scale", "mutant_swapped_heads",
                                           "mutant_causal_off_by_one", "mutant_query_tail",
                                           "mutant_key_tail", "mutant_zeros"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(Mutants, HealthyOneIsRightOnTheSameProblems) {
  const attest_impl* table = find_table("tests/plugins/mutants.so", "mutant_none");
  ASSERT_NE(table, nullptr);
  for (const int64_t tokens : {61, 197, 331})
    for (const bool causal : {false, true}) {
      Trial trial;
      make_problem(trial, ATTEST_F32, tokens, causal);
      ASSERT_NO_FATAL_FAILURE(run(*table, trial));
      EXPECT_LE(worst_error(trial), 1);
    }
}

TEST(NewerHeader, MeetsOnlyZerosInTheRoomsOfThisHost) {
  const attest_impl* table = find_table("tests/plugins/newer_header.so", "newer_header");
  ASSERT_NE(table, nullptr);
  EXPECT_GT(table->struct_size, sizeof(attest_impl));
  EXPECT_EQ(table->features & ~uint64_t{ATTEST_WITH_CAUSAL}, uint64_t{1} << 21)
      << "a feature that this host does not know";
  Trial trial;
  make_problem(trial, ATTEST_F32, 40, true);
  ASSERT_NO_FATAL_FAILURE(run(*table, trial));
  EXPECT_LE(worst_error(trial), 1);
}

TEST(BrokenPlugins, AreBrokenEachInItsWay) {
  const auto load = [](const char* name) {
    return dlopen((std::string(ATTEST_BINARY_DIR "/tests/plugins/broken/") + name + ".so").c_str(),
                  RTLD_NOW | RTLD_LOCAL);
  };
  const auto first = [&](const char* name) {
    return reinterpret_cast<const attest_impl* (*)(size_t)>(dlsym(load(name), "attest_plugin_v1"))(
        0);
  };
  EXPECT_EQ(load("not_a_library"), nullptr);
  ASSERT_NE(load("no_symbol"), nullptr);
  EXPECT_EQ(dlsym(load("no_symbol"), "attest_plugin_v1"), nullptr);
  EXPECT_EQ(dlsym(load("version_two"), "attest_plugin_v1"), nullptr);
  EXPECT_NE(dlsym(load("version_two"), "attest_plugin_v2"), nullptr);
  EXPECT_LT(first("short_table")->struct_size, sizeof(attest_impl));
  EXPECT_EQ(first("null_run")->run, nullptr);
  EXPECT_EQ(first("no_tables"), nullptr);
}

}  // namespace
