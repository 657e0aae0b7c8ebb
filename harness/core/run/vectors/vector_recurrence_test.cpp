// ONNX LinearAttention against sums over the earlier tokens, which is what its recurrence comes to;
// and the flattening Softmax.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/run/testing/vector_folder.hpp"

namespace attest::core {
namespace {

/// A rule as a test reads it.
struct Reading {
  bool gated = false, delta = false;
  bool reads_before_writing = false, tiles_heads = false, decays_in_base_2 = false,
       ignores_past = false;
};

struct Recurrent {
  int64_t batch = 2, tokens = 4, heads = 4, kv_heads = 2, dim = 3, dim_v = 5;
  bool decay_of_channels = true, beta_of_heads = true, past = false;

  double decay(const Array& g, int64_t b, int64_t t, int64_t h, int64_t d) const {
    const int64_t token = b * tokens + t;
    return g.values[size_t(decay_of_channels ? (token * kv_heads + h) * dim + d
                                             : token * kv_heads + h)];
  }
  /// What is left at token `to` of what channel d said at token `from` (-1: in the past).
  double left(const Array& g, const Reading& r, int64_t b, int64_t h, int64_t d, int64_t from,
              int64_t to) const {
    double sum = 0;
    for (int64_t t = from + 1; t <= to && r.gated; ++t) sum += decay(g, b, t, h, d);
    return r.decays_in_base_2 ? std::exp2(sum) : std::exp(sum);
  }
};

class RecurrenceVectors : public Vectors {
 protected:
  void write_to_folder(const Recurrent& c, const std::string& rule, const Reading& r) {
    fs::remove_all(folder_);
    Array q({c.batch, c.tokens, c.heads * c.dim}, 1), k({c.batch, c.tokens, c.kv_heads * c.dim}, 2),
        v({c.batch, c.tokens, c.kv_heads * c.dim_v}, 3),
        s({c.batch, c.kv_heads, c.dim, c.dim_v}, 4),
        g({c.batch, c.tokens, c.kv_heads * (c.decay_of_channels ? c.dim : 1)}, 5),
        beta({c.batch, c.tokens, c.beta_of_heads ? c.kv_heads : 1}, 6);
    for (float& x : g.values) x = -std::fabs(x);
    for (float& x : beta.values) x = 1 / (1 + std::exp(-x));
    const bool gated = rule.find("gated") == 0, delta = rule.find("delta") != rule.npos;
    write_file(
        folder_ / "a/model.onnx",
        model_file(
            "LinearAttention",
            {"q", "k", "v", c.past ? "s" : "", gated ? "g" : "", delta ? "beta" : ""},
            {"y", "present"},
            {int_attribute("q_num_heads", c.heads), int_attribute("kv_num_heads", c.kv_heads),
             bytes_field(1, "update_rule") + bytes_field(4, rule) + number_field(20, 3)},
            27));
    std::vector<std::string> inputs{q.file(), k.file(), v.file()};
    if (c.past) inputs.push_back(s.file());
    if (gated) inputs.push_back(g.file());
    if (delta) inputs.push_back(beta.file());
    for (size_t i = 0; i < inputs.size(); ++i)
      write_file(folder_ / ("a/test_data_set_0/input_" + std::to_string(i) + ".pb"), inputs[i]);
    if (!c.past || r.ignores_past) std::fill(s.values.begin(), s.values.end(), 0.0f);
    Array y({c.batch, c.tokens, c.heads * c.dim_v}, 0), present = s;
    attend(c, r, q, k, v, s, g, beta, y, present);
    write_file(folder_ / "a/test_data_set_0/output_0.pb", y.file());
    write_file(folder_ / "a/test_data_set_0/output_1.pb", present.file());
  }

