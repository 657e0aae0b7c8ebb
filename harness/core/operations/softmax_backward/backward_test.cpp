// Gradients of softmax attention: the golden against finite differences of the forward pass, its
// sample and its bounds, its inputs, and what is not judged yet.
#include "core/operations/softmax_backward/backward.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <vector>

#include "core/operations/softmax_backward/backward_terms.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"
#include "core/operations/unsure.hpp"
#include "core/operations/variant.hpp"
#include "core/tensor/error.hpp"

namespace attest::core::backward {
namespace {

using testing::BackwardCase;
using ::testing::HasSubstr;
using Shape = testing::BackwardShape;
using Real = long double;

/// Q, K, V, biases and sinks of a case in long double, dense, and the sum of dO * O by definition.
/// It shares no code with the golden. On a grid it counts tokens, not positions.
struct Forward {
  const BackwardCase& c;
  std::map<int32_t, std::vector<Real>> inputs;

  explicit Forward(const BackwardCase& of) : c(of) {
    for (const int32_t role :
         {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_BIAS, ATTEST_REL_BIAS, ATTEST_SINKS}) {
      const Tensor& x = c.tensors[size_t(role)];
      if (!x) continue;
      for (int64_t n = 0; n < element_count(x.spec); ++n)
        inputs[role].push_back(Real(load(x.data, x.spec.dtype, n)));
    }
    multiply_by_factors();
  }

  /// Makes numbers of what Q, K and V store in 8 bits.
  void multiply_by_factors() {
    const auto& p = c.p();
    for (const auto& [role, factors] : {std::pair(ATTEST_Q, ATTEST_Q_DESCALE),
                                        {ATTEST_K, ATTEST_K_DESCALE},
                                        {ATTEST_V, ATTEST_V_DESCALE}}) {
      const Tensor& of = c.tensors[size_t(factors)];
      if (!of) continue;
      const bool is_q = role == ATTEST_Q;
      const int64_t block = is_q ? p.descale_block_q : p.descale_block_kv,
                    width = role == ATTEST_V ? p.head_dim_v : p.head_dim;
      for (int64_t b = 0; b < p.batch; ++b)
        for (int64_t h = 0; h < (is_q ? p.num_heads : p.num_kv_heads); ++h)
          for (int64_t n = 0; n < (is_q ? length_q(b) : length_kv(b)); ++n) {
            const int64_t* stride = of.spec.stride;
            const int64_t at = block > 0 ? n / block : 0,
                          row = is_q ? query_row(b, h, n) : key_row(b, h, n);
            for (int64_t d = 0; d < width; ++d)
              inputs[role][size_t(row * width + d)] *=
                  Real(load(of.data, ATTEST_F32, b * stride[0] + h * stride[1] + at * stride[2]));
          }
    }
  }

  int64_t length(int32_t role, int32_t packed, int64_t b, int64_t longest) const {
    const Tensor &lengths = c.tensors[size_t(role)], &cu_seqlens = c.tensors[size_t(packed)];
    if (cu_seqlens) return int64_t(cu_seqlens.at({b + 1})) - int64_t(cu_seqlens.at({b}));
    return lengths ? int64_t(lengths.at({b})) : longest;
  }
  int64_t length_q(int64_t b) const {
    return length(ATTEST_SEQ_LENS_Q, ATTEST_CU_SEQLENS_Q, b, c.p().seq_len_q);
  }
  int64_t length_kv(int64_t b) const {
    return length(ATTEST_SEQ_LENS_KV, ATTEST_CU_SEQLENS_KV, b, c.p().seq_len_kv);
  }
  /// The number of the row of a position: [batch, heads, longest], or packed [heads, tokens].
  int64_t row(int32_t role, int32_t packed, int64_t b, int64_t head, int64_t position) const {
    const int64_t* dim = c.problem.tensor[size_t(role)].dim;
    const Tensor &cu_seqlens = c.tensors[size_t(packed)], &order = c.tensors[ATTEST_ORDER];
    const int64_t outer = cu_seqlens ? 0 : b,
                  at = (cu_seqlens ? int64_t(cu_seqlens.at({b})) : 0) + position;
    return (outer * dim[1] + head) * dim[2] + (order ? int64_t(order.at({outer, at})) : at);
  }
  int64_t query_row(int64_t b, int64_t h, int64_t i) const {
    return row(ATTEST_Q, ATTEST_CU_SEQLENS_Q, b, h, i);
  }
  int64_t key_row(int64_t b, int64_t kv_head, int64_t j) const {
    return row(ATTEST_K, ATTEST_CU_SEQLENS_KV, b, kv_head, j);
  }
  /// The coordinate of a token of a grid once the grid is rolled.
  int64_t rolled_y(int64_t token) const {
    const auto& p = c.p();
    return (token / p.grid_width + p.grid_height - p.shift_y) % p.grid_height;
  }
  int64_t rolled_x(int64_t token) const {
    const auto& p = c.p();
    return (token % p.grid_width + p.grid_width - p.shift_x) % p.grid_width;
  }
  bool in_one_window(int64_t i, int64_t j) const {
    const auto& p = c.p();
    return rolled_y(i) / p.window_height == rolled_y(j) / p.window_height &&
           rolled_x(i) / p.window_width == rolled_x(j) / p.window_width;
  }
  /// Whether rolling brought one of two tokens round an edge, and not the other one.
  bool across_seam(int64_t i, int64_t j) const {
    const auto& p = c.p();
    const auto round_y = [&](int64_t token) { return token / p.grid_width < p.shift_y; };
    const auto round_x = [&](int64_t token) { return token % p.grid_width < p.shift_x; };
    return round_y(i) != round_y(j) || round_x(i) != round_x(j);
  }
  int64_t diagonal(int64_t b, int64_t i) const {
    return i + (c.p().diagonal == ATTEST_BOTTOM_RIGHT ? length_kv(b) - length_q(b) : 0);
  }

  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const auto& p = c.p();
    if (i >= length_q(b) || j >= length_kv(b)) return false;
    if (p.grid_height > 0 && !in_one_window(i, j)) return false;
    const int64_t at = diagonal(b, i);
    const bool global = i < p.global_tokens || j < p.global_tokens;
    if (!global && p.window_left >= 0 && j < at - p.window_left) return false;
    if (!global && p.window_right >= 0 && j > at + p.window_right) return false;
    // A short last patch sees as many positions as a whole one, if there are so many.
    const int64_t patch = p.patch_size > 0 ? i / p.patch_size : 0,
                  end = std::min((patch + 1) * p.patch_size, length_kv(b));
    if (p.patch_size > 0 && (j >= end || j < end - p.patch_size)) return false;
    if (c.tensors[ATTEST_BLOCK_MASK] &&
        element(ATTEST_BLOCK_MASK, b, h, i / p.block_q, j / p.block_kv) == 0)
      return false;
    if (c.tensors[ATTEST_MASK] && element(ATTEST_MASK, b, h, i, j) == 0) return false;
    return !c.tensors[ATTEST_BIAS] || !std::isinf(element(ATTEST_BIAS, b, h, i, j));
  }
  double slope(int64_t b, int64_t h) const {
    const Tensor& x = c.tensors[ATTEST_ALIBI_SLOPES];
    return load(x.data, ATTEST_F32, b * x.spec.stride[0] + h * x.spec.stride[1]);
  }
  double element(int32_t role, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const Tensor& x = c.tensors[size_t(role)];
    const int64_t* stride = x.spec.stride;
    return load(x.data, x.spec.dtype,
                b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3]);
  }

