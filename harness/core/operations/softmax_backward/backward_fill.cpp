// Inputs of the gradients: those of softmax, with O and LSE as its golden has them, and dO.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/operations/fill_rows.hpp"
#include "core/operations/numerics/portable_math.hpp"
#include "core/operations/softmax/fills/f8.hpp"
#include "core/operations/softmax/fills/finite_biases.hpp"
#include "core/operations/softmax/fills/top_k.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/operations/softmax_backward/row_edge.hpp"
#include "core/tensor/constants.hpp"
#include "core/tensor/error.hpp"

namespace attest::core::backward {
namespace {

using FillParams = attest_softmax_params;

// Operations up to which O is computed by definition: some seconds.
constexpr double kMostForward = 1e10;
constexpr const char* kRepeatedBook = "codebook";
constexpr uint64_t kRepeatedSeed = 0x726570, kGradientSeed = 0x646f, kZeroSeed = 0x7a65726f,
                   kWildSeed = 0x77696c64;
constexpr uint64_t kZeroRows = 16;            // one row of dO in so many is 0
constexpr float kLateFactor = 4;              // of the last keys
constexpr double kAlone = 40;                 // e^-40 is nothing beside 1
constexpr float kMeanValue = 8, kMeanDo = 2;  // of "cancelling"
// Of "sized": beyond kShift float32 has no exp. Keys have kCommonKey in their first channel.
constexpr double kShift = 90, kCommonKey = 16;
// Its low rows: an lse below -10,000 is no sign of a row that sees no key. Between kLeastLow and
// kMostLow bf16 has the multiples of kLowStep, and f16 has them too.
constexpr double kLeastLow = 10'500, kMostLow = 16'000, kLowStep = 64;
// Of "f8_bands": sums of dK are at most so many times as large as Q, and those of dQ as K; and a
// channel of dO is multiplied by at most so much.
constexpr double kBandRoom = 64, kMostBalance = 64;
struct SizedRow {
  double shift;   // of all scores, in kShift
  double factor;  // of dO
  bool low = false;
};
// By turns, the last kind if a problem may have it. Rows of large dO are not shifted, and low rows
// have a small dO: their sums stay in the range of f16.
constexpr SizedRow kSizedRows[] = {{1, 1}, {-1, 1}, {0, 128}, {0, 0x1p-16}, {0, 0x1p-10, true}};
const SizedRow& sized_row(int64_t row, bool has_low) {
  return kSizedRows[size_t(row) % (std::size(kSizedRows) - (has_low ? 0 : 1))];
}

bool may_hide(const Problem& problem) {
  const auto& p = problem.as<FillParams>();
  if (has_band(p)) return true;
  return std::ranges::any_of(
      std::initializer_list<int32_t>{ATTEST_MASK, ATTEST_BIAS, ATTEST_BLOCK_MASK, ATTEST_SEQ_LENS_Q,
                                     ATTEST_SEQ_LENS_KV, ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV},
      [&](int32_t role) { return problem.has(role); });
}

/// Whether the gradients of "repeated" have a closed form. Lengths may end a sequence early.
bool may_repeat(const Problem& problem) {
  const auto& p = problem.as<FillParams>();
  const auto is_missing = [&](int32_t role) { return !problem.has(role); };
  return !has_f8(problem) && p.top_k == 0 && p.window_left < 0 && p.window_right < 0 &&
         p.patch_size == 0 && p.grid_height == 0 &&
         std::ranges::all_of(
             std::initializer_list<int32_t>{ATTEST_MASK, ATTEST_BIAS, ATTEST_BLOCK_MASK,
                                            ATTEST_REL_BIAS, ATTEST_ALIBI_SLOPES},
             is_missing) &&
         has_closed_form(forward_problem(problem), {kRepeatedBook});
}

/// Slopes, rel_bias and shift_bias add to -40,960 what no bf16 holds, so that scores rounded to it
/// err by up to 128. Then p, exp(logit - lse), errs by more than sigma covers.
bool may_have_finite_biases(const Problem& problem) {
  return problem.has(ATTEST_BIAS) && !problem.has(ATTEST_ALIBI_SLOPES) &&
         !problem.has(ATTEST_REL_BIAS) && problem.as<FillParams>().shift_bias == 0;
}

/// O and LSE of a codebook fill, by its closed form.
void write_closed_form(const Problem& forward, const Fill& fill, const Tensors& tensors) {
  std::atomic<bool> is_missing{false};  // no exception may leave a thread of the golden
  codebook_golden(forward, fill, tensors)->expect(SoftmaxArithmetic{}, [&](const Expected& chunk) {
    const Tensor& to = tensors[size_t(chunk.role)];
    const TensorSpec& spec = to.spec;
    if (!chunk.value) {
      is_missing = true;
      return;
    }
    for (size_t r = 0; r < chunk.rows.size(); ++r)
      for (int64_t c = 0; c < chunk.width; ++c)
        store(to.data, spec.dtype,
              row_offset(spec, chunk.leading, chunk.rows[r]) +
                  (chunk.leading < spec.rank ? c * spec.stride[chunk.leading] : 0),
              chunk.value[chunk.shared ? size_t(c) : r * size_t(chunk.width) + size_t(c)]);
  });
  if (is_missing) throw Error("fill '" + fill.name + "': a row of O or LSE has no closed form");
}

/// The first `count` positions of one head of a tensor in float64, [count, channels].
std::vector<double> rows_of(const Tensor& tensor, int64_t head, int64_t count,
                            const std::function<Cell(int64_t position)>& cell_of) {
  const TensorSpec& spec = tensor.spec;
  std::vector<double> rows(size_t(count * spec.dim[3]));
  for (int64_t n = 0; n < count; ++n) {
    const Cell at = cell_of(n);
    load_row(tensor.data, spec.dtype,
             at.outer * spec.stride[0] + head * spec.stride[1] + at.row * spec.stride[2],
             spec.dim[3], spec.stride[3], rows.data() + n * spec.dim[3]);
  }
  return rows;
}

/// O and LSE of one query, from the logits of the keys that it sees, kHidden for others, the
/// sink's, and V. Every machine gets the same bits.
double attend(const std::vector<double>& logits, double sink, const double* v,
              std::vector<double>& o) {
  constexpr double kNothing = -690;  // e^-690 is far below every roundoff, and above 1e-300
  std::fill(o.begin(), o.end(), 0.0);
  if (logits.empty()) return kHidden;
  double top = *std::max_element(logits.begin(), logits.end());
  if (top == kHidden) return kHidden;
  top = std::max(top, sink);
  const auto weight_of = [&](double logit) {
    return logit - top > kNothing ? portable_exp(logit - top) : 0;
  };
  double total = weight_of(sink);
  for (size_t j = 0; j < logits.size(); ++j) {
    const double weight = weight_of(logits[j]);
    total += weight;
    for (size_t d = 0; weight > 0 && d < o.size(); ++d) o[d] += weight * v[j * o.size() + d];
  }
  for (double& x : o) x /= total;
  return top + portable_log(total);
}

/// Writes NaN into keys that no query sees and into queries that see no key.
void poison_hidden(const Problem& problem, const Tensors& tensors) {
  const auto& p = problem.as<FillParams>();
  const Geometry geometry(problem, tensors);
  const int64_t group = p.num_heads / p.num_kv_heads;
  std::vector<bool> key_seen(size_t(row_count(tensors[ATTEST_K].spec, 3))),
      query_sees(size_t(row_count(tensors[ATTEST_Q].spec, 3)));
  std::vector<double> terms;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < geometry.length_q(b); ++i) {
        const Interval keys = geometry.keys(b, i);
        terms.assign(size_t(keys.size()), 0);
        if (keys.size() > 0) geometry.add_pair_terms(b, h, i, keys, terms.data());
        for (size_t n = 0; n < terms.size(); ++n) {
          if (terms[n] == kHidden) continue;
          key_seen[size_t(geometry.key_row(b, h / group, keys.begin + int64_t(n)))] = true;
          query_sees[size_t(geometry.output_row(b, h, i))] = true;
        }
      }
  const auto poison = [](const std::vector<bool>& counts) {
    return [&counts](int64_t row, int64_t, double x) {
      return counts[size_t(row)] ? x : std::numeric_limits<double>::quiet_NaN();
    };
  };
  for (const int32_t role : {ATTEST_K, ATTEST_V})
    edit_elements(tensors[size_t(role)], poison(key_seen));
  for (const int32_t role : {ATTEST_Q, ATTEST_DO})
    edit_elements(tensors[size_t(role)], poison(query_sees));
}

/// The least number of three bits that shifts scores by kShift: no dtype rounds it.
double shifting_query(double scale) {
  int exponent = 0;
  const double mantissa = std::frexp(kShift / (kCommonKey * std::fabs(scale)), &exponent);
  return std::ldexp(std::ceil(mantissa * 8), exponent - 3);
}

/// The first channel of a low query: scores fall by nearly a multiple of kLowStep, so that scores
/// in bf16 err by no more than they differ. It has eight bits, which no dtype but those of 8 bits
/// rounds. 0: there is none, or the problem adds to scores what bf16 does not hold there, or
/// rounding would say which keys count.
double low_query(const Problem& problem, const Tensor& q) {
  const auto& p = problem.as<FillParams>();
  if (p.softcap > 0 || p.top_k > 0 || p.shift_bias != 0 || problem.has(ATTEST_ALIBI_SLOPES) ||
      problem.has(ATTEST_REL_BIAS) || has_f8(problem) || p.softmax_scale == 0)
    return 0;
  const double by_one = kCommonKey * std::fabs(double(p.softmax_scale)),
               unit = std::ldexp(1.0, std::ilogb(kLeastLow / by_one) - 7);
  double best = 0, least_off = kLowStep;
  for (double query = std::ceil(kLeastLow / by_one / unit) * unit; query * by_one <= kMostLow;
       query += query < 256 * unit ? unit : 2 * unit) {
    const double off = std::fabs(std::remainder(query * by_one, kLowStep));
    if (off < least_off && query <= largest_finite(q.spec.dtype)) {
      best = query;
      least_off = off;
    }
  }
  return std::copysign(best, -double(p.softmax_scale));
}

/// Factors of Q and K whose products are 1, so that what shifts scores is what is stored.
void write_inverse_factors(const Tensors& tensors) {
  const Tensor &of_q = tensors[ATTEST_Q_DESCALE], &of_k = tensors[ATTEST_K_DESCALE];
  const double size = of_q && of_k ? 2 : 1;
  const auto write = [](const Tensor& factors, double factor) {
    if (factors) edit_elements(factors, [&](int64_t, int64_t, double) { return factor; });
  };
  write(of_q, 1 / size);
  write(of_k, size);
}

/// All scores of some rows rise by kShift, and those of others fall by it or by more, which changes
/// no weight. `low`: low_query.
void shift_scores(const attest_softmax_params& p, double low, const Tensors& tensors) {
  const double most = std::min(shifting_query(double(p.softmax_scale)),
                               largest_finite(tensors[ATTEST_Q].spec.dtype));
  write_inverse_factors(tensors);
  const auto replace_first = [&](int32_t role, const auto& number) {
    const Tensor& tensor = tensors[size_t(role)];
    const TensorSpec& spec = tensor.spec;
    for (int64_t row = 0; row < row_count(spec, 3); ++row)
      store(tensor.data, spec.dtype, row_offset(spec, 3, row), number(row));
  };
  replace_first(ATTEST_K, [](int64_t) { return kCommonKey; });
  replace_first(ATTEST_Q, [&](int64_t row) {
    const SizedRow& kind = sized_row(row, low != 0);
    return kind.low ? low : kind.shift * most;
  });
}

/// Those of softmax, but Q and K are cut where dK and dQ would leave the range of f16, in which a
/// kernel may sum them.
void write_bands(const Problem& problem, const Fill& fill, const Tensors& tensors) {
  const double scale = std::fabs(double(problem.as<FillParams>().softmax_scale)),
               room = kBandRoom * std::max(scale, 1.0);
  write_f8_bands(forward_problem(problem), fill, tensors);
  const double most = largest_finite(ATTEST_F16) / room;
  for (const int32_t role : {ATTEST_Q, ATTEST_K})
    edit_elements(tensors[size_t(role)],
                  [&](int64_t, int64_t, double x) { return std::clamp(x, -most, most); });
}

/// Each channel of dO has the inverse size of that channel of V, so that every channel shows in
/// do.v, which is of size 1 or so.
void balance_bands(const Problem& problem, const Tensors& tensors) {
  const int64_t width = problem.as<FillParams>().head_dim_v;
  std::vector<double> largest(static_cast<size_t>(width));
  edit_elements(tensors[ATTEST_V], [&](int64_t, int64_t channel, double x) {
    largest[size_t(channel)] = std::max(largest[size_t(channel)], std::fabs(x));
    return x;
  });
  edit_elements(tensors[ATTEST_DO], [&](int64_t, int64_t channel, double x) {
    const double of_v = largest[size_t(channel)],
                 by = of_v > 0 ? std::ldexp(1.0, -std::ilogb(of_v)) : 1;
    return x * std::min(by, kMostBalance) / std::sqrt(double(width));
  });
}

/// Writes normal numbers times `factor` to one row.
void put_normal(const Tensor& tensor, int64_t row, uint64_t seed, float factor) {
  std::vector<float> values(size_t(tensor.spec.dim[3]));
  for (size_t c = 0; c < values.size(); ++c) values[c] = factor * random_normal(seed, c);
  store_row(tensor.data, tensor.spec.dtype, row_offset(tensor.spec, 3, row), tensor.spec.dim[3],
            tensor.spec.stride[3], values.data());
}

/// Calls edit(row, hash) for each row of a tensor, with a hash of that row of `of`, which has as
/// many rows.
void for_equal_rows(const Tensor& of, const std::function<void(int64_t, uint64_t)>& edit) {
  const TensorSpec& spec = of.spec;
  std::vector<double> row(size_t(spec.dim[3]));
  for (int64_t r = 0; r < row_count(spec, 3); ++r) {
    load_row(of.data, spec.dtype, row_offset(spec, 3, r), spec.dim[3], spec.stride[3], row.data());
    edit(r, hash_bytes(row.data(), row.size() * sizeof(double)));
  }
}

/// Equal rows of K get equal rows of V.
void repeat_values(uint64_t seed, const Tensors& tensors) {
  const Tensor& v = tensors[ATTEST_V];
  for_equal_rows(tensors[ATTEST_K], [&](int64_t r, uint64_t of_key) {
    put_normal(v, r, random_bits(seed, of_key), 1);
  });
}

/// Equal rows of Q get equal rows of dO, by turns with one sign and the other.
void repeat_gradients(uint64_t seed, const Tensors& tensors) {
  std::map<std::pair<int64_t, uint64_t>, float> next_sign;  // of each head
  const int64_t a_head = tensors[ATTEST_Q].spec.dim[2];
  for_equal_rows(tensors[ATTEST_Q], [&](int64_t r, uint64_t of_query) {
    float& sign = next_sign.try_emplace({r / a_head, of_query}, 1.0f).first->second;
    put_normal(tensors[ATTEST_DO], r, random_bits(seed, of_query), sign);
    sign = -sign;
  });
}

void put_nan(const Tensor& tensor, int64_t row, int64_t first_channel, int64_t past_channel) {
  for (int64_t c = first_channel; c < past_channel; ++c)
    store(tensor.data, tensor.spec.dtype,
          row_offset(tensor.spec, 3, row) + c * tensor.spec.stride[3],
          std::numeric_limits<double>::quiet_NaN());
}

/// In the last query head of the last of the longest sequences dO of one row has a NaN, and Q of
/// another. O and LSE of the latter are what the forward pass makes of it.
void write_wild(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  const auto& p = problem.as<FillParams>();
  const Geometry geometry(problem, tensors);
  int64_t b = 0;
  for (int64_t other = 1; other < p.batch; ++other)
    if (geometry.length_q(other) >= geometry.length_q(b)) b = other;
  const int64_t length = geometry.length_q(b);
  if (length == 0) return;
  const int64_t of_do = geometry.output_row(b, p.num_heads - 1, length / 3),
                of_q = geometry.output_row(b, p.num_heads - 1, length * 2 / 3);
  const auto any_channel = [&](int32_t role, int64_t width) {
    return int64_t(random_below(seed, uint64_t(role), uint64_t(width)));
  };
  const int64_t in_do = any_channel(ATTEST_DO, p.head_dim_v),
                in_q = any_channel(ATTEST_Q, p.head_dim);
  put_nan(tensors[ATTEST_DO], of_do, in_do, in_do + 1);
  if (of_q == of_do) return;
  put_nan(tensors[ATTEST_Q], of_q, in_q, in_q + 1);
  const Tensor& lse = tensors[ATTEST_LSE];
  const int64_t at = row_offset(lse.spec, 3, of_q);
  if (load(lse.data, lse.spec.dtype, at) == kHidden) return;  // it sees no key
  put_nan(tensors[ATTEST_O], of_q, 0, p.head_dim_v);
  store(lse.data, lse.spec.dtype, at, std::numeric_limits<double>::quiet_NaN());
}

/// The last keys of each sequence, an eighth of them, have large scores.
void enlarge_late_keys(const Problem& problem, const Tensors& tensors) {
  const auto& p = problem.as<FillParams>();
  const Geometry geometry(problem, tensors);
  const Tensor& k = tensors[ATTEST_K];
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t length = geometry.length_kv(b);
    for (int64_t kv_head = 0; kv_head < p.num_kv_heads; ++kv_head)
      for (int64_t j = length - (length + 7) / 8; j < length; ++j) {
        const int64_t row = row_offset(k.spec, 3, geometry.key_row(b, kv_head, j));
        for (int64_t c = 0; c < p.head_dim; ++c) {
          const int64_t at = row + c * k.spec.stride[3];
          const auto late = float(load(k.data, k.spec.dtype, at)) * kLateFactor;
          store(k.data, k.spec.dtype, at,
                double(is_f8(k.spec.dtype) ? saturated(late, k.spec.dtype) : late));
        }
      }
  }
}

