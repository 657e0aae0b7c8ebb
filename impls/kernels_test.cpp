// flash_cpu, flash_cpu_bf16, window_cpu and linear_cpu against float64 by definition: random
// problems of small odd sizes with every feature and element type, on every instruction set that
// this machine has; and what masks and extreme numbers must not do.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "simd/testing/sweep.hpp"
#include "simd/testing/trial.hpp"

namespace {

using trial::add_pair_tensor, trial::on_each_target, trial::Random, trial::set_band,
    trial::set_heads, trial::sweep, trial::sweep_seeds, trial::Trial;

void add_qkvo(Trial& t, Random& r, int64_t tokens_q, int64_t tokens_kv, bool packed, double size) {
  const attest_softmax_params& p = t.softmax();
  const int32_t dtype = r.pick<int32_t>({ATTEST_F32, ATTEST_F16, ATTEST_BF16});
  const bool strided = r.chance(25);
  if (strided) t.features |= ATTEST_WITH_STRIDES;
  const int64_t batch = packed ? 1 : p.batch;
  const auto gap = [&] { return strided ? r.upto(5) : 0; };
  t.tensor[ATTEST_Q] = trial::make(dtype, {batch, p.num_heads, tokens_q, p.head_dim}, gap());
  const trial::Tensor* table = t.find(ATTEST_PAGE_TABLE);
  const int64_t outer_kv = table == nullptr ? batch : 1 + static_cast<int64_t>(table->elements());
  const int64_t rows_kv = table == nullptr ? tokens_kv : p.page_size;
  t.tensor[ATTEST_K] = trial::make(dtype, {outer_kv, p.num_kv_heads, rows_kv, p.head_dim}, gap());
  t.tensor[ATTEST_V] = trial::make(dtype, {outer_kv, p.num_kv_heads, rows_kv, p.head_dim_v}, gap());
  t.tensor[ATTEST_O] = trial::make(dtype, {batch, p.num_heads, tokens_q, p.head_dim_v}, gap());
  if (r.chance(50)) {
    t.features |= ATTEST_WITH_LSE;
    t.tensor[ATTEST_LSE] = trial::make(ATTEST_F32, {batch, p.num_heads, tokens_q});
  }
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    trial::randomize(t.tensor[role], r.engine, role == ATTEST_Q ? size : 1);
}

void add_lengths(Trial& t, Random& r, int role, int64_t longest) {
  t.features |= ATTEST_WITH_SEQ_LENS;
  trial::Tensor& lens = t.tensor[role] = trial::make(ATTEST_I32, {t.softmax().batch});
  for (int64_t b = 0; b < t.softmax().batch; ++b)
    lens.set(b, static_cast<double>(r.upto(longest + 1) - 1));
}

/// A table whose pages lie in any order of a pool that has one page more.
void add_pages(Trial& t, Random& r) {
  attest_softmax_params& p = t.softmax();
  t.features |= ATTEST_WITH_PAGES;
  p.page_size = r.pick<int64_t>({1, 5, 16, 64});
  trial::Tensor& table = t.tensor[ATTEST_PAGE_TABLE] =
      trial::make(ATTEST_I32, {p.batch, (p.seq_len_kv + p.page_size - 1) / p.page_size});
  std::vector<int32_t> pages(table.elements() + 1);
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), r.engine);
  for (size_t n = 0; n < table.elements(); ++n) table.set(static_cast<int64_t>(n), pages[n]);
}

void add_block_mask(Trial& t, Random& r) {
  attest_softmax_params& p = t.softmax();
  const auto or_one = [&](int64_t n) { return r.chance(50) ? n : 1; };
  const auto blocks = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  p.block_q = r.pick<int64_t>({16, 64, 7, 100});
  p.block_kv = r.pick<int64_t>({16, 64, 7, 100});
  t.features |= ATTEST_WITH_BLOCK_MASK;
  trial::Tensor& x = t.tensor[ATTEST_BLOCK_MASK] =
      trial::make(ATTEST_BOOL, {or_one(p.batch), or_one(p.num_heads),
                                blocks(p.seq_len_q, p.block_q), blocks(p.seq_len_kv, p.block_kv)});
  for (size_t n = 0; n < x.elements(); ++n) x.set(static_cast<int64_t>(n), r.chance(40));
}

/// Block masks beside all else; global tokens where queries and keys are the same.
Trial blocks_trial(uint64_t seed, Trial (*make)(uint64_t)) {
  Random r{std::mt19937_64(seed)};
  Trial t = make(seed);
  attest_softmax_params& p = t.softmax();
  const bool band = p.window_left >= 0 || p.window_right >= 0,
             self = p.seq_len_q == p.seq_len_kv && p.patch_size == 0 && p.grid_height == 0 &&
                    t.find(ATTEST_CU_SEQLENS_Q) == nullptr;
  if (band && self && r.chance(60)) {
    t.features |= ATTEST_WITH_GLOBAL;
    p.global_tokens = r.upto(std::min<int64_t>(p.seq_len_q, r.chance(50) ? 5 : 140));
  }
  if (p.grid_height == 0 && (p.global_tokens == 0 || r.chance(40))) add_block_mask(t, r);
  return t;
}