  Real bias(int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t* stride = c.problem.tensor[ATTEST_BIAS].stride;
    return inputs[ATTEST_BIAS]
                 [size_t(b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3])];
  }

  Real rel_bias(int64_t h, int64_t i, int64_t j) {
    const auto& p = c.p();
    const int64_t height = p.window_height, width = p.window_width,
                  dy = rolled_y(i) % height - rolled_y(j) % height,
                  dx = rolled_x(i) % width - rolled_x(j) % width;
    return inputs[ATTEST_REL_BIAS][size_t(
        (h * (2 * height - 1) + dy + height - 1) * (2 * width - 1) + dx + width - 1)];
  }

  /// Leaves the top_k largest scores, and those that are equal to the least of them if all ties
  /// count.
  void keep_largest(std::vector<std::pair<int64_t, Real>>& scores) const {
    std::ranges::stable_sort(scores, std::greater<>(), &std::pair<int64_t, Real>::second);
    size_t count = std::min(scores.size(), size_t(c.p().top_k));
    while (c.p().top_k_ties == ATTEST_TOP_K_ALL_TIES && count > 0 && count < scores.size() &&
           scores[count].second == scores[count - 1].second)
      ++count;
    scores.resize(count);
  }

  /// The sum over the queries of one key head of one sequence, which its inputs alone change.
  Real loss(int64_t b, int64_t kv_head) {
    const auto& p = c.p();
    const int64_t group = p.num_heads / p.num_kv_heads;
    Real sum = 0;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      for (int64_t i = 0; i < p.seq_len_q; ++i) {
        std::vector<std::pair<int64_t, Real>> scores;  // of the keys that it sees
        for (int64_t j = 0; j < p.seq_len_kv; ++j) {
          if (!sees(b, h, i, j)) continue;
          const Real* q = &inputs[ATTEST_Q][size_t(query_row(b, h, i) * p.head_dim)];
          const int64_t key = key_row(b, kv_head, j);
          const Real* k = &inputs[ATTEST_K][size_t(key * p.head_dim)];
          Real score = 0;
          for (int64_t d = 0; d < p.head_dim; ++d) score += q[d] * k[d];
          score *= Real(p.softmax_scale);
          if (p.softcap > 0) score = Real(p.softcap) * std::tanh(score / Real(p.softcap));
          if (c.tensors[ATTEST_ALIBI_SLOPES])
            score -= Real(slope(b, h)) * Real(std::abs(diagonal(b, i) - j));
          if (c.tensors[ATTEST_BIAS]) score += bias(b, h, i, j);
          if (c.tensors[ATTEST_REL_BIAS]) score += rel_bias(h, i, j);
          if (p.grid_height > 0 && across_seam(i, j)) score += Real(p.shift_bias);
          scores.emplace_back(j, score);
        }
        if (p.top_k > 0) keep_largest(scores);
        Real total = 0;
        std::vector<Real> o(size_t(p.head_dim_v), 0);
        for (const auto& [j, score] : scores) {
          const Real weight = std::exp(score),
                     *v = &inputs[ATTEST_V][size_t(key_row(b, kv_head, j) * p.head_dim_v)];
          total += weight;
          for (size_t d = 0; d < o.size(); ++d) o[d] += weight * v[d];
        }
        if (c.tensors[ATTEST_SINKS] && total > 0)
          total += std::exp(inputs[ATTEST_SINKS][size_t(h)]);
        for (size_t d = 0; d < o.size() && total > 0; ++d)
          sum += o[d] / total *
                 Real(load(c.tensors[ATTEST_DO].data, c.problem.tensor[ATTEST_DO].dtype,
                           query_row(b, h, i) * p.head_dim_v + int64_t(d)));
      }
    return sum;
  }

  /// The derivative by one element of Q, K or V: central differences of fourth order.
  Real derivative(int32_t role, int64_t index) {
    const auto& p = c.p();
    const TensorSpec& spec = c.problem.tensor[size_t(role)];
    const bool is_packed = c.tensors[ATTEST_CU_SEQLENS_Q] || c.tensors[ATTEST_CU_SEQLENS_KV],
               is_of_head = role == ATTEST_Q || role == ATTEST_K || role == ATTEST_V;
    const auto sum = [&] {
      if (is_of_head && !is_packed) {
        const int64_t head = index / (spec.dim[2] * spec.dim[3]);
        return loss(head / spec.dim[1], head % spec.dim[1] * p.num_kv_heads / spec.dim[1]);
      }
      Real all = 0;
      for (int64_t n = 0; n < p.batch * p.num_kv_heads; ++n)
        all += loss(n / p.num_kv_heads, n % p.num_kv_heads);
      return all;
    };
    Real& x = inputs[role][size_t(index)];
    const Real kept = x, step = p.top_k > 0 ? 1e-4L : 1e-3L;  // no step may change what counts
    const auto at = [&](Real move) {
      x = kept + move;
      return sum();
    };
    const Real slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    x = kept;
    return slope;
  }
};

constexpr std::pair<int32_t, int32_t> kGradientOf[] = {{ATTEST_DQ, ATTEST_Q},
                                                       {ATTEST_DK, ATTEST_K},
                                                       {ATTEST_DV, ATTEST_V},
                                                       {ATTEST_DBIAS, ATTEST_BIAS},
                                                       {ATTEST_DREL_BIAS, ATTEST_REL_BIAS},
                                                       {ATTEST_DSINKS, ATTEST_SINKS}};

