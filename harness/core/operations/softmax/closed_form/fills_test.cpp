// The codebook fills for what tolerances alone do not see: huge logits, keys at edges, equal and
// nearly equal scores. Their closed form is that of any inputs, honest kernels pass on them, and
// the bugs that they are for do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/operations/softmax/testing/codebook_trials.hpp"

namespace attest::core::codebook_trials {
namespace {

constexpr const char* kFills[] = {"huge", "edges", "equal", "flat", "tiny", "rising"};

bool agree(double mine, double right, double exact) {
  if (std::isinf(right)) return mine == right;
  return std::fabs(mine - right) <= exact * std::max(1.0, std::fabs(right));
}

// Every row of the closed form against float64 key by key.
void expect_golden(const Case& c) {
  const auto full = softmax_golden(c.problem, c.tensors), closed = c.golden();
  ASSERT_EQ(full->method(), "float64, all rows");
  const double exact =
      c.fill.name == "huge" ? 1e-10 : 1e-12;  // a float64 near 32,768 has 4e-12 between two numbers
  for (const int32_t role : {ATTEST_O, ATTEST_LSE}) {
    const Expectations got(*closed, {}, role), expected(*full, {}, role);
    ASSERT_EQ(got.value.size(), expected.value.size());
    for (const auto& [row, values] : expected.value) {
      const std::vector<double>& mine = got.value.at(row);
      for (size_t e = 0; e < values.size(); ++e)
        if (!agree(mine[e], values[e], exact))
          FAIL() << mine[e] << " for " << values[e] << " in row " << row << " role " << role;
    }
  }
}

struct Kind {
  const char* name;
  std::function<void(Params&)> change;
  std::vector<Optional> optional;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"dense",
       [](Params& p) {
         p.seq_len_q = 90;
         p.seq_len_kv = 515;
         p.head_dim = 64;
       },
       {}},
      {"head_dim 128",
       [](Params& p) {
         p.seq_len_q = 40;
         p.seq_len_kv = 300;
         p.head_dim = 128;
       },
       {}},
      {"head_dim 256",
       [](Params& p) {
         p.seq_len_q = 40;
         p.seq_len_kv = 300;
         p.head_dim = 256;
       },
       {}},
      {"one key",
       [](Params& p) {
         p.seq_len_q = 3;
         p.seq_len_kv = 1;
         p.head_dim = 8;
       },
       {}},
      {"causal",
       [](Params& p) {
         p.seq_len_q = 150;
         p.seq_len_kv = 200;
         p.head_dim = 24;
         p.window_right = 0;
         p.diagonal_offset = -9;
       },
       {}},
      {"bottom right",
       [](Params& p) {
         p.seq_len_q = 150;
         p.seq_len_kv = 90;
         p.head_dim = 24;
         p.window_right = 0;
         p.diagonal = ATTEST_BOTTOM_RIGHT;
       },
       {}},
      {"window",
       [](Params& p) {
         p.num_heads = 2;
         p.seq_len_q = 150;
         p.head_dim = 24;
         p.window_left = 30;
         p.window_right = 4;
       },
       {}},
      {"gqa",
       [](Params& p) {
         p.batch = 2;
         p.num_heads = 4;
         p.num_kv_heads = 2;
         p.seq_len_q = 70;
         p.seq_len_kv = 131;
         p.head_dim = 24;
         p.head_dim_v = 13;
       },
       {}},
      {"softcap",
       [](Params& p) {
         p.num_heads = 2;
         p.seq_len_q = 70;
         p.head_dim = 32;
         p.softcap = 15;
       },
       {}},
      {"negative scale",
       [](Params& p) {
         p.num_heads = 2;
         p.seq_len_q = 70;
         p.head_dim = 32;
         p.softmax_scale = -0.7f;
       },
       {}},
      {"varlen",
       [](Params& p) {
         p.batch = 4;
         p.num_heads = 2;
         p.seq_len_q = 60;
         p.seq_len_kv = 90;
         p.head_dim = 24;
       },
       {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV}},
      {"lengths",
       [](Params& p) {
         p.batch = 3;
         p.seq_len_q = 60;
         p.seq_len_kv = 90;
         p.head_dim = 24;
       },
       {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV}},
      {"pages",
       [](Params& p) {
         p.batch = 3;
         p.seq_len_q = 9;
         p.seq_len_kv = 90;
         p.head_dim = 24;
         p.page_size = 16;
       },
       {ATTEST_SEQ_LENS_KV, ATTEST_PAGE_TABLE}},
      {"patches",
       [](Params& p) {
         p.seq_len_q = 250;
         p.head_dim = 24;
         p.patch_size = 96;
       },
       {ATTEST_ORDER}},
      {"grid",
       [](Params& p) {
         p.batch = 2;
         p.num_heads = 2;
         p.seq_len_q = 192;
         p.head_dim = 16;
         p.grid_height = 12;
         p.grid_width = 16;
         p.window_height = p.window_width = 4;
         p.shift_y = 1;
         p.shift_x = 2;
         p.shift_bias = -100;
       },
       {ATTEST_REL_BIAS}},
      {"alibi",
       [](Params& p) {
         p.num_heads = 2;
         p.seq_len_q = 100;
         p.seq_len_kv = 150;
         p.head_dim = 16;
         p.window_right = 0;
         p.diagonal = ATTEST_BOTTOM_RIGHT;
       },
       {ATTEST_ALIBI_SLOPES}},
      {"bias of keys",
       [](Params& p) {
         p.batch = 2;
         p.num_heads = 2;
         p.seq_len_q = 70;
         p.seq_len_kv = 131;
         p.head_dim = 24;
       },
       {{ATTEST_BIAS, {1, 2, 1, 131}}}},
      {"mask of keys",
       [](Params& p) {
         p.batch = 2;
         p.num_heads = 2;
         p.seq_len_q = 70;
         p.seq_len_kv = 131;
         p.head_dim = 24;
         p.window_right = 9;
       },
       {{ATTEST_MASK, {2, 1, 1, 131}}}},
      {"mask of pairs",
       [](Params& p) {
         p.num_heads = 2;
         p.seq_len_q = 70;
         p.seq_len_kv = 515;
         p.head_dim = 24;
       },
       {ATTEST_MASK}},
      {"bias of pairs",
       [](Params& p) {
         p.batch = 2;
         p.num_heads = 2;
         p.num_kv_heads = 1;
         p.seq_len_q = 150;
         p.head_dim = 24;
         p.window_right = 0;
       },
       {{ATTEST_BIAS, {1, 2, 150, 150}}}},
      {"mask and bias of pairs",
       [](Params& p) {
         p.batch = 3;
         p.num_heads = 2;
         p.seq_len_q = 60;
         p.seq_len_kv = 90;
         p.head_dim = 24;
         p.window_left = 40;
       },
       {{ATTEST_MASK, {3, 1, 60, 90}},
        {ATTEST_BIAS, {1, 2, 60, 90}},
        ATTEST_CU_SEQLENS_Q,
        ATTEST_CU_SEQLENS_KV}},
      {"mask of pairs beside sinks",
       [](Params& p) {
         p.batch = 2;
         p.seq_len_q = 61;
         p.head_dim = 16;
       },
       {ATTEST_MASK, ATTEST_SINKS}},
  };
  return all;
}

