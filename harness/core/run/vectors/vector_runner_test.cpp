// Vectors made here, whose outputs come from a plain double loop with the rule under test spelt
// out, and the open ones beside the project. Every rule is also tried wrong: the same inputs under
// another reading must not pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "core/run/testing/vector_folder.hpp"
#include "testing/shared_data.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// One Attention node: sizes, what else it is given, and how the outputs come about.
struct Node {
  int64_t batch = 2, heads = 4, kv_heads = 2, q_len = 3, past = 0, kv_len = 5, dim = 8, dim_v = 6,
          opset = 24;
  bool flat = false;  // 3-D layout
  double scale = 0, softcap = 0;
  std::vector<std::string> attributes;
  std::map<std::string, std::string> inputs;  // attn_mask, nonpad_kv_seqlen as files
  std::string output = "Y";
  /// What is added to the logit of key j (past included), -inf where it is hidden.
  std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)> term =
      [](int64_t, int64_t, int64_t, int64_t) { return 0.0; };

  int64_t keys() const { return past + kv_len; }

  /// Without a past, so that the loops are plain; past tensors are cut off the front.
  void write_to(const fs::path& folder) const {
    const Array q({batch, heads, q_len, dim}, 1), k({batch, kv_heads, keys(), dim}, 2),
        v({batch, kv_heads, keys(), dim_v}, 3);
    std::vector<std::string> names{
        "Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"},
        all = attributes;
    if (past == 0) names[4] = names[5] = "";
    for (const size_t place : {size_t(3), size_t(6)})
      if (!inputs.contains(names[place])) names[place] = "";
    if (flat) {
      all.push_back(int_attribute("q_num_heads", heads));
      all.push_back(int_attribute("kv_num_heads", kv_heads));
    }
    if (scale != 0) all.push_back(float_attribute("scale", float(scale)));
    if (softcap != 0) all.push_back(float_attribute("softcap", float(softcap)));
    write_file(folder / "model.onnx", model_file("Attention", names, {output}, all, opset));
    size_t next = 0;
    auto input = [&](const std::string& file) {
      write_file(folder / "test_data_set_0" / ("input_" + std::to_string(next++) + ".pb"), file);
    };
    input(stored(q));
    input(stored(cut(k, past, keys())));
    input(stored(cut(v, past, keys())));
    if (!names[3].empty()) input(inputs.at("attn_mask"));
    if (past > 0) {
      input(cut(k, 0, past).file());
      input(cut(v, 0, past).file());
    }
    if (!names[6].empty()) input(inputs.at("nonpad_kv_seqlen"));
    write_file(folder / "test_data_set_0" / "output_0.pb", stored(attend(q, k, v)));
  }

 private:
  static Array cut(const Array& all, int64_t begin, int64_t end) {
    Array some({all.dims[0], all.dims[1], end - begin, all.dims[3]}, 0);
    for (int64_t outer = 0; outer < all.dims[0] * all.dims[1]; ++outer)
      for (int64_t at = 0; at < (end - begin) * all.dims[3]; ++at)
        some.values[size_t(outer * (end - begin) * all.dims[3] + at)] =
            all.values[size_t((outer * all.dims[2] + begin) * all.dims[3] + at)];
    return some;
  }
  /// [batch, heads, tokens, dim], or [batch, tokens, heads * dim].
  std::string stored(const Array& a) const {
    if (!flat) return a.file();
    Array moved({a.dims[0], a.dims[2], a.dims[1] * a.dims[3]}, 0);
    size_t at = 0;
    for (int64_t b = 0; b < a.dims[0]; ++b)
      for (int64_t h = 0; h < a.dims[1]; ++h)
        for (int64_t i = 0; i < a.dims[2]; ++i)
          for (int64_t d = 0; d < a.dims[3]; ++d)
            moved.values[size_t(((b * a.dims[2] + i) * a.dims[1] + h) * a.dims[3] + d)] =
                a.values[at++];
    return moved.file();
  }
  Array attend(const Array& q, const Array& k, const Array& v) const {
    Array y({batch, heads, q_len, dim_v}, 0);
    const double factor = scale != 0 ? double(float(scale)) : 1 / std::sqrt(double(dim));
    auto at = [](const Array& a, int64_t b, int64_t h, int64_t i, int64_t d) {
      return double(a.values[size_t(((b * a.dims[1] + h) * a.dims[2] + i) * a.dims[3] + d)]);
    };
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < q_len; ++i) {
          const int64_t g =
              std::min(h / (heads / kv_heads), kv_heads - 1);  // some cases are to make no sense
          std::vector<double> sum(size_t(dim_v), 0.0);
          double total = 0;
          for (int64_t j = 0; j < keys(); ++j) {
            double s = 0;
            for (int64_t d = 0; d < dim; ++d) s += at(q, b, h, i, d) * at(k, b, g, j, d) * factor;
            if (softcap > 0) s = softcap * std::tanh(s / softcap);
            const double weight = std::exp(s + term(b, h, i, j));
            total += weight;
            for (int64_t d = 0; d < dim_v && weight > 0; ++d)
              sum[size_t(d)] += weight * at(v, b, g, j, d);
          }
          for (int64_t d = 0; d < dim_v; ++d)
            y.values[size_t(((b * heads + h) * q_len + i) * dim_v + d)] =
                total > 0 ? float(sum[size_t(d)] / total) : 0;
        }
    return y;
  }
};