Trial flash_trial(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  set_heads(t, r);
  attest_softmax_params& p = t.softmax();
  p.seq_len_q = r.chance(20) ? 1 : r.upto(r.chance(20) ? 450 : 130);
  p.seq_len_kv = r.chance(10) ? 1 : r.upto(r.chance(30) ? 400 : 140);
  if (r.chance(40)) set_band(t, r);
  int64_t tokens_q = p.seq_len_q, tokens_kv = p.seq_len_kv;
  const bool packed = r.chance(20);
  if (packed) {
    tokens_q = trial::add_packing(t, r, ATTEST_CU_SEQLENS_Q, tokens_q);
    tokens_kv = trial::add_packing(t, r, ATTEST_CU_SEQLENS_KV, tokens_kv);
  }
  if (!packed && r.chance(25)) add_pages(t, r);
  add_qkvo(t, r, tokens_q, tokens_kv, packed, r.pick({0.0, 1.0, 1.0, 4.0}));
  if (!packed && r.chance(20)) add_lengths(t, r, ATTEST_SEQ_LENS_KV, p.seq_len_kv);
  if (!packed && r.chance(20)) add_lengths(t, r, ATTEST_SEQ_LENS_Q, p.seq_len_q);
  if (r.chance(20)) add_pair_tensor(t, r, ATTEST_BIAS);
  if (r.chance(20)) add_pair_tensor(t, r, ATTEST_MASK);
  if (r.chance(20)) {
    t.features |= ATTEST_WITH_SINKS;
    trial::Tensor& sinks = t.tensor[ATTEST_SINKS] = trial::make(ATTEST_F32, {p.num_heads});
    trial::randomize(sinks, r.engine, 5);
  }
  if (r.chance(20)) {
    t.features |= ATTEST_WITH_ALIBI;
    t.tensor[ATTEST_ALIBI_SLOPES] =
        trial::make(ATTEST_F32, {r.chance(50) ? p.batch : 1, p.num_heads});
    for (size_t n = 0; n < t.tensor[ATTEST_ALIBI_SLOPES].elements(); ++n)
      t.tensor[ATTEST_ALIBI_SLOPES].set(static_cast<int64_t>(n),
                                        static_cast<double>(r.upto(64)) / 128);
  }
  return t;
}

Trial window_trial(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  set_heads(t, r);
  attest_softmax_params& p = t.softmax();
  p.seq_len_q = p.seq_len_kv = r.upto(r.chance(20) ? 500 : 150);
  const int kind = static_cast<int>(r.upto(3));
  if (kind == 1) set_band(t, r);
  if (kind == 2) {
    t.features |= ATTEST_WITH_PATCHES;
    p.patch_size = r.upto(90);
  }
  if (kind == 3) {
    t.features |= ATTEST_WITH_GRID;
    p.window_height = r.upto(8);
    p.window_width = r.upto(8);
    p.grid_height = p.window_height * r.upto(3);
    p.grid_width = p.window_width * r.upto(3);
    p.seq_len_q = p.seq_len_kv = p.grid_height * p.grid_width;
    if (r.chance(60)) {
      p.shift_y = r.upto(p.window_height) - 1;
      p.shift_x = r.upto(p.window_width) - 1;
      p.shift_bias = -100;
    }
  }
  add_qkvo(t, r, p.seq_len_q, p.seq_len_kv, false, r.pick({1.0, 1.0, 4.0}));
  if (kind != 3 && r.chance(60)) trial::add_order(t, r);
  if (kind == 2 && r.chance(30)) set_band(t, r);
  if (kind == 3 && r.chance(60)) {
    t.features |= ATTEST_WITH_REL_BIAS;
    t.tensor[ATTEST_REL_BIAS] =
        trial::make(t.tensor[ATTEST_Q].spec.dtype,
                    {p.num_heads, 2 * p.window_height - 1, 2 * p.window_width - 1});
    trial::randomize(t.tensor[ATTEST_REL_BIAS], r.engine, 1);
  }
  if (r.chance(25)) add_pair_tensor(t, r, ATTEST_BIAS);
  if (r.chance(25)) add_pair_tensor(t, r, ATTEST_MASK);
  return t;
}

Trial linear_trial(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  set_heads(t, r);  // the same fields, copied below
  const attest_softmax_params p = t.softmax();
  std::memset(t.params, 0, sizeof p);
  t.operation = ATTEST_LINEAR;
  t.features &= ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V;
  const int64_t longest = r.chance(10) ? 4500 : 300;
  t.linear() = {sizeof(attest_linear_params),
                0,
                p.batch,
                p.num_heads,
                p.num_kv_heads,
                r.upto(200),
                r.upto(longest),
                std::min<int64_t>(p.head_dim, longest > 300 ? 16 : 80),
                std::min<int64_t>(p.head_dim_v, 100),
                1e-6f,
                0};
  const attest_linear_params l = t.linear();
  const int32_t dtype = r.pick<int32_t>({ATTEST_F32, ATTEST_F16, ATTEST_BF16});
  const int64_t gap = r.chance(25) ? r.upto(5) : 0;
  if (gap > 0) t.features |= ATTEST_WITH_STRIDES;
  t.tensor[ATTEST_Q] = trial::make(dtype, {l.batch, l.num_heads, l.seq_len_q, l.head_dim}, gap);
  t.tensor[ATTEST_K] = trial::make(dtype, {l.batch, l.num_kv_heads, l.seq_len_kv, l.head_dim}, gap);
  t.tensor[ATTEST_V] =
      trial::make(dtype, {l.batch, l.num_kv_heads, l.seq_len_kv, l.head_dim_v}, gap);
  t.tensor[ATTEST_O] = trial::make(dtype, {l.batch, l.num_heads, l.seq_len_q, l.head_dim_v}, gap);
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    trial::randomize(t.tensor[role], r.engine, r.pick({1.0, 5.0}));
  const auto mask = [&](int role, uint64_t feature, std::vector<int64_t> dims) {
    if (r.chance(60)) return;
    t.features |= feature;
    trial::Tensor& m = t.tensor[role] = trial::make(ATTEST_BOOL, dims);
    for (size_t n = 0; n < m.elements(); ++n) m.set(static_cast<int64_t>(n), r.chance(70));
  };
  mask(ATTEST_MASK, ATTEST_WITH_MASK, {r.chance(50) ? l.batch : 1, 1, 1, l.seq_len_kv});
  mask(ATTEST_QUERY_MASK, ATTEST_WITH_QUERY_MASK, {r.chance(50) ? l.batch : 1, 1, l.seq_len_q, 1});
  return t;
}