TEST(CodebookFills, GoldensAreThoseOfAnyInputs) {
  const DType dtypes[] = {ATTEST_F32, ATTEST_F16, ATTEST_BF16};
  for (size_t n = 0; n < kinds().size(); ++n)
    for (size_t f = 0; f < std::size(kFills); ++f) {
      const Kind& kind = kinds()[n];
      const DType dtype = dtypes[(n + f) % 3];
      if (kFills[f] == std::string("rising") && kind.name == std::string("alibi"))
        continue;  // has none
      SCOPED_TRACE(::testing::Message()
                   << kFills[f] << " " << kind.name << " " << dtype_name(dtype));
      std::vector<Optional> optional = kind.optional;
      optional.push_back(ATTEST_LSE);
      const std::vector<std::string> possible =
          codebook_fills(Case(dtype, {"random", 5}, kind.change, optional).problem);
      if (std::find(possible.begin(), possible.end(), kFills[f]) == possible.end())
        continue;  // huge beside sinks
      expect_golden(Case(dtype, {kFills[f], 5}, kind.change, optional));
      if (::testing::Test::HasFatalFailure()) return;
    }
}

// The older fills at head sizes beyond those of codebook_test.cpp.
TEST(CodebookFills, LargeHeadsAreExact) {
  for (const int64_t head_dim : {128, 256})
    for (const char* fill : {"codebook", "codebook_peaked", "cancelling"}) {
      SCOPED_TRACE(::testing::Message() << fill << " " << head_dim);
      expect_golden(Case(ATTEST_F16, {fill, 5},
                         [&](Params& p) {
                           p.seq_len_q = 40;
                           p.seq_len_kv = 300;
                           p.head_dim = head_dim;
                         },
                         {ATTEST_LSE}));
    }
}

void expect_scores(const Case& c, const std::function<void(const std::vector<double>&)>& check) {
  const Codebook book(c.problem, c.fill, c.tensors);
  check(codebook::HeadScores(book, c.p(), 0, c.problem.dtype, c.problem.dtype).score);
}