/// In one query head of each key head, the last query gives all of its weight to the last key that
/// it sees, and no other query gives that key any. The first channel of all other keys is 0. In
/// that of the last visible key, the last query's product raises the logit by kAlone or more; that
/// of any other query lowers it by as much. Nothing changes where a dtype cannot hold these
/// numbers.
void write_alone(const Problem& problem, const Tensors& tensors) {
  const auto& p = problem.as<FillParams>();
  if (p.softcap > 0 || p.head_dim == 1 || p.softmax_scale == 0) return;
  const double scale = double(p.softmax_scale),
               size = std::exp2(std::ceil(std::log2(std::sqrt(kAlone / std::fabs(scale)))));
  for (const int32_t role : {ATTEST_Q, ATTEST_K})
    if (size > largest_finite(tensors[size_t(role)].spec.dtype)) return;
  const Geometry geometry(problem, tensors);
  write_inverse_factors(tensors);
  const auto put = [&](int32_t role, int64_t row, double number) {
    const Tensor& tensor = tensors[size_t(role)];
    store(tensor.data, tensor.spec.dtype, row_offset(tensor.spec, 3, row), number);
  };
  for (int64_t row = 0; row < row_count(tensors[ATTEST_K].spec, 3); ++row) put(ATTEST_K, row, 0);
  for (int64_t row = 0; row < row_count(tensors[ATTEST_Q].spec, 3); ++row) put(ATTEST_Q, row, size);
  const int64_t group = p.num_heads / p.num_kv_heads;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads && geometry.length_q(b) > 0; h += group) {
      const int64_t i = geometry.length_q(b) - 1;
      const Interval keys = geometry.keys(b, i);
      std::vector<double> terms(size_t(keys.size()));
      if (keys.size() > 0) geometry.add_pair_terms(b, h, i, keys, terms.data());
      for (int64_t j = keys.end - 1; j >= keys.begin; --j) {
        if (terms[size_t(j - keys.begin)] == kHidden) continue;
        put(ATTEST_K, geometry.key_row(b, h / group, j), std::copysign(size, -scale));
        put(ATTEST_Q, geometry.output_row(b, h, i), -size);
        break;
      }
    }
}