constexpr const char *kBf16 = "ATTEST_CPU_BF16", *kFloat32 = "ATTEST_CPU_F32";

/// Which products flash_cpu_bf16 or, by kFloat32, flash_cpu and window_cpu multiply by, until the
/// end of the scope.
struct Products {
  explicit Products(const char* name, const char* of = kBf16) : variable(of) {
    setenv(variable, name, 1);
  }
  ~Products() { unsetenv(variable); }
  const char* const variable;
};

/// Q, K, V, O and bias become bf16 tensors: what flash_cpu_bf16 rounds is its weights.
void round_to_bf16(Trial& t) {
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O, ATTEST_BIAS}) {
    if (t.find(role) == nullptr) continue;
    const trial::Tensor was = t.tensor[role];
    trial::Tensor& x = t.tensor[role];
    x.spec.dtype = ATTEST_BF16;
    x.bytes.assign(was.elements() * 2, 0);
    for (size_t n = 0; n < x.elements(); ++n)
      x.set(static_cast<int64_t>(n), was.get(static_cast<int64_t>(n)));
  }
  t.weight_error = 0x1p-8;
  t.exp_error = impls::kCoarseExp2Error;
}

/// Runs and judges a dense problem.
using Judged = std::function<double(Trial&)>;
double run_plugin(const char* name, Trial& t) {
  const attest_impl* const impl = trial::load(name);
  if (impl == nullptr || trial::execute(*impl, t).status != ATTEST_OK) return trial::kInfinity;
  return trial::judge_softmax(t);
}

/// Whether this machine has these products. If not, the implementation has to say so.
bool has_products(const char* name, const char* variable = kBf16) {
  const Products forced(name, variable);
  Trial t;
  attest_softmax_params& p = t.softmax();
  p.struct_size = sizeof p;
  p.batch = p.num_heads = p.num_kv_heads = p.seq_len_q = p.seq_len_kv = 1;
  p.head_dim = p.head_dim_v = 1;
  p.window_left = p.window_right = -1;
  p.softmax_scale = 1;
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O})
    t.tensor[role] = trial::make(ATTEST_BF16, {1, 1, 1, 1});
  const char* const impl = variable == kBf16 ? "flash_cpu_bf16" : "flash_cpu";
  const trial::Outcome outcome = trial::execute(*trial::load(impl), t);
  if (outcome.status == ATTEST_OK) return true;
  EXPECT_EQ(outcome.status, ATTEST_UNSUPPORTED);
  EXPECT_EQ(outcome.reason.find(std::string(variable) + "=" + name + ": no "), 0u)
      << outcome.reason;
  std::printf("%s\n", outcome.reason.c_str());
  return false;
}

/// Runs the body with flash_cpu on each target, by multiply-adds and by terms, and with
/// flash_cpu_bf16 by each of its products.
void on_each_flash(const std::function<void(const char*, const Judged&)>& body) {
  const Judged flash = [](Trial& t) { return run_plugin("flash_cpu", t); };
  on_each_target([&](const char* target) {
    for (const char* by : {"fma", "portable_terms"}) {
      const Products forced(by, kFloat32);
      body((std::string(by) + " on " + target).c_str(), flash);
    }
    const Products forced("portable");
    body((std::string("bf16 on ") + target).c_str(), [](Trial& t) {
      round_to_bf16(t);
      return run_plugin("flash_cpu_bf16", t);
    });
  });
  for (const char* name : {"amx", "avx512_bf16"}) {
    if (!has_products(name)) continue;
    const Products forced(name);
    body(name, [](Trial& t) {
      round_to_bf16(t);
      return run_plugin("flash_cpu_bf16", t);
    });
  }
  if (has_products("amx", kFloat32)) {
    const Products forced("amx", kFloat32);
    body("terms by amx", flash);
  }
}

/// trial::sweep() of flash_cpu or window_cpu with products of terms.
void sweep_terms(const char* impl, uint64_t seeds, Trial (*make)(uint64_t)) {
  if (has_products("amx", kFloat32)) {
    const Products forced("amx", kFloat32);
    sweep_seeds(impl, "terms by amx", seeds, make, trial::judge_softmax);
  }
  const Products forced("portable_terms", kFloat32);
  on_each_target([&](const char* target) {
    sweep_seeds(impl, target, seeds / 3, make, trial::judge_softmax);
  });
}