using Term = std::function<double(int64_t, int64_t, int64_t, int64_t)>;

class Attention : public Vectors {
 protected:
  /// Passes under the rule, and under no other.
  void expect_only(Node node, const Term& right, const std::vector<Term>& wrong) {
    node.term = right;
    node.write_to(folder_ / "a");
    const Record record = judge();
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
    for (const Term& other : wrong) {
      node.term = other;
      node.write_to(folder_ / "a");
      EXPECT_EQ(judge().outcome.code, ReasonCode::kErrorReference);
    }
  }
  static Term visible(std::function<bool(int64_t, int64_t, int64_t, int64_t)> rule) {
    return [rule](int64_t b, int64_t h, int64_t i, int64_t j) {
      return rule(b, h, i, j) ? 0.0 : kHidden;
    };
  }
};

TEST_F(Attention, LayoutsAndHeads) {
  for (const bool flat : {false, true}) {
    Node node;
    node.flat = flat;
    node.scale = 0.3;
    expect_only(node, node.term,
                {[](int64_t, int64_t, int64_t, int64_t j) { return 0.1 * double(j); }});
  }
}

TEST_F(Attention, CausalStartsTopLeftWithoutACache) {
  Node node;
  node.attributes = {int_attribute("is_causal", 1)};
  expect_only(node, visible([](auto, auto, auto i, auto j) { return j <= i; }),
              {visible([](auto, auto, auto i, auto j) { return j <= i + 2; })});
}

TEST_F(Attention, CausalComesAfterThePast) {
  Node node;
  node.past = 4;
  node.attributes = {int_attribute("is_causal", 1)};
  expect_only(node, visible([](auto, auto, auto i, auto j) { return j <= i + 4; }),
              {visible([](auto, auto, auto i, auto j) { return j <= i; }),
               visible([](auto, auto, auto i, auto j) { return j <= i + 6; })});
}

