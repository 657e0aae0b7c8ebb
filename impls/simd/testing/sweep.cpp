#include "simd/testing/sweep.hpp"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

namespace trial {

int64_t any_head_dim(Random& r) {
  return r.chance(50) ? r.pick<int64_t>({8, 16, 24, 32, 64})
                      : r.pick<int64_t>({1, 2, 3, 5, 7, 9, 15, 17, 33, 72, 80, 88, 128, 200, 256});
}

void set_heads(Trial& t, Random& r) {
  attest_softmax_params& p = t.softmax();
  p.struct_size = sizeof p;
  p.batch = r.upto(3);
  p.num_kv_heads = r.upto(3);
  p.num_heads = p.num_kv_heads * (r.chance(30) ? r.upto(3) : 1);
  p.head_dim = p.head_dim_v = any_head_dim(r);
  if (r.chance(25)) p.head_dim_v = any_head_dim(r);
  p.window_left = p.window_right = -1;
  p.softmax_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
  if (r.chance(20)) p.softcap = static_cast<float>(r.upto(30));
  if (p.num_heads != p.num_kv_heads) t.features |= ATTEST_WITH_GQA;
  if (p.head_dim != p.head_dim_v) t.features |= ATTEST_WITH_HEAD_DIM_V;
  if (p.softcap > 0) t.features |= ATTEST_WITH_SOFTCAP;
  t.threads = static_cast<int32_t>(r.upto(3));
}

void set_band(Trial& t, Random& r) {
  attest_softmax_params& p = t.softmax();
  if (r.chance(70)) p.window_right = r.chance(60) ? 0 : r.upto(40);
  if (p.window_right < 0 || r.chance(50)) p.window_left = r.upto(60) - 1;
  if (r.chance(40)) p.diagonal = ATTEST_BOTTOM_RIGHT;
  if (r.chance(30)) p.diagonal_offset = r.upto(100) - 50;
  if (p.window_right == 0) t.features |= ATTEST_WITH_CAUSAL;
  if (p.window_left >= 0 || p.window_right > 0) t.features |= ATTEST_WITH_WINDOW;
  if (p.diagonal != 0 || p.diagonal_offset != 0) t.features |= ATTEST_WITH_DIAGONAL;
}

int64_t add_packing(Trial& t, Random& r, int role, int64_t longest) {
  t.features |= ATTEST_WITH_VARLEN;
  Tensor& cu = t.tensor[role] = make(ATTEST_I32, {t.softmax().batch + 1});
  int64_t total = 0;
  for (int64_t b = 0; b < t.softmax().batch; ++b)
    cu.set(b + 1, static_cast<double>(total += b == 0 ? longest : r.upto(longest + 1) - 1));
  return total;
}

void add_order(Trial& t, Random& r) {
  const attest_softmax_params& p = t.softmax();
  t.features |= ATTEST_WITH_ORDER;
  Tensor& order = t.tensor[ATTEST_ORDER] =
      make(ATTEST_I32, {r.chance(50) ? p.batch : 1, p.seq_len_q});
  for (int64_t b = 0; b < order.spec.dim[0]; ++b) {
    std::vector<int64_t> rows(static_cast<size_t>(p.seq_len_q));
    std::iota(rows.begin(), rows.end(), 0);
    std::shuffle(rows.begin(), rows.end(), r.engine);
    for (int64_t i = 0; i < p.seq_len_q; ++i)
      order.set(order.at({b, i}), static_cast<double>(rows[static_cast<size_t>(i)]));
  }
}

void add_pair_tensor(Trial& t, Random& r, int role) {
  const attest_softmax_params& p = t.softmax();
  const auto or_one = [&](int64_t n) { return r.chance(50) ? n : 1; };
  const int32_t dtype = role == ATTEST_MASK ? ATTEST_BOOL : t.tensor[ATTEST_Q].spec.dtype;
  Tensor& x = t.tensor[role] = make(
      dtype, {or_one(p.batch), or_one(p.num_heads), or_one(p.seq_len_q), or_one(p.seq_len_kv)});
  t.features |= role == ATTEST_MASK ? ATTEST_WITH_MASK : ATTEST_WITH_BIAS;
  randomize(x, r.engine, 2);
  for (size_t n = 0; n < x.elements(); ++n)
    if (role == ATTEST_MASK)
      x.set(static_cast<int64_t>(n), r.chance(60));
    else if (r.chance(10))
      x.set(static_cast<int64_t>(n), -kInfinity);
}

namespace {

/// Makes the kernels run on these targets alone. libhwy keeps the choice, for the plugins too.
void choose_targets(int64_t targets) {
#if HWY_MAJOR >= 1
  hwy::GetChosenTarget().Update(targets);
#else  // Ubuntu 22.04 has 0.16
  hwy::SetSupportedTargetsForTest(static_cast<uint32_t>(targets));
  hwy::GetChosenTarget().Update();
#endif
}

}  // namespace

void on_each_target(const std::function<void(const char*)>& body) {
  const int64_t all = hwy::SupportedTargets();
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON, HWY_SCALAR}) {
    if ((all & target) == 0) continue;
    choose_targets(target);
    body(hwy::TargetName(target));
  }
  choose_targets(all);
}

void sweep_seeds(const char* name, const char* where, uint64_t seeds,
                 const std::function<Trial(uint64_t)>& make, double (*judge)(Trial&)) {
  const attest_impl* const impl = load(name);
  ASSERT_NE(impl, nullptr);
  double worst = 0;
  uint64_t ran = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Trial t = make(seed);
    const Outcome outcome = execute(*impl, t);
    if (outcome.status == ATTEST_UNSUPPORTED) continue;
    ASSERT_EQ(outcome.status, ATTEST_OK) << outcome.reason;
    ++ran;
    const double ratio = judge(t);
    worst = std::max(worst, ratio);
    EXPECT_LE(ratio, 1) << name << " on " << where << ", seed " << seed << ", features " << std::hex
                        << t.features;
  }
  EXPECT_GE(ran, seeds * 9 / 10) << "most problems must be supported, or nothing is tested";
  std::printf("%s on %s: %d problems, worst error / allowed %.2f\n", name, where,
              static_cast<int>(ran), worst);
}

void sweep(const char* name, uint64_t seeds, Trial (*make)(uint64_t), double (*judge)(Trial&)) {
  uint64_t last = seeds;
  on_each_target([&](const char* target) {
    sweep_seeds(name, target, last, make, judge);
    last = seeds / 3;  // the best target in full, the others in part
  });
}

}  // namespace trial
