// ONNX Attention (opset 23 and later, with the local windows of 25) and FlexAttention as softmax
// problems.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/operations/softmax/softmax.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"
#include "core/vectors/onnx/scores.hpp"
#include "core/vectors/upstream/window_bounds.hpp"

namespace attest::core {
namespace {

enum Input { kQ, kK, kV, kMask, kPastKey, kPastValue, kNonpad };
enum Output { kY, kPresentKey, kPresentValue, kQkMatmul };

/// [batch, heads, tokens, channels] of a tensor of rank 4, or of rank 3 [batch, tokens, heads *
/// channels].
Axes heads_first(const FileTensor& file, int64_t heads) {
  if (file.dims.size() == 4) return dense_axes(file.dims);
  if (file.dims.size() != 3)
    throw Error(
        fmt::format("{}: {} dims where 3 or 4 are right", in_quotes(file.name), file.dims.size()));
  if (heads < 1) throw Error("Attention: tensors of rank 3 need q_num_heads and kv_num_heads");
  const int64_t tokens = file.dims[1], hidden = file.dims[2];
  if (hidden % heads != 0)
    throw Error(fmt::format("{}: {} channels are no multiple of {} heads", in_quotes(file.name),
                            hidden, heads));
  return {.dims = {file.dims[0], heads, tokens, hidden / heads},
          .strides = {tokens * hidden, hidden / heads, hidden, 1},
          .offset = 0};
}

/// Keys or values with the past before them: [batch, heads, past + tokens, channels], dense.
const FileTensor& with_past(TestVector& vector, const FileTensor& past, const FileTensor& now,
                            const Axes& axes) {
  expect_dims(past, {axes.dims[0], axes.dims[1], -1, axes.dims[3]}, "past");
  if (past.dtype != now.dtype)
    throw Unsupported{fmt::format("a past of {} before {}", past.type, now.type)};
  const int64_t before = past.dims[2], tokens = axes.dims[2], channels = axes.dims[3];
  const auto size = int64_t(dtype_bytes(usable(now, "the vector").dtype));
  FileTensor& all = make_file(vector, now.name, now.dtype,
                              {axes.dims[0], axes.dims[1], before + tokens, channels});
  auto copy = [&](const FileTensor& from, int64_t source, int64_t row) {
    std::memcpy(all.bytes.data() + row * channels * size, from.bytes.data() + source * size,
                size_t(channels * size));
  };
  for (int64_t b = 0; b < axes.dims[0]; ++b)
    for (int64_t h = 0; h < axes.dims[1]; ++h) {
      const int64_t outer = b * axes.dims[1] + h;
      for (int64_t j = 0; j < before; ++j)
        copy(past, (outer * before + j) * channels, outer * (before + tokens) + j);
      for (int64_t j = 0; j < tokens; ++j)
        copy(now, b * axes.strides[0] + h * axes.strides[1] + j * axes.strides[2],
             outer * (before + tokens) + before + j);
    }
  return all;
}

/// The mask, broadcast by dims of 1 on its left, its last dim filled up with "do not attend".
void give_mask(TestVector& vector, const FileTensor& mask, int64_t seq_len_kv, int64_t opset) {
  const auto& p = vector.problem->as<attest_softmax_params>();
  if (mask.dims.empty() || mask.dims.size() > 4)
    throw Error(fmt::format("attn_mask: {} dims where 1 to 4 are right", mask.dims.size()));
  std::vector<int64_t> dims(4 - mask.dims.size(), 1);
  dims.insert(dims.end(), mask.dims.begin(), mask.dims.end());
  const int64_t full[] = {p.batch, p.num_heads, p.seq_len_q, seq_len_kv};
  for (size_t i = 0; i < 3; ++i)
    if (dims[i] != 1 && dims[i] != full[i])
      throw Error(fmt::format("attn_mask: dims {} do not broadcast to {}", print_dims(mask.dims),
                              print_dims(full)));
  if (dims[3] > seq_len_kv || dims[3] < 1)
    throw Error(fmt::format("attn_mask: {} keys where at most {} are right", dims[3], seq_len_kv));
  const bool broadcast = dims[3] == 1 && opset < 24;  // before padding came, one key stood for all
  const FileTensor* used = &mask;
  const int64_t own = dims[3];
  if (own < seq_len_kv && !broadcast) {
    if (opset < 24)
      throw Error(fmt::format("attn_mask: {} keys where 1 or {} are right before opset 24", own,
                              seq_len_kv));
    FileTensor& padded = make_file(vector, mask.name, usable(mask, "the vector").dtype,
                                   {dims[0], dims[1], dims[2], seq_len_kv});
    for (int64_t row = 0, rows = dims[0] * dims[1] * dims[2]; row < rows; ++row)
      for (int64_t j = 0; j < seq_len_kv; ++j) {
        const double none =
            mask.dtype == ATTEST_BOOL ? 0 : -std::numeric_limits<double>::infinity();
        store(padded.bytes.data(), padded.dtype, row * seq_len_kv + j,
              j < own ? mask.at(row * own + j) : none);
      }
    used = &padded;
    dims[3] = seq_len_kv;
  }
  if (mask.dtype != ATTEST_BOOL && !is_float(mask.dtype))
    throw Unsupported{fmt::format("attn_mask of {}", mask.type)};
  give(vector, mask.dtype == ATTEST_BOOL ? ATTEST_MASK : ATTEST_BIAS,
       view(*used, dense_axes(dims)));
}

/// Present keys or values: a copy, so the given bits must come out.
void expect_present(TestVector& vector, const char* name, const FileTensor& expected,
                    const Tensor& all) {
  std::vector<double> values;
  for (int64_t row = 0, rows = row_count(all.spec, 4); row < rows; ++row)
    values.push_back(load(all.data, all.spec.dtype, row_offset(all.spec, 4, row)));
  expect_values(vector, name, expected, std::move(values));
}

struct Sizes {
  Axes q, k, v;
};

Sizes sizes_of(const OnnxCase& from) {
  const FileTensor &q = from.needed(kQ, "Q"), &k = from.needed(kK, "K"), &v = from.needed(kV, "V");
  const int64_t q_heads = from.whole("q_num_heads", 0), kv_heads = from.whole("kv_num_heads", 0);
  Sizes sizes{heads_first(q, q_heads), heads_first(k, kv_heads), heads_first(v, kv_heads)};
  for (const auto& [axes, heads, name] : {std::tuple(&sizes.q, q_heads, "q_num_heads"),
                                          std::tuple(&sizes.k, kv_heads, "kv_num_heads")})
    if (heads > 0 && axes->dims[1] != heads)
      throw Error(fmt::format("{}: {} where the tensor has {} heads", name, heads, axes->dims[1]));
  const auto &qd = sizes.q.dims, &kd = sizes.k.dims, &vd = sizes.v.dims;
  if (qd[0] != kd[0] || qd[0] != vd[0] || kd[1] != vd[1] || kd[2] != vd[2] || qd[3] != kd[3])
    throw Error(fmt::format("{}: Q {}, K {} and V {} do not fit each other", from.node.op_type,
                            print_dims(q.dims), print_dims(k.dims), print_dims(v.dims)));
  return sizes;
}

float scale_of(const OnnxCase& from) {
  const double scale = from.real("scale", 0);
  if (from.node.attributes.contains("scale") && scale == 0)
    throw Unsupported{from.node.op_type + ": attribute 'scale' of 0"};
  return float(scale);
}

void give_lengths(TestVector& vector, const FileTensor& nonpad, int64_t seq_len_kv) {
  const auto& p = vector.problem->as<attest_softmax_params>();
  expect_dims(nonpad, {p.batch}, "nonpad_kv_seqlen");
  for (int64_t b = 0; b < p.batch; ++b)
    if (nonpad.at(b) < 0 || nonpad.at(b) > double(seq_len_kv))
      throw Error(
          fmt::format("nonpad_kv_seqlen: {} where 0 to {} is right", nonpad.at(b), seq_len_kv));
  give(vector, ATTEST_SEQ_LENS_KV, flat_view(nonpad), ATTEST_I32);
}

/// Q, K, V, O and the sizes; K and V are views of `k` and `v`, which may hold a past.
void give_tensors(TestVector& vector, const OnnxCase& from, const Sizes& sizes, const Tensor& k,
                  const Tensor& v) {
  const FileTensor& q = *from.input(kQ);
  auto& p = start_problem(vector, softmax_operation(), usable(q, "the vector").dtype)
                .as<attest_softmax_params>();
  p.batch = sizes.q.dims[0];
  p.num_heads = sizes.q.dims[1];
  p.num_kv_heads = sizes.k.dims[1];
  p.seq_len_q = sizes.q.dims[2];
  p.seq_len_kv = k.spec.dim[2];
  p.head_dim = sizes.q.dims[3];
  p.head_dim_v = sizes.v.dims[3];
  if (p.num_heads % p.num_kv_heads != 0)
    throw Error(fmt::format("{}: {} query heads are no multiple of {}", from.node.op_type,
                            p.num_heads, p.num_kv_heads));
  p.softmax_scale = scale_of(from);
  give(vector, ATTEST_Q, view(q, sizes.q));
  give(vector, ATTEST_K, k);
  give(vector, ATTEST_V, v);
  if (const FileTensor* y = from.output(kY)) {
    const Axes axes = heads_first(*y, p.num_heads);
    if (axes.dims != std::vector<int64_t>{p.batch, p.num_heads, p.seq_len_q, p.head_dim_v})
      throw Error(
          fmt::format("Y: dims {} do not fit Q {} and V", print_dims(y->dims), print_dims(q.dims)));
    expect_role(vector, ATTEST_O, "Y", view(*y, axes), vector.problem->dtype);
  }
}

/// The causal and the windowed diagonal: after the past, or ending at each sequence's last valid
/// key.
void set_band(const OnnxCase& from, attest_softmax_params& p, int64_t past, bool lengths) {
  const int64_t causal = from.whole("is_causal", 0), left = from.whole("left_window_size", -1),
                right = from.whole("right_window_size", -1);
  if (causal != 0 && causal != 1)
    throw Error(fmt::format("is_causal: {} where 0 or 1 is right", causal));
  if (left < -1 || right < -1)
    throw Error(fmt::format("left_window_size, right_window_size: {}, {} where -1 and up is right",
                            left, right));
  set_onnx_band(p, {left, right}, causal != 0, past, lengths);
}

void expect_scores(TestVector& vector, const OnnxCase& from, const FileTensor& expected) {
  const auto& p = vector.problem->as<attest_softmax_params>();
  const int64_t mode = from.whole("qk_matmul_output_mode", 0);
  if (mode < kRawScores || mode > kProbabilities)
    throw Error(fmt::format("qk_matmul_output_mode: {} where 0 to 3 is right", mode));
  if (mode == kRawScores && p.softcap > 0) {
    vector.notes.push_back(
        "qk_matmul_output not judged: mode 0 with softcap means different things to different "
        "releases");
    return;
  }
  expect_dims(expected, {p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv}, "qk_matmul_output");
  vector.outputs.push_back({.name = "qk_matmul_output",
                            .kind = VectorOutput::Kind::kScores,
                            .role = 0,
                            .score_mode = int(mode),
                            .values = {},
                            .expected = view(expected, dense_axes(expected.dims))});
}

}  // namespace

void map_attention(const OnnxCase& from, TestVector& vector) {
  from.know({"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale",
             "softcap", "softmax_precision", "left_window_size", "right_window_size"},
            7, 4);
  if (from.opset < 23) throw Unsupported{fmt::format("Attention of opset {}", from.opset)};
  const Sizes sizes = sizes_of(from);
  const FileTensor *past_key = from.input(kPastKey), *past_value = from.input(kPastValue),
                   *nonpad = from.input(kNonpad);
  if (!past_key != !past_value) throw Error("Attention: past_key and past_value go together");
  if (past_key && nonpad) throw Unsupported{"Attention: past_key beside nonpad_kv_seqlen"};
  Tensor k, v;
  if (past_key) {
    const FileTensor& all = with_past(vector, *past_key, *from.input(kK), sizes.k);
    k = view(all, dense_axes(all.dims));
    const FileTensor& values = with_past(vector, *past_value, *from.input(kV), sizes.v);
    v = view(values, dense_axes(values.dims));
    if (k.spec.dim[2] != v.spec.dim[2])
      throw Error("Attention: past_key and past_value differ in length");
  } else {
    k = view(*from.input(kK), sizes.k);
    v = view(*from.input(kV), sizes.v);
  }
  give_tensors(vector, from, sizes, k, v);
  auto& p = vector.problem->as<attest_softmax_params>();
  p.softcap = float(from.real("softcap", 0));
  set_band(from, p, past_key ? past_key->dims[2] : 0, nonpad != nullptr);
  if (nonpad) give_lengths(vector, *nonpad, p.seq_len_kv);
  if (const FileTensor* mask = from.input(kMask))
    give_mask(vector, *mask, p.seq_len_kv, from.opset);
  finish(vector);
  if (const FileTensor* present = from.output(kPresentKey))
    expect_present(vector, "present_key", *present, k);
  if (const FileTensor* present = from.output(kPresentValue))
    expect_present(vector, "present_value", *present, v);
  if (const FileTensor* scores = from.output(kQkMatmul)) expect_scores(vector, from, *scores);
}

void map_flex_attention(const OnnxCase& from, TestVector& vector) {
  from.know({"scale", "softmax_precision"}, 3, 1);
  const Sizes sizes = sizes_of(from);
  give_tensors(vector, from, sizes, view(*from.input(kK), sizes.k), view(*from.input(kV), sizes.v));
  finish(vector);
}

}  // namespace attest::core