TEST_F(Attention, ValidLengthsAlignTheDiagonalAndMayLeaveRowsEmpty) {
  Node node;
  const std::vector<int64_t> valid{5, 2};  // the second sequence: query 0 sees nothing
  node.attributes = {int_attribute("is_causal", 1)};
  node.inputs["nonpad_kv_seqlen"] = tensor_file({2}, 7, packed_values(valid));
  expect_only(
      node, visible([valid](auto b, auto, auto i, auto j) {
        return j < valid[size_t(b)] && j <= i + valid[size_t(b)] - 3;
      }),
      {visible([valid](auto b, auto, auto i, auto j) { return j < valid[size_t(b)] && j <= i; }),
       visible([valid](auto b, auto, auto i, auto j) {
         return j < valid[size_t(b)] && j <= i + std::max<int64_t>(0, valid[size_t(b)] - 3);
       })});
  node.attributes = {};
  expect_only(node, visible([valid](auto b, auto, auto, auto j) { return j < valid[size_t(b)]; }),
              {visible([](auto, auto, auto, auto) { return true; })});
}

TEST_F(Attention, WindowsAreInclusiveAndGoWithTheDiagonal) {
  Node node;
  node.past = 3;
  node.kv_len = 6;
  node.opset = 25;
  node.attributes = {int_attribute("left_window_size", 2), int_attribute("right_window_size", 1)};
  const auto band = [](int64_t left, int64_t right, int64_t offset) {
    return visible([=](auto, auto, auto i, auto j) {
      return j >= i + offset - left && j <= i + offset + right;
    });
  };
  expect_only(node, band(2, 1, 3), {band(1, 1, 3), band(2, 0, 3), band(2, 1, 0), band(2, 1, 6)});
}

TEST_F(Attention, ShortMasksHideWhatTheyDoNotName) {
  Node node;
  node.inputs["attn_mask"] = tensor_file({3, 3}, 9, std::string("\1\0\1\1\1\1\0\0\1", 9));
  const auto own = [](int64_t i, int64_t j) {
    return j < 3 && std::string("101111001")[size_t(i * 3 + j)] == '1';
  };
  expect_only(node, visible([own](auto, auto, auto i, auto j) { return own(i, j); }),
              {visible([own](auto, auto, auto i, auto j) { return j >= 3 || own(i, j); })});
  node.inputs["attn_mask"] =
      tensor_file({3, 3}, 1, packed_values<float>({0, 1, 2, 0, 1, 2, 0, 1, 2}));
  expect_only(node, [](auto, auto, auto, auto j) { return j < 3 ? double(j) : kHidden; },
              {[](auto, auto, auto, auto j) { return j < 3 ? double(j) : 0; }});
  node.opset = 23;
  node.write_to(folder_ / "a");
  EXPECT_THAT(judge().outcome.reason,
              HasSubstr("attn_mask: 3 keys where 1 or 5 are right before opset 24"));
}

TEST_F(Attention, MasksBroadcastFromTheRight) {
  Node node;
  std::vector<float> heads, keys;
  for (int h = 0; h < 4; ++h)
    for (int j = 0; j < 5; ++j) heads.push_back(float(h) - 0.5f * float(j));
  node.inputs["attn_mask"] =
      tensor_file({4, 1, 5}, 1, packed_values(heads));  // rank 3: heads first
  expect_only(node, [](auto, auto h, auto, auto j) { return double(h) - 0.5 * double(j); },
              {[](auto b, auto, auto, auto j) { return double(b) + 0.5 * double(j); }});
  node.inputs["attn_mask"] = tensor_file({5}, 9, std::string("\1\0\1\1\0", 5));
  expect_only(node, visible([](auto, auto, auto, auto j) { return j != 1 && j != 4; }),
              {visible([](auto, auto, auto i, auto j) { return j != 1 && i != 4; })});
}

TEST_F(Attention, SoftcapComesBeforeTheMask) {
  Node node;
  node.softcap = 0.5;
  node.inputs["attn_mask"] = tensor_file({5}, 1, packed_values<float>({3, 0, -4, 0, -INFINITY}));
  const double mask[] = {3, 0, -4, 0, kHidden};
  expect_only(node, [mask](auto, auto, auto, auto j) { return mask[j]; },
              {[](auto, auto, auto, auto) { return 0.0; }});
}

