// The geometry against pairs counted one by one from the text of the contract, and its refusals of
// broken tables.
#include "core/operations/softmax/problem/geometry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/operations/softmax/testing/all_cases.hpp"
#include "core/operations/softmax/testing/brute_force.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using testing::Brute;
using testing::Case;
using testing::make_case;
using Params = attest_softmax_params;
using Cells = std::set<std::pair<int64_t, int64_t>>;

TEST(Geometry, SeesWhatTheContractSays) {
  for (Case& c : testing::all_cases()) {
    c.problem.as<Params>().top_k = 0;  // which of the keys that are seen count is no geometry
    const Geometry geometry(c.problem, c.tensors);
    std::map<int64_t, testing::BruteRow> expected = Brute(c).seen_rows();
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t h = 0; h < c.params().num_heads; ++h)
        for (int64_t i = 0; i < geometry.length_q(b); ++i) {
          Cells seen;
          for (int64_t j = 0; j < geometry.length_kv(b); ++j)
            if (geometry.visible(b, h, i, j))
              seen.insert({geometry.key(b, j).outer, geometry.key(b, j).row});
          const auto row = expected.find(geometry.output_row(b, h, i));
          ASSERT_NE(row, expected.end()) << c.name;
          ASSERT_EQ(seen, Cells(row->second.cells.begin(), row->second.cells.end()))
              << c.name << " sequence " << b << " head " << h << " place " << i;
          expected.erase(row);
        }
    // What is left stands nowhere.
    std::vector<int64_t> idle;
    for (const auto& [row, unused] : expected) idle.push_back(row);
    EXPECT_EQ(geometry.idle_rows(), idle) << c.name;
  }
}

// Every row of K is that of one position of each head, or idle. Pages may be shared.
TEST(Geometry, NumbersRowsOfKeys) {
  for (const Case& c : testing::all_cases()) {
    if (c.params().page_size > 0) continue;
    const Geometry geometry(c.problem, c.tensors);
    std::vector<int64_t> rows = geometry.idle_key_rows(),
                         all(size_t(row_count(c.problem.tensor[ATTEST_K], 3)));
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t h = 0; h < c.params().num_kv_heads; ++h)
        for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
          const Cell cell = geometry.key(b, j);
          const int64_t row = geometry.key_row(b, h, j);
          ASSERT_EQ(geometry.place(geometry.token(j)), j) << c.name;
          ASSERT_EQ(row_offset(c.problem.tensor[ATTEST_K], 3, row),
                    cell.outer * c.problem.tensor[ATTEST_K].stride[0] +
                        h * c.problem.tensor[ATTEST_K].stride[1] +
                        cell.row * c.problem.tensor[ATTEST_K].stride[2])
              << c.name;
          rows.push_back(row);
        }
    std::ranges::sort(rows);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(rows, all) << c.name;
  }
}

TEST(Geometry, IntervalsNeverMoveBack) {
  for (const Case& c : testing::all_cases()) {
    const Geometry geometry(c.problem, c.tensors);
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t i = 0; i < geometry.length_q(b); ++i) {
        const Interval keys = geometry.keys(b, i);
        ASSERT_TRUE(0 <= keys.begin && keys.begin <= keys.end && keys.end <= geometry.length_kv(b))
            << c.name;
        if (i == 0) continue;
        const Interval before = geometry.keys(b, i - 1);
        ASSERT_TRUE(before.begin <= keys.begin && before.end <= keys.end)
            << c.name << " place " << i;
      }
  }
}

TEST(Geometry, TermsAreAddedToVisibleScoresAndHideTheOthers) {
  for (const Case& c : testing::all_cases()) {
    const Geometry geometry(c.problem, c.tensors);
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t i = 0; i < geometry.length_q(b); ++i) {
        const Interval keys = geometry.keys(b, i);
        std::vector<double> scores(size_t(keys.size()), std::nan(""));
        geometry.add_pair_terms(b, 1 % c.params().num_heads, i, keys, scores.data());
        for (int64_t j = keys.begin; j < keys.end; ++j) {
          const bool hidden =
              scores[size_t(j - keys.begin)] ==
              -std::numeric_limits<double>::infinity();  // a hidden NaN does not leak
          ASSERT_EQ(hidden, !geometry.visible(b, 1 % c.params().num_heads, i, j)) << c.name;
        }
      }
  }
}

TEST(Geometry, FlopsCountVisiblePairs) {
  for (const Case& c : testing::all_cases()) {
    const Brute brute(c);
    const Params& p = c.params();
    const double weighed = p.top_k > 0 ? brute.pairs(p.top_k) : brute.pairs();
    const double expected =
        2 * (brute.pairs() * double(p.head_dim) + weighed * double(p.head_dim_v));
    EXPECT_EQ(softmax_operation().flops(c.problem), expected) << c.name;
  }
}

// A planted fault in a table is an error that names the table, not a read of other memory.
std::string complaint(Case c, int32_t role, int64_t index, double value) {
  store(c.tensors[size_t(role)].data, ATTEST_I32, index, value);
  try {
    const Geometry geometry(c.problem, c.tensors);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Geometry, BrokenTablesAreErrors) {
  const auto packed = [] {
    return make_case("packed", [](Params& p) { p.batch = 3; },
                     {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV});
  };
  EXPECT_THAT(complaint(packed(), ATTEST_CU_SEQLENS_Q, 3, 1000),
              ::testing::HasSubstr("cu_seqlens_q: sequence 2"));
  EXPECT_THAT(complaint(packed(), ATTEST_CU_SEQLENS_KV, 0, -1),
              ::testing::HasSubstr("cu_seqlens_kv: sequence 0"));
  EXPECT_THAT(complaint(packed(), ATTEST_CU_SEQLENS_KV, 1, 70),
              ::testing::HasSubstr("cu_seqlens_kv: sequence"));
  const auto padded = [] { return make_case("padded", [](Params&) {}, {ATTEST_SEQ_LENS_KV}); };
  EXPECT_THAT(complaint(padded(), ATTEST_SEQ_LENS_KV, 0, 38),
              ::testing::HasSubstr("seq_lens_kv: sequence 0 has 38"));
  const auto ordered = [] { return make_case("ordered", [](Params&) {}, {ATTEST_ORDER}); };
  EXPECT_THAT(complaint(ordered(), ATTEST_ORDER, 4, 37),
              ::testing::HasSubstr("order: row 37 at place 4"));
  Case twice = ordered();
  EXPECT_THAT(complaint(twice, ATTEST_ORDER, 4, twice.tensors[ATTEST_ORDER].at({0, 9})),
              ::testing::HasSubstr("stands at two places"));
  const auto paged = [] {
    return make_case("paged", [](Params& p) { p.page_size = 8; }, {ATTEST_PAGE_TABLE});
  };
  EXPECT_THAT(complaint(paged(), ATTEST_PAGE_TABLE, 2, 5),
              ::testing::HasSubstr("page_table: page 5 at key 16"));
  EXPECT_EQ(complaint(paged(), ATTEST_PAGE_TABLE, 2, 1), "") << "pages may be shared";
}

}  // namespace
}  // namespace attest::core
