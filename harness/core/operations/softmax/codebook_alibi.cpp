#include "core/operations/softmax/codebook_alibi.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/softmax/codebook_kernels.hpp"

namespace attest::core::codebook {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastFade = 0x1p-100;  // multiplied out below it: its square must stay a normal number
constexpr int64_t kChunkRows = 1024;

void scale(std::vector<double>& sums, double factor) {
  for (double& x : sums) x *= factor;
}

}  // namespace

AlibiRows::AlibiRows(const Codebook& book, const attest_softmax_params& params, const Tensor& v, const HeadScores& scores,
                     const SigmaModel& model, double slope, int64_t b, int64_t head)
    : book_(book),
      p_(params),
      v_(v),
      scores_(scores),
      model_(model),
      slope_(slope),
      decay_(std::exp(-slope)),
      b_(b),
      head_(head),
      kv_head_(head / (params.num_heads / params.num_kv_heads)),
      length_(book.geometry().length_kv(b)),
      width_((params.head_dim_v + kLanes - 1) / kLanes * kLanes),
      groups_(size_t(book.key_groups())),
      top_(size_t(book.query_groups())),
      row_(size_t(width_)),
      plain_v_(size_t(width_)),
      plain_v2_(size_t(width_)),
      plain_groups_(groups_) {
  for (size_t h = 0; h < top_.size(); ++h)
    top_[h] = *std::max_element(&scores.score[h * groups_], &scores.score[h * groups_] + groups_);
}

bool AlibiRows::fit(const Problem& problem) { return problem.as<attest_softmax_params>().patch_size == 0; }

AlibiRows::Side AlibiRows::empty_side() const {
  const std::vector<double> none(groups_), wide(groups_ * size_t(width_));
  return {wide, wide, wide, none, none, none, none, std::vector<int64_t>(groups_, -1)};
}

// One place further away from everything.
void AlibiRows::step(Side& side) const {
  side.fade *= decay_;
  const double square = decay_ * decay_, fade2 = side.fade * side.fade;
  for (size_t g = 0; g < groups_; ++g) {
    const double w2 = side.w2[g] * fade2, w2d = side.w2d[g] * square;
    side.w2d2[g] = side.w2d2[g] * square + 2 * w2d + w2;
    side.w2d[g] = w2d + w2;
  }
  if (side.fade > kLeastFade) return;
  for (auto* sums : {&side.v, &side.w}) scale(*sums, side.fade);
  for (auto* sums : {&side.v2, &side.v1, &side.w2}) scale(*sums, fade2);
  side.fade = 1;
}

int64_t AlibiRows::group_of(int64_t j) const {
  const int64_t level = book_.levels().of_key(b_, head_, 0, j);
  const uint8_t code = book_.key_code(kv_head_, book_.geometry().key(b_, j));
  return level < 0 || code == Codebook::kUnseen ? -1 : code * book_.levels().key_levels() + level;
}

void AlibiRows::load(int64_t j) const {
  const Cell cell = book_.geometry().key(b_, j);
  const TensorSpec& spec = v_.spec;
  load_row(v_.data, spec.dtype, cell.outer * spec.stride[0] + kv_head_ * spec.stride[1] + cell.row * spec.stride[2], spec.dim[3],
           spec.stride[3], row_.data());
}

void AlibiRows::add(Side& side, int64_t j, int64_t distance, double sign) const {
  const int64_t group = group_of(j);
  if (group < 0) return;
  const auto g = size_t(group);
  load(j);
  const double d = double(distance), w = std::exp(-slope_ * d), stored = sign * w / side.fade;
  const double stored2 = sign * w * w / (side.fade * side.fade);
  double *v = &side.v[g * size_t(width_)], *v2 = &side.v2[g * size_t(width_)], *v1 = &side.v1[g * size_t(width_)];
  for (size_t e = 0; e < row_.size(); ++e)
    v[e] += stored * row_[e], v2[e] += stored2 * row_[e] * row_[e], v1[e] += stored2 * row_[e];
  side.w[g] += stored, side.w2[g] += stored2;
  side.w2d[g] += sign * w * w * d, side.w2d2[g] += sign * w * w * d * d;
  if (sign > 0) side.nearest[g] = j;
}

// Keys up to the diagonal p: p - window_left .. p.
void AlibiRows::forward_to(int64_t p, Side& side, int64_t& at) const {
  while (at < p) {
    ++at;
    step(side);
    if (at >= 0 && at < length_) add(side, at, 0, 1);
    if (const int64_t gone = at - p_.window_left - 1; p_.window_left >= 0 && gone >= 0 && gone < length_)
      add(side, gone, p_.window_left + 1, -1);
  }
}