TEST_F(Attention, WhatIsNotKnownIsNamed) {
  auto refusal = [this](auto change) {
    Node node;
    change(node);
    node.write_to(folder_ / "a");
    const Record record = judge();
    EXPECT_THAT(record.outcome.code,
                ::testing::AnyOf(ReasonCode::kUnsupportedVector, ReasonCode::kErrorVector));
    return std::string(name(record.outcome.code)) + " " + record.outcome.reason;
  };
  EXPECT_THAT(refusal([](Node& n) { n.attributes = {int_attribute("sliding", 1)}; }),
              HasSubstr("unsupported:vector Attention: attribute 'sliding'"));
  EXPECT_THAT(
      refusal([](Node& n) { n.attributes = {bytes_field(1, "scale") + number_field(20, 5)}; }),
      HasSubstr("attribute 'scale' (a subgraph)"));
  EXPECT_THAT(refusal([](Node& n) { n.opset = 22; }),
              HasSubstr("unsupported:vector Attention of opset 22"));
  EXPECT_THAT(refusal([](Node& n) { n.attributes = {int_attribute("is_causal", 7)}; }),
              HasSubstr("error:vector"));
  EXPECT_THAT(refusal([](Node& n) {
                n.inputs["attn_mask"] =
                    tensor_file({7}, 1, packed_values<float>({0, 0, 0, 0, 0, 0, 0}));
              }),
              HasSubstr("attn_mask: 7 keys where at most 5 are right"));
  EXPECT_THAT(refusal([](Node& n) {
                n.inputs["nonpad_kv_seqlen"] = tensor_file({2}, 7, packed_values<int64_t>({1, 6}));
              }),
              HasSubstr("nonpad_kv_seqlen: 6 where 0 to 5 is right"));
  EXPECT_THAT(refusal([](Node& n) {
                n.heads = 3;
                n.flat = true;
              }),
              HasSubstr("error:vector"));
  write_file(folder_ / "a/model.onnx",
             model_file("Attention", {"Q"}, {"Y"}, {}, 24, "com.example"));
  EXPECT_EQ(judge().outcome.reason, "com.example.Attention");
  write_file(folder_ / "a/model.onnx", model_file("Gelu", {"Q"}, {"Y"}, {}, 24));
  EXPECT_EQ(judge().outcome.reason, "Gelu");
  write_file(folder_ / "a/model.onnx", model_file("Softmax", {"Q"}, {"Y"}, {}, 24));
  EXPECT_THAT(judge().outcome.reason, HasSubstr("files input_k.pb where the graph has 1"));
  write_file(folder_ / "a/model.onnx", "no model");
  EXPECT_THAT(judge().outcome.reason, HasSubstr("model.onnx: "));
}

TEST_F(Attention, DamagedAndMissingFilesAreNamed) {
  Node().write_to(folder_ / "a");
  fs::remove(folder_ / "a/test_data_set_0/input_2.pb");
  EXPECT_THAT(judge().outcome.reason, HasSubstr("there is no tensor 'V'"));
  Node().write_to(folder_ / "a");
  write_file(folder_ / "a/test_data_set_0/input_1.pb", tensor_file({2, 2, 5, 8}, 1, "short"));
  EXPECT_THAT(judge().outcome.reason, ::testing::AllOf(HasSubstr("input_1.pb: 5 bytes of data"),
                                                       StartsWith(folder_.string())));
  Node().write_to(folder_ / "a");
  write_file(folder_ / "a/test_data_set_0/output_0.pb", Array({2, 4, 3, 7}, 0).file());
  EXPECT_THAT(judge().outcome.reason, HasSubstr("Y: dims [2,4,3,7] do not fit"));
}

