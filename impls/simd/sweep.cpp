#include "simd/sweep.hpp"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdio>

namespace trial {

int64_t any_head_dim(Random& r) {
  return r.chance(50) ? r.pick<int64_t>({8, 16, 24, 32, 64})
                      : r.pick<int64_t>({1, 2, 3, 5, 7, 9, 15, 17, 33, 72, 80, 88, 128, 200, 256});
}

void on_each_target(const std::function<void(const char*)>& body) {
  const int64_t all = hwy::SupportedTargets();
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON, HWY_SCALAR}) {
    if ((all & target) == 0) continue;
    hwy::GetChosenTarget().Update(target);  // libhwy's own state: the plugins' too
    body(hwy::TargetName(target));
  }
  hwy::GetChosenTarget().Update(all);
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
