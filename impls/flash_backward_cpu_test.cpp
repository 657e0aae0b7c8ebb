// flash_backward_cpu against float64 by definition: random problems of small odd sizes with every
// feature and element type, on every instruction set that this machine has; what is hidden; and the
// same bits from any number of threads.
#include <gtest/gtest.h>

#include "simd/testing/sweep.hpp"
#include "simd/testing/trial.hpp"

namespace {

using trial::Random, trial::Tensor, trial::Trial;

/// `finite`: else some elements of Q, K, V and dO are NaN, and an lse may be -inf where keys are
/// seen, whose p is infinite then.
Trial make_trial(uint64_t seed, bool finite) {
  Random r{std::mt19937_64(seed)};
  Trial t;
  t.operation = ATTEST_SOFTMAX_BACKWARD;
  trial::set_heads(t, r);
  attest_softmax_params& p = t.softmax();
  p.head_dim = std::min<int64_t>(p.head_dim, 200);
  p.head_dim_v = std::min<int64_t>(p.head_dim_v, 88);
  if (p.head_dim != p.head_dim_v) t.features |= ATTEST_WITH_HEAD_DIM_V;
  p.seq_len_q = r.chance(10) ? 1 : r.upto(r.chance(20) ? 220 : 60);
  p.seq_len_kv = r.chance(10) ? 1 : r.upto(r.chance(20) ? 300 : 70);
  if (seed == 12) {  // parts of two tiles, and two blocks of queries
    p.batch = 1;
    p.num_heads = p.num_kv_heads = 3;
    t.features &= ~uint64_t{ATTEST_WITH_GQA};
    p.seq_len_q = 100;
    p.seq_len_kv = 700;
    p.head_dim = p.head_dim_v = 8;
    t.features &= ~uint64_t{ATTEST_WITH_HEAD_DIM_V};
  }
  const bool has_gap = seed == 11;  // between global tokens and the window, in a block and in parts
  if (has_gap) p.seq_len_q = p.seq_len_kv = 200;
  const bool has_patches = seed % 6 == 4;  // of several blocks and of less than one
  if (has_patches) {
    t.features |= ATTEST_WITH_PATCHES;
    p.seq_len_kv = p.seq_len_q;
    p.patch_size = r.upto(r.chance(50) ? p.seq_len_q + 3 : 20);
  }
  const bool has_grid = seed % 9 == 5;  // of windows of a few queries, or of two blocks
  if (has_grid) {
    t.features |= ATTEST_WITH_GRID;
    p.window_height = r.upto(8);
    p.window_width = r.upto(seed == 5 ? 16 : 8);
    p.grid_height = p.window_height * r.upto(3);
    p.grid_width = p.window_width * r.upto(3);
    p.seq_len_q = p.seq_len_kv = p.grid_height * p.grid_width;
    p.shift_y = r.upto(p.window_height) - 1;
    p.shift_x = r.upto(p.window_width) - 1;
    p.shift_bias = r.pick({0.0f, -2.0f, -100.0f});
  }
  if (r.chance(60) && !has_grid) trial::set_band(t, r);
  if (has_gap) {
    t.features |= ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW;
    p.window_left = 3;
    p.window_right = 0;
    p.diagonal_offset = 0;
  }
  const bool strided = r.chance(25);
  if (strided) t.features |= ATTEST_WITH_STRIDES;
  const int32_t dtype = r.pick<int32_t>({ATTEST_F32, ATTEST_F16, ATTEST_BF16});
  // On both sides, so that patches and global tokens may be beside it.
  const bool is_packed = seed % 5 == 3 && !has_grid;
  const bool has_order = !is_packed && !has_grid && seed % 7 == 1;
  if (has_order) {
    p.seq_len_kv = p.seq_len_q;
    trial::add_order(t, r);
  }
  int64_t tokens_q = p.seq_len_q, tokens_kv = p.seq_len_kv;
  if (is_packed) {
    tokens_q = trial::add_packing(t, r, ATTEST_CU_SEQLENS_Q, p.seq_len_q);
    tokens_kv = tokens_q;
    if (has_patches)
      t.tensor[ATTEST_CU_SEQLENS_KV] = t.tensor[ATTEST_CU_SEQLENS_Q];
    else
      tokens_kv = trial::add_packing(t, r, ATTEST_CU_SEQLENS_KV, p.seq_len_kv);
  }
  for (const int role :
       {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O, ATTEST_DO, ATTEST_DQ, ATTEST_DK, ATTEST_DV}) {
    const bool of_keys =
                   role == ATTEST_K || role == ATTEST_V || role == ATTEST_DK || role == ATTEST_DV,
               wide =
                   role == ATTEST_Q || role == ATTEST_K || role == ATTEST_DQ || role == ATTEST_DK;
    t.tensor[role] = trial::make(dtype,
                                 {is_packed ? 1 : p.batch, of_keys ? p.num_kv_heads : p.num_heads,
                                  of_keys ? tokens_kv : tokens_q, wide ? p.head_dim : p.head_dim_v},
                                 strided ? r.upto(5) : 0);
  }
  t.tensor[ATTEST_LSE] = trial::make(ATTEST_F32, {is_packed ? 1 : p.batch, p.num_heads, tokens_q});
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_DO}) {
    Tensor& x = t.tensor[role];
    trial::randomize(x, r.engine, role == ATTEST_Q ? r.pick({0.0, 1.0, 1.0, 4.0}) : 1);
    const auto elements = static_cast<int64_t>(x.elements());
    for (int64_t n = 0; !finite && n < r.upto(3); ++n) x.set(r.upto(elements) - 1, std::nan(""));
  }
  if (has_grid && r.chance(60)) {
    t.features |= ATTEST_WITH_REL_BIAS;
    Tensor& rel_bias = t.tensor[ATTEST_REL_BIAS] =
        trial::make(dtype, {p.num_heads, 2 * p.window_height - 1, 2 * p.window_width - 1});
    trial::randomize(rel_bias, r.engine, 1);
  }
  if (r.chance(25)) trial::add_pair_tensor(t, r, ATTEST_BIAS);
  if (r.chance(finite ? 25 : 60)) trial::add_pair_tensor(t, r, ATTEST_MASK);
  if (r.chance(25) && !has_grid) {
    t.features |= ATTEST_WITH_ALIBI;
    Tensor& slopes = t.tensor[ATTEST_ALIBI_SLOPES] =
        trial::make(ATTEST_F32, {r.pick<int64_t>({1, p.batch}), p.num_heads});
    for (int64_t n = 0; n < static_cast<int64_t>(slopes.elements()); ++n)
      slopes.set(n, std::pow(0.5, static_cast<double>(r.upto(8))));
  }
  Random more{std::mt19937_64(seed + 1000)};
  if (more.chance(20)) {
    t.features |= ATTEST_WITH_SINKS;
    Tensor& sinks = t.tensor[ATTEST_SINKS] = trial::make(ATTEST_F32, {p.num_heads});
    trial::randomize(sinks, more.engine, 2);
    if (finite) {
      t.features |= ATTEST_WITH_DSINKS;
      t.tensor[ATTEST_DSINKS] = trial::make(ATTEST_F32, {p.num_heads});
    }
  }
  if (more.chance(25) && !has_grid) {
    t.features |= ATTEST_WITH_BLOCK_MASK;
    p.block_q = more.upto(40);
    p.block_kv = more.upto(80);
    Tensor& blocks = t.tensor[ATTEST_BLOCK_MASK] = trial::make(
        ATTEST_BOOL,
        {more.pick<int64_t>({1, p.batch}), more.pick<int64_t>({1, p.num_heads}),
         (p.seq_len_q + p.block_q - 1) / p.block_q, (p.seq_len_kv + p.block_kv - 1) / p.block_kv});
    for (int64_t n = 0; n < static_cast<int64_t>(blocks.elements()); ++n)
      blocks.set(n, more.chance(60));
  }
  for (const int role : {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV}) {
    if (!more.chance(30) || has_patches || is_packed || has_grid || has_order) continue;
    t.features |= ATTEST_WITH_SEQ_LENS;
    Tensor& lengths = t.tensor[role] = trial::make(ATTEST_I32, {p.batch});
    const int64_t longest = role == ATTEST_SEQ_LENS_Q ? p.seq_len_q : p.seq_len_kv;
    for (int64_t b = 0; b < p.batch; ++b)
      lengths.set(b, static_cast<double>(more.upto(longest + 1) - 1));
  }
  if (t.find(ATTEST_BIAS) == nullptr && more.chance(30))
    trial::add_pair_tensor(t, more, ATTEST_BIAS);
  if (const Tensor* bias = t.find(ATTEST_BIAS); bias != nullptr && more.chance(75) && !has_grid) {
    const int64_t* const dim = bias->spec.dim;
    if (dim[3] == p.seq_len_kv) {
      t.features |= ATTEST_WITH_DBIAS;
      t.tensor[ATTEST_DBIAS] =
          trial::make(dtype, {dim[0], dim[1], dim[2], dim[3]}, strided ? more.upto(5) : 0);
    }
  }
  if ((more.chance(25) && !has_patches && !has_grid) || has_gap) {
    t.features |= ATTEST_WITH_GLOBAL;
    p.global_tokens = has_gap ? 5 : more.upto(std::min(p.seq_len_q, p.seq_len_kv));
  }
  trial::write_forward(t);
  Tensor& lse = t.tensor[ATTEST_LSE];
  if (!finite && r.chance(30))
    lse.set(r.upto(static_cast<int64_t>(lse.elements())) - 1, -trial::kInfinity);
  return t;
}

