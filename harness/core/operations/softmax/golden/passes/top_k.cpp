#include "core/operations/softmax/golden/passes/top_k.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core::passes {
namespace {

constexpr size_t kSpare = 256;  // candidates beyond 2 top_k that are kept before a selection
constexpr int kIn = 0, kOut = 1, kTied = 2;  // sides: kTied + kIn, kTied + kOut
constexpr int kNotNear = -1;
// Where swaps may leave less of a row's weight, p no longer says what a key weighs after them.
constexpr double kLeastRest = 0.5;

}  // namespace

TopKSearch::TopKSearch(const attest_softmax_params& params)
    : top_k_(size_t(params.top_k)), all_ties_(params.top_k_ties == ATTEST_TOP_K_ALL_TIES) {}

int64_t TopKSearch::bytes(const attest_softmax_params& params) {
  const int64_t candidates =
      std::min(2 * params.top_k + int64_t(kSpare) + BlockShape(params).keys, params.seq_len_kv);
  return kTaskRows * candidates * int64_t(sizeof(Candidate));
}

void TopKSearch::start(size_t rows) { rows_.assign(rows, {}); }

void TopKSearch::add(size_t row, const double* logits, const KeyBlock& block) {
  Row& to = rows_[row];
  for (int64_t key = 0; key < block.count(); ++key) {
    to.nan |= std::isnan(logits[key]);
    to.visible += logits[key] != kHidden;
    if (logits[key] != kHidden && logits[key] >= to.least)
      to.candidates.push_back({logits[key], block.place(key)});
  }
  if (to.candidates.size() > 2 * top_k_ + kSpare) shorten(to);
}

void TopKSearch::shorten(Row& row) const {
  if (row.nan) return row.candidates.clear();
  const auto last = row.candidates.begin() + std::ptrdiff_t(top_k_) - 1;
  std::nth_element(row.candidates.begin(), last, row.candidates.end());
  row.least = last->logit;
  row.candidates.resize(top_k_);
}

TopKEdge TopKSearch::edge(size_t row) {
  Row& of = rows_[row];
  if (of.nan || of.visible <= top_k_) return {};
  shorten(of);
  const Candidate& last = of.candidates.back();
  return {.least = last.logit,
          .place = last.place,
          .last_tie = all_ties_ ? std::numeric_limits<int64_t>::max() : last.place};
}

void hide_below(const TopKEdge& edge, const KeyBlock& block, double* logits) {
  if (!edge.cuts()) return;
  for (int64_t key = 0; key < block.count(); ++key)
    if (!edge.keeps(logits[key], block.place(key))) logits[key] = kHidden;
}

TopKSwaps::TopKSwaps(const attest_softmax_params& params, const BlockShape& shape)
    : top_k_(params.top_k),
      head_dim_v_(shape.head_dim_v),
      all_ties_(params.top_k_ties == ATTEST_TOP_K_ALL_TIES),
      rows_(size_t(kTaskRows)),
      p2v_(4, Matrix(kTaskRows, shape.value_stride)),
      p2v2_(p2v_),
      sure_(kTaskRows, shape.value_stride),
      swapped_(size_t(shape.head_dim_v)) {}

int64_t TopKSwaps::bytes(const BlockShape& shape) {
  return 9 * kTaskRows * shape.value_stride * int64_t(sizeof(double));
}

void TopKSwaps::start(std::span<const RowScores> rows, const SigmaModel& model, bool ties_hold) {
  scores_ = rows;
  model_ = &model;
  ties_hold_ = ties_hold;
  std::fill(rows_.begin(), rows_.end(), Row{});
  for (auto* sums : {&p2v_, &p2v2_})
    for (Matrix& of_side : *sums) of_side.clear();
  sure_.clear();
}

double TopKSwaps::variance(const TileScores& logits, int64_t r, int64_t key) const {
  const double logit = logits.scores.row(r)[key];
  const double square = logits.staged() ? logits.staged_squares.row(r)[key] : logit * logit;
  return model_->score_variance(square, logits.magnitudes.row(r)[key]);
}

void TopKSwaps::find_edges(const TileScores& logits, const KeyBlock& block, const Tile& tile) {
  for (int64_t key = 0; key < block.count(); ++key)
    for (int64_t r = 0; r < tile.count(); ++r)
      if (const auto row = size_t(tile.first + r); scores_[row].edge.place == block.place(key))
        rows_[row].edge_variance = variance(logits, r, key);
}

int TopKSwaps::near_side(const TileScores& logits, const KeyBlock& block, const Tile& tile,
                         int64_t r, int64_t key) const {
  const auto row = size_t(tile.first + r);
  const TopKEdge& edge = scores_[row].edge;
  const double logit = logits.scores.row(r)[key], distance = std::fabs(logit - edge.least);
  if (!std::isfinite(distance)) return kNotNear;
  const double error = rows_[row].edge_variance + variance(logits, r, key);
  if (distance * distance > SigmaModel::kGate * SigmaModel::kGate * error) return kNotNear;
  return (edge.keeps(logit, block.place(key)) ? kIn : kOut) +
         (ties_hold_ && distance == 0 ? kTied : 0);
}