const std::vector<Shape> kShapes{
    {.batch = 2, .num_heads = 2, .num_kv_heads = 2, .seq_len_q = 5, .seq_len_kv = 7, .head_dim = 3},
    {.num_heads = 4,
     .num_kv_heads = 2,
     .seq_len_q = 6,
     .head_dim = 3,
     .head_dim_v = 5,
     .window_right = 0},
    {.num_heads = 2,
     .seq_len_q = 6,
     .seq_len_kv = 9,
     .head_dim = 2,
     .window_left = 2,
     .window_right = 1,
     .diagonal = ATTEST_BOTTOM_RIGHT,
     .softmax_scale = 0.9f},
    {.batch = 2,
     .num_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 8,
     .head_dim = 3,
     .bias = {1, 2, 5, 8},
     .mask = {2, 1, 1, 8},
     .dbias = true},
    {.seq_len_q = 7,
     .seq_len_kv = 4,
     .head_dim = 3,
     .window_right = 0,
     .diagonal = ATTEST_BOTTOM_RIGHT,
     .mask = {1, 1, 7, 4}},
    {.num_heads = 2,
     .num_kv_heads = 1,
     .seq_len_q = 6,
     .seq_len_kv = 8,
     .head_dim = 3,
     .softmax_scale = 0.9f,
     .softcap = 1.5f,
     .bias = {1, 1, 6, 8},
     .dbias = true},
    // a bias of its own for each head, one that all queries of a head share, and one of all heads
    {.num_heads = 4,
     .num_kv_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .window_right = 1,
     .bias = {1, 4, 5, 7},
     .dbias = true},
    {.batch = 2,
     .num_heads = 4,
     .num_kv_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .bias = {2, 4, 1, 7},
     .dbias = true},
    {.batch = 2,
     .num_heads = 2,
     .num_kv_heads = 1,
     .seq_len_q = 4,
     .seq_len_kv = 6,
     .head_dim = 3,
     .bias = {1, 1, 1, 6},
     .dbias = true,
     .sinks = true},
    {.batch = 2,
     .num_heads = 3,
     .num_kv_heads = 1,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .window_right = 0,
     .diagonal = ATTEST_BOTTOM_RIGHT,
     .slopes = {2, 3}},
    {.num_heads = 2, .seq_len_q = 7, .head_dim = 2, .softcap = 0.5f, .slopes = {1, 2}},
    {.num_heads = 4,
     .num_kv_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .window_right = 0,
     .sinks = true},
    {.batch = 2,
     .num_heads = 2,
     .seq_len_q = 6,
     .seq_len_kv = 9,
     .head_dim = 3,
     .block_mask = {2, 1, 3, 3},
     .block_q = 2,
     .block_kv = 3},
    {.num_heads = 2,
     .seq_len_q = 8,
     .head_dim = 3,
     .window_left = 1,
     .window_right = 0,
     .block_mask = {1, 2, 3, 2},
     .block_q = 3,
     .block_kv = 5,
     .global_tokens = 2,
     .sinks = true},
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 8,
     .head_dim = 3,
     .window_right = 1,
     .diagonal = ATTEST_BOTTOM_RIGHT,
     .seq_lens_q = true,
     .seq_lens_kv = true},
    {.batch = 2, .num_heads = 2, .num_kv_heads = 1, .seq_len_q = 8, .head_dim = 3, .patch_size = 3},
    {.num_heads = 2, .seq_len_q = 4, .head_dim = 3, .window_right = 0, .patch_size = 5},
    // packed: queries and keys, queries alone, keys alone, patches
    {.batch = 4,
     .num_heads = 2,
     .num_kv_heads = 1,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .window_right = 0,
     .diagonal = ATTEST_BOTTOM_RIGHT,
     .bias = {1, 1, 5, 7},
     .dbias = true,
     .cu_seqlens_q = true,
     .cu_seqlens_kv = true},
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 4,
     .head_dim = 3,
     .slopes = {3, 2},
     .sinks = true,
     .seq_lens_kv = true,
     .cu_seqlens_q = true},
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 4,
     .seq_len_kv = 6,
     .head_dim = 3,
     .mask = {3, 1, 4, 6},
     .cu_seqlens_kv = true},
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 7,
     .head_dim = 3,
     .patch_size = 3,
     .cu_seqlens_q = true,
     .cu_seqlens_kv = true},
    // in an order: a band with a bias, patches, packed sequences
    {.batch = 2,
     .num_heads = 2,
     .num_kv_heads = 1,
     .seq_len_q = 6,
     .head_dim = 3,
     .window_right = 0,
     .bias = {1, 1, 6, 6},
     .dbias = true,
     .order = true},
    {.num_heads = 2, .seq_len_q = 7, .head_dim = 3, .patch_size = 3, .order = true},
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 5,
     .head_dim = 3,
     .window_left = 1,
     .window_right = 0,
     .cu_seqlens_q = true,
     .cu_seqlens_kv = true,
     .order = true},
    // grids: shifted with biases of tokens, and not shifted with a mask
    {.num_heads = 2,
     .num_kv_heads = 1,
     .seq_len_q = 12,
     .head_dim = 3,
     .bias = {1, 2, 12, 12},
     .dbias = true,
     .grid_height = 4,
     .grid_width = 3,
     .window_height = 2,
     .window_width = 3,
     .shift_y = 1,
     .shift_x = 2,
     .shift_bias = -1.5f},
    {.num_heads = 2,
     .seq_len_q = 12,
     .head_dim = 3,
     .bias = {1, 1, 1, 12},
     .mask = {1, 1, 12, 12},
     .dbias = true,
     .grid_height = 2,
     .grid_width = 6,
     .window_height = 2,
     .window_width = 2,
     .shift_x = 1},
    // the tables of a grid and of sinks
    {.batch = 2,
     .num_heads = 2,
     .num_kv_heads = 1,
     .seq_len_q = 12,
     .head_dim = 2,
     .sinks = true,
     .grid_height = 4,
     .grid_width = 3,
     .window_height = 2,
     .window_width = 3,
     .shift_y = 1,
     .shift_x = 1,
     .shift_bias = -2,
     .rel_bias = true,
     .drel_bias = true,
     .dsinks = true},
    {.num_heads = 2,
     .seq_len_q = 12,
     .head_dim = 2,
     .softcap = 1.5f,
     .mask = {1, 1, 12, 12},
     .grid_height = 3,
     .grid_width = 4,
     .window_height = 3,
     .window_width = 2,
     .rel_bias = true,
     .drel_bias = true},
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .window_right = 0,
     .diagonal = ATTEST_BOTTOM_RIGHT,
     .sinks = true,
     .cu_seqlens_q = true,
     .cu_seqlens_kv = true,
     .dsinks = true},
    // the top_k keys of a row: grouped heads in a band with a bias, packed sequences of which some
    // have fewer keys, a grid with its table
    {.num_heads = 4,
     .num_kv_heads = 2,
     .seq_len_q = 6,
     .seq_len_kv = 9,
     .head_dim = 3,
     .window_right = 1,
     .diagonal = ATTEST_BOTTOM_RIGHT,
     .softcap = 2,
     .bias = {1, 4, 6, 9},
     .mask = {1, 1, 6, 9},
     .dbias = true,
     .top_k = 3},
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .slopes = {3, 2},
     .sinks = true,
     .cu_seqlens_q = true,
     .cu_seqlens_kv = true,
     .dsinks = true,
     .top_k = 4,
     .top_k_ties = ATTEST_TOP_K_ALL_TIES},
    {.batch = 2,
     .num_heads = 2,
     .seq_len_q = 12,
     .head_dim = 2,
     .grid_height = 4,
     .grid_width = 3,
     .window_height = 2,
     .window_width = 3,
     .shift_y = 1,
     .shift_bias = -2,
     .rel_bias = true,
     .drel_bias = true,
     .top_k = 2},
    // 8 bits: without factors, with one for all, with those of blocks whose last one is short
    {.num_heads = 2, .seq_len_q = 5, .seq_len_kv = 7, .head_dim = 3, .stored = ATTEST_F8E4M3},
    {.batch = 2,
     .num_heads = 2,
     .num_kv_heads = 1,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .softcap = 1.5f,
     .sinks = true,
     .dsinks = true,
     .stored = ATTEST_F8E5M2,
     .q_descale = {1, 1, 1},
     .k_descale = {1, 1, 1},
     .v_descale = {2, 1, 1}},
    {.batch = 2,
     .num_heads = 4,
     .num_kv_heads = 2,
     .seq_len_q = 7,
     .head_dim = 3,
     .window_right = 0,
     .bias = {1, 1, 7, 7},
     .dbias = true,
     .order = true,
     .stored = ATTEST_F8E4M3,
     .q_descale = {2, 4, 3},
     .k_descale = {2, 2, 4},
     .v_descale = {1, 2, 4},
     .descale_block_q = 3,
     .descale_block_kv = 2},
    // the same with top_k
    {.num_heads = 2,
     .seq_len_q = 6,
     .seq_len_kv = 9,
     .head_dim = 3,
     .top_k = 4,
     .stored = ATTEST_F8E4M3,
     .q_descale = {1, 1, 1},
     .k_descale = {1, 1, 3},
     .v_descale = {1, 1, 3},
     .descale_block_kv = 4},
    // the same of packed sequences, and of the tokens of a grid
    {.batch = 3,
     .num_heads = 2,
     .seq_len_q = 5,
     .seq_len_kv = 7,
     .head_dim = 3,
     .cu_seqlens_q = true,
     .cu_seqlens_kv = true,
     .stored = ATTEST_F8E4M3,
     .q_descale = {3, 1, 3},
     .k_descale = {3, 1, 3},
     .descale_block_q = 2,
     .descale_block_kv = 3},
    {.num_heads = 2,
     .seq_len_q = 12,
     .head_dim = 3,
     .grid_height = 4,
     .grid_width = 3,
     .window_height = 2,
     .window_width = 3,
     .shift_y = 1,
     .shift_x = 2,
     .shift_bias = -1.5f,
     .stored = ATTEST_F8E5M2,
     .q_descale = {1, 2, 3},
     .v_descale = {1, 1, 3},
     .descale_block_q = 5,
     .descale_block_kv = 5}};