 private:
  /// u_t = v_t, or what the delta rule writes in its place: beta_t (v_t - what the sum over earlier
  /// tokens says of k_t).
  static void attend(const Recurrent& c, const Reading& r, const Array& q, const Array& k,
                     const Array& v, const Array& s, const Array& g, const Array& beta, Array& y,
                     Array& present) {
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.kv_heads; ++h)
        for (int64_t e = 0; e < c.dim_v; ++e) {
          const auto key = [&](int64_t t, int64_t d) {
            return double(k.values[size_t(((b * c.tokens + t) * c.kv_heads + h) * c.dim + d)]);
          };
          std::vector<double> u(size_t(c.tokens));
          // Channel e of the state after token `to` has seen tokens up to `last`, read by x.
          const auto said = [&](int64_t to, int64_t last, const std::function<double(int64_t)>& x) {
            double sum = 0;
            for (int64_t d = 0; d < c.dim; ++d) {
              double state = s.values[size_t(((b * c.kv_heads + h) * c.dim + d) * c.dim_v + e)] *
                             c.left(g, r, b, h, d, -1, to);
              for (int64_t t = 0; t <= last; ++t)
                state += c.left(g, r, b, h, d, t, to) * key(t, d) * u[size_t(t)];
              sum += x(d) * state;
            }
            return sum;
          };
          for (int64_t t = 0; t < c.tokens; ++t) {
            u[size_t(t)] = v.values[size_t(((b * c.tokens + t) * c.kv_heads + h) * c.dim_v + e)];
            if (r.delta)
              u[size_t(t)] =
                  beta.values[size_t((b * c.tokens + t) * (c.beta_of_heads ? c.kv_heads : 1) +
                                     (c.beta_of_heads ? h : 0))] *
                  (u[size_t(t)] - said(t, t - 1, [&](int64_t d) { return key(t, d); }));
            for (int64_t reader = 0; reader < c.heads; ++reader) {
              if ((r.tiles_heads ? reader % c.kv_heads : reader / (c.heads / c.kv_heads)) != h)
                continue;
              const auto query = [&](int64_t d) {
                return double(
                    q.values[size_t(((b * c.tokens + t) * c.heads + reader) * c.dim + d)]);
              };
              y.values[size_t(((b * c.tokens + t) * c.heads + reader) * c.dim_v + e)] = float(
                  said(t, r.reads_before_writing ? t - 1 : t, query) / std::sqrt(double(c.dim)));
            }
          }
          for (int64_t d = 0; d < c.dim; ++d)
            present.values[size_t(((b * c.kv_heads + h) * c.dim + d) * c.dim_v + e)] = float(
                said(c.tokens - 1, c.tokens - 1, [&](int64_t x) { return x == d ? 1.0 : 0.0; }));
        }
  }
};

TEST_F(RecurrenceVectors, EveryRuleIsItsSumOverEarlierTokens) {
  for (const bool past : {false, true})
    for (const bool narrow : {false, true})
      for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
        Recurrent c;
        c.past = past;
        c.decay_of_channels = c.beta_of_heads = !narrow;
        const std::string name = rule;
        const Reading right{.gated = name.find("gated") == 0,
                            .delta = name.find("delta") != name.npos};
        write_to_folder(c, rule, right);
        EXPECT_EQ(judge().outcome.verdict(), Verdict::kPass)
            << rule << ": " << judge().outcome.reason;
        std::vector<Reading> wrong(5, right);
        wrong[0].reads_before_writing = true;
        wrong[1].tiles_heads = true;
        wrong[2].delta = !right.delta;
        wrong[3].decays_in_base_2 = true;
        wrong[4].ignores_past = true;
        for (size_t i = 0; i < wrong.size(); ++i) {
          if ((i == 2 && !right.delta) || (i == 3 && !right.gated) || (i == 4 && !past))
            continue;  // reads as it should
          write_to_folder(c, rule, wrong[i]);
          EXPECT_EQ(judge().outcome.code, ReasonCode::kErrorReference) << rule << ", reading " << i;
        }
      }
}

TEST_F(RecurrenceVectors, WhatARuleHasNoUseForIsNamed) {
  write_to_folder({}, "cumulative", {});
  EXPECT_EQ(judge().outcome.reason, "LinearAttention: update_rule 'cumulative'");
  Recurrent c;
  c.heads = 3;
  write_to_folder(c, "linear", {});
  EXPECT_THAT(judge().outcome.reason, ::testing::HasSubstr("3 query heads and 2 key heads"));
}

TEST_F(Vectors, OldSoftmaxFlattensWhatFollowsItsAxis) {
  const auto with = [&](const char* op_type, int64_t opset, const std::vector<float>& y) {
    write_file(folder_ / "s/model.onnx", model_file(op_type, {"x"}, {"y"}, {}, opset));
    write_file(folder_ / "s/test_data_set_0/input_0.pb",
               tensor_file({1, 2, 2}, 1, packed_values<float>({0, 0, 0, std::log(2.0f)})));
    write_file(folder_ / "s/test_data_set_0/output_0.pb",
               tensor_file({1, 2, 2}, 1, packed_values(y)));
    return judge().outcome.verdict();
  };
  const std::vector<float> last{0.5f, 0.5f, 1.0f / 3, 2.0f / 3}, all{0.2f, 0.2f, 0.2f, 0.4f};
  std::vector<float> logarithms;
  for (const float p : last) logarithms.push_back(std::log(p));
  EXPECT_EQ(with("Softmax", 11, all), Verdict::kPass);
  EXPECT_EQ(with("Softmax", 11, last), Verdict::kError);
  EXPECT_EQ(with("Softmax", 13, last), Verdict::kPass);
  EXPECT_EQ(with("Softmax", 13, all), Verdict::kError);
  EXPECT_EQ(with("LogSoftmax", 13, logarithms), Verdict::kPass);
  EXPECT_EQ(with("LogSoftmax", 13, last), Verdict::kError);
}

}  // namespace
}  // namespace attest::core