/// trial::sweep() of flash_cpu_bf16 by each of its products.
void sweep_bf16(uint64_t seeds, Trial (*make)(uint64_t)) {
  const auto rounded = [make](uint64_t seed) {
    Trial t = make(seed);
    round_to_bf16(t);
    return t;
  };
  for (const char* name : {"amx", "avx512_bf16"}) {
    if (!has_products(name)) continue;
    const Products forced(name);
    sweep_seeds("flash_cpu_bf16", name, seeds, rounded, trial::judge_softmax);
  }
  const Products forced("portable");
  on_each_target([&](const char* target) {
    sweep_seeds("flash_cpu_bf16", target, seeds / 3, rounded, trial::judge_softmax);
  });
}

TEST(Kernels, FlashMatchesDefinition) {
  sweep("flash_cpu", 120, flash_trial, trial::judge_softmax);
}
TEST(Kernels, FlashBf16MatchesDefinition) { sweep_bf16(60, flash_trial); }
TEST(Kernels, FlashByTermsMatchesDefinition) { sweep_terms("flash_cpu", 60, flash_trial); }
TEST(Kernels, WindowByTermsMatchesDefinition) { sweep_terms("window_cpu", 60, window_trial); }
TEST(Kernels, WindowMatchesDefinition) {
  sweep("window_cpu", 120, window_trial, trial::judge_softmax);
}
TEST(Kernels, LinearMatchesDefinition) {
  sweep("linear_cpu", 60, linear_trial, trial::judge_linear);
}

Trial dense(int64_t heads, int64_t seq_len_q, int64_t seq_len_kv, int64_t head_dim, uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  attest_softmax_params& p = t.softmax();
  p = {sizeof p, 0, 1, heads, heads, seq_len_q, seq_len_kv, head_dim, head_dim, -1, -1, 0,
       0.125f,   0, 0, 0,     0,     0,         0,          0,        0,        0,  0,  0};
  for (const int role : {ATTEST_Q, ATTEST_O})
    t.tensor[role] = trial::make(ATTEST_F32, {1, heads, seq_len_q, head_dim});
  for (const int role : {ATTEST_K, ATTEST_V})
    t.tensor[role] = trial::make(ATTEST_F32, {1, heads, seq_len_kv, head_dim});
  t.tensor[ATTEST_LSE] = trial::make(ATTEST_F32, {1, heads, seq_len_q});
  t.features = ATTEST_WITH_LSE;
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    trial::randomize(t.tensor[role], r.engine, 1);
  return t;
}

/// Four or more sequences that share a bias, which flash_cpu therefore transposes once. Unless
/// they are packed, the bias hides from all queries a key that has NaN in K or V.
Trial shared_bias_trial(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  set_heads(t, r);
  attest_softmax_params& p = t.softmax();
  p.batch = 3 + r.upto(3);
  p.head_dim = p.head_dim_v = r.pick<int64_t>({8, 17, 32});
  p.seq_len_q = r.pick<int64_t>({2, 16, 49, 65, 100});
  p.seq_len_kv = r.pick<int64_t>({16, 49, 150, 200});
  t.features &= ATTEST_WITH_GQA | ATTEST_WITH_SOFTCAP;
  if (r.chance(40)) set_band(t, r);
  int64_t tokens_q = p.seq_len_q, tokens_kv = p.seq_len_kv;
  const bool packed = r.chance(20);
  if (packed) {
    tokens_q = add_packing(t, r, ATTEST_CU_SEQLENS_Q, tokens_q);
    tokens_kv = add_packing(t, r, ATTEST_CU_SEQLENS_KV, tokens_kv);
  }
  add_qkvo(t, r, tokens_q, tokens_kv, packed, 1.0);
  if (!packed && r.chance(30)) add_lengths(t, r, ATTEST_SEQ_LENS_KV, p.seq_len_kv);
  if (!packed && r.chance(30)) add_lengths(t, r, ATTEST_SEQ_LENS_Q, p.seq_len_q);
  t.features |= ATTEST_WITH_BIAS;
  trial::Tensor& bias = t.tensor[ATTEST_BIAS] =
      trial::make(t.tensor[ATTEST_Q].spec.dtype,
                  {1, r.chance(70) ? p.num_heads : 1, p.seq_len_q, p.seq_len_kv});
  trial::randomize(bias, r.engine, 2);
  const int64_t hidden = r.upto(p.seq_len_kv) - 1;
  for (int64_t n = 0; n < static_cast<int64_t>(bias.elements()); ++n)
    if (n % p.seq_len_kv == hidden || r.chance(10)) bias.set(n, -trial::kInfinity);
  if (packed) return t;
  trial::Tensor& poisoned = t.tensor[r.chance(50) ? ATTEST_K : ATTEST_V];
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_kv_heads; ++h)
      poisoned.set(poisoned.at({b, h, hidden, 3}), std::nan(""));
  return t;
}
TEST(Kernels, BiasesOfManySequencesMatchDefinition) {
  sweep("flash_cpu", 40, shared_bias_trial, trial::judge_softmax);
}
TEST(Kernels, BiasesOfManySequencesInBf16MatchDefinition) { sweep_bf16(20, shared_bias_trial); }
TEST(Kernels, BiasesOfManySequencesByTermsMatchDefinition) {
  sweep_terms("flash_cpu", 20, shared_bias_trial);
}

