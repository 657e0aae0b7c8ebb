// Calls of libraries against a double loop, each with the library's own reading of its bounds spelt
// out, and with others that must not pass.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/run/testing/vector_folder.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLibraryHeads = 4, kKeyHeads = 2, kDim = 6;

/// Sequences of their own lengths; tokens [all tokens, heads, channels].
struct Sequences {
  std::vector<int64_t> q_lengths, kv_lengths;
  int64_t q_tokens = total(q_lengths), kv_tokens = total(kv_lengths);
  Array q{{q_tokens, kLibraryHeads, kDim}, 1}, k{{kv_tokens, kKeyHeads, kDim}, 2},
      v{{kv_tokens, kKeyHeads, kDim}, 3};

  static int64_t total(const std::vector<int64_t>& lengths) {
    int64_t sum = 0;
    for (const int64_t length : lengths) sum += length;
    return sum;
  }
  /// Added to the logit of places i and j of sequence b; -inf: hidden.
  using Term = std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)>;
  struct Out {
    Array o, lse;
  };
  /// `sinks` may be empty.
  Out attend(const Term& term, const std::vector<float>& sinks = {}) const {
    const double scale = 1 / std::sqrt(double(kDim));
    Out out{Array({q_tokens, kLibraryHeads, kDim}, 0), Array({kLibraryHeads, q_tokens}, 0)};
    int64_t first_q = 0, first_kv = 0;
    for (size_t b = 0; b < q_lengths.size();
         first_q += q_lengths[b], first_kv += kv_lengths[b], ++b)
      for (int64_t i = 0; i < q_lengths[b]; ++i)
        for (int64_t h = 0; h < kLibraryHeads; ++h) {
          const size_t row = size_t((first_q + i) * kLibraryHeads + h) * kDim;
          std::vector<double> sum(kDim, 0.0);
          double total = 0;
          for (int64_t j = 0; j < kv_lengths[b]; ++j) {
            const size_t key =
                size_t((first_kv + j) * kKeyHeads + h / (kLibraryHeads / kKeyHeads)) * kDim;
            double s = 0;
            for (size_t d = 0; d < kDim; ++d)
              s += double(q.values[row + d]) * double(k.values[key + d]) * scale;
            const double weight = std::exp(s + term(int64_t(b), h, i, j));
            total += weight;
            for (size_t d = 0; d < kDim; ++d) sum[d] += weight * double(v.values[key + d]);
          }
          if (total > 0 && !sinks.empty()) total += std::exp(double(sinks[size_t(h)]));
          for (size_t d = 0; d < kDim; ++d)
            out.o.values[row + d] = total > 0 ? float(sum[d] / total) : 0;
          out.lse.values[size_t(h * q_tokens + first_q + i)] =
              total > 0 ? float(std::log(total)) : INFINITY;
        }
    return out;
  }
};

/// [1, tokens, heads, channels], or [1, heads, tokens, channels].
Array batch_of_one(const Array& a, bool tokens_first) {
  if (tokens_first) {
    Array same = a;
    same.dims.insert(same.dims.begin(), 1);
    return same;
  }
  Array turned({1, a.dims[1], a.dims[0], a.dims[2]}, 0);
  for (int64_t i = 0; i < a.dims[0]; ++i)
    for (int64_t h = 0; h < a.dims[1]; ++h)
      for (int64_t d = 0; d < a.dims[2]; ++d)
        turned.values[size_t((h * a.dims[0] + i) * a.dims[2] + d)] =
            a.values[size_t((i * a.dims[1] + h) * a.dims[2] + d)];
  return turned;
}

Sequences::Term visible(const std::function<bool(int64_t i, int64_t j)>& rule) {
  return [rule](int64_t, int64_t, int64_t i, int64_t j) { return rule(i, j) ? 0.0 : kHidden; };
}

class LibraryVectors : public CaseVectors {
 protected:
  static std::string int32_file(const std::vector<int32_t>& values,
                                std::vector<int64_t> dims = {}) {
    if (dims.empty()) dims = {int64_t(values.size())};
    return tensor_file(dims, 6, packed_values(values));
  }
};