// Keys after it: p + 1 .. p + window_right.
void AlibiRows::backward_to(int64_t p, Side& side, int64_t& at) const {
  while (at > p) {
    --at;
    if (at + 1 >= 0 && at + 1 < length_) add(side, at + 1, 0, 1);
    step(side);
    if (const int64_t gone = at + p_.window_right + 1; p_.window_right >= 0 && gone >= 0 && gone < length_)
      add(side, gone, p_.window_right + 1, -1);
  }
}

// `farthest`: keys further away than that are not in the sums.
void AlibiRows::weigh(const Side& side, int64_t group, int64_t p, int64_t farthest, Partial& row) const {
  const double* s = &scores_.score[size_t(group) * groups_];
  const std::vector<double>& magnitudes = model_.squares() ? scores_.b2 : scores_.a;
  const double fade2 = side.fade * side.fade;
  for (size_t g = 0; g < groups_; ++g) {
    if (side.nearest[g] < 0 || s[g] == -kInfinity || !(side.w[g] > 0)) continue;
    const double d = std::fabs(double(p - side.nearest[g]));
    if (d > double(farthest)) continue;
    row.largest = std::max(row.largest, s[g] - slope_ * d);
    const double x = std::exp(s[g] - top_[size_t(group)]), a = x * side.fade, a2 = x * x * fade2, w2 = side.w2[g] * fade2;
    const double mean_s2 = w2 > 0 ? s[g] * s[g] + (slope_ * slope_ * side.w2d2[g] - 2 * s[g] * slope_ * side.w2d[g]) / w2 : 0;
    const double qk = model_.qk_variance(magnitudes[size_t(group) * groups_ + g]), s2 = std::max(mean_s2, 0.0);
    // Rounded before the distance is added, and after it.
    const size_t at = size_t(group) * groups_ + g;
    const double square = model_.staged_square(scores_.dot2[at], scores_.kept2[at] + s2);
    const double variance = model_.score_square() * square + qk, e2 = a2 * variance;
    if (model_.squares()) row.square += a * side.w[g] * (magnitudes[size_t(group) * groups_ + g] + scores_.common_b2[size_t(group) * groups_ + g]);
    row.total += a * side.w[g], row.p2 += x * x * w2, row.e2 += x * x * w2 * variance;
    row.lse_score += x * x * w2 * ((model_.u_s * model_.u_s + model_.growth()) * square + qk);
    const double *v = &side.v[g * size_t(width_)], *v2 = &side.v2[g * size_t(width_)], *v1 = &side.v1[g * size_t(width_)];
    for (size_t e = 0; e < size_t(width_); ++e) {
      row.o[e] += a * v[e], row.p2v2[e] += a2 * v2[e], row.p2v[e] += a2 * v1[e];
      row.e2v2[e] += e2 * v2[e], row.e2v[e] += e2 * v1[e];
    }
  }
}

void AlibiRows::run(const Row& row) {
  const Geometry& geometry = book_.geometry();
  const int64_t rows = geometry.length_q(b_), chunks = (rows + kChunkRows - 1) / kChunkRows;
  auto diagonal = [&](int64_t i) { return geometry.diagonal(b_, i); };
  const bool after = p_.window_right != 0;
  // The backward sums at the end of every chunk.
  std::vector<Side> ends;
  if (after) {
    Side side = empty_side();
    int64_t at = std::max(length_ - 1, diagonal(std::max<int64_t>(rows - 1, 0)));
    for (int64_t chunk = chunks; chunk-- > 0;) {
      backward_to(diagonal(std::min(rows, (chunk + 1) * kChunkRows) - 1), side, at);
      ends.push_back(side);
    }
  }
  Side forward = empty_side();
  int64_t forward_at = std::min<int64_t>(-1, rows > 0 ? diagonal(0) - 1 : -1);
  const std::vector<double> none(static_cast<size_t>(width_));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t begin = chunk * kChunkRows, end = std::min(rows, begin + kChunkRows);
    std::vector<Partial> partial(size_t(end - begin), {none, none, none, none, none});
    for (Partial& one : partial) one.largest = -kInfinity;
    auto group = [&](int64_t i) { return book_.query_group(head_, b_, i); };
    for (int64_t i = begin; i < end; ++i) {
      forward_to(diagonal(i), forward, forward_at);
      weigh(forward, group(i), diagonal(i), p_.window_left >= 0 ? p_.window_left : INT64_MAX, partial[size_t(i - begin)]);
    }
    if (after) {
      Side side = std::move(ends[size_t(chunks - 1 - chunk)]);
      int64_t at = diagonal(end - 1);
      for (int64_t i = end; i-- > begin;) {
        backward_to(diagonal(i), side, at);
        weigh(side, group(i), diagonal(i), p_.window_right >= 0 ? p_.window_right : INT64_MAX, partial[size_t(i - begin)]);
      }
    }
    for (int64_t i = begin; i < end; ++i) finish(i, group(i), partial[size_t(i - begin)], row);
  }
}