TEST_F(Vectors, OnnxSoftmaxAlongAnyAxis) {
  const std::vector<float> x{1, 2, 3, 1000, 1000, -1000};
  auto with = [&](int64_t axis, const std::vector<float>& y) {
    write_file(folder_ / "s/model.onnx",
               model_file("Softmax", {"x"}, {"y"}, {int_attribute("axis", axis)}, 13));
    write_file(folder_ / "s/test_data_set_0/input_0.pb", tensor_file({2, 3}, 1, packed_values(x)));
    write_file(folder_ / "s/test_data_set_0/output_0.pb", tensor_file({2, 3}, 1, packed_values(y)));
    return judge().outcome.verdict();
  };
  const std::vector<float> rows{0.09003057f, 0.24472848f, 0.66524094f, 0.5f, 0.5f, 0},
      columns{0, 0, 1, 1, 1, 0};
  EXPECT_EQ(with(-1, rows), Verdict::kPass);
  EXPECT_EQ(with(1, rows), Verdict::kPass);
  EXPECT_EQ(with(0, columns), Verdict::kPass);
  EXPECT_EQ(with(0, rows), Verdict::kError);
}

TEST_F(Vectors, RotaryTurnsPairsByPosition) {
  // One head of four channels; positions 1 and 0 of a cache of two: a quarter turn, and none.
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  auto with = [&](const std::vector<float>& y, const std::vector<std::string>& attributes,
                  int64_t first_position = 1) {
    write_file(folder_ / "r/model.onnx",
               model_file("RotaryEmbedding", {"X", "cos", "sin", "ids"}, {"Y"}, attributes, 23));
    const std::string files[] = {
        tensor_file({1, 1, 2, 4}, 1, packed_values(x)),
        tensor_file({2, 2}, 1, packed_values<float>({1, 1, 0, 0})),
        tensor_file({2, 2}, 1, packed_values<float>({0, 0, 1, 1})),
        tensor_file({1, 2}, 7, packed_values<int64_t>({first_position, 0}))};
    for (int k = 0; k < 4; ++k)
      write_file(folder_ / ("r/test_data_set_0/input_" + std::to_string(k) + ".pb"), files[k]);
    write_file(folder_ / "r/test_data_set_0/output_0.pb",
               tensor_file({1, 1, 2, 4}, 1, packed_values(y)));
    return judge();
  };
  const std::vector<float> halves{-3, -4, 1, 2, 5, 6, 7, 8}, neighbours{-2, 1, -4, 3, 5, 6, 7, 8};
  EXPECT_EQ(with(halves, {}).outcome.verdict(), Verdict::kPass) << with(halves, {}).outcome.reason;
  EXPECT_EQ(with(neighbours, {int_attribute("interleaved", 1)}).outcome.verdict(), Verdict::kPass);
  EXPECT_EQ(with(neighbours, {}).outcome.code, ReasonCode::kErrorReference);
  EXPECT_EQ(with(halves, {}, 0).outcome.code, ReasonCode::kErrorReference);
  EXPECT_THAT(with(halves, {}, 2).outcome.reason, HasSubstr("position_ids: 2 lies outside"));
  EXPECT_THAT(with(halves, {int_attribute("rotary_embedding_dim", 3)}).outcome.reason,
              HasSubstr("rotary_embedding_dim: 3"));
}

