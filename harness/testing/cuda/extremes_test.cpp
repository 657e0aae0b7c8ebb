// What no fill of the judge has, of kernels run on the host: infinities of V that a row sees with
// next to no weight, and rows that lie more than 2^31 elements apart.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdlib>

#include "simd/testing/trial.hpp"

namespace {

using trial::Trial;

const attest_impl& implementation(const std::string& name) {
  void* plugin =
      dlopen((ATTEST_BINARY_DIR "/tests/plugins/" + name + "_on_host.so").c_str(), RTLD_NOW);
  if (!plugin) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return *reinterpret_cast<const attest_impl* (*)(size_t)>(dlsym(plugin, "attest_plugin_v1"))(0);
}

/// One head, queries of ones; the logit of key j is logit(j).
template <class Logit>
Trial with_logits(int64_t queries, int64_t keys, const Logit& logit, int32_t dtype = ATTEST_F16) {
  constexpr int64_t kHeadDim = 32;
  Trial t;
  attest_softmax_params& p = t.softmax();
  p.struct_size = sizeof p;
  p.batch = p.num_heads = p.num_kv_heads = 1;
  p.seq_len_q = queries;
  p.seq_len_kv = keys;
  p.head_dim = p.head_dim_v = kHeadDim;
  p.window_left = p.window_right = -1;
  p.softmax_scale = 1;
  for (const int role : {ATTEST_Q, ATTEST_O})
    t.tensor[role] = trial::make(dtype, {1, 1, queries, kHeadDim});
  for (const int role : {ATTEST_K, ATTEST_V})
    t.tensor[role] = trial::make(dtype, {1, 1, keys, kHeadDim});
  for (int64_t n = 0; n < queries * kHeadDim; ++n) t.tensor[ATTEST_Q].set(n, 1);
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t d = 0; d < kHeadDim; ++d) {
      t.tensor[ATTEST_K].set(j * kHeadDim + d, logit(j) / kHeadDim);
      t.tensor[ATTEST_V].set(j * kHeadDim + d, 1);
    }
  return t;
}

/// Channel 3 of V is infinite at key `at`; every query sees that, and nothing else changes.
void expect_infinity(const std::string& name, Trial& t, int64_t at) {
  t.tensor[ATTEST_V].set(at * 32 + 3, trial::kInfinity);
  ASSERT_EQ(trial::execute(implementation(name), t).status, ATTEST_OK);
  for (int64_t i = 0; i < t.softmax().seq_len_q; ++i)
    for (int64_t d = 0; d < 32; ++d)
      if (d == 3)
        ASSERT_EQ(t.tensor[ATTEST_O]({0, 0, i, d}), trial::kInfinity) << name << " query " << i;
      else
        ASSERT_NEAR(t.tensor[ATTEST_O]({0, 0, i, d}), 1, 1e-6)
            << name << " query " << i << " channel " << d;
}

TEST(CudaExtremes, InfinitiesStayHoweverSmallTheirWeight) {
  for (const char* name : {"naive_cuda", "flash_cuda"})
    for (const int32_t dtype : {ATTEST_F16, ATTEST_F32})
      for (const int64_t queries : {3, 40})  // keys are split among blocks, and are not
        for (const int64_t at : {70, 150}) {
          Trial below =
              with_logits(queries, 200, [&](int64_t j) { return j == at ? -40.0 : 0.0; }, dtype);
          expect_infinity(name, below, at);
          // What has been summed by then is scaled by e^-400.
          Trial rising =
              with_logits(queries, 200, [&](int64_t j) { return j > at ? 400.0 : 0.0; }, dtype);
          expect_infinity(name, rising, at);
        }
}

