#include "core/operations/softmax/fills/top_k.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/fill_rows.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr std::string_view kLevelsName = "top_k_levels";

// Scores are levels, each kLevel from the next. In three rows of eight there are kLevels around 0:
// 0.25 is far beyond the error of bf16 scores of that size, and exp(4) small enough for every key
// to show. What BIAS and REL_BIAS add puts logits halfway and a quarter of the way between levels,
// so that only equal sums are equal.
constexpr int64_t kLevels = 16;
constexpr double kLevel = 0.25;
constexpr float kBias = float(2.5 * kLevel), kRelBias = float(1.25 * kLevel);
constexpr uint64_t kBiasHides = 64;  // one of so many pairs

// What the numbers of a channel of K are; a query asks for one channel. bf16 holds all of them.
enum class Channel : int64_t {
  kAround,  // -8 .. 7
  kAbove,   // 1 .. 16
  kFar,     // 240 .. 255
  kSpread,  // -8 .. 7, or kLowest in about one key of kLowIn
  kEqual,   // kLevels
  kCount,
};
constexpr float kFarthest = 240, kLowest = -8192;
constexpr uint64_t kLowIn = 4;
// Distances between the levels of rows far from 0: scores are near 60, 240 or 1,000. Beside a
// softcap they are near two softcaps.
constexpr double kFarLevels[] = {0.25, 1, 4}, kFarCaps = 2;

// What the scores of a row are.
enum class Row {
  kAround,    // of either sign
  kBelow,     // below 0, all of them
  kFar,       // far above 0
  kFarBelow,  // far below 0
  kEqual,     // all the same
  kSpread,    // around 0, but some are thousands below the edge
};
// In turn. Which comes first matters where a problem has few rows.
constexpr Row kRows[] = {Row::kAround, Row::kBelow,    Row::kAround, Row::kFar,
                         Row::kEqual,  Row::kFarBelow, Row::kAround, Row::kSpread};

// A mask or bias of pairs leaves top_k + `more` keys in every row whose number is `row` modulo
// kRowsPerTurn. kRows has eight kinds, so each kind meets each of these rows.
constexpr int64_t kRowsPerTurn = 9;
constexpr struct {
  int64_t row, more;
} kSeen[] = {{1, 0}, {4, 1}, {6, -1}};

uint64_t role_seed(uint64_t seed, int32_t role) {
  return random_bits(seed, 0x746f706bULL + uint64_t(role));
}

Channel channel_of(size_t channel, size_t channels) {
  constexpr auto kCount = size_t(Channel::kCount);
  return channels < kCount ? Channel::kAround : Channel(channel % kCount);
}

float key_number(Channel channel, uint64_t seed, uint64_t index) {
  const auto level = float(random_below(seed, index, kLevels));
  switch (channel) {
    case Channel::kAbove: return level + 1;
    case Channel::kFar: return level + kFarthest;
    case Channel::kSpread:
      if (random_below(random_bits(seed, 1), index, kLowIn) == 0) return kLowest;
      break;
    case Channel::kEqual: return float(kLevels);
    default: break;
  }
  constexpr int kMiddle = kLevels / 2;
  return level - float(kMiddle);
}

struct Query {
  Channel channel;
  double level;  // the distance of scores whose keys differ by 1
};

// `all_weigh`: V has infinities, and 0 times infinity is NaN. So no key may weigh 0 in f16.
Query query_of(Row row, uint64_t seed, uint64_t index, double softcap, bool all_weigh) {
  const uint64_t turn = random_below(seed, index, 6);
  const double sign = turn % 2 == 0 ? -1 : 1,
               far_level = softcap > 0 ? kFarCaps * softcap / (kFarthest + kLevels)
                           : all_weigh ? kLevel
                                       : kFarLevels[turn % std::size(kFarLevels)];
  if (all_weigh && row == Row::kSpread) row = Row::kAround;
  switch (row) {
    case Row::kBelow: return {Channel::kAbove, -kLevel};
    case Row::kFar: return {Channel::kFar, far_level};
    case Row::kFarBelow: return {Channel::kFar, -far_level};
    case Row::kEqual: return {Channel::kEqual, turn < 2 ? 0 : sign * kLevel};
    case Row::kSpread: return {Channel::kSpread, kLevel};
    default: return {Channel::kAround, sign * kLevel};
  }
}

Row row_kind(const Tensor& q, int64_t r) { return kRows[size_t(turn_of(q, r)) % std::size(kRows)]; }