/// The same 5 queries and 8 keys under every library's words; `right` sees what `inside` says, and
/// nothing else passes.
TEST_F(LibraryVectors, BoundsOfWindowsMeanWhatTheLibraryMeans) {
  const Sequences x{.q_lengths = {5}, .kv_lengths = {8}};
  const auto expect = [&](const std::string& op, const std::string& params,
                          const std::function<bool(int64_t, int64_t)>& inside,
                          const std::vector<std::function<bool(int64_t, int64_t)>>& others) {
    const bool flash = op == "flash_attn_func", torch = op == "scaled_dot_product_attention";
    const Files inputs{{torch ? "query" : "q", batch_of_one(x.q, flash).file()},
                       {torch ? "key" : "k", batch_of_one(x.k, flash).file()},
                       {torch ? "value" : "v", batch_of_one(x.v, flash).file()}};
    const auto code = [&](const std::function<bool(int64_t, int64_t)>& rule) {
      return with(op, params, inputs,
                  {{op == "cudnn_sdpa" ? "o" : "out",
                    batch_of_one(x.attend(visible(rule)).o, flash).file()}})
          .outcome.code;
    };
    EXPECT_EQ(code(inside), ReasonCode::kPass)
        << op << " " << params << ": " << judge().outcome.reason;
    for (const auto& other : others)
      EXPECT_EQ(code(other), ReasonCode::kErrorReference) << op << " " << params;
  };
  const auto band = [](int64_t left, int64_t right, int64_t offset) {
    return [=](int64_t i, int64_t j) { return j >= i + offset - left && j <= i + offset + right; };
  };
  expect("flash_attn_func", R"("window_size":[2,1])", band(2, 1, 3),
         {band(1, 1, 3), band(2, 0, 3), band(2, 1, 0)});
  expect("flash_attn_func", R"("window_size":[2,-1])", band(2, 99, 3), {band(2, 0, 3)});
  expect("flash_attn_func", R"("causal":true,"window_size":[2,1])", band(2, 0, 3), {band(2, 1, 3)});
  expect("flash_attn_func", R"("causal":true)", band(99, 0, 3), {band(99, 0, 0)});
  const std::string scale = R"("attn_scale":0.408248290463863,)";  // 1 / sqrt(6)
  expect("cudnn_sdpa", scale + R"("diagonal_band_left_bound":3,"diagonal_band_right_bound":0)",
         band(2, 0, 0), {band(3, 0, 0), band(2, 1, 0), band(2, 0, 3)});
  expect("cudnn_sdpa",
         scale + R"("diagonal_band_left_bound":1,"diagonal_band_right_bound":1,)" +
             R"("diagonal_alignment":"BOTTOM_RIGHT")",
         band(0, 1, 3), {band(1, 1, 3), band(0, 1, 0)});
  expect("scaled_dot_product_attention", R"("is_causal":true,"enable_gqa":true)", band(99, 0, 0),
         {band(99, 0, 3)});
}