/// Output 4 of query 2, where one of 200 keys has `k` in a channel and 5 as its value; the others
/// have 0 and 1.
double with_key(const char* name, int32_t dtype, double k) {
  Trial t = with_logits(40, 200, [](int64_t) { return 0.0; }, dtype);
  t.tensor[ATTEST_K].set(150 * 32 + 3, k);
  t.tensor[ATTEST_V].set(150 * 32 + 4, 5);
  EXPECT_EQ(trial::execute(implementation(name), t).status, ATTEST_OK);
  return t.tensor[ATTEST_O]({0, 0, 2, 4});
}

TEST(CudaExtremes, KeysMayBeInfinite) {
  for (const char* name : {"naive_cuda", "flash_cuda"})
    for (const int32_t dtype : {ATTEST_F16, ATTEST_F32}) {
      EXPECT_NEAR(with_key(name, dtype, -trial::kInfinity), 1, 1e-6) << name;  // no weight
      EXPECT_TRUE(std::isnan(with_key(name, dtype, trial::kInfinity))) << name;
      EXPECT_TRUE(std::isnan(with_key(name, dtype, std::nan("")))) << name;
    }
  EXPECT_NEAR(with_key("flash_cuda", ATTEST_F32, -3.402e38), 1,
              1e-6);                   // tf32 rounds it to infinity
  setenv("ATTEST_CUDA_BUG", "24", 1);  // cuda::Bug::kNotSplitAnew
  EXPECT_TRUE(std::isnan(with_key("flash_cuda", ATTEST_F32, -trial::kInfinity)));
  unsetenv("ATTEST_CUDA_BUG");
}

// Sums that are cut at each step lean to one side, the further the more keys there are.
TEST(CudaExtremes, SumsOfManyKeysDoNotLean) {
  const auto error = [] {
    Trial t = with_logits(150, 1000, [](int64_t) { return 0.0; }, ATTEST_F32);
    for (int64_t j = 0; j < 1000; ++j) t.tensor[ATTEST_V].set(j * 32 + 4, 0.3f);
    EXPECT_EQ(trial::execute(implementation("flash_cuda"), t).status, ATTEST_OK);
    return std::fabs(t.tensor[ATTEST_O]({0, 0, 2, 4}) / 0.3f - 1);
  };
  EXPECT_LT(error(), 3e-7);
  setenv("ATTEST_CUDA_BUG", "23", 1);  // cuda::Bug::kSumsCut
  EXPECT_GT(error(), 1e-6);
  unsetenv("ATTEST_CUDA_BUG");
}

TEST(CudaExtremes, ValuesMayBeAsLargeAsFloatsGo) {
  Trial t = with_logits(40, 200, [](int64_t j) { return j == 150 ? 400.0 : 0.0; }, ATTEST_F32);
  t.tensor[ATTEST_V].set(150 * 32 + 4, 3.402823e38);  // tf32 rounds it to infinity
  ASSERT_EQ(trial::execute(implementation("flash_cuda"), t).status, ATTEST_OK);
  EXPECT_NEAR(t.tensor[ATTEST_O]({0, 0, 2, 4}) / 3.402823e38, 1, 0x1p-12);
}

TEST(CudaExtremes, InfinitiesThatAreForgottenShow) {
  setenv("ATTEST_CUDA_BUG", "10", 1);  // cuda::Bug::kInfinitiesForgotten
  Trial t = with_logits(40, 200, [](int64_t j) { return j == 150 ? -40.0 : 0.0; });
  t.tensor[ATTEST_V].set(150 * 32 + 3, trial::kInfinity);
  ASSERT_EQ(trial::execute(implementation("flash_cuda"), t).status, ATTEST_OK);
  EXPECT_TRUE(std::isnan(t.tensor[ATTEST_O]({0, 0, 2, 3})));
  unsetenv("ATTEST_CUDA_BUG");
}