TEST_F(Vectors, TensorsNamedByAJsonFile) {
  // [batch, tokens, heads, dim], as frameworks dump it: one query of zeros averages the values.
  const std::string q(4 * 4, '\0'), k = packed_values<float>({1, 2, 3, 4, 5, 6, 7, 8}),
                                    v = packed_values<float>({0, 1, 2, 3, 4, 5, 6, 7});
  write_file(folder_ / "d/dump.safetensors",
             safetensors_file(R"({"query":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[0,16]},)"
                              R"("key":{"dtype":"F32","shape":[1,2,2,2],"data_offsets":[16,48]}})",
                              q + k));
  write_file(folder_ / "d/v.npz",
             zip_file({{"v.npy", npy_file(npy_header("'<f4'", "(1, 2, 2, 2)"), v), true}}));
  write_file(folder_ / "d/o.npy",
             npy_file(npy_header("'<f8'", "(1, 1, 2, 2)"), packed_values<double>({2, 3, 4, 5})));
  const auto with = [&](const std::string& more,
                        const std::string& query = "dump.safetensors:query") {
    write_file(folder_ / "d/case.json",
               R"({"layout":"bshd",)" + more + R"("tensors":{"q":")" + query +
                   R"(","k":"dump.safetensors:key","v":"v.npz:v","o":"o.npy"}})");
    return judge();
  };
  // What was dumped is judged like an implementation ...
  EXPECT_EQ(with("").outcome.verdict(), Verdict::kPass) << with("").outcome.reason;
  EXPECT_EQ(with("").impl, kGiven);
  EXPECT_EQ(with(R"("params":{"window_right":0},)").outcome.code,
            ReasonCode::kFailTolerance);  // causal: key 0 alone
  // ... by the arithmetic that it has ...
  write_file(folder_ / "d/o.npy", npy_file(npy_header("'<f4'", "(1, 1, 2, 2)"),
                                           packed_values<float>({2, 3.002f, 4, 5})));
  EXPECT_EQ(with("").outcome.code, ReasonCode::kFailTolerance);
  EXPECT_EQ(with(R"("arithmetic":"pv=bf16,prob=bf16",)").outcome.verdict(), Verdict::kPass);
  EXPECT_THAT(with(R"("arithmetic":"pv=int3",)").outcome.reason, HasSubstr("arithmetic: "));
  // ... and where it has a tolerance it is an authority.
  EXPECT_EQ(with(R"("tolerance":1e-2,)").outcome.verdict(), Verdict::kPass);
  EXPECT_EQ(with(R"("tolerance":1e-6,)").outcome.code, ReasonCode::kErrorReference);
  EXPECT_THAT(with("", "dump.safetensors:quarry").outcome.reason,
              HasSubstr("did you mean 'query'?"));
  EXPECT_THAT(with("", "dump.pt:q").outcome.reason,
              HasSubstr("must be a .safetensors, .npy, .npz or .pb file"));
  EXPECT_THAT(with(R"("params":{"window_rihgt":0},)").outcome.reason,
              HasSubstr("did you mean 'window_right'?"));
  EXPECT_THAT(with(R"("layuot":"bshd",)").outcome.reason, HasSubstr("unknown key 'layuot'"));
  EXPECT_THAT(with(R"("operation":"hyena",)").outcome.code, ReasonCode::kUnsupportedVector);
}

TEST_F(Vectors, UpstreamParametersThatAreNotKnownAreNamed) {
  const auto with = [&](const std::string& op, const std::string& params) {
    std::string inputs;
    for (const char* name : {"Q", "K", "V"}) {
      const std::string file = std::string(name) + ".pb";
      inputs += std::string(inputs.empty() ? "" : ",") + R"({"name":")" + name + R"(","file":")" +
                file + R"("})";
      write_file(folder_ / "u" / file, Array({1, 3, 1, 4}, uint64_t(name[0])).file());
    }
    write_file(folder_ / "u/Y.pb", Array({1, 3, 1, 4}, uint64_t('V')).file());
    write_file(folder_ / "u/case.json", R"({"op":")" + op + R"(","params":)" + params +
                                            R"(,"inputs":[)" + inputs +
                                            R"(],"outputs":[{"name":"Y","file":"Y.pb"}]})");
    return judge();
  };
  // A window of itself alone copies V.
  const std::string self =
      R"({"scale":0.3,"window_left":0,"window_right":0,"causal_align":"top_left")";
  EXPECT_EQ(with("sdpa_bshd", self + "}").outcome.verdict(), Verdict::kPass)
      << with("sdpa_bshd", self + "}").outcome.reason;
  EXPECT_EQ(with("sdpa_bshd", R"({"scale":0.3})").outcome.code, ReasonCode::kErrorReference);
  EXPECT_EQ(with("sdpa_bshd", self + R"(,"dropout":0.1})").outcome.reason,
            "sdpa_bshd: parameter 'dropout'");
  EXPECT_EQ(with("sdpa_bshd", self + R"(,"fully_masked_row":"nan"})").outcome.reason,
            "sdpa_bshd: fully_masked_row 'nan'");
  EXPECT_EQ(with("hyena", "{}").outcome.reason, "hyena");
  EXPECT_THAT(with("sdpa", R"({"scale":"x"})").outcome.reason,
              HasSubstr("params: scale: must be a number"));
}

