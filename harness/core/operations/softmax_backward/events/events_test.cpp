// Each part of the events of gradients alone: what the list says of a problem, what is computed of
// a row, events of a row, and events of keys.
#include "core/operations/softmax_backward/events/events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/operations/softmax_backward/testing/backward_cases.hpp"

namespace attest::core::backward {
namespace {

using core::testing::BackwardCase, core::testing::BackwardShape;
using ::testing::Contains, ::testing::Not;

constexpr int64_t kWidth = 8;

// --- List ---

std::map<std::string, std::string> listed(const BackwardShape& shape) {
  std::map<std::string, std::string> why_not;
  for (const NumericEvent& one : events(BackwardCase(shape, ATTEST_F32, {}).problem))
    why_not[one.name] = one.why_not;
  return why_not;
}

TEST(BackwardEventList, SaysWhyAnEventCannotHappen) {
  auto plain = listed({.seq_len_q = 40, .seq_len_kv = 64});
  for (const char* name : {"delta/cancels", "row/late", "lse/+88", "key/one_query",
                           "tail/queries/16", "nan/q", "equal/several"})
    EXPECT_EQ(plain.at(name), "") << name;
  EXPECT_EQ(plain.at("row/nothing"), "every query sees a key");
  EXPECT_EQ(plain.at("tail/keys/16"), "no tile of 16 is short, or it is the only one");
  EXPECT_EQ(plain.at("softcap/bends"), "there is no softcap");
  EXPECT_EQ(plain.at("lse/-20000"), "no bias of queries alone is added");
  EXPECT_FALSE(plain.contains("nan/below_edge"));

  auto capped = listed({.seq_len_q = 1, .seq_len_kv = 1, .softcap = 3, .sinks = true});
  EXPECT_EQ(capped.at("delta/cancels"), "no row has eight keys");
  EXPECT_EQ(capped.at("lse/+88"), "a softcap bounds the scores");
  EXPECT_EQ(capped.at("key/one_query"), "a softcap bounds the scores");
  EXPECT_EQ(capped.at("nan/do"), "there is one row");
  EXPECT_EQ(capped.at("sink/leads"), "");

  auto hidden = listed({.seq_len_q = 40, .window_right = 0, .mask = {1, 1, 40, 40}});
  for (const char* name : {"row/nothing", "key/unseen", "hidden_nan/k", "row/one_key"})
    EXPECT_EQ(hidden.at(name), "") << name;
  auto packed = listed({.seq_len_q = 40, .mask = {1, 1, 40, 40}, .seq_lens_kv = true});
  EXPECT_EQ(packed.at("row/nothing"), "lengths and block masks have events of their own");
  EXPECT_EQ(listed({.seq_len_q = 40, .top_k = 5}).at("nan/below_edge"), "");
}

// --- Rows and keys ---

/// One head of 20 queries and 40 keys. All logits are 0, and so are all dO and V, unless a test
/// changes them.
struct Inputs {
  explicit Inputs(BackwardShape shape = {.seq_len_q = 20, .seq_len_kv = 40, .softmax_scale = 1})
      : c(shape, ATTEST_F32, {"random", 5}),
        forward(forward_problem(c.problem)),
        geometry(forward, c.tensors),
        in{forward, c.problem, forward.as<EventParams>(), c.tensors, c.tensors, geometry} {
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_DO})
      for (int64_t n = 0; n < element_count(c.tensors[size_t(role)].spec); ++n) put(role, n, 0);
  }
  void put(int32_t role, int64_t element, double value) {
    store(c.tensors[size_t(role)].data, ATTEST_F32, element, value);
  }
  /// Query 0 has a logit of `x` with key j: Q and K agree in one channel.
  void put_logit(int64_t j, double x) {
    put(ATTEST_Q, 0, 1);
    put(ATTEST_K, j * kWidth, x);
  }
  /// Events of query i alone.
  Found of_row(int64_t i) {
    write_forward(c.problem, c.tensors);
    Unit unit(forward, c.tensors, geometry, 0, 0);
    unit.load_head(0);
    const RowPlace place{0, i, geometry.keys(0, i), 0, unit.query_class(i)};
    Unit::Buffer buffer;
    RowEvents rows(in);
    Found found;
    rows.note_row(unit, place, unit.row(place, buffer), found);
    rows.finish(found);
    return found;
  }
  Found of_keys() {
    write_forward(c.problem, c.tensors);
    Unit unit(forward, c.tensors, geometry, 0, 0);
    KeyEvents keys(in, 0, 0);
    unit.load_head(0);
    keys.add_head(unit, 0);
    Found found;
    keys.finish(found);
    return found;
  }

  BackwardCase c;
  const Problem forward;
  const Geometry geometry;
  const EventInputs in;
};

