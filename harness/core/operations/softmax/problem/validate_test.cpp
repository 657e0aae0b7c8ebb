// Every refusal of a softmax problem: it names the field and says what would be right. And the
// table of fields itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "core/operations/softmax/testing/make_case.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

// A field that is forgotten leaves a hole between those that are there.
TEST(SoftmaxFields, CoverTheStruct) {
  std::vector<std::pair<size_t, size_t>> spans;
  for (const Field& field : softmax_operation().fields())
    spans.emplace_back(field.offset, field.type == Field::Type::kI64 ? 8 : 4);
  std::sort(spans.begin(), spans.end());
  size_t next = sizeof(Params::struct_size);
  for (const auto& [offset, size] : spans) {
    if (next == offsetof(Params, reserved_)) next += sizeof(float);
    if (next == offsetof(Params, reserved2_)) next += sizeof(int32_t);
    EXPECT_EQ(offset, next);
    next = offset + size;
  }
  EXPECT_EQ(next, sizeof(Params));
}

TEST(SoftmaxFields, NeutralValuesFollowFromTheOthers) {
  Problem problem = blank_problem(softmax_operation(), ATTEST_F16);
  problem.as<Params>().seq_len_q = 197;
  problem.as<Params>().head_dim = 64;
  problem.as<Params>().num_heads = 3;
  finish_problem(problem);
  const auto& p = problem.as<Params>();
  EXPECT_EQ(p.struct_size, sizeof(Params));
  EXPECT_EQ(p.num_kv_heads, 3);
  EXPECT_EQ(p.seq_len_kv, 197);
  EXPECT_EQ(p.head_dim_v, 64);
  EXPECT_EQ(p.softmax_scale, 0.125f);
  EXPECT_EQ(problem.features, 0u);
  EXPECT_EQ(softmax_operation().flops(problem), 3.0 * 197 * 197 * 4 * 64);
}

TEST(SoftmaxFeatures, OneBitEach) {
  auto features = [](const std::function<void(Params&)>& set,
                     const std::vector<int32_t>& with = {}) {
    return print_features(testing::make_case("", set, with).problem.features);
  };
  EXPECT_EQ(features([](Params& p) { p.num_kv_heads = 1; }), "GQA");
  EXPECT_EQ(features([](Params& p) { p.head_dim_v = 5; }), "HEAD_DIM_V");
  EXPECT_EQ(features([](Params& p) { p.window_right = 0; }), "CAUSAL");
  EXPECT_EQ(features([](Params& p) { p.window_left = 0; }), "WINDOW");
  EXPECT_EQ(features([](Params& p) { p.window_right = 1; }), "WINDOW");
  EXPECT_EQ(features([](Params& p) {
              p.window_left = 3;
              p.window_right = 0;
              p.diagonal = 1;
            }),
            "CAUSAL+WINDOW+DIAGONAL");
  EXPECT_EQ(features([](Params& p) { p.diagonal_offset = -1; }), "DIAGONAL");
  EXPECT_EQ(features([](Params& p) { p.softcap = 1; }), "SOFTCAP");
  EXPECT_EQ(features([](Params&) {}, {ATTEST_BIAS, ATTEST_MASK, ATTEST_LSE}), "BIAS+MASK+LSE");
  EXPECT_EQ(features([](Params&) {}, {ATTEST_ALIBI_SLOPES}), "ALIBI");
  EXPECT_EQ(features([](Params&) {}, {ATTEST_CU_SEQLENS_KV}), "VARLEN");
  EXPECT_EQ(features([](Params&) {}, {ATTEST_SEQ_LENS_Q}), "SEQ_LENS");
  EXPECT_EQ(features([](Params& p) { p.page_size = 4; }, {ATTEST_PAGE_TABLE}), "PAGES");
  EXPECT_EQ(features([](Params& p) { p.patch_size = 4; }, {ATTEST_ORDER}), "ORDER+PATCHES");
  EXPECT_EQ(features(
                [](Params& p) {
                  p.grid_height = p.window_height = 1;
                  p.grid_width = p.window_width = 37;
                },
                {ATTEST_REL_BIAS}),
            "GRID+REL_BIAS");
  EXPECT_EQ(features([](Params& p) { p.block_q = p.block_kv = 8; }, {ATTEST_BLOCK_MASK}),
            "BLOCK_MASK");
  EXPECT_EQ(features([](Params& p) {
              p.window_right = 0;
              p.global_tokens = 1;
            }),
            "CAUSAL+GLOBAL");
  EXPECT_EQ(features([](Params& p) { p.top_k = 1; }), "TOP_K");
  EXPECT_EQ(print_features(testing::make_case(
                               "", [](Params&) {}, {}, ATTEST_F16, ATTEST_F8E4M3)
                               .problem.features),
            "MIXED_DTYPE");
  EXPECT_EQ(print_features(testing::make_case(
                               "", [](Params&) {}, {ATTEST_V_DESCALE}, ATTEST_F16, ATTEST_F8E4M3)
                               .problem.features),
            "MIXED_DTYPE+DESCALE");
}