// By the dtype of Q, K, V and dO.
class StoredBackwardGolden : public ::testing::TestWithParam<DType> {};

// O and LSE are rounded, and the golden takes them as they are; differences of the forward pass do
// not. So the two are apart by what sigma counts for that. It counts the dtype of the gradients,
// too. O and the gradients are float32 beside any Q, K, V and dO, so that this is little.
TEST_P(StoredBackwardGolden, AgreesWithFiniteDifferences) {
  const BackwardArithmetic exact{.score = ATTEST_F64,
                                 .probability = ATTEST_F64,
                                 .product = ATTEST_F64,
                                 .accumulator = ATTEST_F64,
                                 .qk = ATTEST_F64,
                                 .operand = ATTEST_F64,
                                 .delta = ATTEST_F64};
  const DType dtype = GetParam();
  for (Shape shape : kShapes) {
    shape.o_dtype = shape.gradient_dtype = ATTEST_F32;
    const BackwardCase c(shape, dtype, {"random", 3});
    Forward forward(c);
    double largest = 0, widest = 0;
    std::map<int32_t, int64_t> seen;
    std::mutex lock;
    softmax_backward_operation()
        .golden(c.problem, {}, c.tensors)
        ->expect(exact, [&](const Expected& chunk) {
          const std::lock_guard guard(lock);
          ASSERT_NE(chunk.value, nullptr);
          for (const auto& [gradient, role] : kGradientOf) {
            if (gradient != chunk.role) continue;
            for (size_t r = 0; r < chunk.rows.size(); ++r)
              for (int64_t d = 0; d < chunk.width; ++d) {
                const size_t at = (chunk.shared ? 0 : r * size_t(chunk.width)) + size_t(d);
                const auto right =
                    double(forward.derivative(role, chunk.rows[r] * chunk.width + d));
                ++seen[gradient];
                EXPECT_NEAR(chunk.value[at], right, 6 * chunk.sigma[at] + 1e-11)
                    << find_role(softmax_backward_operation(), gradient)->name << " row "
                    << chunk.rows[r] << " of " << dtype_name(dtype);
                largest = std::max(largest, std::fabs(right));
                widest = std::max(widest, 6 * chunk.sigma[at]);
              }
          }
        });
    EXPECT_GT(largest, 0.1);
    EXPECT_LT(widest, 5e-6 * largest) << dtype_name(dtype);
    for (const auto& [gradient, role] : kGradientOf) {
      if (!c.problem.has(gradient)) continue;
      EXPECT_EQ(seen[gradient], element_count(c.problem.tensor[size_t(gradient)]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, StoredBackwardGolden,
                         ::testing::Values(ATTEST_F32, ATTEST_F16, ATTEST_BF16),
                         [](const auto& of) { return std::string(dtype_name(of.param)); });

struct Rows {
  std::vector<double> value, sigma, low, high;  // NaN: not known
};
// All rows of each gradient that the problem has.
std::map<int32_t, Rows> all_gradients(const BackwardCase& c) {
  Tensors inputs = c.tensors;  // a golden need not know where the outputs are
  std::map<int32_t, Rows> gradients;
  for (const auto& [gradient, of] : kGradientOf) {
    inputs[size_t(gradient)] = {};
    if (!c.problem.has(gradient)) continue;
    const int64_t count = element_count(c.problem.tensor[size_t(gradient)]);
    const std::vector<double> none(size_t(count), std::numeric_limits<double>::quiet_NaN());
    gradients[gradient] = {none, none, none, none};
  }
  std::mutex lock;
  softmax_backward_operation()
      .golden(c.problem, {}, inputs)
      ->expect(BackwardArithmetic{}, [&](const Expected& chunk) {
        const std::lock_guard guard(lock);
        Rows& rows = gradients.at(chunk.role);
        for (size_t r = 0; r < chunk.rows.size(); ++r)
          for (int64_t d = 0; d < chunk.width; ++d) {
            const size_t at = (chunk.shared ? 0 : r * size_t(chunk.width)) + size_t(d),
                         to = size_t(chunk.rows[r] * chunk.width + d);
            if (chunk.value) {
              rows.value[to] = chunk.value[at];
              rows.sigma[to] = chunk.sigma[at];
            } else {
              rows.low[to] = chunk.low[at];
              rows.high[to] = chunk.high[at];
            }
          }
      });
  return gradients;
}
Rows all_of(const BackwardCase& c, int32_t role) { return all_gradients(c).at(role); }

// The sum of ds over the keys is 0 in every row, so dQ stays if all keys move by one vector. O and
// the probabilities stay, too; LSE moves with the logits.
TEST(BackwardGolden, MovingAllKeysAlikeLeavesTheGradientOfQ) {
  constexpr int64_t kChannels = 8, kMoved = 3;
  constexpr double kBy = 4;
  BackwardCase c({.num_heads = 2, .seq_len_q = 30, .seq_len_kv = 41}, ATTEST_F32, {"random", 1});
  const Rows before = all_of(c, ATTEST_DQ);
  const Tensor &q = c.tensors[ATTEST_Q], &k = c.tensors[ATTEST_K], &lse = c.tensors[ATTEST_LSE];
  ASSERT_EQ(q.spec.dim[3], kChannels);
  const auto add = [](const Tensor& to, int64_t at, double more) {
    store(to.data, ATTEST_F32, at, load(to.data, ATTEST_F32, at) + more);
  };
  for (int64_t at = kMoved; at < element_count(k.spec); at += kChannels) add(k, at, kBy);
  for (int64_t row = 0; row < element_count(lse.spec); ++row)
    add(lse, row,
        double(c.p().softmax_scale) * kBy * load(q.data, ATTEST_F32, row * kChannels + kMoved));
  const Rows after = all_of(c, ATTEST_DQ);
  double largest = 0;
  for (size_t n = 0; n < before.value.size(); ++n) {
    EXPECT_NEAR(after.value[n], before.value[n], 1e-4) << n;
    largest = std::max(largest, std::fabs(before.value[n]));
  }
  EXPECT_GT(largest, 0.1);
}

// 700 x 900 pairs of 600 channels are too many for all rows.
TEST(BackwardGolden, SamplesQueriesAndKeysAndBoundsTheOthers) {
  const Shape shape{.seq_len_q = 700,
                    .seq_len_kv = 900,
                    .head_dim = 600,
                    .window_right = 0,
                    .bias = {1, 1, 700, 900},
                    .dbias = true};
  const BackwardCase c(shape, ATTEST_F32, {"random", 1});
  const auto golden = softmax_backward_operation().golden(c.problem, {}, c.tensors);
  EXPECT_EQ(golden->method(), "float64, 92 of 700 queries and 119 of 900 keys a head");
  for (const auto& [gradient, rows] : all_gradients(c)) {
    int64_t exact = 0, swept = 0;
    double largest = 0;
    for (size_t n = 0; n < rows.value.size(); ++n) {
      const bool has_value = !std::isnan(rows.value[n]);
      exact += has_value;
      swept += !std::isnan(rows.low[n]);
      if (has_value) largest = std::max(largest, std::fabs(rows.value[n]));
      if (has_value != std::isnan(rows.low[n])) ADD_FAILURE() << gradient << " " << n;
    }
    EXPECT_GT(exact, 0);
    EXPECT_GT(swept, exact);
    // Bounds that nothing exceeds: the rows are alike, so exact ones lie within others' bounds.
    const double high =
        *std::max_element(rows.high.begin(), rows.high.end(),
                          [](double a, double b) { return std::isnan(a) || a < b; });
    EXPECT_LE(largest, high) << gradient;
  }
}

TEST(BackwardFill, ZeroRowsOfTheGradientHaveNoGradientInQ) {
  const BackwardCase c({.num_heads = 2, .num_kv_heads = 2, .seq_len_q = 60}, ATTEST_F16,
                       {"random", 2});
  const Rows rows = all_of(c, ATTEST_DQ);
  int zeros = 0;
  for (int64_t row = 0; row < 120; ++row) {
    double largest = 0, gradient = 0;
    for (int64_t d = 0; d < 8; ++d) {
      largest =
          std::max(largest, std::fabs(load(c.tensors[ATTEST_DO].data, ATTEST_F16, row * 8 + d)));
      gradient = std::max(gradient, std::fabs(rows.value[size_t(row * 8 + d)]));
    }
    EXPECT_EQ(largest == 0, gradient == 0) << row;
    zeros += largest == 0;
  }
  EXPECT_GT(zeros, 2);
  EXPECT_LT(zeros, 20);
}

TEST(BackwardFill, HiddenKeysAndQueriesHaveNaNAndNoGradient) {
  const BackwardCase c({.num_heads = 2,
                        .seq_len_q = 40,
                        .seq_len_kv = 50,
                        .window_right = 0,
                        .mask = {1, 1, 40, 50}},
                       ATTEST_F32, {"hidden", 5});
  int poisoned = 0;
  const std::map<int32_t, Rows> gradients = all_gradients(c);
  for (const auto& [gradient, role] : kGradientOf) {
    if (!c.problem.has(gradient)) continue;
    const Rows& rows = gradients.at(gradient);
    for (size_t n = 0; n < rows.value.size(); ++n) {
      EXPECT_FALSE(std::isnan(rows.value[n])) << gradient << " " << n;
      EXPECT_LT(rows.sigma[n], 1e-4);
      if (!std::isnan(load(c.tensors[size_t(role)].data, ATTEST_F32, int64_t(n)))) continue;
      EXPECT_EQ(rows.value[n], 0);
      ++poisoned;
    }
  }
  EXPECT_GT(poisoned, 3 * 8 * 9);
}

// Rows whose biases are all far below 0 have ordinary probabilities, and so gradients.
TEST(BackwardFill, HiddenHasRowsOfLargeNegativeBiases) {
  const BackwardCase c({.num_heads = 2, .seq_len_q = 40, .seq_len_kv = 50, .bias = {1, 2, 40, 50}},
                       ATTEST_F16, {"hidden", 5});
  const Rows dq = all_of(c, ATTEST_DQ);
  int low = 0, lowest = 0;
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 40; ++i) {
      lowest += c.tensors[ATTEST_BIAS].at({0, h, i, 0}) == -65504;
      const double lse = c.tensors[ATTEST_LSE].at({0, h, i});
      if (lse > -40000 || std::isinf(lse)) continue;
      ++low;
      const double* row = dq.value.data() + (h * 40 + i) * 8;
      EXPECT_TRUE(std::any_of(row, row + 8, [](double x) { return std::fabs(x) > 0.01; })) << i;
    }
  EXPECT_GE(low, 2);
  EXPECT_GE(lowest, 2);
}

// A fifth of the rows score beyond what exp of float32 holds, a fifth below, and a fifth below
// -10,000, where scores are nearly a number of bf16.
TEST(BackwardFill, SizedRowsAreLargeSmallAndShifted) {
  const BackwardCase c({.num_heads = 2, .seq_len_q = 40, .seq_len_kv = 50}, ATTEST_F16,
                       {"sized", 5});
  int over = 0, under = 0, low = 0;
  std::map<int, int> rows_of_size;  // log2 of the largest |dO|, about
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 40; ++i) {
      const double lse = c.tensors[ATTEST_LSE].at({0, h, i});
      over += lse > 88;
      under += lse < -80 && lse > -120;
      low += lse < -10'000 && std::fabs(std::remainder(lse, 64)) < 10;
      double largest = 0;
      for (int64_t d = 0; d < c.p().head_dim_v; ++d)
        largest = std::max(largest, std::fabs(c.tensors[ATTEST_DO].at({0, h, i, d})));
      if (largest > 0)
        ++rows_of_size[largest > 50 ? 7 : largest > 0.1 ? 0 : largest > 2e-4 ? -10 : -16];
    }
  EXPECT_EQ(over, 16);
  EXPECT_EQ(under, 16);
  EXPECT_EQ(low, 16);
  for (const int size : {-16, -10, 0, 7}) EXPECT_GT(rows_of_size[size], 12) << size;
}

// The rows with a NaN have NaN gradients, and no other query does.
TEST(BackwardFill, WildHasTwoQueriesThatAreNan) {
  const BackwardCase c({.num_heads = 2, .seq_len_q = 40, .seq_len_kv = 50}, ATTEST_F32,
                       {"wild", 5});
  std::set<size_t> rows;
  const Rows dq = all_of(c, ATTEST_DQ);
  for (size_t n = 0; n < dq.value.size(); ++n)
    if (std::isnan(dq.value[n])) rows.insert(n / size_t(c.p().head_dim));
  EXPECT_EQ(rows, (std::set<size_t>{40 + 13, 40 + 26}));
  EXPECT_TRUE(std::isnan(c.tensors[ATTEST_LSE].at({0, 1, 26})));
  EXPECT_FALSE(std::isnan(c.tensors[ATTEST_LSE].at({0, 1, 13})));
}

TEST(BackwardFill, LateKeysTakeMostOfTheWeight) {
  const BackwardCase c({.seq_len_q = 40, .seq_len_kv = 80}, ATTEST_F32, {"late", 5});
  int peaked = 0;
  for (int64_t i = 0; i < 40; ++i) {
    double largest = 0;
    for (int64_t j = 70; j < 80; ++j) {
      double score = 0;
      for (int64_t d = 0; d < 8; ++d)
        score += c.tensors[ATTEST_Q].at({0, 0, i, d}) * c.tensors[ATTEST_K].at({0, 0, j, d});
      largest = std::max(largest, std::exp(score * double(c.p().softmax_scale) -
                                           c.tensors[ATTEST_LSE].at({0, 0, i})));
    }
    peaked += largest > 0.3;
  }
  EXPECT_GT(peaked, 20);
}

// Beside a small softmax_scale, numbers that leave one key alone would be beyond a dtype. In f16
// late keys are so in any case.
TEST(BackwardFill, LateStaysInTheRangeOfItsDtype) {
  const auto count = [](const Shape& shape, DType dtype) {
    const BackwardCase c(shape, dtype, {"late", 5});
    int wild = 0, first = 0;
    for (const int32_t role : {ATTEST_Q, ATTEST_K}) {
      const Tensor& x = c.tensors[size_t(role)];
      for (int64_t n = 0; n < element_count(x.spec); ++n)
        wild += is_f8(x.spec.dtype) && !std::isfinite(load(x.data, x.spec.dtype, n));
    }
    for (int64_t j = 0; j < 20; ++j) first += c.tensors[ATTEST_K].at({0, 0, j, 0}) != 0;
    EXPECT_EQ(wild, 0) << shape.softmax_scale;
    return first;
  };
  const auto shape = [](float scale, DType stored) {
    return Shape{.seq_len_q = 20, .softmax_scale = scale, .stored = stored};
  };
  EXPECT_EQ(count(shape(1e-7F, ATTEST_NONE), ATTEST_F16), 1);
  EXPECT_GT(count(shape(1e-9F, ATTEST_NONE), ATTEST_F16), 10);
  EXPECT_EQ(count(shape(1e-3F, ATTEST_F8E4M3), ATTEST_F16), 1);
  EXPECT_GT(count(shape(3e-4F, ATTEST_F8E4M3), ATTEST_F16), 10);
}

// Queries but one have no logit beside key 0. To that one all keys are equal, and top_k keeps the
// first of them, or the others have the lead.
TEST(BackwardEvents, CountWeightsOfKeysThatTopKKeeps) {
  const auto counts = [](double lead) {
    const BackwardCase c({.seq_len_q = 20, .seq_len_kv = 4, .softmax_scale = 1, .top_k = 1},
                         ATTEST_F32, {"random", 5});
    for (int64_t n = 0; n < 20 * 8; ++n)
      store(c.tensors[ATTEST_Q].data, ATTEST_F32, n, n % 8 > 0 ? 0 : n / 8 == 17 ? lead : -10);
    for (int64_t n = 0; n < 4 * 8; ++n)
      store(c.tensors[ATTEST_K].data, ATTEST_F32, n, n % 8 == 0 && n >= 8 ? 10 : 0);
    write_forward(c.problem, c.tensors);
    return count_events(c.problem, c.tensors, std::vector<bool>(20, true))
        .contains("key/one_query");
  };
  EXPECT_FALSE(counts(0));
  EXPECT_TRUE(counts(10));
}

// The last eighth of the keys of each packed sequence is late, and the longest one is wild.
TEST(BackwardFill, FollowsPackedSequences) {
  const Shape shape{.batch = 3,
                    .num_heads = 2,
                    .seq_len_q = 20,
                    .seq_len_kv = 30,
                    .cu_seqlens_q = true,
                    .cu_seqlens_kv = true};
  const BackwardCase random(shape, ATTEST_F32, {"random", 5}), late(shape, ATTEST_F32, {"late", 5}),
      wild(shape, ATTEST_F32, {"wild", 5});
  int moved = 0;
  const auto cu = [&](int32_t role, int64_t b) {
    return int64_t(late.tensors[size_t(role)].at({b}));
  };
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t n = cu(ATTEST_CU_SEQLENS_KV, b), end = cu(ATTEST_CU_SEQLENS_KV, b + 1); n < end;
         ++n) {
      const bool is_late = 8 * (end - n) < end - cu(ATTEST_CU_SEQLENS_KV, b) + 8;
      const double before = random.tensors[ATTEST_K].at({0, 1, n, 3});
      EXPECT_EQ(late.tensors[ATTEST_K].at({0, 1, n, 3}), is_late ? 4 * before : before) << n;
      moved += is_late;
    }
  EXPECT_GE(moved, 5);
  std::set<int64_t> rows;
  const Rows dq = all_of(wild, ATTEST_DQ);
  for (size_t n = 0; n < dq.value.size(); ++n)
    if (std::isnan(dq.value[n])) rows.insert(int64_t(n) / wild.p().head_dim);
  int64_t longest = 0;
  for (int64_t b = 0; b < 3; ++b)
    if (cu(ATTEST_CU_SEQLENS_Q, b + 1) - cu(ATTEST_CU_SEQLENS_Q, b) == 20) longest = b;
  const int64_t first = cu(ATTEST_CU_SEQLENS_Q, 3) + cu(ATTEST_CU_SEQLENS_Q, longest);  // of head 1
  EXPECT_EQ(rows, (std::set<int64_t>{first + 6, first + 13}));
}

struct NotNumbers {
  int64_t unsure = 0, sure = 0;  // elements that may be NaN, and that must be
  int64_t wrong = 0;  // elements that a kernel makes NaN although they must be numbers, or reverse
};
/// Of a gradient, where rounding decides which of four keys with nearly equal scores count. One of
/// four rows of V has a NaN in its first channel; or row `query` of dO, if that is not below 0. The
/// kernel adds products in another order than the golden.
NotNumbers not_numbers(int64_t top_k, int32_t role, double swap_factor, int64_t query = -1) {
  constexpr int64_t kKeys = 300, kWidth = 32;
  const BackwardCase c({.seq_len_q = 61, .seq_len_kv = kKeys, .head_dim = kWidth, .top_k = top_k},
                       ATTEST_F32, {"top_k_close", 1});
  const auto put_nan = [&c](int32_t input, int64_t row) {
    store(c.tensors[size_t(input)].data, ATTEST_F32, row * kWidth,
          std::numeric_limits<double>::quiet_NaN());
  };
  if (query >= 0) put_nan(ATTEST_DO, query);
  for (int64_t key = 0; key < kKeys && query < 0; key += 4) put_nan(ATTEST_V, key);
  const ScopedTermFactor factor(backward::Term::kSwapped, swap_factor);
  const Rows expected = all_of(c, role);
  std::vector<int64_t> rows(kKeys);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<double> got(expected.value.size());
  backward::emulate(c.problem, c.tensors, {}, 1, rows,
                    [&](int32_t of, int64_t row, std::span<const double> values) {
                      if (of == role) std::ranges::copy(values, got.begin() + row * kWidth);
                    });
  NotNumbers found;
  for (size_t n = 0; n < got.size(); ++n) {
    const bool unsure = expected.sigma[n] == kUnsure, nan = std::isnan(expected.value[n]);
    found.unsure += unsure;
    found.sure += !unsure && nan;
    found.wrong += !unsure && nan != std::isnan(got[n]);
  }
  return found;
}

TEST(BackwardTopK, ANaNNearTheEdgeMayComeOrGo) {
  for (const int32_t role : {ATTEST_DQ, ATTEST_DK}) {
    const NotNumbers with = not_numbers(2, role, 1), without = not_numbers(2, role, 0);
    EXPECT_GT(with.unsure, 0) << role;
    EXPECT_EQ(with.wrong, 0) << role;
    EXPECT_EQ(without.unsure, 0) << role;
    // So many queries share a key that in every kernel it counts for one of them.
    EXPECT_EQ(without.wrong > 0, role == ATTEST_DQ);
  }
  // Four of six keys count in any case, and one of them makes dq NaN.
  const NotNumbers in_any_case = not_numbers(6, ATTEST_DQ, 1);
  EXPECT_EQ(in_any_case.unsure, 0);
  EXPECT_EQ(in_any_case.sure, 61 * 32);
  EXPECT_EQ(in_any_case.wrong, 0);
}

// So may one of dO, in one channel of dV: for each key that may count in its row.
TEST(BackwardTopK, ANaNOfAQueryMayComeOrGo) {
  int64_t wrong = 0;
  for (int64_t query = 0; query < 61; query += 4) {
    const NotNumbers with = not_numbers(2, ATTEST_DV, 1, query);
    EXPECT_EQ(with.unsure, 4);
    EXPECT_EQ(with.sure, 0);
    EXPECT_EQ(with.wrong, 0);
    wrong += not_numbers(2, ATTEST_DV, 0, query).wrong;
  }
  EXPECT_GT(wrong, 0);
  // Four of six keys count in any case.
  const NotNumbers in_any_case = not_numbers(6, ATTEST_DV, 1, 0);
  EXPECT_EQ(in_any_case.unsure, 4);
  EXPECT_EQ(in_any_case.sure, 4);
  EXPECT_EQ(in_any_case.wrong, 0);
}

// do.v and delta nearly cancel.
TEST(BackwardFill, CancellingHasLargeDelta) {
  const BackwardCase c({.seq_len_q = 30, .head_dim = 16}, ATTEST_F32, {"cancelling", 5});
  for (int64_t i = 0; i < 30; ++i) {
    double delta = 0;
    for (int64_t d = 0; d < 16; ++d)
      delta += c.tensors[ATTEST_DO].at({0, 0, i, d}) * c.tensors[ATTEST_O].at({0, 0, i, d});
    EXPECT_GT(delta, 100) << i;
  }
}

/// Q, K and V in 8 bits, with factors of blocks.
BackwardCase stored(DType dtype, const std::string& fill) {
  return BackwardCase({.num_heads = 4,
                       .num_kv_heads = 2,
                       .seq_len_q = 40,
                       .seq_len_kv = 50,
                       .head_dim = 24,
                       .stored = dtype,
                       .q_descale = {1, 4, 5},
                       .k_descale = {1, 2, 5},
                       .v_descale = {1, 2, 5},
                       .descale_block_q = 9,
                       .descale_block_kv = 10},
                      ATTEST_F16, {fill, 5});
}

// Scores near 90 and near -90 are those of numbers, not of what is stored.
TEST(BackwardFill, SizedRowsAreShiftedWithFactorsToo) {
  for (const DType dtype : {ATTEST_F8E4M3, ATTEST_F8E5M2}) {
    const BackwardCase c = stored(dtype, "sized");
    int over = 0, under = 0;
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t i = 0; i < 40; ++i) {
        const double lse = c.tensors[ATTEST_LSE].at({0, h, i});
        over += lse > 88 && lse < 120;
        under += lse < -80;
      }
    EXPECT_EQ(over, 40);
    EXPECT_EQ(under, 40);
  }
}

