// ONNX LinearAttention (opset 27): a state of [head_dim, head_dim_v] that decays, is written and
// then read, token by token. Not the linear attention of attest.h, which has a feature map and a
// normaliser: the reference computes it alone.
#include <fmt/format.h>

#include <cmath>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"

namespace attest::core {
namespace {

enum LinearInput { kQuery, kKey, kValue, kPastState, kDecay, kBeta };
enum LinearOutput { kLinearY, kPresentState };

class Recurrence {
 public:
  explicit Recurrence(const OnnxCase& from)
      : query_(usable(from.needed(kQuery, "query"), "the vector")),
        key_(usable(from.needed(kKey, "key"), "the vector")),
        value_(usable(from.needed(kValue, "value"), "the vector")),
        heads_(from.whole("q_num_heads", 0)),
        kv_heads_(from.whole("kv_num_heads", 0)) {
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0)
      throw Error(
          fmt::format("LinearAttention: {} query heads and {} key heads", heads_, kv_heads_));
    expect_dims(query_, {-1, -1, -1}, "query");
    batch_ = query_.dims[0];
    tokens_ = query_.dims[1];
    if (query_.dims[2] % heads_ != 0)
      throw Error(fmt::format("query: {} channels for {} heads", query_.dims[2], heads_));
    dim_ = query_.dims[2] / heads_;
    expect_dims(key_, {batch_, tokens_, kv_heads_ * dim_}, "key");
    expect_dims(value_, {batch_, tokens_, -1}, "value");
    if (value_.dims[2] % kv_heads_ != 0)
      throw Error(fmt::format("value: {} channels for {} heads", value_.dims[2], kv_heads_));
    dim_v_ = value_.dims[2] / kv_heads_;
    const double scale = from.real("scale", 0);
    scale_ = scale != 0 ? scale : 1 / std::sqrt(double(dim_));
    if (batch_ < 1 || tokens_ < 1 || dim_ < 1 || dim_v_ < 1)
      throw Unsupported{"LinearAttention: an empty tensor"};
    take_rule(from);
    start_state(from.input(kPastState));
    y_ = zeros({batch_, tokens_, heads_, dim_v_});
    written_.resize(size_t(dim_v_));
  }

  void run() {
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t t = 0; t < tokens_; ++t)
        for (int64_t h = 0; h < kv_heads_; ++h) {
          double* const state = state_.data() + (b * kv_heads_ + h) * dim_ * dim_v_;
          write(b * tokens_ + t, h, state);
          for (int64_t reader = h * heads_ / kv_heads_; reader < (h + 1) * heads_ / kv_heads_;
               ++reader)
            read(b * tokens_ + t, reader, state);
        }
  }

  std::vector<double>& y() { return y_; }
  std::vector<double>& state() { return state_; }

 private:
  void take_rule(const OnnxCase& from) {
    const std::string rule = from.text("update_rule", "gated_delta");
    const bool decays = rule == "gated" || rule == "gated_delta",
               corrects = rule == "delta" || rule == "gated_delta";
    if (!decays && !corrects && rule != "linear")
      throw Unsupported{"LinearAttention: update_rule " + in_quotes(rule)};
    for (const auto& [place, name, wanted] :
         {std::tuple(kDecay, "decay", decays), std::tuple(kBeta, "beta", corrects)})
      if ((from.input(place) != nullptr) != wanted)
        throw Error(fmt::format("LinearAttention: update_rule {} {} the input '{}'", rule,
                                wanted ? "needs" : "has no use for", name));
    decay_ = from.input(kDecay);
    beta_ = from.input(kBeta);
    expect_width(decay_, kv_heads_ * dim_, kv_heads_, "decay");
    expect_width(beta_, kv_heads_, 1, "beta");
  }
  void expect_width(const FileTensor* file, int64_t full, int64_t shared, const char* name) const {
    if (!file) return;
    expect_dims(usable(*file, "the vector"), {batch_, tokens_, -1}, name);
    if (file->dims[2] != full && file->dims[2] != shared)
      throw Error(fmt::format("{}: {} channels where {} or {} are right", name, file->dims[2], full,
                              shared));
  }
  static std::vector<double> zeros(const std::vector<int64_t>& dims) {
    constexpr int64_t kMost = int64_t{1} << 30;
    const auto bytes = dense_bytes(dims, sizeof(double));
    if (!bytes || *bytes > kMost)
      throw Unsupported{fmt::format("LinearAttention: {} doubles", print_dims(dims))};
    return std::vector<double>(size_t(*bytes) / sizeof(double));
  }
  void start_state(const FileTensor* past) {
    state_ = zeros({batch_, kv_heads_, dim_, dim_v_});
    if (!past) return;
    expect_dims(usable(*past, "the vector"), {batch_, kv_heads_, dim_, dim_v_}, "past_state");
    for (size_t i = 0; i < state_.size(); ++i) state_[i] = past->at(int64_t(i));
  }