/// MASK and BIAS hide one key from all queries, all keys from one query, and all but one from
/// another.
void hide_some(const Problem& problem, const Tensors& tensors) {
  const auto& p = problem.as<FillParams>();
  if (p.seq_len_kv < 4 || p.seq_len_q < 4) return;
  const Geometry geometry(problem, tensors);
  const Interval keys = geometry.keys(0, p.seq_len_q / 3);
  if (keys.size() < 2) return;
  // Tokens, as MASK and BIAS count them
  const int64_t short_sighted = geometry.token(p.seq_len_q / 3),
                blind = geometry.token(p.seq_len_q / 3 + 1),
                unseen = geometry.token(p.seq_len_kv / 2), first = geometry.token(keys.begin),
                seen = first == unseen ? geometry.token(keys.begin + 1) : first;
  for (const int32_t role : {ATTEST_MASK, ATTEST_BIAS}) {
    const Tensor& tensor = tensors[size_t(role)];
    if (!tensor) continue;
    const TensorSpec& spec = tensor.spec;
    const double hidden = role == ATTEST_BIAS ? kHidden : 0, shown = role == ATTEST_BIAS ? 0 : 1;
    for (int64_t row = 0; row < row_count(spec, 3); ++row)
      for (int64_t j = 0; j < spec.dim[3]; ++j) {
        const int64_t i = spec.dim[2] > 1 ? row % spec.dim[2] : -1,
                      at = row_offset(spec, 3, row) + j * spec.stride[3];
        const bool alone = i == short_sighted && spec.dim[3] > 1;
        if (alone || i == blind || (spec.dim[3] > 1 && j == unseen))
          store(tensor.data, spec.dtype, at, alone && j == seen ? shown : hidden);
      }
  }
}

}  // namespace