// A query has one channel that is not 0: the product is exact in every order, and equal where that
// channel of the keys is.
void write_levels(const Problem& problem, uint64_t seed, const Tensors& tensors, bool all_weigh) {
  constexpr auto kChannels = uint64_t(Channel::kCount);
  const uint64_t of_keys = role_seed(seed, ATTEST_K), of_queries = role_seed(seed, ATTEST_Q);
  fill_rows(tensors[ATTEST_K], [&](int64_t r, std::span<float> values) {
    for (size_t d = 0; d < values.size(); ++d)
      values[d] =
          key_number(channel_of(d, values.size()), of_keys, uint64_t(r) * values.size() + d);
  });
  const Params& p = problem.as<Params>();
  fill_rows(tensors[ATTEST_Q], [&](int64_t r, std::span<float> values) {
    std::ranges::fill(values, 0.0f);
    const bool few = values.size() < kChannels;
    const Query query = query_of(few ? Row::kAround : row_kind(tensors[ATTEST_Q], r), of_queries,
                                 uint64_t(2 * r + 1), double(p.softcap), all_weigh);
    const uint64_t kind = few ? 0 : uint64_t(query.channel), step = few ? 1 : kChannels,
                   count = (values.size() - kind + step - 1) / step;
    values[kind + step * random_below(of_queries, uint64_t(2 * r), count)] =
        float(query.level / double(p.softmax_scale));
  });
}

// A query is one number in all channels: its product with a key is a sum over the channels of the
// key, whatever their order.
void write_close(const Problem& problem, uint64_t seed, const Tensors& tensors) {
  constexpr int64_t kGroup = 4;
  const uint64_t of_keys = role_seed(seed, ATTEST_K), of_queries = role_seed(seed, ATTEST_Q);
  fill_rows(tensors[ATTEST_K], [&](int64_t r, std::span<float> values) {
    const size_t turn = size_t(r % kGroup) * std::max<size_t>(values.size() / kGroup, 1);
    for (size_t d = 0; d < values.size(); ++d)
      values[d] =
          random_normal(of_keys, uint64_t(r / kGroup) * values.size() + (d + turn) % values.size());
  });
  const Params& p = problem.as<Params>();
  const double factor = 1 / (std::fabs(double(p.softmax_scale)) * std::sqrt(double(p.head_dim)));
  fill_rows(tensors[ATTEST_Q], [&](int64_t r, std::span<float> values) {
    const double size = 0.5 + double(random_uniform(of_queries, uint64_t(2 * r)));
    const bool negative = random_below(of_queries, uint64_t(2 * r + 1), 2) == 0;
    std::ranges::fill(values, float(negative ? -size * factor : size * factor));
  });
}

void write_biases(uint64_t seed, const Tensors& tensors) {
  const auto one_of_two = [](uint64_t stream, uint64_t index, float value) {
    return random_below(stream, index, 2) == 0 ? 0.0f : value;
  };
  if (tensors[ATTEST_BIAS])
    fill_rows(tensors[ATTEST_BIAS], [&](int64_t r, std::span<float> values) {
      const uint64_t stream = role_seed(seed, ATTEST_BIAS), hides = random_bits(stream, 1);
      for (size_t j = 0; j < values.size(); ++j) {
        const uint64_t index = uint64_t(r) * values.size() + j;
        values[j] = random_below(hides, index, kBiasHides) == 0
                        ? -std::numeric_limits<float>::infinity()
                        : one_of_two(stream, index, kBias);
      }
    });
  if (tensors[ATTEST_REL_BIAS])
    fill_rows(tensors[ATTEST_REL_BIAS], [&](int64_t r, std::span<float> values) {
      for (size_t j = 0; j < values.size(); ++j)
        values[j] =
            one_of_two(role_seed(seed, ATTEST_REL_BIAS), uint64_t(r) * values.size() + j, kRelBias);
    });
}

// Returns the number of keys that a mask or bias of pairs leaves in a row; 0 if kSeen lacks the
// row.
int64_t wanted_keys(const Params& p, int64_t row) {
  for (const auto& [turn, more] : kSeen)
    if (row % kRowsPerTurn == turn) return p.top_k + more;
  return 0;
}

// Leaves wanted_keys() of the keys of some rows, chosen at random, and hides the others. `pairs` is
// MASK or BIAS, `hidden` the number by which it hides a pair.
void limit_seen_keys(const Problem& problem, uint64_t seed, const Tensors& tensors,
                     const Tensor& pairs, double hidden) {
  const TensorSpec& spec = pairs.spec;
  const Geometry geometry(problem, tensors);
  for (int64_t b = 0; b < spec.dim[0]; ++b)
    for (int64_t h = 0; h < spec.dim[1]; ++h)
      for (int64_t i = 0; i < geometry.length_q(b); ++i) {
        const Interval keys = geometry.keys(b, i);
        int64_t seen = wanted_keys(problem.as<Params>(), i + h);
        if (seen < 1 || seen > keys.size()) continue;
        const int64_t row =
            b * spec.stride[0] + h * spec.stride[1] + geometry.token(i) * spec.stride[2];
        const uint64_t of_row = random_bits(seed, uint64_t(row));
        for (int64_t j = keys.begin; j < keys.end; ++j) {
          const bool sees =
              int64_t(random_below(of_row, uint64_t(j), uint64_t(keys.end - j))) < seen;
          seen -= sees;
          const int64_t at = row + geometry.token(j) * spec.stride[3];
          if (!sees || load(pairs.data, spec.dtype, at) == hidden)
            store(pairs.data, spec.dtype, at, !sees ? hidden : hidden == 0 ? 1 : 0);
        }
      }
}

// Whether a mask or bias has a number for each query and key.
bool is_of_pairs(const Tensor& pairs) {
  return pairs && pairs.spec.dim[2] > 1 && pairs.spec.dim[3] > 1;
}