void TopKSwaps::add(const TileScores& logits, const Values& values, const KeyBlock& block,
                    const Tile& tile) {
  for (int64_t r = 0; r < tile.count(); ++r) {
    const int64_t row = tile.first + r;
    if (!scores_[size_t(row)].edge.cuts()) continue;
    for (int64_t key = 0; key < block.count(); ++key)
      if (const int side = near_side(logits, block, tile, r, key); side != kNotNear)
        add_key(values, key, logits.scores.row(r)[key], row, side);
    for (const Values::NonFinite& at : values.non_finite) {
      const double logit = logits.scores.row(r)[at.key];
      if (const int side = near_side(logits, block, tile, r, at.key); side != kNotNear)
        p2v2_[size_t(side)].row(row)[at.channel] = kInfinity;
      else if (scores_[size_t(row)].edge.keeps(logit, block.place(at.key)))
        sure_.row(row)[at.channel] += std::exp(logit - scores_[size_t(row)].lse) * at.value;
    }
  }
}

void TopKSwaps::add_key(const Values& values, int64_t key, double logit, int64_t row, int at) {
  Side& side = rows_[size_t(row)].sides[at];
  const double p = std::exp(logit - scores_[size_t(row)].lse);
  ++side.keys;
  side.p += p;
  side.p2 += p * p;
  side.most = std::max(side.most, logit);
  side.least = std::min(side.least, logit);
  double *p2v = p2v_[size_t(at)].row(row), *p2v2 = p2v2_[size_t(at)].row(row);
  const double* v = values.values.row(key);
  for (int64_t d = 0; d < head_dim_v_; ++d) {
    p2v[d] += p * p * v[d];
    p2v2[d] += p * p * v[d] * v[d];
  }
}

void TopKSwaps::add_ties(int64_t row) {
  Side* const sides = rows_[size_t(row)].sides;
  if (sides[kIn].keys + sides[kOut].keys == 0) return;
  for (const int at : {kIn, kOut}) {
    Side& to = sides[at];
    const Side& tied = sides[kTied + at];
    to.keys += tied.keys;
    to.p += tied.p;
    to.p2 += tied.p2;
    to.most = std::max(to.most, tied.most);
    to.least = std::min(to.least, tied.least);
    for (auto* sums : {&p2v_, &p2v2_}) {
      double* sum = (*sums)[size_t(at)].row(row);
      const double* of_tied = (*sums)[size_t(kTied) + size_t(at)].row(row);
      for (int64_t d = 0; d < head_dim_v_; ++d) sum[d] += of_tied[d];
    }
  }
}

void TopKSwaps::write(int64_t row, RowSums& sums) {
  add_ties(row);
  const RowScores& scores = scores_[size_t(row)];
  const Side &in = rows_[size_t(row)].sides[kIn], &out = rows_[size_t(row)].sides[kOut];
  // Where all ties count, those beyond top_k may go without another key coming, and keys may come
  // without another one going.
  const double beyond = std::min(in.keys, double(std::max<int64_t>(scores.keys - top_k_, 0)));
  const double going = std::min(in.keys, out.keys + beyond),
               coming = all_ties_ ? out.keys : std::min(in.keys, out.keys);
  sums.swapped = nullptr;
  sums.swapped_lse = 0;
  if (going + coming == 0) return;
  const double swaps = std::min(going, coming);
  // The largest p of those that go, and the least of those that come
  const double most = swaps > 0 ? std::exp(in.most - scores.lse) : 0,
               least = swaps > 0 ? std::exp(out.least - scores.lse) : 0;
  const double gone = in.keys > 0 ? in.p * beyond / in.keys : 0;  // without another one coming
  // What is left of all weight
  const double rest = std::max(1 - gone, 1 / double(scores.keys)),
               rest_of_swaps = 1 - std::min(in.p, swaps * most) + swaps * least;
  const bool any_average = rest_of_swaps < kLeastRest;
  const double share_in = in.keys > 0 ? going / in.keys : 0,
               share_out = out.keys > 0 ? coming / out.keys : 0;
  const double one_sign =
      model_->values_may_follow ? (going + coming) / (SigmaModel::kGate * SigmaModel::kGate) : 0;
  for (int64_t d = 0; d < head_dim_v_; ++d) {
    const double o = sums.pv[d];
    const auto square = [&](int at, const Side& side) {
      return std::max(0.0, p2v2_[size_t(at)].row(row)[d] - 2 * o * p2v_[size_t(at)].row(row)[d] +
                               o * o * side.p2);
    };
    const auto may_be_no_number = [&](int at, double moving) {
      return moving > 0 && std::isinf(p2v2_[size_t(at)].row(row)[d]);
    };
    double& swapped = swapped_[size_t(d)];
    if (std::isnan(sure_.row(row)[d])) {
      swapped = 0;
    } else if (may_be_no_number(kIn, going) || may_be_no_number(kOut, coming)) {
      swapped = kInfinity;
    } else if (any_average) {
      swapped = std::pow(model_->any_average_of(sums.largest_v), 2);
    } else {
      const double of_in = square(kIn, in), of_out = square(kOut, out);
      swapped = (share_in * of_in + share_out * of_out + one_sign * (of_in + of_out)) /
                std::pow(rest * rest_of_swaps, 2);
    }
  }
  sums.swapped = swapped_.data();
  // Swaps go either way. Where rounding makes ties, all tied keys count, in every row.
  const double resized = all_ties_ ? std::max(out.p, -std::log(rest)) : 0;
  sums.swapped_lse = swaps * (most - least) / 2 + resized;
}

}  // namespace attest::core::passes
