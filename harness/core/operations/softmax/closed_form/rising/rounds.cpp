#include "core/operations/softmax/closed_form/rising/rounds.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>

#include "core/operations/softmax/closed_form/tiles.hpp"

namespace attest::core {
namespace {

constexpr std::string_view kRound = "rising_";  // before the number of a round
constexpr int64_t kMostAsks = 250;
constexpr double kFreeSoftcap = 46;  // from which on scores have nearly all leads themselves
constexpr int64_t kFewQueries = 16;  // behind a long cache, so few queries see nearly the same keys
// Rows that do not see all keys, and rows of BIAS: up to so many are dealt to.
constexpr int64_t kMostDealt = 1024;

}  // namespace

int64_t round_of(std::string_view fill) {
  if (!fill.starts_with(kRound)) return 0;
  const std::string_view digits = fill.substr(kRound.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool well = error == std::errc() && end == digits.data() + digits.size() &&
                    digits.front() != '0' && number >= 2 && number <= kMostRounds;
  return well ? number - 1 : 0;
}

int32_t leading_term(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  if (p.softcap <= 0 || double(p.softcap) >= kFreeSoftcap) return 0;
  const TensorSpec& bias = problem.tensor[ATTEST_BIAS];
  if (present(bias) && bias.dim[3] > 1) return ATTEST_BIAS;
  if (problem.has(ATTEST_REL_BIAS)) return ATTEST_REL_BIAS;
  return problem.has(ATTEST_ALIBI_SLOPES) ? ATTEST_ALIBI_SLOPES : 0;
}

bool leads_in_term(const Problem& problem, const Fill& fill) {
  return round_of(fill.name) > 0 && leading_term(problem) != 0;
}

std::vector<Ask> asks_of(const Marks& marks, int32_t term, bool slopes) {
  std::vector<Ask> asks = asks_for(marks, kMostAsks, slopes && term == 0 ? 2 : 1);
  if (term == ATTEST_BIAS) asks.insert(asks.begin() + 2, {{Ask::kHigh}, {Ask::kLow}});
  return asks;
}

AskingRows::AskingRows(const Problem& problem, int32_t term, std::vector<int64_t> length_q,
                       std::vector<int64_t> length_kv)
    : problem_(problem),
      params_(problem.as<attest_softmax_params>()),
      term_(term),
      length_q_(std::move(length_q)),
      length_kv_(std::move(length_kv)) {}

bool AskingRows::are_none() const {
  return std::ranges::all_of(length_q_, [](int64_t length) { return length == 0; });
}

void AskingRows::add(std::vector<AskingRow>& rows, int64_t b, int64_t i, int64_t head) const {
  const int64_t length_q = length_q_[size_t(b)], length_kv = length_kv_[size_t(b)];
  const Interval keys = visible_keys(params_, i, length_q, length_kv);
  if (keys.size() > 0)
    rows.push_back({b, i, head, keys, first_tile_begin(params_, i, length_q, length_kv)});
}

std::vector<AskingRow> AskingRows::of_bias(int64_t round) const {
  const TensorSpec& bias = problem_.tensor[ATTEST_BIAS];
  std::vector<AskingRow> rows;
  for (int64_t at = 0; at < row_count(bias, 3); ++at)
    if (const BiasRow row = row_of_bias(bias, at, round, params_.num_heads, length_q_); row.b >= 0)
      add(rows, row.b, row.i, row.head);
  return rows;
}

std::vector<AskingRow> AskingRows::of_round(int64_t round) const {
  std::vector<AskingRow> rows;
  if (term_ == ATTEST_BIAS)
    rows = of_bias(round);
  else
    for (size_t b = 0; b < length_q_.size(); ++b)
      for (int64_t i = 0; i < length_q_[b]; ++i)
        for (int64_t head = 0; head < params_.num_heads; ++head) add(rows, int64_t(b), i, head);
  std::ranges::stable_sort(rows, std::greater(),
                           [](const AskingRow& row) { return row.keys.size(); });
  return rows;
}

int64_t AskingRows::period() const {
  int64_t period = 1;
  for (size_t b = 0; b < length_q_.size(); ++b)
    for (int64_t i = 0; i < length_q_[b]; ++i)
      period = std::max(period, visible_keys(params_, i, length_q_[b], length_kv_[b]).size());
  return period;
}

std::vector<int64_t> AskingRows::reach() const {
  std::vector<int64_t> reach;
  for (size_t b = 0; b < length_q_.size(); ++b)
    reach.push_back(length_q_[b] > 0
                        ? visible_keys(params_, length_q_[b] - 1, length_q_[b], length_kv_[b]).end
                        : 0);
  return reach;
}

// ALiBi lowers the leads of far marks, so more rows of one round would not show more.
bool AskingRows::are_dealt() const {
  if (term_ == ATTEST_BIAS) return row_count(problem_.tensor[ATTEST_BIAS], 3) <= kMostDealt;
  const int64_t rows =
      params_.num_heads * std::accumulate(length_q_.begin(), length_q_.end(), int64_t{0});
  if (term_ != 0 || rows > kMostDealt) return false;
  if (rows < kMostAsks && params_.seq_len_q <= kFewQueries) return true;
  if (problem_.has(ATTEST_ALIBI_SLOPES)) return false;
  return rows < kMostAsks || !all_see_all();
}

bool AskingRows::all_see_all() const {
  for (size_t b = 0; b < length_q_.size(); ++b)
    for (int64_t i = 0; i < length_q_[b]; ++i)
      if (visible_keys(params_, i, length_q_[b], length_kv_[b]).size() != length_kv_[b])
        return false;
  return true;
}

BiasRow row_of_bias(const TensorSpec& bias, int64_t at, int64_t round, int64_t num_heads,
                    const std::vector<int64_t>& length_q) {
  const int64_t plane = at / bias.dim[2], place = at % bias.dim[2], shared = round - 1 + place;
  const int64_t b = bias.dim[0] > 1 ? plane / bias.dim[1] : shared % int64_t(length_q.size()),
                head = bias.dim[1] > 1 ? plane % bias.dim[1] : shared % num_heads;
  // A row of keys is that of the last query, which sees most keys.
  const int64_t i = bias.dim[2] > 1 ? place : length_q[size_t(b)] - 1;
  return i < 0 || i >= length_q[size_t(b)] ? BiasRow() : BiasRow{b, i, head};
}

}  // namespace attest::core