// Every binade of Q, K and V shows in every gradient, none of which leaves the range of f16.
TEST(BackwardFill, F8BandsAreBalanced) {
  for (const DType dtype : {ATTEST_F8E4M3, ATTEST_F8E5M2}) {
    const BackwardCase c = stored(dtype, "f8_bands");
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V}) {
      int small = 0, large = 0;
      for (int64_t n = 0; n < element_count(c.tensors[size_t(role)].spec); ++n) {
        const double x = std::fabs(load(c.tensors[size_t(role)].data, dtype, n));
        small += x > 0 && x < smallest_normal(dtype);
        large += x > 100;
      }
      EXPECT_GT(small, 20) << role;
      EXPECT_GT(large, 20) << role;
    }
    const std::map<int32_t, Rows> gradients = all_gradients(c);
    for (const int32_t role : {ATTEST_DQ, ATTEST_DK, ATTEST_DV}) {
      double largest = 0;
      for (const double x : gradients.at(role).value) largest = std::max(largest, std::fabs(x));
      EXPECT_LT(largest, largest_finite(ATTEST_F16)) << role;
      EXPECT_GT(largest, 1) << role;
    }
  }
}

std::string refused(const std::function<void(Problem&)>& change) {
  Problem problem = blank_problem(softmax_backward_operation(), ATTEST_F32);
  problem.as<attest_softmax_params>().seq_len_q = 8;
  problem.as<attest_softmax_params>().head_dim = 4;
  try {
    change(problem);
    finish_problem(problem);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Backward, RefusesWhatIsNotJudgedYet) {
  EXPECT_EQ(refused([](Problem&) {}), "");
  const auto params = [](void (*change)(attest_softmax_params&)) {
    return refused([&](Problem& problem) { change(problem.as<attest_softmax_params>()); });
  };
  EXPECT_EQ(params([](attest_softmax_params& p) { p.softcap = 5; }), "");
  EXPECT_EQ(params([](attest_softmax_params& p) { p.page_size = 5; }),
            "page_size: gradients of paged K and V are not judged, since pages hold the keys of "
            "generation, which computes no gradients; leave page_size and page_table out");
  EXPECT_EQ(params([](attest_softmax_params& p) { p.top_k = 3; }), "");
  EXPECT_EQ(params([](attest_softmax_params& p) { p.patch_size = 4; }), "");
  EXPECT_THAT(params([](attest_softmax_params& p) { p.page_size = 4; }), HasSubstr("page_size: "));
  EXPECT_THAT(params([](attest_softmax_params& p) { p.descale_block_q = 4; }),
              HasSubstr("descale_block_q: without q_descale there are no factors"));
  EXPECT_EQ(refused([](Problem& problem) {
              problem.tensor[ATTEST_CU_SEQLENS_Q] =
                  dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{2});
            }),
            "");
  EXPECT_EQ(refused([](Problem& problem) {
              problem.tensor[ATTEST_ORDER] =
                  dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{1, 8});
            }),
            "");
  EXPECT_EQ(refused([](Problem& problem) {
              problem.tensor[ATTEST_DSINKS] =
                  dense_tensor(ATTEST_F32, ATTEST_WRITE, std::vector<int64_t>{1});
            }),
            "dsinks: the problem has no sinks; add some");
  EXPECT_EQ(refused([](Problem& problem) {
              auto& p = problem.as<attest_softmax_params>();
              p.grid_height = p.window_height = 2;
              p.grid_width = 4;
              p.window_width = 2;
              problem.tensor[ATTEST_DREL_BIAS] =
                  dense_tensor(ATTEST_F32, ATTEST_WRITE, std::vector<int64_t>{1, 3, 3});
            }),
            "drel_bias: the problem has no rel_bias; add one");
  const auto with_bias = [](std::vector<int64_t> dims, std::vector<int64_t> gradient) {
    return refused([&](Problem& problem) {
      if (!dims.empty()) problem.tensor[ATTEST_BIAS] = dense_tensor(ATTEST_F32, ATTEST_READ, dims);
      problem.tensor[ATTEST_DBIAS] = dense_tensor(ATTEST_F32, ATTEST_WRITE, gradient);
    });
  };
  EXPECT_EQ(with_bias({1, 1, 8, 8}, {1, 1, 8, 8}), "");
  EXPECT_EQ(with_bias({1, 1, 1, 8}, {1, 1, 1, 8}), "");
  EXPECT_THAT(with_bias({}, {1, 1, 8, 8}), HasSubstr("dbias: the problem has no bias; add one"));
  EXPECT_THAT(with_bias({1, 1, 1, 8}, {1, 1, 8, 8}),
              HasSubstr("dbias: dims [1,1,8,8] where [1,1,1,8] is right"));
  EXPECT_THAT(with_bias({1, 1, 8, 1}, {1, 1, 8, 1}),
              HasSubstr("dbias: the gradient of a bias that all keys share is not judged yet"));
  EXPECT_THAT(refused([](Problem& problem) {
                problem.tensor[ATTEST_DO] =
                    dense_tensor(ATTEST_F64, ATTEST_READ, std::vector<int64_t>{1, 1, 8, 4});
              }),
              HasSubstr("do: softmax_backward in f64 is not judged yet; must be f32, f16 or bf16"));
  EXPECT_THAT(params([](attest_softmax_params& p) {
                p.num_heads = 3;
                p.num_kv_heads = 2;
              }),
              HasSubstr("num_kv_heads: 2; must divide num_heads = 3"));
}