std::string f8_complaint(const std::function<void(Params&)>& set, const std::vector<int32_t>& with,
                         DType q, DType v) {
  try {
    testing::Case c =
        testing::make_case("", [](Params&) {}, with, ATTEST_F16, is_f8(q) ? q : ATTEST_NONE);
    c.problem.tensor[ATTEST_V].dtype = v;
    set(c.problem.as<Params>());
    finish_problem(c.problem);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SoftmaxF8, MessagesNameFieldAndRemedy) {
  const auto nothing = [](Params&) {};
  EXPECT_EQ(f8_complaint(nothing, {ATTEST_V_DESCALE}, ATTEST_F8E5M2, ATTEST_F8E5M2), "");
  EXPECT_EQ(f8_complaint(nothing, {}, ATTEST_F8E5M2, ATTEST_F8E4M3),
            "v: dtype f8e4m3 where q is f8e5m2; 8 bits are those of q, k and v alike");
  EXPECT_EQ(f8_complaint(nothing, {}, ATTEST_F8E5M2, ATTEST_F16),
            "v: dtype f16 where q is f8e5m2; 8 bits are those of q, k and v alike");
  EXPECT_EQ(f8_complaint(nothing, {ATTEST_Q_DESCALE}, ATTEST_F16, ATTEST_F16),
            "q_descale: factors belong to 8 bits, and q is f16; leave it out, or give q, k and v "
            "f8e4m3 or f8e5m2");
  EXPECT_THAT(f8_complaint([](Params& p) { p.descale_block_q = 8; }, {ATTEST_K_DESCALE},
                           ATTEST_F8E4M3, ATTEST_F8E4M3),
              ::testing::HasSubstr("descale_block_q: without q_descale there are no factors"));
  EXPECT_THAT(
      f8_complaint([](Params& p) { p.descale_block_kv = 8; }, {}, ATTEST_F8E4M3, ATTEST_F8E4M3),
      ::testing::HasSubstr("descale_block_kv: without k_descale and v_descale"));
  EXPECT_THAT(f8_complaint([](Params& p) { p.descale_block_kv = -1; }, {ATTEST_K_DESCALE},
                           ATTEST_F8E4M3, ATTEST_F8E4M3),
              ::testing::HasSubstr("descale_block_kv: -1; must lie in 0 .."));
}

// The last blocks may be short. Heads and sequences may share a mask, blocks may not.
TEST(SoftmaxBlockMask, HasADimForEachBlock) {
  const testing::Case c = testing::make_case("",
                                             [](Params& p) {
                                               p.batch = 3;
                                               p.seq_len_kv = 64;
                                               p.block_q = 12;
                                               p.block_kv = 16;
                                             },
                                             {ATTEST_BLOCK_MASK});
  EXPECT_THAT(dims(c.problem.tensor[ATTEST_BLOCK_MASK]), ::testing::ElementsAre(3, 2, 4, 4));
  for (int axis = 0; axis < 4; ++axis)
    EXPECT_EQ(softmax_operation().may_broadcast(ATTEST_BLOCK_MASK, axis), axis < 2);
  Problem other = c.problem;
  const std::vector<int64_t> wrong{3, 2, 3, 4};
  other.tensor[ATTEST_BLOCK_MASK] = dense_tensor(ATTEST_BOOL, ATTEST_READ, wrong);
  try {
    finish_problem(other);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("block_mask"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("4"));
  }
}

struct Refusal {
  std::function<void(Params&)> set;
  std::vector<int32_t> with;
  std::string message;
};

TEST(SoftmaxCheck, NamesTheFieldAndWhatIsRight) {
  auto grid = [](Params& p) {
    p.seq_len_q = 64;
    p.grid_height = p.grid_width = 8;
    p.window_height = p.window_width = 4;
  };
  const std::vector<int32_t> packed{ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV};
  const std::vector<Refusal> refusals{
      {[](Params& p) { p.seq_len_q = 0; }, {}, "seq_len_q: 0; must lie in 1 .."},
      {[](Params& p) { p.seq_len_kv = 0; }, {}, "seq_len_kv: 0; must lie in 1 .."},
      {[](Params& p) { p.seq_len_kv = -5; }, {}, "seq_len_kv: -5; must"},
      {[](Params& p) { p.batch = 0; }, {}, "batch: 0; must"},
      {[](Params& p) { p.num_heads = 0; }, {}, "num_heads: 0; must"},
      {[](Params& p) {
         p.num_heads = 6;
         p.num_kv_heads = 4;
       },
       {},
       "num_kv_heads: 4; must divide num_heads = 6"},
      {[](Params& p) { p.num_kv_heads = 3; }, {}, "num_kv_heads: 3; must lie in 1 .. 2"},
      {[](Params& p) { p.head_dim = 0; }, {}, "head_dim: 0; must lie in 1 .. 1024"},
      {[](Params& p) { p.head_dim = 100000; }, {}, "head_dim: 100000; must lie in 1 .. 1024"},
      {[](Params& p) { p.head_dim_v = 0; }, {}, "head_dim_v: 0; must"},
      {[](Params& p) { p.softmax_scale = INFINITY; }, {}, "softmax_scale: inf; must be finite"},
      {[](Params& p) { p.softcap = -1; }, {}, "softcap: -1; must be finite, 0 (none) or more"},
      {[](Params& p) { p.window_left = -2; }, {}, "window_left: -2; must lie in -1 .."},
      {[](Params& p) { p.window_right = -7; }, {}, "window_right: -7; must"},
      {[](Params& p) { p.diagonal = 2; }, {}, "diagonal: 2; must lie in 0 .. 1"},
      {[](Params& p) { p.diagonal_offset = int64_t(1) << 40; },
       {},
       "diagonal_offset: 1099511627776; must"},
      {[](Params& p) { p.page_size = 8; },
       {},
       "page_size: 8; page_size > 0 and the tensor page_table go together"},
      {[](Params& p) { p.page_size = -1; }, {}, "page_size: -1; must"},
      {[](Params&) {}, {ATTEST_PAGE_TABLE}, "page_table: needs page_size"},
      {[](Params& p) { p.page_size = 8; },
       {ATTEST_PAGE_TABLE, ATTEST_CU_SEQLENS_KV},
       "page_table: pages are not packed"},
      {[](Params& p) { p.page_size = 8; },
       {ATTEST_PAGE_TABLE, ATTEST_ORDER},
       "order: a paged cache has none"},
      {[](Params&) {},
       {ATTEST_CU_SEQLENS_Q, ATTEST_SEQ_LENS_Q},
       "seq_lens_q: packed tokens have their lengths in cu_seqlens_q"},
      {[](Params&) {}, {ATTEST_CU_SEQLENS_KV, ATTEST_SEQ_LENS_KV}, "seq_lens_kv: packed tokens"},
      {[](Params& p) { p.patch_size = -1; }, {}, "patch_size: -1; must"},
      {[](Params& p) {
         p.patch_size = 8;
         p.seq_len_kv = 12;
       },
       {},
       "patch_size: queries and keys must be the same tokens; seq_len_kv 12 where seq_len_q = 37"},
      {[](Params& p) { p.patch_size = 8; },
       {ATTEST_CU_SEQLENS_Q},
       "patch_size: queries and keys must be the same tokens; give both cu_seqlens_q"},
      {[](Params& p) { p.patch_size = 8; },
       {ATTEST_SEQ_LENS_KV},
       "patch_size: queries and keys must be the same tokens; give both seq_lens_q"},
      {[](Params& p) { p.seq_len_kv = 12; },
       {ATTEST_ORDER},
       "order: queries and keys must be the same tokens"},
      {[=](Params& p) {
         grid(p);
         p.window_height = 3;
       },
       {},
       "grid_height: 8; must be a multiple of window_height = 3"},
      {[=](Params& p) {
         grid(p);
         p.window_width = 5;
       },
       {},
       "grid_width: 8; must be a multiple of window_width = 5"},
      {[=](Params& p) {
         grid(p);
         p.window_width = 0;
       },
       {},
       "window_width: 0; must lie in 1 .. 8"},
      {[=](Params& p) {
         grid(p);
         p.grid_width = 0;
       },
       {},
       "grid_width: 0; must"},
      {[=](Params& p) {
         grid(p);
         p.shift_y = 4;
       },
       {},
       "shift_y: 4; must lie in 0 .. 3"},
      {[=](Params& p) {
         grid(p);
         p.shift_x = -1;
       },
       {},
       "shift_x: -1; must"},
      {[=](Params& p) {
         grid(p);
         p.shift_bias = std::nanf("");
       },
       {},
       "shift_bias: nan; must be a number"},
      {[=](Params& p) {
         grid(p);
         p.seq_len_q = 63;
       },
       {},
       "seq_len_q: 63; must be grid_height * grid_width = 64"},
      {[=](Params& p) {
         grid(p);
         p.seq_len_kv = 63;
       },
       {},
       "seq_len_kv: 63; must be grid_height * grid_width = 64"},
      {[=](Params& p) {
         grid(p);
         p.window_right = 0;
       },
       {},
       "window_left: a grid has no band"},
      {[=](Params& p) {
         grid(p);
         p.patch_size = 8;
       },
       {},
       "patch_size: a grid is cut into windows"},
      {[=](Params& p) { grid(p); }, {ATTEST_ORDER}, "order: a grid is dense"},
      {[=](Params& p) { grid(p); }, packed, "cu_seqlens_q: a grid is dense"},
      {[=](Params& p) { grid(p); }, {ATTEST_SEQ_LENS_KV}, "seq_lens_kv: a grid is dense"},
      {[=](Params& p) { grid(p); },
       {ATTEST_ALIBI_SLOPES},
       "alibi_slopes: distances count along a sequence"},
      {[](Params& p) { p.window_height = 4; }, {}, "window_height: grid windows need grid_height"},
      {[](Params& p) { p.shift_bias = -100; }, {}, "shift_y: only a grid is shifted"},
      {[](Params&) {}, {ATTEST_REL_BIAS}, "rel_bias: needs grid windows"},
      {[](Params& p) { p.window_height = p.window_width = 4; },
       {ATTEST_REL_BIAS},
       "window_height: grid windows need grid_height"},
      {[](Params&) {}, {ATTEST_BLOCK_MASK}, "block_mask: needs block_q and block_kv"},
      {[](Params& p) { p.block_q = 64; }, {ATTEST_BLOCK_MASK}, "block_mask: needs block_q and"},
      {[](Params& p) { p.block_kv = 64; },
       {},
       "block_kv: 64; block_q > 0, block_kv > 0 and the tensor block_mask go together"},
      {[](Params& p) { p.block_q = -1; }, {}, "block_q: -1; must lie in 0 .."},
      {[](Params& p) { p.global_tokens = -1; }, {}, "global_tokens: -1; must lie in 0 .. 37"},
      {[](Params& p) { p.global_tokens = 38; }, {}, "global_tokens: 38; must lie in 0 .. 37"},
      {[](Params& p) { p.global_tokens = 1; }, {}, "global_tokens: without a band"},
      {[](Params& p) {
         p.global_tokens = 1;
         p.window_right = 0;
         p.seq_len_kv = 20;
       },
       {},
       "global_tokens: queries and keys must be the same tokens; seq_len_kv 20"},
      {[](Params& p) {
         p.global_tokens = 1;
         p.window_right = 0;
       },
       {ATTEST_CU_SEQLENS_KV},
       "global_tokens: queries and keys must be the same tokens; give both cu_seqlens_q"},
      {[](Params& p) {
         p.global_tokens = 1;
         p.window_right = 0;
       },
       {ATTEST_SEQ_LENS_KV},
       "global_tokens: queries and keys must be the same tokens; give both seq_lens_q"},
      {[](Params& p) {
         p.global_tokens = 1;
         p.window_right = 0;
         p.patch_size = 8;
       },
       {},
       "global_tokens: patches have none"},
      {[](Params& p) { p.top_k = -1; }, {}, "top_k: -1; must lie in 1 .. seq_len_kv = 37"},
      {[](Params& p) {
         p.top_k = 21;
         p.seq_len_kv = 20;
       },
       {},
       "top_k: 21; must lie in 1 .. seq_len_kv = 20, or be 0: every key that a row sees counts"},
      {[](Params& p) {
         p.top_k = 3;
         p.top_k_ties = 2;
       },
       {},
       "top_k_ties: 2; must lie in 0 .. 1"},
      {[](Params& p) { p.top_k_ties = 1; }, {}, "top_k_ties: without top_k every key counts"},
  };
  for (const Refusal& refusal : refusals) {
    try {
      testing::make_case("", refusal.set, refusal.with);
      ADD_FAILURE() << "accepted, where this is right: " << refusal.message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(refusal.message));
    }
  }
}