TEST(FlashBackwardCpu, MatchesDefinition) {
  trial::sweep(
      "flash_backward_cpu", 36, [](uint64_t seed) { return make_trial(seed, true); },
      trial::judge_backward);
}

// A row that has NaN, or an infinite p, spoils what it is seen by, and nothing else.
TEST(FlashBackwardCpu, NothingHiddenLeaks) {
  trial::sweep(
      "flash_backward_cpu", 36, [](uint64_t seed) { return make_trial(seed, false); },
      trial::judge_backward);
}

/// Ten parts of keys, whose tasks take so long that threads overlap: of one head, or of three
/// sequences of two heads that share a bias. O and LSE belong to no forward pass; they only have to
/// be numbers.
Trial make_long_trial(bool has_bias) {
  Trial t;
  t.operation = ATTEST_SOFTMAX_BACKWARD;
  attest_softmax_params& p = t.softmax();
  p.struct_size = sizeof p;
  p.batch = has_bias ? 3 : 1;
  p.num_heads = p.num_kv_heads = has_bias ? 2 : 1;
  p.seq_len_q = has_bias ? 400 : 3000;
  p.seq_len_kv = 640;
  p.head_dim = p.head_dim_v = 32;
  p.window_left = p.window_right = -1;
  p.softmax_scale = 0.2f;
  std::mt19937_64 random(1);
  for (const int role :
       {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O, ATTEST_DO, ATTEST_DQ, ATTEST_DK, ATTEST_DV}) {
    const bool of_keys =
        role == ATTEST_K || role == ATTEST_V || role == ATTEST_DK || role == ATTEST_DV;
    t.tensor[role] = trial::make(
        ATTEST_F32, {p.batch, p.num_heads, of_keys ? p.seq_len_kv : p.seq_len_q, p.head_dim});
    trial::randomize(t.tensor[role], random, 1);
  }
  t.tensor[ATTEST_LSE] = trial::make(ATTEST_F32, {p.batch, p.num_heads, p.seq_len_q});
  trial::randomize(t.tensor[ATTEST_LSE], random, 1);
  if (has_bias) {
    t.features |= ATTEST_WITH_BIAS | ATTEST_WITH_DBIAS;
    t.tensor[ATTEST_DBIAS] = t.tensor[ATTEST_BIAS] =
        trial::make(ATTEST_F32, {1, 1, p.seq_len_q, p.seq_len_kv});
    trial::randomize(t.tensor[ATTEST_BIAS], random, 1);
  }
  return t;
}

// The parts of the keys are added to dQ in their order, the heads to DBIAS.
TEST(FlashBackwardCpu, GivesTheSameBitsFromAnyNumberOfThreads) {
  const attest_impl* const impl = trial::load("flash_backward_cpu");
  ASSERT_NE(impl, nullptr);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Trial one = seed % 2 == 0 ? make_long_trial(seed % 4 == 0) : make_trial(seed, true);
    one.threads = 1;
    Trial many = one;
    many.threads = 5;
    ASSERT_EQ(trial::execute(*impl, one).status, ATTEST_OK);
    ASSERT_EQ(trial::execute(*impl, many).status, ATTEST_OK);
    for (const auto& [role, tensor] : one.tensor)
      EXPECT_TRUE(tensor.bytes == many.tensor[role].bytes) << seed << " " << role;
  }
}

}  // namespace