/// Few queries of many keys: in parts, and heads of one query side by side.
Trial decode_trial(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  set_heads(t, r);
  attest_softmax_params& p = t.softmax();
  p.batch = r.upto(2);
  p.num_kv_heads = r.upto(2);
  p.num_heads = p.num_kv_heads * r.pick<int64_t>({1, 3, 4});
  p.head_dim = p.head_dim_v = r.pick<int64_t>({8, 17, 32});
  t.features = p.softcap > 0 ? ATTEST_WITH_SOFTCAP : 0;
  if (p.num_heads != p.num_kv_heads) t.features |= ATTEST_WITH_GQA;
  p.seq_len_q = r.chance(60) ? 1 : r.upto(16);
  p.seq_len_kv = r.chance(70) ? 4096 + r.upto(4000) : r.upto(300);
  if (r.chance(40)) {
    set_band(t, r);
    if (p.window_left >= 0 && r.chance(70)) p.window_left += 2500;
  }
  add_qkvo(t, r, p.seq_len_q, p.seq_len_kv, false, r.pick({1.0, 4.0}));
  if (r.chance(30)) add_lengths(t, r, ATTEST_SEQ_LENS_KV, p.seq_len_kv);
  if (r.chance(20)) add_lengths(t, r, ATTEST_SEQ_LENS_Q, p.seq_len_q);
  if (r.chance(20)) add_pair_tensor(t, r, ATTEST_BIAS);
  if (r.chance(20)) add_pair_tensor(t, r, ATTEST_MASK);
  if (r.chance(20)) {
    t.features |= ATTEST_WITH_SINKS;
    trial::Tensor& sinks = t.tensor[ATTEST_SINKS] = trial::make(ATTEST_F32, {p.num_heads});
    trial::randomize(sinks, r.engine, 5);
  }
  return t;
}
TEST(Kernels, FewQueriesMatchDefinition) {
  sweep("flash_cpu", 36, decode_trial, trial::judge_softmax);
}

TEST(Kernels, FewQueriesOfBf16MatchDefinition) { sweep_bf16(18, decode_trial); }
TEST(Kernels, FewQueriesByTermsMatchDefinition) { sweep_terms("flash_cpu", 18, decode_trial); }

Trial flash_blocks_trial(uint64_t seed) { return blocks_trial(seed, flash_trial); }
Trial window_blocks_trial(uint64_t seed) { return blocks_trial(seed, window_trial); }

TEST(Kernels, BlockMasksAndGlobalTokensMatchDefinition) {
  sweep("flash_cpu", 36, flash_blocks_trial, trial::judge_softmax);
  sweep("window_cpu", 36, window_blocks_trial, trial::judge_softmax);
}

TEST(Kernels, BlockMasksOfBf16MatchDefinition) { sweep_bf16(24, flash_blocks_trial); }

/// With top_k, in one of three of many keys: lists of keys are cut there.
Trial top_k_trial(uint64_t seed) {
  Random r{std::mt19937_64(seed)};
  Trial t = blocks_trial(seed, seed % 3 == 0 ? decode_trial : flash_trial);
  attest_softmax_params& p = t.softmax();
  t.features |= ATTEST_WITH_TOP_K;
  p.top_k = r.chance(20) ? 1 : r.upto(std::min<int64_t>(p.seq_len_kv, r.chance(50) ? 8 : 200));
  p.top_k_ties = r.chance(50) ? ATTEST_TOP_K_FIRST : ATTEST_TOP_K_ALL_TIES;
  return t;
}

TEST(Kernels, TopKMatchesDefinition) { sweep("flash_cpu", 60, top_k_trial, trial::judge_softmax); }

// Around half a vector, whole vectors and a full block of every target. The last of 71 keys is half
// of a pair of bf16.
TEST(Kernels, EveryTailOfQueriesMatchesDefinition) {
  on_each_flash([](const char* target, const Judged& run_flash) {
    for (const int64_t head_dim : {24, 64})
      for (const int64_t queries :
           {1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 24, 25, 33, 49, 56, 57, 65, 72, 73, 81}) {
        Trial t = dense(1, queries, 71, head_dim, 12);
        EXPECT_LE(run_flash(t), 1) << target << ", " << queries << " queries of " << head_dim;
      }
  });
}

/// The first queries of a problem.
Trial with_queries(int64_t queries, Trial t) {
  t.softmax().seq_len_q = queries;
  for (const int role : {ATTEST_Q, ATTEST_O, ATTEST_LSE, ATTEST_BIAS, ATTEST_MASK})
    if (t.tensor.count(role) != 0) t.tensor[role].spec.dim[2] = queries;
  return t;
}

/// Rows of each number of queries below 57 have the bits that they have among 57.
void expect_same_rows(const char* what, const std::string& target, const Trial& whole) {
  const auto rows_of = [&](int64_t queries) {
    Trial t = with_queries(queries, whole);
    EXPECT_EQ(trial::execute(*trial::load("flash_cpu"), t).status, ATTEST_OK) << what;
    return std::array{t.tensor[ATTEST_O].bytes, t.tensor[ATTEST_LSE].bytes};
  };
  const size_t row_bytes = 64 * trial::size_of(whole.find(ATTEST_O)->spec.dtype);
  const auto all = rows_of(57);
  for (int64_t queries = 1; queries < 57; ++queries) {
    const auto some = rows_of(queries);
    const size_t rows = static_cast<size_t>(queries);
    EXPECT_EQ(std::memcmp(some[0].data(), all[0].data(), rows * row_bytes), 0)
        << what << ", " << target << ", " << queries << " queries";
    EXPECT_EQ(std::memcmp(some[1].data(), all[1].data(), rows * 4), 0)
        << "lse, " << what << ", " << target << ", " << queries << " queries";
  }
}