// What an absolute error of a probability needs: the sums of the values alone.
void AlibiRows::move_plain(Interval keys) {
  auto change = [this](int64_t j, double sign) {
    const int64_t group = group_of(j);
    if (group < 0) return;
    load(j);
    plain_count_ += sign;
    plain_groups_[size_t(group)] += sign;
    for (size_t e = 0; e < row_.size(); ++e) plain_v_[e] += sign * row_[e], plain_v2_[e] += sign * row_[e] * row_[e];
  };
  if (plain_at_.end <= keys.begin && plain_at_.size() == 0) plain_at_ = {keys.begin, keys.begin};
  for (; plain_at_.end < keys.end; ++plain_at_.end) change(plain_at_.end, 1);
  for (; plain_at_.begin < keys.begin; ++plain_at_.begin) change(plain_at_.begin, -1);
}

// Sum of p^power over the far keys whose p is below `least`: of a group that gets there, as many as fade away from then on, on
// both sides of the diagonal.
double AlibiRows::faded(int64_t group, const Partial& row, int64_t keys, int64_t farthest, double least, int power) const {
  const double sides = p_.window_right == 0 ? 1 : 2, bound = std::pow(least, power);
  double sum = 0;
  for (size_t g = 0; g < groups_; ++g) {
    const double p = std::exp(scores_.score[size_t(group) * groups_ + g] - top_[size_t(group)]) / row.total;
    if (plain_groups_[g] <= 0 || p * std::exp(-slope_ * double(farthest)) >= least) continue;
    const double tail = sides * std::pow(std::min(p, least), power) / std::max(1 - std::pow(decay_, power), 1e-12);
    sum += plain_groups_[g] / double(keys) * std::min(tail, double(keys) * bound);
  }
  return std::min(sum, 1.0);
}

void AlibiRows::finish(int64_t place, int64_t group, const Partial& partial, const Row& row) {
  const Interval seen = book_.geometry().keys(b_, place);
  const int64_t p = book_.geometry().diagonal(b_, place);
  move_plain(seen);
  const auto keys = int64_t(plain_count_);
  std::vector<double> o(static_cast<size_t>(p_.head_dim_v)), sigma(o.size(), model_.element_sigma({}, 0));
  if (keys == 0 || partial.total <= 0) return row(place, o.data(), sigma.data(), -kInfinity, 0);
  const double total = partial.total, total2 = total * total, lse = top_[size_t(group)] + std::log(total);
  const double kappa = model_.kappa(partial.largest, lse), eta = model_.eta_p * kappa, theta = model_.theta;
  const int64_t farthest = std::max(p - seen.begin, seen.end - 1 - p);
  const double gone = faded(group, partial, keys, farthest, model_.unsummed_below(kappa, keys), 1);
  const double flushed2 = model_.flush_below > 0 ? faded(group, partial, keys, farthest, model_.flush_below * kappa, 2) : 0;
  const double p2 = partial.p2 / total2, e2 = partial.e2 / total2;
  for (size_t e = 0; e < o.size(); ++e) {
    o[e] = partial.o[e] / total;
    const double p2v2 = partial.p2v2[e] / total2, p2v = partial.p2v[e] / total2, x = theta * o[e];
    const double relative = p2v2 - 2 * x * p2v + x * x * p2, absolute = plain_v2_[e] - 2 * x * plain_v_[e] + x * x * plain_count_;
    sigma[e] = scores_.o_sigma(size_t(group), model_.element_sigma({.o = o[e],
                                     .rounding = model_.u_p * model_.u_p * relative + eta * eta * absolute,
                                     .score = partial.e2v2[e] / total2 - 2 * o[e] * partial.e2v[e] / total2 + o[e] * o[e] * e2,
                                     .p2v2 = p2v2,
                                     .flushed = std::sqrt(flushed2 * std::max(plain_v2_[e], 0.0) / plain_count_),
                                     .coherent = gone * gone,
                                     .kappa = kappa,
                                     .largest_v = Codebook::kLargestValue},
                                    keys));
  }
  const LseSums sums{
      .lse = lse, .p2 = p2, .score = partial.lse_score / total2, .square = partial.square / total, .coherent = gone * gone};
  row(place, o.data(), sigma.data(), lse, scores_.lse_sigma(size_t(group), model_.lse_sigma(sums, keys)));
}

}  // namespace attest::core::codebook