TEST_F(LibraryVectors, PackedSequencesMayBeEmpty) {
  const Sequences x{.q_lengths = {3, 0, 4, 2}, .kv_lengths = {5, 3, 2, 0}};
  const auto causal = [&](bool bottom_right) {
    return [&x, bottom_right](int64_t b, int64_t, int64_t i, int64_t j) {
      return j <= i + (bottom_right ? x.kv_lengths[size_t(b)] - x.q_lengths[size_t(b)] : 0)
                 ? 0.0
                 : kHidden;
    };
  };
  const Files inputs{{"q", x.q.file()},
                     {"k", x.k.file()},
                     {"v", x.v.file()},
                     {"cu_seqlens_q", int32_file({0, 3, 3, 7, 9})},
                     {"cu_seqlens_k", int32_file({0, 5, 8, 10, 10})}};
  const std::string params = R"("max_seqlen_q":4,"max_seqlen_k":5,"causal":true)";
  const Sequences::Out right = x.attend(causal(true)), wrong = x.attend(causal(false));
  EXPECT_EQ(with("flash_attn_varlen_func", params, inputs,
                 {{"out", right.o.file()}, {"softmax_lse", right.lse.file()}})
                .outcome.code,
            ReasonCode::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(with("flash_attn_varlen_func", params, inputs, {{"out", wrong.o.file()}}).outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_EQ(with("flash_attn_varlen_func", params, inputs,
                 {{"out", right.o.file()}, {"softmax_lse", wrong.lse.file()}})
                .outcome.code,
            ReasonCode::kErrorReference);
  EXPECT_THAT(with("flash_attn_varlen_func", params + R"(,"dropout_p":0)", inputs,
                   {{"out", right.o.file()}})
                  .outcome.reason,
              HasSubstr("parameter 'dropout_p'"));
  EXPECT_THAT(with("flash_attn_varlen_func", params, inputs,
                   {{"out", right.o.file()}, {"S_dmask", right.o.file()}})
                  .outcome.reason,
              HasSubstr("output 'S_dmask'"));
}

TEST_F(LibraryVectors, AlibiFallsWithTheDistanceFromTheDiagonal) {
  const Sequences x{.q_lengths = {4}, .kv_lengths = {7}};
  const float slopes[] = {0.5f, 0.25f, 0.125f, 1};
  const auto code = [&](int64_t offset, const char* parameters = R"("window_size":[99,99])") {
    const Array out = batch_of_one(x.attend([&](int64_t, int64_t h, int64_t i, int64_t j) {
                                      return -double(slopes[h]) * std::fabs(double(i + offset - j));
                                    }).o,
                                   true);
    return with("flash_attn_func", parameters,
                {{"q", batch_of_one(x.q, true).file()},
                 {"k", batch_of_one(x.k, true).file()},
                 {"v", batch_of_one(x.v, true).file()},
                 {"alibi_slopes",
                  tensor_file({4}, 1, packed_values<float>({0.5f, 0.25f, 0.125f, 1}))}},
                {{"out", out.file()}})
        .outcome.code;
  };
  EXPECT_EQ(code(3), ReasonCode::kPass) << judge().outcome.reason;
  EXPECT_EQ(code(0), ReasonCode::kErrorReference);
  EXPECT_EQ(code(3, ""), ReasonCode::kPass) << "without a band too: " << judge().outcome.reason;
  EXPECT_EQ(code(0, ""), ReasonCode::kErrorReference);
}

/// A logit that has no value takes its share, and is in the lse; where no key is seen there is
/// nothing to share.
TEST_F(LibraryVectors, SinksTakeTheirShare) {
  const Sequences x{.q_lengths = {5},
                    .kv_lengths = {3}};  // causal: the first two queries see nothing
  const std::vector<float> sinks{0.5f, -2, 4, 1};
  const auto code = [&](const std::vector<float>& taken) {
    const Sequences::Out out =
        x.attend(visible([](int64_t i, int64_t j) { return j <= i - 2; }), taken);
    Array lse = out.lse;
    lse.dims.insert(lse.dims.begin(), 1);
    return with("flash_attn_func", R"("causal":true)",
                {{"q", batch_of_one(x.q, true).file()},
                 {"k", batch_of_one(x.k, true).file()},
                 {"v", batch_of_one(x.v, true).file()},
                 {"sinks", tensor_file({4}, 1, packed_values(sinks))}},
                {{"out", batch_of_one(out.o, true).file()}, {"softmax_lse", lse.file()}})
        .outcome.code;
  };
  EXPECT_EQ(code(sinks), ReasonCode::kPass) << judge().outcome.reason;
  EXPECT_EQ(code({}), ReasonCode::kErrorReference);
  EXPECT_EQ(code({0.25f, -1, 2, 0.5f}), ReasonCode::kErrorReference);
}

/// Key j of sequence b lies in row j % 2 of page table[b][j / 2]; pages that nobody may read hold
/// NaN, entries beyond are -1.
TEST_F(LibraryVectors, PagesAreFoundThroughTheTable) {
  const Sequences x{.q_lengths = {2, 2}, .kv_lengths = {5, 3}};
  const std::vector<int32_t> table{4, 1, 6, 2, 0, -1};
  Array k({7, 2, kKeyHeads, kDim}, 0), v = k;
  std::fill(k.values.begin(), k.values.end(), NAN);
  std::fill(v.values.begin(), v.values.end(), NAN);
  constexpr int64_t kRow = kKeyHeads * kDim;
  for (int64_t b = 0, token = 0; b < 2; ++b)
    for (int64_t j = 0; j < x.kv_lengths[size_t(b)]; ++j, ++token)
      for (int64_t d = 0; d < kRow; ++d) {
        const size_t to = size_t((table[size_t(b * 3 + j / 2)] * 2 + j % 2) * kRow + d);
        k.values[to] = x.k.values[size_t(token * kRow + d)];
        v.values[to] = x.v.values[size_t(token * kRow + d)];
      }
  Array q({2, 2, kLibraryHeads, kDim}, 0), out = q;
  q.values = x.q.values;
  const auto causal = [&](int64_t b, int64_t, int64_t i, int64_t j) {
    return j <= i + x.kv_lengths[size_t(b)] - 2 ? 0.0 : kHidden;
  };
  out.values = x.attend(causal).o.values;
  const Files cache{{"q", q.file()},
                    {"k_cache", k.file()},
                    {"v_cache", v.file()},
                    {"block_table", int32_file(table, {2, 3})},
                    {"cache_seqlens", int32_file({5, 3})}};
  EXPECT_EQ(with("flash_attn_with_kvcache", R"("causal":true)", cache, {{"out", out.file()}})
                .outcome.code,
            ReasonCode::kPass)
      << judge().outcome.reason;
  const Files packed{{"q", x.q.file()},
                     {"k", k.file()},
                     {"v", v.file()},
                     {"block_table", int32_file(table, {2, 3})},
                     {"cu_seqlens_q", int32_file({0, 2, 4})},
                     {"cu_seqlens_k", int32_file({0, 5, 8})}};
  EXPECT_EQ(with("flash_attn_varlen_func", R"("max_seqlen_q":2,"max_seqlen_k":5,"causal":true)",
                 packed, {{"out", x.attend(causal).o.file()}})
                .outcome.code,
            ReasonCode::kPass)
      << judge().outcome.reason;
  Files other = cache;
  other["block_table"] = int32_file({4, 1, 6, 0, 2, -1}, {2, 3});
  EXPECT_EQ(with("flash_attn_with_kvcache", R"("causal":true)", other, {{"out", out.file()}})
                .outcome.code,
            ReasonCode::kErrorReference);
  other["block_table"] = int32_file({4, 1, 9, 2, 0, -1}, {2, 3});
  EXPECT_THAT(with("flash_attn_with_kvcache", R"("causal":true)", other, {{"out", out.file()}})
                  .outcome.reason,
              HasSubstr("page_table: page 9"));
}

TEST_F(LibraryVectors, MasksOfEveryKindBroadcastFromTheRight) {
  const Sequences x{.q_lengths = {2}, .kv_lengths = {3}};
  const auto code = [&](const std::string& mask, const Sequences::Term& term) {
    return with("scaled_dot_product_attention", R"("enable_gqa":true)",
                {{"query", batch_of_one(x.q, false).file()},
                 {"key", batch_of_one(x.k, false).file()},
                 {"value", batch_of_one(x.v, false).file()},
                 {"attn_mask", mask}},
                {{"out", batch_of_one(x.attend(term).o, false).file()}})
        .outcome.code;
  };
  const auto heads = [](int64_t, int64_t h, int64_t, int64_t j) { return double(h) * double(j); };
  std::vector<float> of_heads;
  for (int h = 0; h < 4; ++h)
    for (int j = 0; j < 3; ++j) of_heads.push_back(float(h * j));
  EXPECT_EQ(code(tensor_file({4, 1, 3}, 1, packed_values(of_heads)), heads), ReasonCode::kPass)
      << judge().outcome.reason;
  EXPECT_EQ(code(tensor_file({3}, 9, std::string("\1\0\1", 3)),
                 visible([](int64_t, int64_t j) { return j != 1; })),
            ReasonCode::kPass);
  EXPECT_EQ(code(tensor_file({2, 3}, 9, std::string("\0\0\0\1\1\0", 6)),
                 visible([](int64_t i, int64_t j) { return i == 1 && j < 2; })),
            ReasonCode::kPass);
  EXPECT_EQ(code(tensor_file({2, 3}, 9, std::string("\0\0\0\1\1\0", 6)),
                 visible([](int64_t, int64_t) { return true; })),
            ReasonCode::kErrorReference);
  code(tensor_file({2}, 9, std::string("\1\1", 2)), heads);
  EXPECT_THAT(judge().outcome.reason,
              HasSubstr("attn_mask: dims [2] do not broadcast to [1,4,2,3]"));
}

}  // namespace
}  // namespace attest::core