// A query of each head is NaN in one channel, so all of its logits are; one key of the last key
// head is, so one logit of each row that sees it is, if there are others. Three keys of each head
// have one such number each in V, in a channel of its own if there are three.
void write_wild(uint64_t seed, const Tensor& q, const Tensor& k, const Tensor& v) {
  const TensorSpec& spec = v.spec;
  constexpr double kInfinite = std::numeric_limits<double>::infinity(),
                   kWild[] = {std::numeric_limits<double>::quiet_NaN(), kInfinite, -kInfinite};
  const uint64_t of_queries = random_bits(role_seed(seed, ATTEST_Q), 1),
                 of_values = role_seed(seed, ATTEST_V);
  for (int64_t unit = 0; unit < q.spec.dim[0] * q.spec.dim[1]; ++unit) {
    const auto row = int64_t(random_below(of_queries, uint64_t(unit), uint64_t(q.spec.dim[2])));
    store(q.data, q.spec.dtype, row_offset(q.spec, 3, unit * q.spec.dim[2] + row), kWild[0]);
  }
  if (const int64_t units = k.spec.dim[0] * k.spec.dim[1]; units > 1) {
    const auto row = int64_t(random_below(role_seed(seed, ATTEST_K), 0, uint64_t(k.spec.dim[2])));
    store(k.data, k.spec.dtype, row_offset(k.spec, 3, (units - 1) * k.spec.dim[2] + row), kWild[0]);
  }
  for (int64_t unit = 0; unit < spec.dim[0] * spec.dim[1]; ++unit)
    for (int64_t n = 0; n < int64_t(std::size(kWild)); ++n) {
      const auto row =
          int64_t(random_below(of_values, uint64_t(unit * 3 + n), uint64_t(spec.dim[2])));
      store(
          v.data, spec.dtype,
          row_offset(spec, 3, unit * spec.dim[2] + row) + (unit + n) % spec.dim[3] * spec.stride[3],
          kWild[n]);
    }
}

// For gradients: one value of each head is NaN. No value is infinite: of infinities some honest
// kernels make NaN, and others make an infinity.
void write_wild_values(uint64_t seed, const Tensor& v) {
  const TensorSpec& spec = v.spec;
  const uint64_t of_values = role_seed(seed, ATTEST_V);
  for (int64_t unit = 0; unit < spec.dim[0] * spec.dim[1]; ++unit) {
    const auto row = int64_t(random_below(of_values, uint64_t(unit), uint64_t(spec.dim[2])));
    store(v.data, spec.dtype,
          row_offset(spec, 3, unit * spec.dim[2] + row) + unit % spec.dim[3] * spec.stride[3],
          std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

bool is_top_k_fill(std::string_view fill) {
  return fill == kLevelsName || fill == kTopKCloseName || fill == kTopKWildName;
}

std::vector<std::string> top_k_fills(const Problem& problem) {
  std::vector<std::string> names{std::string(kLevelsName), std::string(kTopKCloseName)};
  if (const Params& p = problem.as<Params>();
      p.softcap == 0 && p.shift_bias == 0 && !problem.has(ATTEST_ALIBI_SLOPES))
    names.emplace_back(kTopKWildName);
  return names;
}

void write_top_k(const Problem& problem, const Fill& fill, const Tensors& tensors) {
  write_biases(fill.seed, tensors);
  if (const Tensor& mask = tensors[ATTEST_MASK]; is_of_pairs(mask))
    limit_seen_keys(problem, role_seed(fill.seed, ATTEST_MASK), tensors, mask, 0);
  else if (const Tensor& bias = tensors[ATTEST_BIAS]; is_of_pairs(bias))
    limit_seen_keys(problem, role_seed(fill.seed, ATTEST_MASK), tensors, bias, kHidden);
  if (fill.name == kTopKCloseName) return write_close(problem, fill.seed, tensors);
  const bool is_wild = fill.name == kTopKWildName;
  write_levels(problem, fill.seed, tensors, is_wild);
  if (!is_wild) return;
  // Kernels of gradients may choose different keys in rows whose logits are NaN.
  if (tensors[ATTEST_DO]) return write_wild_values(fill.seed, tensors[ATTEST_V]);
  write_wild(fill.seed, tensors[ATTEST_Q], tensors[ATTEST_K], tensors[ATTEST_V]);
}

// ALiBi and shift_bias may bring keys of different levels to logits that are equal by chance.
bool top_k_ties_hold(const Problem& problem, std::string_view fill) {
  return is_top_k_fill(fill) && fill != kTopKCloseName && !problem.has(ATTEST_ALIBI_SLOPES) &&
         problem.as<Params>().shift_bias == 0;
}

// Scores are of few levels even where equal logits may differ.
std::unique_ptr<Golden> top_k_golden(const Problem& problem, const Fill& fill,
                                     const Tensors& tensors) {
  return golden_of(problem, tensors,
                   {.ties_hold = top_k_ties_hold(problem, fill.name),
                    .few_scores = fill.name != kTopKCloseName});
}

}  // namespace attest::core