// Gradients have no factors, so that they are not stored in 8 bits.
TEST(Backward, TakesQAndKAndVAloneIn8Bits) {
  const auto with = [](DType q, DType k, int32_t other, int64_t top_k = 0) {
    return refused([&](Problem& problem) {
      problem.as<attest_softmax_params>().top_k = top_k;
      const auto give = [&](int32_t role, DType dtype, int32_t access) {
        problem.tensor[size_t(role)] =
            dense_tensor(dtype, access, std::vector<int64_t>{1, 1, 8, 4});
      };
      give(ATTEST_Q, q, ATTEST_READ);
      give(ATTEST_K, k, ATTEST_READ);
      give(ATTEST_V, k, ATTEST_READ);
      if (other == ATTEST_NONE) return;
      give(other, ATTEST_F8E4M3, other == ATTEST_DO ? ATTEST_READ : ATTEST_WRITE);
    });
  };
  EXPECT_EQ(with(ATTEST_F8E4M3, ATTEST_F8E4M3, ATTEST_NONE), "");
  EXPECT_EQ(with(ATTEST_F8E5M2, ATTEST_F8E5M2, ATTEST_NONE), "");
  EXPECT_THAT(with(ATTEST_F8E4M3, ATTEST_F8E5M2, ATTEST_NONE),
              HasSubstr("k: dtype f8e5m2 where q is f8e4m3"));
  EXPECT_THAT(with(ATTEST_F8E4M3, ATTEST_F8E4M3, ATTEST_DO), HasSubstr("do: dtype f8e4m3"));
  EXPECT_THAT(with(ATTEST_F8E4M3, ATTEST_F8E4M3, ATTEST_DK), HasSubstr("dk: dtype f8e4m3"));
  EXPECT_EQ(with(ATTEST_F8E4M3, ATTEST_F8E4M3, ATTEST_NONE, 3), "");
}