bool forward_is_cheap(const Problem& problem) {
  return softmax_operation().flops(forward_problem(problem)) <= kMostForward;
}

void write_forward(const Problem& problem, const Tensors& tensors) {
  const Problem forward = forward_problem(problem);
  const WithoutFactors numbers(forward, tensors);
  const Tensors& inputs = numbers.tensors();
  const auto& p = forward.as<FillParams>();
  const Geometry geometry(forward, tensors);
  const Tensor &to_o = tensors[ATTEST_O], &to_lse = tensors[ATTEST_LSE];
  const auto write = [&](int64_t row, double lse, const std::vector<double>& o) {
    for (int64_t d = 0; d < p.head_dim_v; ++d)
      store(to_o.data, to_o.spec.dtype, row_offset(to_o.spec, 3, row) + d * to_o.spec.stride[3],
            o[size_t(d)]);
    store(to_lse.data, ATTEST_F32, row_offset(to_lse.spec, 3, row), lse);
  };
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads; ++h) {
      const int64_t kv_head = h / (p.num_heads / p.num_kv_heads), length_q = geometry.length_q(b),
                    length_kv = geometry.length_kv(b);
      const auto query_of = [&](int64_t i) { return geometry.query(b, i); };
      const auto key_of = [&](int64_t j) { return geometry.key(b, j); };
      const std::vector<double> q = rows_of(inputs[ATTEST_Q], h, length_q, query_of),
                                k = rows_of(inputs[ATTEST_K], kv_head, length_kv, key_of),
                                v = rows_of(inputs[ATTEST_V], kv_head, length_kv, key_of);
#pragma omp parallel if (length_q * length_kv * p.head_dim > kThreadedElements)
      {
        std::vector<double> logits(static_cast<size_t>(length_kv)),
            o(static_cast<size_t>(p.head_dim_v));
#pragma omp for schedule(static)
        for (int64_t i = 0; i < length_q; ++i) {
          const Interval keys = geometry.keys(b, i);
          std::fill(logits.begin(), logits.end(), kHidden);
          for (int64_t j = keys.begin; j < keys.end; ++j) {
            double dot = 0;
            for (int64_t d = 0; d < p.head_dim; ++d)
              dot += q[size_t(i * p.head_dim + d)] * k[size_t(j * p.head_dim + d)];
            const double score = double(p.softmax_scale) * dot, cap = double(p.softcap);
            logits[size_t(j)] = cap > 0 ? cap * portable_tanh(score / cap) : score;
          }
          if (geometry.pair_terms() && keys.size() > 0)
            geometry.add_pair_terms(b, h, i, keys, logits.data() + keys.begin);
          hide_below_edge(p, logits);
          const double lse = attend(logits, geometry.sink(h), v.data(), o);
          write(geometry.output_row(b, h, i), lse, o);
        }
      }
    }
  for (const int64_t row : geometry.idle_rows())
    write(row, kHidden, std::vector<double>(size_t(p.head_dim_v)));
}