/// Whether a query sees a key: four of five, and of two queries, one of which is alone beyond whole
/// vectors on most targets, none.
bool sees_key(int64_t query, int64_t key) {
  return (query * 7 + key) % 5 != 0 && query != 20 && query != 48;
}

/// Four sequences that share a bias, which hides some keys.
Trial with_shared_bias() {
  Trial t = dense(4, 57, 205, 64, 14);
  t.softmax().batch = 4;
  t.softmax().num_heads = t.softmax().num_kv_heads = 1;
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O, ATTEST_LSE}) {
    attest_tensor& spec = t.tensor[role].spec;
    std::swap(spec.dim[0], spec.dim[1]);
    std::swap(spec.stride[0], spec.stride[1]);
  }
  Random r{std::mt19937_64(15)};
  t.features |= ATTEST_WITH_BIAS;
  trial::Tensor& bias = t.tensor[ATTEST_BIAS] = trial::make(ATTEST_F32, {1, 1, 57, 205});
  trial::randomize(bias, r.engine, 1);
  for (int64_t i = 0; i < 57; ++i)
    for (int64_t j = 0; j < 205; ++j)
      if (!sees_key(i, j)) bias.set(bias.at({0, 0, i, j}), -trial::kInfinity);
  return t;
}

void expect_same_rows(const std::string& target) {
  const Trial plain = dense(1, 57, 205, 64, 13);
  expect_same_rows("plain", target, plain);
  expect_same_rows("a shared bias", target, with_shared_bias());

  Trial capped = plain;
  capped.features |= ATTEST_WITH_SOFTCAP;
  capped.softmax().softcap = 2;
  expect_same_rows("softcap", target, capped);

  Trial banded = plain;
  banded.features |= ATTEST_WITH_WINDOW;
  banded.softmax().window_left = 9;
  banded.softmax().window_right = 60;
  expect_same_rows("a band", target, banded);

  Trial masked = plain;
  masked.features |= ATTEST_WITH_MASK;
  trial::Tensor& mask = masked.tensor[ATTEST_MASK] = trial::make(ATTEST_BOOL, {1, 1, 57, 205});
  for (int64_t i = 0; i < 57; ++i)
    for (int64_t j = 0; j < 205; ++j) mask.set(mask.at({0, 0, i, j}), sees_key(i, j));
  expect_same_rows("a mask", target, masked);

  Trial half = plain;
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
    trial::Tensor& x = half.tensor[role];
    x = trial::make(ATTEST_F16, {1, 1, x.spec.dim[2], 64});
    const trial::Tensor& from = *plain.find(role);
    for (size_t n = 0; n < x.elements(); ++n)
      x.set(static_cast<int64_t>(n), from.get(static_cast<int64_t>(n)));
  }
  expect_same_rows("f16", target, half);
}