TEST(SoftmaxCheck, PackedTokensAreThoseOfTheGivenTensor) {
  auto tokens = [](int32_t role, int64_t given) {
    Problem problem = blank_problem(softmax_operation(), ATTEST_F32);
    auto& p = problem.as<Params>();
    p.batch = 3;
    p.num_heads = 2;
    p.seq_len_q = 10;
    p.head_dim = 8;
    const int64_t cu_dims[] = {4}, packed_dims[] = {1, 2, given, 8};
    problem.tensor[ATTEST_CU_SEQLENS_Q] = problem.tensor[ATTEST_CU_SEQLENS_KV] =
        dense_tensor(ATTEST_I32, ATTEST_READ, cu_dims);
    if (given > 0)
      problem.tensor[size_t(role)] =
          dense_tensor(ATTEST_F32, role == ATTEST_O ? ATTEST_WRITE : ATTEST_READ, packed_dims);
    finish_problem(problem);
    return std::pair(problem.tensor[ATTEST_Q].dim[2], problem.tensor[ATTEST_V].dim[2]);
  };
  EXPECT_EQ(tokens(ATTEST_Q, 0), std::pair(int64_t(20), int64_t(20)));
  EXPECT_EQ(tokens(ATTEST_Q, 25), std::pair(int64_t(25), int64_t(20)));
  EXPECT_EQ(tokens(ATTEST_O, 25), std::pair(int64_t(25), int64_t(20)));
  EXPECT_EQ(tokens(ATTEST_V, 30), std::pair(int64_t(20), int64_t(30)));
  EXPECT_THROW(tokens(ATTEST_Q, 31), Error);
  EXPECT_THROW(tokens(ATTEST_K, 9), Error);
}

}  // namespace
}  // namespace attest::core