std::vector<std::string> fills(const Problem& problem) {
  const Problem forward = forward_problem(problem);
  const bool f8 = has_f8(problem);
  std::vector<std::string> codebook;
  for (const char* name : {"codebook", "codebook_peaked"})
    if (!f8 && has_closed_form(forward, {name})) codebook.emplace_back(name);
  if (may_repeat(problem) && !affords_all_rows(problem)) codebook.emplace_back(kRepeatedName);
  if (!forward_is_cheap(problem) && !codebook.empty()) return codebook;
  const bool has_top_k = problem.as<FillParams>().top_k > 0;
  std::vector<std::string> names{"random", "cancelling", "late", "sized"};
  // With top_k, rounding may swap a key into a row that "wild" makes NaN, and kernels may choose
  // different keys where logits are NaN.
  if (!has_top_k) names.emplace_back("wild");
  if (f8) names.emplace_back(kF8BandsName);
  if (may_hide(problem)) names.emplace_back("hidden");
  if (has_top_k)
    for (std::string& name : top_k_fills(problem))
      if (name != kTopKCloseName) names.push_back(std::move(name));
  names.insert(names.end(), codebook.begin(), codebook.end());
  return names;
}

std::vector<std::string> more_fills(const Problem& problem) {
  std::vector<std::string> names;
  if (problem.as<FillParams>().top_k > 0) names.emplace_back(kTopKCloseName);
  if (may_repeat(problem) && affords_all_rows(problem)) names.emplace_back(kRepeatedName);
  return names;
}