/// The shortest of the times in seconds that the runs of two problems took in turn.
std::array<double, 2> times_in_turn(const char* impl, Trial& first, Trial& second) {
  using Clock = std::chrono::steady_clock;
  std::array<double, 2> best{trial::kInfinity, trial::kInfinity};
  for (int run = 0; run < 7; ++run) {
    for (Trial* const t : {&first, &second}) {
      const Clock::time_point start = Clock::now();
      EXPECT_EQ(trial::execute(*trial::load(impl), *t).status, ATTEST_OK) << impl;
      double& least = best[t == &first ? 0 : 1];
      least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  return best;
}

// Where a weight is a subnormal number, AVX-512 takes a hundred times as long to scale it by a
// power of 2, and the whole run 4 to 8 times as long.
TEST(Kernels, WeightsThatUnderflowTakeNoLonger) {
  const auto expect_no_longer = [](const char* impl, const std::string& by) {
    Trial flat = dense(4, 256, 256, 32, 12);
    round_to_bf16(flat);
    Trial peaked = flat;
    peaked.softmax().softmax_scale *= 300;
    const auto [of_flat, of_peaked] = times_in_turn(impl, flat, peaked);
    EXPECT_LT(of_peaked, 3 * of_flat) << impl << ' ' << by;
  };
  for (const char* by : {"portable_terms", "amx"}) {
    if (!has_products(by, kFloat32)) continue;
    const Products forced(by, kFloat32);
    expect_no_longer("flash_cpu", by);
  }
  for (const char* by : {"portable", "avx512_bf16", "amx"}) {
    if (!has_products(by)) continue;
    const Products forced(by);
    expect_no_longer("flash_cpu_bf16", by);
  }
}

// The caller's subnormal numbers are its own affair.
TEST(Kernels, SubnormalNumbersAreNumbersAgainAfterARun) {
  Trial t = dense(1, 64, 64, 32, 13);
  round_to_bf16(t);
  EXPECT_LE(run_plugin("flash_cpu_bf16", t), 1);
  volatile float least = std::numeric_limits<float>::min();
  const float half = least / 2;
  EXPECT_GT(half, 0.0f);
}

// Few queries, half vectors and whole blocks multiply in other ways, but sum in one order.
TEST(Kernels, RowsHaveTheSameBitsWhateverQueriesTheyRunWith) {
  on_each_target([](const char* target) {
    const Products forced("fma", kFloat32);
    expect_same_rows(target);
  });
  if (!has_products("amx", kFloat32)) return;
  const Products forced("amx", kFloat32);
  expect_same_rows("terms by amx");
}

// Half of the rows end in the middle of a tile, which other rows see whole.
TEST(Kernels, ProductsOfTermsAgree) {
  const auto outputs = [](const char* name, int32_t dtype) {
    const Products forced(name, kFloat32);
    Trial t = dense(2, 300, 700, 72, 11);
    for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
      trial::Tensor& x = t.tensor[role];
      const trial::Tensor was = x;
      x = trial::make(dtype, {1, 2, role == ATTEST_Q || role == ATTEST_O ? 300 : 700, 72});
      if (role == ATTEST_O) continue;
      for (size_t n = 0; n < x.elements(); ++n)
        x.set(static_cast<int64_t>(n), was.get(static_cast<int64_t>(n)));
    }
    t.features |= ATTEST_WITH_CAUSAL;
    t.softmax().window_right = 0;
    EXPECT_EQ(trial::execute(*trial::load("flash_cpu"), t).status, ATTEST_OK) << name;
    t.tensor[ATTEST_O].decode();
    return t.tensor[ATTEST_O].values;
  };
  for (const int32_t dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
    const std::vector<double> expected = outputs("fma", dtype);
    const double last_bit = dtype == ATTEST_F32 ? 0x1p-18 : dtype == ATTEST_F16 ? 0x1p-10 : 0x1p-7;
    for (const char* name : {"portable_terms", "amx"}) {
      if (name[0] == 'a' && !has_products(name, kFloat32)) continue;
      const std::vector<double> got = outputs(name, dtype);
      for (size_t n = 0; n < got.size(); ++n)
        EXPECT_NEAR(got[n], expected[n], last_bit * (0.25 + std::abs(expected[n])))
            << name << ", dtype " << dtype;
    }
  }
}

TEST(Kernels, LogitsOfThirtyThousandAndBeyond) {
  on_each_flash([](const char* target, const Judged& run_flash) {
    for (const double scale : {300.0, 30000.0, 1e6}) {
      Trial t = dense(2, 61, 197, 64, 5);
      t.softmax().softmax_scale = static_cast<float>(scale / 8);
      EXPECT_LE(run_flash(t), 1) << target << ", scale " << scale;
    }
  });
}

/// Poisons key 70 of 150 in K, V or both, hides it from the even queries by a mask: they must not
/// notice, the odd ones must.
TEST(Kernels, HiddenNanAndInfDoNotLeakAndVisibleOnesDo) {
  on_each_flash([](const char* target, const Judged& run_flash) {
    for (const double poison : {std::nan(""), trial::kInfinity}) {
      for (const int role : {ATTEST_K, ATTEST_V}) {
        Trial t = dense(1, 100, 150, 24, 6);
        t.features |= ATTEST_WITH_MASK;
        t.tensor[ATTEST_MASK] = trial::make(ATTEST_BOOL, {1, 1, 100, 150});
        for (int64_t n = 0; n < 100 * 150; ++n)
          t.tensor[ATTEST_MASK].set(n, n % 150 != 70 || n / 150 % 2 == 1);
        t.tensor[role].set(70 * 24 + 3, poison);
        ASSERT_TRUE(std::isfinite(run_flash(t))) << target;
        for (int64_t i = 0; i < 100; ++i) {
          const double o = t.tensor[ATTEST_O]({0, 0, i, 3});
          EXPECT_EQ(std::isfinite(o),
                    i % 2 == 0 || (std::isinf(poison) && role == ATTEST_K && std::isfinite(o)))
              << target << " query " << i;
        }
      }
    }
  });
}

// Logits of 0 but for key `at`, or of -400 up to it: as floats its weight, or what was summed by
// then, comes to 0.
TEST(Kernels, InfinitiesStayHoweverSmallTheirWeight) {
  on_each_flash([](const char* target, const Judged& run_flash) {
    for (const int64_t at : {int64_t{3}, int64_t{140}})
      for (const bool rising : {false, true})
        for (const bool masked : {false, true}) {
          Trial t = dense(1, 100, 150, 24, 6);
          t.softmax().softmax_scale = 1;
          for (int64_t n = 0; n < 100 * 24; ++n) t.tensor[ATTEST_Q].set(n, n % 24 == 0);
          for (int64_t n = 0; n < 150 * 24; ++n) {
            const int64_t j = n / 24;
            t.tensor[ATTEST_K].set(n, n % 24 == 0 && (rising ? j <= at : j == at) ? -400 : 0);
            t.tensor[ATTEST_V].set(n, 1);
          }
          t.tensor[ATTEST_V].set(at * 24 + 3, trial::kInfinity);
          t.tensor[ATTEST_V].set(at * 24 + 4, trial::kInfinity);
          t.tensor[ATTEST_V].set(10 * 24 + 4, -trial::kInfinity);
          if (masked) {  // from every second query
            t.features |= ATTEST_WITH_MASK;
            t.tensor[ATTEST_MASK] = trial::make(ATTEST_BOOL, {1, 1, 100, 150});
            for (int64_t n = 0; n < 100 * 150; ++n)
              t.tensor[ATTEST_MASK].set(n, n % 150 != at || n / 150 % 2 == 1);
          }
          run_flash(t);
          for (int64_t i = 0; i < 100; ++i) {
            const bool seen = !masked || i % 2 == 1;
            const double o = t.tensor[ATTEST_O]({0, 0, i, 3});
            EXPECT_TRUE(seen ? o == trial::kInfinity : std::abs(o - 1) <= t.exp_error)
                << o << ", " << target << " query " << i << " key " << at;
            EXPECT_EQ(std::isnan(t.tensor[ATTEST_O]({0, 0, i, 4})), seen)
                << target << " query " << i << " key " << at;
            EXPECT_NEAR(t.tensor[ATTEST_O]({0, 0, i, 5}), 1, t.exp_error)
                << target << " query " << i << " key " << at;
          }
        }
  });
}
TEST(Kernels, CausalFutureNanDoesNotLeak) {
  on_each_flash([](const char* target, const Judged& run_flash) {
    Trial t = dense(1, 150, 150, 32, 7);
    t.features |= ATTEST_WITH_CAUSAL;
    t.softmax().window_right = 0;
    for (const int role : {ATTEST_K, ATTEST_V})
      for (int64_t c = 0; c < 32; ++c) t.tensor[role].set(90 * 32 + c, std::nan(""));
    EXPECT_LE(run_flash(t), 1) << target;
    EXPECT_TRUE(std::isfinite(t.tensor[ATTEST_O]({0, 0, 89, 0})));
    EXPECT_TRUE(std::isnan(t.tensor[ATTEST_O]({0, 0, 90, 0})));
  });
}

TEST(Kernels, LongSumsStayAccurate) {
  Trial t = dense(1, 20, 20000, 16, 8);
  for (int64_t n = 0; n < 20000 * 16; ++n)
    t.tensor[ATTEST_V].set(n, t.tensor[ATTEST_V].get(n) * 0.01 + 1);  // mean 1: sums grow
  for (const char* by : {"fma", "portable_terms", "amx"}) {
    if (!has_products(by, kFloat32)) continue;
    const Products forced(by, kFloat32);
    EXPECT_LE(run_plugin("flash_cpu", t), 0.5) << by;
  }
}

void expect_same_bits_for_any_threads(const std::vector<const char*>& impls) {
  for (const char* name : impls) {
    const attest_impl* const impl = trial::load(name);
    ASSERT_NE(impl, nullptr);
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      std::vector<char> first;
      for (const int32_t threads : {1, 2, 3}) {
        Trial t = std::string(name) == "window_cpu"   ? window_trial(seed)
                  : std::string(name) == "linear_cpu" ? linear_trial(seed)
                  : seed % 2                          ? flash_trial(seed)
                                                      : decode_trial(seed);
        if (std::string(name) == "flash_cpu_bf16") round_to_bf16(t);
        t.threads = threads;
        if (trial::execute(*impl, t).status != ATTEST_OK) continue;
        const std::vector<char>& o = t.tensor[ATTEST_O].bytes;
        if (threads == 1)
          first = o;
        else
          EXPECT_TRUE(o == first) << name << ", seed " << seed << ", threads " << threads;
      }
    }
  }
}
TEST(Kernels, SameBitsForAnyNumberOfThreads) {
  expect_same_bits_for_any_threads({"flash_cpu", "flash_cpu_bf16", "window_cpu", "linear_cpu"});
  const Products forced("portable_terms", kFloat32);
  expect_same_bits_for_any_threads({"flash_cpu", "window_cpu"});
}