TEST(CudaExtremes, SinksLeaveAnInfinity) {
  for (const char* name : {"naive_cuda", "flash_cuda"})
    for (const int64_t queries : {3, 40}) {
      Trial t = with_logits(queries, 200, [](int64_t) { return 0.0; });
      t.features |= ATTEST_WITH_SINKS;
      t.tensor[ATTEST_SINKS] = trial::make(ATTEST_F32, {1});
      t.tensor[ATTEST_SINKS].set(0, 300);
      t.tensor[ATTEST_V].set(150 * 32 + 3, -trial::kInfinity);
      ASSERT_EQ(trial::execute(implementation(name), t).status, ATTEST_OK);
      EXPECT_EQ(t.tensor[ATTEST_O]({0, 0, 2, 3}), -trial::kInfinity) << name;
      EXPECT_EQ(t.tensor[ATTEST_O]({0, 0, 2, 4}), 0) << name;
    }
}

/// K with 2^27 elements from row to row, in memory of which only the rows' pages exist. The largest
/// error of O.
double run_far_apart(const char* name) {
  constexpr int64_t kKeys = 20, kHeadDim = 32, kStride = int64_t{1} << 27;
  constexpr size_t kBefore = size_t{4} << 30,
                   kBytes = kBefore +
                            size_t{kKeys} * kStride * 2;  // an index of 32 bits may be negative
  char* memory = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) return trial::kInfinity;
  Trial t = with_logits(40, kKeys, [](int64_t j) { return j == kKeys - 1 ? 9.0 : 0.0; });
  for (int64_t d = 0; d < kHeadDim; ++d) t.tensor[ATTEST_V].set((kKeys - 1) * kHeadDim + d, 2);
  t.features |= ATTEST_WITH_STRIDES;
  trial::Tensor k = t.tensor[ATTEST_K];
  for (int64_t j = 0; j < kKeys; ++j)
    std::memcpy(memory + kBefore + j * kStride * 2, k.bytes.data() + j * kHeadDim * 2,
                kHeadDim * 2);

  const attest_impl& impl = implementation(name);
  alignas(64) char room[ATTEST_ROOM] = {}, support[ATTEST_ROOM] = {};
  std::vector<attest_tensor> specs(ATTEST_ROLES);
  std::vector<void*> data(ATTEST_ROLES);
  for (auto& [role, tensor] : t.tensor) {
    specs[size_t(role)] = tensor.spec;
    data[size_t(role)] = tensor.bytes.data();
  }
  specs[ATTEST_K].stride[2] = kStride;
  data[ATTEST_K] = memory + kBefore;
  auto& problem = *reinterpret_cast<attest_problem*>(room);
  problem.struct_size = sizeof problem;
  problem.operation = ATTEST_SOFTMAX;
  problem.params = t.params;
  problem.tensor = specs.data();
  problem.features = t.features;
  problem.threads = 1;
  auto& declared = *reinterpret_cast<attest_support*>(support);
  void* plan = nullptr;
  double worst = trial::kInfinity;
  if (impl.query(&problem, &declared) == ATTEST_OK && impl.create(&problem, &plan) == ATTEST_OK) {
    std::vector<char> workspace(declared.workspace_bytes + 1);
    const double weight = std::exp(9), expected = (19 + 2 * weight) / (19 + weight);
    if (impl.run(plan, data.data(), workspace.data(), nullptr) == ATTEST_OK) worst = 0;
    for (int64_t n = 0; n < 40 * kHeadDim; ++n)
      worst = std::max(worst, std::fabs(t.tensor[ATTEST_O].get(n) - expected));
    impl.destroy(plan);
  }
  munmap(memory, kBytes);
  return worst;
}

TEST(CudaExtremes, RowsMayLieMoreThanTwoToThe31Apart) {
  EXPECT_LT(run_far_apart("naive_cuda"), 2e-3);
  EXPECT_LT(run_far_apart("flash_cuda"), 2e-3);
  setenv("ATTEST_CUDA_BUG", "4", 1);  // cuda::Bug::kIndexOf32Bits
  EXPECT_GT(run_far_apart("flash_cuda"), 1e-2);
  unsetenv("ATTEST_CUDA_BUG");
}

}  // namespace