TEST(Backward, CountsFiveProductsAndNoBitForTheLse) {
  const BackwardCase c({.seq_len_q = 10, .seq_len_kv = 6, .head_dim = 4, .head_dim_v = 8},
                       ATTEST_F32, {});
  EXPECT_EQ(softmax_backward_operation().flops(c.problem), 2 * 60 * (3 * 4 + 2 * 8));
  EXPECT_EQ(c.problem.features, uint64_t{ATTEST_WITH_HEAD_DIM_V});
  EXPECT_EQ(softmax_backward_operation().dim_name(ATTEST_DK, 2), "key");
}

TEST(Backward, VariantsHaveBandsAndScales) {
  const BackwardCase c({.seq_len_q = 8}, ATTEST_F32, {});
  std::vector<std::string> names;
  for (const Variant& variant : softmax_backward_operation().variants(c.problem))
    names.push_back(variant.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"scale", "mask", "window", "window_left", "softcap",
                                              "alibi_slopes", "sinks"}));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("order")));
}

// Sequences become shorter after the fill has written O and LSE.
TEST(Backward, ForwardFollowsTheLengthsOfAVariant) {
  const BackwardCase c({.batch = 2, .seq_len_q = 8, .seq_len_kv = 9}, ATTEST_F32, {"random", 1});
  int tried = 0;
  for (const Variant& variant : softmax_backward_operation().variants(c.problem)) {
    if (variant.name != "lengths") continue;
    std::array<std::vector<char>, ATTEST_ROLES> memory;
    Tensors tensors{};
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      memory[role].resize(size_t(extent_bytes(variant.problem.tensor[role])));
      tensors[role] = {variant.problem.tensor[role], memory[role].data()};
    }
    softmax_backward_operation().fill(variant.problem, {"random", 1}, tensors, false);
    const std::vector<char> of_fill = memory[ATTEST_LSE];
    ASSERT_TRUE(variant.change);
    variant.change(tensors);
    const std::vector<char> changed = memory[ATTEST_LSE];
    write_forward(variant.problem, tensors);
    EXPECT_NE(changed, of_fill);
    EXPECT_EQ(changed, memory[ATTEST_LSE]);
    ++tried;
  }
  EXPECT_EQ(tried, 1);
}

}  // namespace
}  // namespace attest::core::backward