/// The products sum the same numbers in other orders: outputs hardly differ but by their rounding.
TEST(Kernels, ProductsOfBf16Agree) {
  const attest_impl* const impl = trial::load("flash_cpu_bf16");
  ASSERT_NE(impl, nullptr);
  const auto outputs = [&](const char* name) {
    const Products forced(name);
    Trial t = dense(2, 100, 300, 72, 11);
    round_to_bf16(t);
    EXPECT_EQ(trial::execute(*impl, t).status, ATTEST_OK) << name;
    t.tensor[ATTEST_O].decode();
    return t.tensor[ATTEST_O].values;
  };
  const std::vector<double> expected = outputs("portable");
  for (const char* name : {"amx", "avx512_bf16"}) {
    if (!has_products(name)) continue;
    const std::vector<double> got = outputs(name);
    for (size_t n = 0; n < got.size(); ++n)
      EXPECT_NEAR(got[n], expected[n], 3e-4 + 0x1p-7 * std::abs(expected[n])) << name;
  }
}

TEST(Kernels, RefusalsSayWhy) {
  Trial t = dense(1, 10, 10, 8, 9);
  const trial::Outcome outcome = trial::execute(*trial::load("window_cpu"), t);
  EXPECT_EQ(outcome.status, ATTEST_UNSUPPORTED);
  EXPECT_EQ(outcome.reason, "takes only problems with a window, patches, a grid or a block mask");

  Trial columns = dense(1, 10, 10, 8, 9);
  columns.features |= ATTEST_WITH_STRIDES;
  columns.tensor[ATTEST_K].spec.stride[3] = 10;
  columns.tensor[ATTEST_K].spec.stride[2] = 1;
  EXPECT_EQ(trial::execute(*trial::load("flash_cpu"), columns).status, ATTEST_UNSUPPORTED);

  const Products forced("sve");
  Trial plain = dense(1, 10, 10, 8, 9);
  round_to_bf16(plain);
  EXPECT_EQ(trial::execute(*trial::load("flash_cpu_bf16"), plain).reason,
            "ATTEST_CPU_BF16 is none of amx, avx512_bf16, portable");

  const Products unknown("sve", kFloat32);
  Trial floats = dense(1, 10, 10, 8, 9);
  EXPECT_EQ(trial::execute(*trial::load("flash_cpu"), floats).reason,
            "ATTEST_CPU_F32 is none of fma, amx, portable_terms");
}

}  // namespace