TEST(CodebookFills, ScoresAreWhatTheyAreFor) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
    for (const int64_t head_dim : {16, 64, 72, 256}) {
      SCOPED_TRACE(::testing::Message() << dtype_name(dtype) << " " << head_dim);
      auto made = [&](const char* fill) {
        return Case(dtype, {fill, 3}, [&](Params& p) {
          p.seq_len_q = 256;
          p.head_dim = head_dim;
        });
      };
      expect_scores(made("huge"), [](const std::vector<double>& s) {
        const auto [least, most] = std::minmax_element(s.begin(), s.end());
        EXPECT_LT(*least, -20000);
        EXPECT_GT(*most, 20000);
        EXPECT_LT(*most, 50000);
        EXPECT_GE(std::count(s.begin(), s.end(), 0.0), 64) << "a flat row";
      });
      expect_scores(made("equal"), [](const std::vector<double>& s) {
        EXPECT_EQ(s.size(), 64u) << "one key code";
      });
      expect_scores(made("flat"), [](const std::vector<double>& s) {
        for (const double one : s) EXPECT_LT(std::fabs(one), 0.1);
      });
    }
}

TEST(CodebookFills, HugeHidesNaNAndInfinity) {
  const Case c(ATTEST_F16, {"huge", 3}, [](Params& p) {
    p.seq_len_q = 30;
    p.seq_len_kv = 40;
    p.head_dim = 16;
    p.window_right = 0;
  });
  for (int64_t j = 0; j < 40; ++j) {
    EXPECT_EQ(std::isfinite(c.row(ATTEST_K, 0, 0, j)[3]), j < 30) << j;
    EXPECT_EQ(std::isfinite(c.row(ATTEST_V, 0, 0, j)[3]), j < 30) << j;
  }
}

// Sinks beside a softcap, and scores that it bends, are as far apart as without one.
TEST(CodebookFills, ASoftcapLeavesNothingOut) {
  const auto found = [](const char* fill) {
    const Case c(ATTEST_F16, {fill, 3},
                 [](Params& p) {
                   p.num_heads = 2;
                   p.seq_len_q = 61;
                   p.head_dim = 16;
                   p.softcap = 20;
                 },
                 {ATTEST_SINKS, ATTEST_LSE});
    const std::vector<bool> all(size_t(row_count(c.problem.tensor[ATTEST_O], 3)), true);
    return softmax_operation().count_events(c.problem, c.tensors, all);
  };
  EXPECT_THAT(found("huge"), ::testing::IsSupersetOf({"sink/leads", "softcap/+88", "softcap/-88"}));
  EXPECT_THAT(found("wild"), ::testing::Contains("sink/trails"));
}

TEST(CodebookFills, EdgesHaveKeysOfTheirOwn) {
  const Case c(ATTEST_F16, {"edges", 3}, [](Params& p) {
    p.seq_len_q = 64;
    p.seq_len_kv = 1021;
    p.head_dim = 64;
  });
  const Codebook book(c.problem, c.fill, c.tensors);
  std::map<int, int> keys;
  for (int64_t j = 0; j < 1021; ++j) ++keys[book.key_code(0, {0, j})];
  for (const int64_t j :
       {0, 1020, 63, 64, 65, 15, 16, 17, 127, 128, 255, 256, 959, 960, 961, 1007, 1008, 767, 768}) {
    const int code = book.key_code(0, {0, j});
    EXPECT_LT(code, book.edge_codes()) << j;
    EXPECT_EQ(keys[code], 1) << j;
  }
  const codebook::HeadScores scores(book, c.p(), 0, ATTEST_F16, ATTEST_F16);
  for (int64_t h = 0; h < book.edge_codes(); ++h) {
    const double* s = &scores.score[size_t(h * book.key_codes())];
    double total = 0;
    for (const auto& [code, count] : keys) total += count * std::exp(s[code]);
    EXPECT_GT(std::exp(s[h]) / total, 0.1) << h;
    EXPECT_LT(std::exp(s[h]) / total, 0.99) << h;
  }
  EXPECT_EQ(c.row(ATTEST_V, 0, 0, 5).back(), 1);
  EXPECT_NEAR(c.row(ATTEST_V, 0, 0, 512).front(), 512 / 1021.0, 1e-3);
}

// A query at the end of what it sees asks for the last key, or for the one after it.
TEST(CodebookFills, EdgesTurnToTheEndOfAnInterval) {
  const Case c(ATTEST_F32, {"edges", 3}, [](Params& p) {
    p.seq_len_q = 300;
    p.head_dim = 64;
    p.window_right = 0;
  });
  const Codebook book(c.problem, c.fill, c.tensors);
  for (const int64_t i : {63, 64, 127, 255, 256}) {
    const int64_t code = book.query_code(0, {0, i});
    EXPECT_TRUE(code == book.key_code(0, {0, i}) || code == book.key_code(0, {0, i + 1})) << i;
  }
}