  double decay(int64_t token, int64_t h, int64_t d) const {
    if (!decay_) return 1;
    const bool shared = decay_->dims[2] == kv_heads_;
    return std::exp(
        decay_->at(shared ? token * kv_heads_ + h : (token * kv_heads_ + h) * dim_ + d));
  }
  /// S = exp(g) S + beta k (v - (exp(g) S)^T k), without the correction where there is no beta.
  void write(int64_t token, int64_t h, double* s) {
    const auto key = [&](int64_t d) { return key_.at((token * kv_heads_ + h) * dim_ + d); };
    for (int64_t d = 0; d < dim_; ++d)
      for (int64_t c = 0; c < dim_v_; ++c) s[d * dim_v_ + c] *= decay(token, h, d);
    for (int64_t c = 0; c < dim_v_; ++c)
      written_[size_t(c)] = value_.at((token * kv_heads_ + h) * dim_v_ + c);
    if (beta_) {
      const double beta = beta_->at(beta_->dims[2] == 1 ? token : token * kv_heads_ + h);
      for (int64_t c = 0; c < dim_v_; ++c) {
        for (int64_t d = 0; d < dim_; ++d) written_[size_t(c)] -= s[d * dim_v_ + c] * key(d);
        written_[size_t(c)] *= beta;
      }
    }
    for (int64_t d = 0; d < dim_; ++d)
      for (int64_t c = 0; c < dim_v_; ++c) s[d * dim_v_ + c] += key(d) * written_[size_t(c)];
  }
  void read(int64_t token, int64_t h, const double* s) {
    for (int64_t c = 0; c < dim_v_; ++c) {
      double sum = 0;
      for (int64_t d = 0; d < dim_; ++d)
        sum += query_.at((token * heads_ + h) * dim_ + d) * s[d * dim_v_ + c];
      y_[size_t((token * heads_ + h) * dim_v_ + c)] = scale_ * sum;
    }
  }

  const FileTensor &query_, &key_, &value_;
  const FileTensor *
      decay_ = nullptr,
     *beta_ = nullptr;  // [batch, tokens, kv_heads * dim | kv_heads], [batch, tokens, kv_heads | 1]
  const int64_t heads_, kv_heads_;
  int64_t batch_ = 0, tokens_ = 0, dim_ = 0, dim_v_ = 0;
  double scale_ = 0;
  std::vector<double> state_;    // [batch, kv_heads, dim, dim_v]
  std::vector<double> y_;        // [batch, tokens, heads, dim_v]
  std::vector<double> written_;  // [dim_v]
};

}  // namespace

void map_linear_attention(const OnnxCase& from, TestVector& vector) {
  from.know({"chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule"}, 6,
            2);  // chunk_size: a hint, without effect
  if (from.opset < 27) throw Unsupported{fmt::format("LinearAttention of opset {}", from.opset)};
  Recurrence recurrence(from);
  recurrence.run();
  vector.operation = "linear_recurrence";
  vector.dtype = dtype_name(from.input(kQuery)->dtype);
  if (const FileTensor* y = from.output(kLinearY))
    expect_values(vector, from.node.outputs[kLinearY], *y, std::move(recurrence.y()));
  if (const FileTensor* state = from.output(kPresentState))
    expect_values(vector, from.node.outputs[kPresentState], *state, std::move(recurrence.state()));
}

}  // namespace attest::core