// One query, three keys, scores of 0, a slope of 1: V = 4, 2, 7 by exp(-distance). From the last
// key distances are 2, 1, 0, from the first 0, 1, 2, whether or not there is a band.
TEST_F(Vectors, AlibiWithoutABandCountsFromWhereItIsAligned) {
  const double near = std::exp(-1.0), far = std::exp(-2.0), total = 1 + near + far;
  const auto code = [&](const std::string& align, double expected) {
    const auto put = [&](const char* name, std::vector<int64_t> dims, std::vector<float> values) {
      write_file(folder_ / "u" / name, tensor_file(std::move(dims), 1, packed_values(values)));
    };
    put("Q.pb", {1, 1, 1, 1}, {0});
    put("K.pb", {1, 3, 1, 1}, {1, 2, 3});
    put("V.pb", {1, 3, 1, 1}, {4, 2, 7});
    put("S.pb", {1}, {1});
    put("Y.pb", {1, 1, 1, 1}, {float(expected)});
    write_file(
        folder_ / "u/case.json",
        R"({"op":"sdpa_bshd","params":{"scale":1,"alibi":true,"causal_align":")" + align +
            R"("},"inputs":[)"
            R"({"name":"Q","file":"Q.pb"},{"name":"K","file":"K.pb"},{"name":"V","file":"V.pb"},)"
            R"({"name":"alibi_slopes","file":"S.pb"}],"outputs":[{"name":"Y","file":"Y.pb"}]})");
    return judge().outcome.code;
  };
  const double last = (4 * far + 2 * near + 7) / total, first = (4 + 2 * near + 7 * far) / total;
  EXPECT_EQ(code("bottom_right", last), ReasonCode::kPass) << judge().outcome.reason;
  EXPECT_EQ(code("bottom_right", first), ReasonCode::kErrorReference);
  EXPECT_EQ(code("top_left", first), ReasonCode::kPass) << judge().outcome.reason;
  EXPECT_EQ(code("middle", first), ReasonCode::kUnsupportedVector);
}

/// Every open vector, and the names of all that attest has no word for.
TEST_F(Vectors, OpenOnesAgreeWithTheReference) {
  const fs::path data = shared_data(ATTEST_SOURCE_DIR);
  ATTEST_SKIP_WITHOUT(data / "onnx");
  int passed = 0;
  std::map<std::string, int> unknown;
  for (const char* folder : {"onnx", "onnx_window", "onnx_layers", "upstream"})
    for (const VectorPlace& place : find_vectors(data / folder)) {
      const Record record = judge(place);
      EXPECT_FALSE(record.outcome.is_bad())
          << folder << "/" << place.name << ": " << record.outcome.reason;
      if (record.outcome.passes())
        ++passed;
      else
        ++unknown[record.outcome.reason];
    }
  EXPECT_GE(passed, 114);
  const std::map<std::string, int> expected{
      {"FlexAttention: attribute 'score_mod' (a subgraph)", 2},
      {"Gelu", 4},
      {"LayerNormalization", 3},
      {"RMSNormalization", 2},
      {"SwiGLU", 3}};
  EXPECT_EQ(unknown, expected);
}

}  // namespace
}  // namespace attest::core