void fill(const Problem& problem, const Fill& fill, const Tensors& tensors, bool only_own) {
  const std::vector<std::string> known = known_fills(problem, false);
  const bool repeats = fill.name == kRepeatedName,
             is_codebook = fill.name.starts_with("codebook") && !has_f8(problem),
             is_bands = fill.name == kF8BandsName;
  if (!is_codebook && std::ranges::find(known, fill.name) == known.end() && fill.name != "random" &&
      fill.name != "hidden")
    throw Error("fill '" + fill.name +
                "': softmax_backward has random, cancelling, late, sized, wild, hidden, codebook, "
                "codebook_peaked, and with top_k top_k_levels, top_k_close and top_k_wild; in 8 "
                "bits f8_bands, but not codebook and codebook_peaked; and repeated where every "
                "query sees every key");
  const Problem forward = forward_problem(problem);
  const std::string of_softmax = repeats ? kRepeatedBook : is_codebook ? fill.name : "random";
  const Fill of_forward{of_softmax, fill.seed, fill.other_lengths};
  if (is_codebook || repeats)
    fill_codebook(forward, of_forward, tensors, only_own);
  else
    fill_random(forward, of_forward, tensors, only_own);
  if (repeats) repeat_values(random_bits(fill.seed, kRepeatedSeed), tensors);
  if (is_top_k_fill(fill.name)) write_top_k(problem, fill, tensors);
  if (fill.name == "random") scale_to_codes(tensors);
  if (is_bands) write_bands(problem, of_forward, tensors);
  if (fill.name == "hidden" && may_have_finite_biases(problem))
    write_finite_biases(forward, tensors);
  if (fill.name == "hidden") hide_some(problem, tensors);
  const auto& p = problem.as<FillParams>();
  const bool cancels = fill.name == "cancelling";
  if (cancels)
    edit_elements(tensors[ATTEST_V],
                  [](int64_t, int64_t, double x) { return x + double(kMeanValue); });
  if (fill.name == "late") {
    enlarge_late_keys(problem, tensors);
    write_alone(problem, tensors);
  }
  const double low = fill.name == "sized" ? low_query(problem, tensors[ATTEST_Q]) : 0;
  if (fill.name == "sized" && p.softcap == 0) shift_scores(p, low, tensors);
  if (!forward_is_cheap(problem) && has_closed_form(forward, of_forward))
    write_closed_form(forward, of_forward, tensors);
  else
    write_forward(problem, tensors);
  fill_normal(tensors[ATTEST_DO], random_bits(fill.seed, kGradientSeed), cancels ? kMeanDo : 0);
  if (!cancels)
    edit_elements(tensors[ATTEST_DO], [&](int64_t row, int64_t, double x) {
      return random_below(random_bits(fill.seed, kZeroSeed), uint64_t(row), kZeroRows) == 0 ? 0 : x;
    });
  if (fill.name == "sized")
    edit_elements(tensors[ATTEST_DO], [&](int64_t row, int64_t, double x) {
      return x * sized_row(row, low != 0).factor;
    });
  if (repeats) repeat_gradients(random_bits(fill.seed, kGradientSeed), tensors);
  if (is_bands) balance_bands(problem, tensors);
  if (fill.name == "wild") write_wild(problem, random_bits(fill.seed, kWildSeed), tensors);
  if (fill.name == "hidden") poison_hidden(problem, tensors);
}

}  // namespace attest::core::backward
