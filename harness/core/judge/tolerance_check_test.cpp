// The emulation of the tolerance check computes in the declared arithmetic: in float64 if that is
// declared, and with Q scaled before it is rounded.
#include "core/judge/tolerance_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/judge/check.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/operations/linear/testing/linear_cases.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"
#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core {
namespace {

constexpr SoftmaxArithmetic kDouble{.qk = ATTEST_F64,
                                    .pv = ATTEST_F64,
                                    .score = ATTEST_F64,
                                    .probability = ATTEST_F64,
                                    .accumulator = ATTEST_F64,
                                    .output = ATTEST_F64};

testing::Case softmax_case(DType dtype,
                           const std::function<void(attest_softmax_params&)>& change = {}) {
  return testing::make_case(
      "",
      [&](attest_softmax_params& p) {
        p.num_heads = 1;
        p.seq_len_q = 40;
        p.seq_len_kv = 501;
        p.head_dim = 32;
        if (change) change(p);
      },
      {ATTEST_LSE}, dtype);
}

void add_one(const Tensor& x) {
  for (int64_t n = 0; n < element_count(x.spec); ++n)
    store(x.data, x.spec.dtype, n, load(x.data, x.spec.dtype, n) + 1);
}

// The outputs become those of an honest kernel of `arithmetic`.
void emulate_all(const Problem& problem, const Tensors& tensors,
                 const SoftmaxArithmetic& arithmetic, int kernel) {
  problem.operation->emulate(problem, tensors, arithmetic, kernel,
                             testing::all_rows(tensors[ATTEST_O]), testing::store_into(tensors));
}

double largest_error(const Problem& problem, const Tensors& tensors) {
  double largest = 0;
  std::mutex lock;
  problem.operation->golden(problem, {}, tensors)->expect(kDouble, [&](const Expected& chunk) {
    const std::lock_guard guard(lock);
    const Tensor& x = tensors[size_t(chunk.role)];
    for (size_t i = 0;
         chunk.value && x.spec.dtype == ATTEST_F64 && i < chunk.rows.size() * size_t(chunk.width);
         ++i)
      largest = std::max(largest, std::fabs(load(x.data, ATTEST_F64,
                                                 chunk.rows[i / size_t(chunk.width)] * chunk.width +
                                                     int64_t(i % size_t(chunk.width))) -
                                            chunk.value[i]));
  });
  return largest;
}

// Whoever declares float64 and computes in float32 fails by itself, and is not excused by an
// emulation that does the same.
void expect_no_excuse(const Problem& problem, const Tensors& tensors) {
  add_one(tensors[ATTEST_V]);
  emulate_all(problem, tensors, kDouble, 0);
  EXPECT_LT(largest_error(problem, tensors), 1e-13);
  emulate_all(problem, tensors, {.output = ATTEST_F64}, 0);
  EXPECT_GT(largest_error(problem, tensors), 1e-9);
  EXPECT_EQ(
      judge(problem, *problem.operation->golden(problem, {}, tensors), kDouble, tensors, &tensors)
          .outcome.code,
      ReasonCode::kFailTolerance);
}

TEST(ToleranceCheck, EmulatesFloat64WhereThatIsDeclared) {
  const testing::Case c = softmax_case(ATTEST_F64);
  expect_no_excuse(c.problem, c.tensors);
}

TEST(ToleranceCheck, EmulatesFloat64OfLinearAttention) {
  const testing::LinearCase c({.seq_len_q = 40, .seq_len_kv = 501, .head_dim = 32}, ATTEST_F64,
                              {"random", 1});
  expect_no_excuse(c.problem, c.tensors);
}

// A sigma that knows nothing of scaled queries fails kernels that scale them, each of which has to
// be told apart from a wrong one.
TEST(ToleranceCheck, EmulatesQueriesThatAreScaledBeforeTheyAreRounded) {
  const struct {
    int kernel;
    float scale;  // one that leans by much: Q times it, times log2(e), K and Q times its root
    double keys;  // larger where the scale is smaller: the lean is that of scores
  } kLeaning[] = {
      {1, 0.0622416f, 0.5}, {2, 0.0622416f / 1.442695f, 0.5}, {3, 0.0622416f * 0.0622416f, 2}};
  const SoftmaxArithmetic arithmetic{.qk = ATTEST_BF16, .output = ATTEST_BF16};
  for (const auto& [kernel, scale, keys] : kLeaning) {
    const testing::Case c = softmax_case(ATTEST_BF16, [factor = scale](attest_softmax_params& p) {
      p.seq_len_q = p.seq_len_kv = 100;
      p.head_dim = 1024;
      p.softmax_scale = factor;
    });
    const Tensor& k = c.tensors[ATTEST_K];
    for (int64_t n = 0; n < element_count(k.spec); ++n)
      store(k.data, ATTEST_BF16, n, keys * load(k.data, ATTEST_BF16, n));
    std::memcpy(c.tensors[ATTEST_Q].data, k.data, size_t(extent_bytes(k.spec)));
    emulate_all(c.problem, c.tensors, arithmetic, kernel);
    const auto code = [&] {
      return judge(c.problem, *c.problem.operation->golden(c.problem, {}, c.tensors), arithmetic,
                   c.tensors, &c.tensors)
          .outcome.code;
    };
    EXPECT_EQ(code(), ReasonCode::kPass) << "kernel " << kernel << " is honest";
    const ScopedTermFactor without(SigmaTerm::kFoldedScale, 0);
    EXPECT_EQ(code(), ReasonCode::kErrorToleranceModel) << "kernel " << kernel;
  }
}

// The largest size, where an emulated chain that exceeds its gate once excused any error.
class EdgesOf262147 : public ::testing::Test {
 protected:
  static constexpr SoftmaxArithmetic kTiled{.sum_chain = 64 + 4097};  // tiles of 64, one by one
  EdgesOf262147()
      : case_(softmax_case(ATTEST_F32, [](attest_softmax_params& p) {
          p.seq_len_q = 8;
          p.seq_len_kv = 262'147;
          p.head_dim = 16;
        })) {
    softmax_operation().fill(case_.problem, fill_, case_.tensors, false);
    golden_ = softmax_operation().golden(case_.problem, fill_, case_.tensors);
  }
  Judgement judged() const {
    return judge(case_.problem, *golden_, kTiled, case_.tensors, &case_.tensors);
  }