// Dense rows of one query code are equal, so 64 rows say as much as all.
TEST(CodebookFills, HonestKernelsPassAndLostKeysFail) {
  for (const int64_t tokens : {61, 1021, 16'411})
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
      for (const char* fill : kFills) {
        if (tokens > 10'000 && dtype == ATTEST_F16) continue;  // for time
        SCOPED_TRACE(::testing::Message() << fill << " " << tokens << " " << dtype_name(dtype));
        const Case c(dtype, {fill, 11}, [&](Params& p) {
          p.seq_len_q = 64;
          p.seq_len_kv = tokens;
          p.head_dim = 64;
        });
        const Flash flash(c);
        auto judge = [&](const char* what, const Kernel& kernel, bool passes) {
          const Ratios ratios = flash.judge(kernel);
          EXPECT_EQ(ratios.pass(), passes) << what << ": " << ratios.largest << " " << ratios.rms;
          if (std::getenv("ATTEST_VERBOSE"))
            std::printf("%-8s %7ld %-5s %-16s %.2f (%.2f)\n", fill, long(tokens),
                        dtype_name(dtype).data(), what, ratios.largest, ratios.rms);
        };
        judge("float32", {}, true);
        judge("sequential", {.tile = 1 << 30}, true);
        judge("own dtype", {.probability = dtype}, true);
        judge("f16 scores", {.probability = ATTEST_F16, .score = ATTEST_F16}, true);
        judge("bf16 scores", {.probability = ATTEST_BF16, .score = ATTEST_BF16}, true);
        if (tokens < 10'000) judge("f16 accumulator", {.sum = ATTEST_F16}, true);
        const int64_t edge = (tokens - 1) / 64 * 64;
        judge(
            "tile lost",
            {.probability = dtype, .lost_begin = std::max<int64_t>(edge - 64, 0), .lost_end = edge},
            edge == 0);
        if (std::string(fill) != "edges") continue;
        for (const int64_t lost : {int64_t{0}, tokens - 1, edge, std::max<int64_t>(edge - 1, 0)})
          judge("key lost", {.probability = dtype, .lost_begin = lost, .lost_end = lost + 1},
                false);
      }
}

// Rows beyond a sample of the full golden are judged by closed forms alone, and each of the three
// that judge by default has a bug there that the others let pass.
TEST(CodebookFills, EachOfTheDefaultSeesWhatOthersDoNot) {
  auto judge = [](const char* fill, DType dtype, int64_t tokens, const Kernel& kernel) {
    const Case c(dtype, {fill, 11}, [&](Params& p) {
      p.seq_len_q = 64;
      p.seq_len_kv = tokens;
      p.head_dim = 64;
    });
    const Ratios ratios = Flash(c).judge(kernel);
    if (std::getenv("ATTEST_VERBOSE"))
      std::printf("%s %ld: %.2f (%.2f)\n", fill, long(tokens), ratios.largest, ratios.rms);
    return ratios.pass();
  };
  const Kernel coarse_exp{.exp_error = 1e-5f};
  EXPECT_FALSE(judge("codebook", ATTEST_F32, 1021, coarse_exp));
  EXPECT_TRUE(judge("codebook_peaked", ATTEST_F32, 1021, coarse_exp)) << "exp(0) is right";
  EXPECT_TRUE(judge("huge", ATTEST_F32, 1021, coarse_exp)) << "scores err by more";
}

// One key of 262,147 is lost, and probabilities are bfloat16: whichever it is, some fill of those
// that judge by default sees it.
TEST(CodebookFills, ALostKeyOf262147IsSeenInBfloat16) {
  std::map<int64_t, std::map<std::string, Ratios>> seen;
  const int64_t lost_keys[] = {1, 131'073};
  for (const char* fill : {"codebook", "codebook_peaked"}) {
    const Case c(ATTEST_BF16, {fill, 11}, [](Params& p) {
      p.seq_len_q = 128;
      p.seq_len_kv = 262'147;
      p.head_dim = 32;
    });
    const Flash flash(c);
    for (const int64_t lost : lost_keys)
      seen[lost][fill] =
          flash.judge({.probability = ATTEST_BF16, .lost_begin = lost, .lost_end = lost + 1});
  }
  for (const auto& [lost, fills] : seen) {
    bool caught = false;
    for (const auto& [fill, ratios] : fills) {
      caught |= !ratios.pass();
      if (std::getenv("ATTEST_VERBOSE"))
        std::printf("%s %ld: %.2f (%.2f)\n", fill.c_str(), long(lost), ratios.largest, ratios.rms);
    }
    EXPECT_TRUE(caught) << lost;
  }
}

}  // namespace
}  // namespace attest::core::codebook_trials