TEST(BackwardRowGradients, AreThoseOfTheFormulas) {
  Inputs of;
  of.put_logit(3, std::log(4.0));  // of 43 parts it has 4
  of.put(ATTEST_DO, 0, 2);
  of.put(ATTEST_V, 3 * kWidth, 5);
  write_forward(of.c.problem, of.c.tensors);
  Unit unit(of.forward, of.c.tensors, of.geometry, 0, 0);
  unit.load_head(0);
  const RowPlace place{0, 0, of.geometry.keys(0, 0), 0, unit.query_class(0)};
  Unit::Buffer buffer;
  const RowGradients row = row_gradients(of.in, unit, place, unit.row(place, buffer));
  const double p = 4.0 / 43, delta = 10 * p;
  EXPECT_NEAR(row.p[3], p, 1e-6);
  EXPECT_NEAR(row.delta, delta, 1e-6);
  EXPECT_NEAR(row.ds[3], p * (10 - delta), 1e-6);
  EXPECT_NEAR(row.ds[0], -delta / 43, 1e-6);
  EXPECT_NEAR(row.largest_ds, row.ds[3], 1e-12);
  EXPECT_NEAR(row.weight, 1, 1e-6);
  EXPECT_EQ(row.visible, 40);
}

TEST(BackwardRowEvents, FindWhatARowHas) {
  Inputs flat;
  EXPECT_THAT(flat.of_row(0), Contains("do/zero"));
  EXPECT_THAT(flat.of_row(0), Contains("equal/one_weight"));
  EXPECT_THAT(flat.of_row(0), Not(Contains("row/late")));
  Inputs late;
  late.put_logit(37, 6);
  EXPECT_THAT(late.of_row(0), Contains("row/late"));
  Inputs early;
  early.put_logit(7, 6);
  EXPECT_THAT(early.of_row(0), Not(Contains("row/late")));
  Inputs high;
  high.put_logit(7, 95);
  EXPECT_THAT(high.of_row(0), Contains("lse/+88"));
  EXPECT_THAT(high.of_row(0), Contains("row/one_weight"));
  Inputs cancels;
  for (int64_t j = 0; j < 40; ++j) cancels.put(ATTEST_V, j * kWidth, 8 + 0.1 * double(j % 2));
  cancels.put(ATTEST_DO, 0, 3);
  EXPECT_THAT(cancels.of_row(0), Contains("delta/cancels"));
  Inputs large;
  large.put(ATTEST_DO, 17 * kWidth, 1000);
  large.put(ATTEST_V, 0, 1);
  EXPECT_THAT(large.of_row(17), Contains("ds/above_16"));
  EXPECT_THAT(large.of_row(17), Contains("tail/queries/16"));
}

// A NaN shows if a row has none besides.
TEST(BackwardRowEvents, NeedARowWithoutNan) {
  Inputs wild;
  wild.put(ATTEST_DO, 0, NAN);
  EXPECT_THAT(wild.of_row(0), Not(Contains("nan/do")));
  Unit unit(wild.forward, wild.c.tensors, wild.geometry, 0, 0);
  unit.load_head(0);
  RowEvents rows(wild.in);
  Found found;
  for (const int64_t i : {0, 1}) {
    const RowPlace place{0, i, wild.geometry.keys(0, i), 0, unit.query_class(i)};
    Unit::Buffer buffer;
    rows.note_row(unit, place, unit.row(place, buffer), found);
  }
  rows.finish(found);
  EXPECT_THAT(found, Contains("nan/do"));
}

TEST(BackwardKeyEvents, FindAKeyThatOneLateQueryReads) {
  const auto found = [](int64_t query) {
    Inputs of;
    of.put(ATTEST_Q, query * kWidth, 1);
    for (int64_t i = 0; i < 20; ++i)
      if (i != query) of.put(ATTEST_Q, i * kWidth, -1);
    of.put(ATTEST_K, 5 * kWidth, 8);
    return of.of_keys();
  };
  EXPECT_THAT(found(18), Contains("key/one_query"));
  EXPECT_THAT(found(3), Not(Contains("key/one_query")));
  EXPECT_THAT(found(3), Contains("tail/keys/16"));
}

TEST(BackwardKeyEvents, FindKeysThatNoQuerySees) {
  Inputs causal({.seq_len_q = 20, .seq_len_kv = 40, .window_right = 0});
  causal.put(ATTEST_K, 30 * kWidth, NAN);
  const Found found = causal.of_keys();
  EXPECT_THAT(found, Contains("key/unseen"));
  EXPECT_THAT(found, Contains("hidden_nan/k"));
  EXPECT_THAT(found, Not(Contains("hidden_nan/v")));
}

}  // namespace
}  // namespace attest::core::backward
