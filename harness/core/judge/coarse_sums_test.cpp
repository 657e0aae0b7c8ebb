// Sums of products that stop growing beside a key without a value, in coarse arithmetic.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/judge/check.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/operations/softmax/sigma/emulate.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"
#include "core/operations/softmax/testing/make_case.hpp"
#include "core/operations/term_factor.hpp"

namespace attest::core {
namespace {

/// The largest error of a kernel on a fill, as a share of its gate. `lost`: the last keys, which
/// the kernel forgets.
double ratio_of(const testing::Case& c, const Fill& fill, const SoftmaxArithmetic& arithmetic,
                int64_t lost = 0) {
  softmax_operation().fill(c.problem, fill, c.tensors, false);
  Problem forgetful = c.problem;
  forgetful.as<attest_softmax_params>().seq_len_kv -= lost;
  forgetful.tensor[ATTEST_K].dim[2] -= lost;
  forgetful.tensor[ATTEST_V].dim[2] -= lost;
  emulate_softmax(lost > 0 ? forgetful : c.problem, c.tensors, arithmetic, {},
                  testing::all_rows(c.tensors[ATTEST_O]), testing::store_into(c.tensors));
  const Judgement judgement = judge(
      c.problem, *softmax_operation().golden(c.problem, fill, c.tensors), arithmetic, c.tensors);
  return std::max(judgement.max_ratio, judgement.rms_ratio);
}

// In some rows a key without a value has nearly all of the weight. The products of the others have
// sums of their own, which grow until each of them is less than half an ulp.
TEST(CoarseSums, MayStopBesideAKeyWithoutAValue) {
  const testing::Case c = testing::make_case("", [](attest_softmax_params& p) {
    p.num_heads = 1;
    p.seq_len_q = 80;
    p.seq_len_kv = 7859;
    p.head_dim = p.head_dim_v = 8;
    p.softmax_scale = 0.40732324f;
  });
  const SoftmaxArithmetic arithmetic{.accumulator = ATTEST_TF32};
  EXPECT_LT(ratio_of(c, {"rising_2", 1}, arithmetic), 0.5);
  EXPECT_GT(ratio_of(c, {"rising_2", 1}, arithmetic, 64), 2) << "a lost tile";
  const ScopedTermFactor without(SigmaTerm::kAbsorbed, 0);
  EXPECT_GT(ratio_of(c, {"rising_2", 1}, arithmetic), 1);
}

}  // namespace
}  // namespace attest::core