  const Fill fill_{"edges", 1};
  testing::Case case_;
  std::unique_ptr<Golden> golden_;
};

TEST_F(EdgesOf262147, AChainOf4161Passes) {
  emulate_all(case_.problem, case_.tensors, kTiled, 0);
  const Judgement judgement = judged();
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kPass) << judgement.outcome.reason;
  EXPECT_LT(std::max(judgement.max_ratio, judgement.rms_ratio), 0.8);
}

TEST_F(EdgesOf262147, ValuesClippedAt6Fail) {
  const Tensor& v = case_.tensors[ATTEST_V];
  const std::vector<std::byte> values = case_.memory[ATTEST_V];
  for (int64_t n = 0; n < element_count(v.spec); ++n)
    store(v.data, v.spec.dtype, n, std::clamp(load(v.data, v.spec.dtype, n), -6.0, 6.0));
  std::mutex lock;
  softmax_operation()
      .golden(case_.problem, fill_, case_.tensors)
      ->expect(kTiled, [&](const Expected& chunk) {
        const std::lock_guard guard(lock);
        for (size_t row = 0; chunk.value && row < chunk.rows.size(); ++row)
          for (int64_t e = 0; e < chunk.width; ++e)
            store(case_.tensors[size_t(chunk.role)].data, ATTEST_F32,
                  chunk.rows[row] * chunk.width + e,
                  chunk.value[(chunk.shared ? 0 : int64_t(row) * chunk.width) + e]);
      });
  std::copy(values.begin(), values.end(), static_cast<std::byte*>(v.data));
  const Judgement judgement = judged();
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kFailTolerance) << judgement.outcome.reason;
  EXPECT_GT(judgement.max_ratio, 1000);
  // Not even where the emulation exceeds its gate.
  const ScopedTermFactor less(SigmaTerm::kAccumulator, 0.1);
  const Judgement excess = judged();
  EXPECT_EQ(excess.outcome.code, ReasonCode::kFailTolerance);
  EXPECT_NE(excess.outcome.reason.find("that is the implementation's, though the declared"),
            std::string::npos)
      << excess.outcome.reason;
}

}  // namespace
}  // namespace attest::core
