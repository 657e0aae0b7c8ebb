#include "core/operations/softmax/closed_form/golden/alibi.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/softmax/closed_form/golden/kernels.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core::codebook {
namespace {

constexpr double kLeastFade = 0x1p-100;  // multiplied out below it: a key of now beside one of
                                         // then, squared, must be a number
constexpr int64_t kChunkRows = 1024;

void scale(std::vector<double>& sums, double factor) {
  for (double& x : sums) x *= factor;
}

// sum e^2 (v - o)^2 from the sums of e^2 v^2, e^2 v and e^2.
double moved(double o, double v2, double v1, double v0) {
  return std::max(v2 - 2 * o * v1 + o * o * v0, 0.0);
}

}  // namespace

AlibiRows::AlibiRows(const Codebook& book, const attest_softmax_params& params, const Tensor& v,
                     const HeadScores& scores, const SigmaModel& model, double slope, int64_t b,
                     int64_t head)
    : book_(book),
      p_(params),
      v_(v),
      scores_(scores),
      model_(model),
      slope_(slope),
      b_(b),
      head_(head),
      kv_head_(head / (params.num_heads / params.num_kv_heads)),
      length_(book.geometry().length_kv(b)),
      width_((params.head_dim_v + kLanes - 1) / kLanes * kLanes),
      groups_(size_t(book.key_groups())),
      top_(size_t(book.query_groups())),
      row_(size_t(width_)),
      code_{std::vector<double>(size_t(width_))},
      plain_v_(size_t(width_)),
      plain_v2_(size_t(width_)),
      plain_groups_(groups_) {
  for (size_t h = 0; h < top_.size(); ++h)
    top_[h] = *std::max_element(&scores.score[h * groups_], &scores.score[h * groups_] + groups_);
}

bool AlibiRows::fit(const Problem& problem) {
  return problem.as<attest_softmax_params>().patch_size == 0;
}

AlibiRows::Side AlibiRows::empty_side() const {
  const std::vector<double> none(groups_), wide(groups_ * size_t(kFadingSums * width_));
  return {wide, none, none, none, none, std::vector<int64_t>(groups_, -1)};
}

// What a weight of the side's sums is to a key `from` places away.
double AlibiRows::fade(const Side& side, int64_t from) const {
  return std::exp(-slope_ * double(side.age - from));
}

// Sums as they are now.
void AlibiRows::renew(Side& side) const {
  const double fade = this->fade(side, 0), fade2 = fade * fade, age = double(side.age);
  scale(side.w, fade);
  for (auto* sums : {&side.w2, &side.w2d, &side.w2d2}) scale(*sums, fade2);
  for (size_t g = 0; g < groups_; ++g) {
    fade_sums(fade, age, width_, &side.v[g * size_t(kFadingSums * width_)]);
    side.w2d2[g] += age * (2 * side.w2d[g] + age * side.w2[g]);
    side.w2d[g] += age * side.w2[g];
  }
  side.age = 0;
}

int64_t AlibiRows::group_of(int64_t j) const {
  const int64_t level = book_.levels().of_key(b_, head_, 0, j);
  const uint8_t code = book_.key_code(kv_head_, book_.geometry().key(b_, j));
  return level < 0 || code == Codebook::kUnseen ? -1 : code * book_.levels().key_levels() + level;
}

void AlibiRows::load(int64_t j) const {
  const Cell cell = book_.geometry().key(b_, j);
  const TensorSpec& spec = v_.spec;
  load_row(v_.data, spec.dtype,
           cell.outer * spec.stride[0] + kv_head_ * spec.stride[1] + cell.row * spec.stride[2],
           spec.dim[3], spec.stride[3], row_.data());
}

void AlibiRows::add(Side& side, int64_t j, int64_t distance, double sign) const {
  const int64_t group = group_of(j);
  if (group < 0) return;
  const auto g = size_t(group);
  load(j);
  if (sign > 0 && fade(side, 0) < kLeastFade) renew(side);
  const double d = double(distance - side.age), x = std::exp(-slope_ * d), w = sign * x,
               w2 = sign * x * x;
  add_fading(row_.data(), w, w2, d, width_, &side.v[g * size_t(kFadingSums * width_)]);
  side.w[g] += w;
  side.w2[g] += w2;
  side.w2d[g] += w2 * d;
  side.w2d2[g] += w2 * d * d;
  if (sign > 0) side.nearest[g] = j;
}

// Keys up to the diagonal p: p - window_left .. p.
void AlibiRows::forward_to(int64_t p, Side& side, int64_t& at) const {
  while (at < p) {
    ++at;
    ++side.age;
    if (at >= 0 && at < length_) add(side, at, 0, 1);
    if (const int64_t gone = at - p_.window_left - 1;
        p_.window_left >= 0 && gone >= 0 && gone < length_)
      add(side, gone, p_.window_left + 1, -1);
  }
}

// Keys after it: p + 1 .. p + window_right.
void AlibiRows::backward_to(int64_t p, Side& side, int64_t& at) const {
  while (at > p) {
    --at;
    if (at + 1 >= 0 && at + 1 < length_) add(side, at + 1, 0, 1);
    ++side.age;
    if (const int64_t gone = at + p_.window_right + 1;
        p_.window_right >= 0 && gone >= 0 && gone < length_)
      add(side, gone, p_.window_right + 1, -1);
  }
}

// How far the nearest place is that a row sees.
int64_t AlibiRows::nearest_place(int64_t place) const {
  const Interval seen = book_.geometry().keys(b_, place);
  const int64_t p = book_.geometry().diagonal(b_, place);
  return std::max<int64_t>({0, seen.begin - p, p - (seen.end - 1)});
}

// `farthest`: keys further away than that are not in the sums.
void AlibiRows::weigh(const Side& side, int64_t place, int64_t farthest, Partial& row) {
  const auto group = size_t(book_.query_group(head_, b_, place)),
             levels = size_t(book_.levels().key_levels());
  const int64_t p = book_.geometry().diagonal(b_, place);
  const double *s = &scores_.score[group * groups_], near = fade(side, nearest_place(place));
  bool any = false;
  for (size_t code = 0; code < groups_; code += levels) {
    code_.p = 0;
    for (size_t g = code; g < code + levels; ++g) {
      if (side.nearest[g] < 0 || s[g] == -kInfinity || !(side.w[g] > 0)) continue;
      if (std::abs(p - side.nearest[g]) > farthest) continue;
      weigh_group(side, group * groups_ + g, g, std::exp(s[g] - top_[group]) * near, p, row);
    }
    if (code_.p > 0) {
      share(group * groups_ + code, row);
      any = true;
    }
  }
  row.sides += any;
}

// Keys of one score, each with the weight x on this side.
void AlibiRows::weigh_group(const Side& side, size_t at, size_t g, double x, int64_t p,
                            Partial& row) {
  const double s = scores_.score[at], x2 = x * x, w2 = side.w2[g], age = double(side.age);
  row.largest = std::max(row.largest, s - slope_ * double(std::abs(p - side.nearest[g])));
  // (s - slope d)^2, d = age + what the sums have, is what the addition rounds.
  const double rounding = model_.u_s * model_.u_s, now = s - slope_ * age;
  const double last = std::max(
      now * now * w2 - 2 * now * slope_ * side.w2d[g] + slope_ * slope_ * side.w2d2[g], 0.0);
  const double e2 = x2 * (rounding / 3 * now * now + scores_.lone_variance[at]);
  const Fading fading{.x = x,
                      .e2 = e2,
                      .e2d = -2 * x2 * rounding / 3 * now * slope_,
                      .e2d2 = x2 * rounding / 3 * slope_ * slope_};
  row.at_cap += x * side.w[g] * scores_.at_cap[at];
  row.mean_dot += x * side.w[g] * std::sqrt(scores_.dot2[at]);
  if (model_.squares()) row.square += x * side.w[g] * (scores_.b2[at] + scores_.common_b2[at]);
  row.total += x * side.w[g];
  row.p2 += x2 * w2;
  row.e2 += x2 * (rounding / 3 * last + scores_.lone_variance[at] * w2);
  row.lse_score += x2 * rounding * last;
  if (code_.p == 0) std::fill(code_.v.begin(), code_.v.end(), 0.0);
  code_.p += x * side.w[g];
  weigh_fading(fading, &side.v[g * size_t(kFadingSums * width_)], width_, code_.v.data(),
               row.sums.data());
}

// What the keys of a code err by together, before their distances are added. The addition of a
// level's term is taken for theirs all too.
void AlibiRows::share(size_t at, Partial& row) const {
  const auto most = [at, levels = size_t(book_.levels().key_levels())](const auto& of) {
    return *std::max_element(&of[at], &of[at] + levels);
  };
  const double e2 = scores_.shared_variance[at] + most(scores_.added_variance),
               lse_e2 = scores_.shared_lse_variance[at] + most(scores_.added_lse_variance);
  row.shared += e2 * code_.p * code_.p;
  row.lse_shared += lse_e2 * code_.p * code_.p;
  share_fading(e2, code_.p, code_.v.data(), width_, row.sums.data());
}

void AlibiRows::run(const Row& row) {
  const Geometry& geometry = book_.geometry();
  const int64_t rows = geometry.length_q(b_), chunks = (rows + kChunkRows - 1) / kChunkRows;
  auto diagonal = [&](int64_t i) { return geometry.diagonal(b_, i); };
  const bool after = p_.window_right != 0;
  std::vector<Side> ends;  // the backward sums at the end of every chunk
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
  const std::vector<double> none(size_t(kFadedSums * width_));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t begin = chunk * kChunkRows, end = std::min(rows, begin + kChunkRows);
    std::vector<Partial> partial(size_t(end - begin), {none});
    for (Partial& one : partial) one.largest = -kInfinity;
    for (int64_t i = begin; i < end; ++i) {
      forward_to(diagonal(i), forward, forward_at);
      weigh(forward, i, p_.window_left >= 0 ? p_.window_left : INT64_MAX,
            partial[size_t(i - begin)]);
    }
    if (after) {
      Side side = std::move(ends[size_t(chunks - 1 - chunk)]);
      int64_t at = diagonal(end - 1);
      for (int64_t i = end; i-- > begin;) {
        backward_to(diagonal(i), side, at);
        weigh(side, i, p_.window_right >= 0 ? p_.window_right : INT64_MAX,
              partial[size_t(i - begin)]);
      }
    }
    for (int64_t i = begin; i < end; ++i)
      finish(i, book_.query_group(head_, b_, i), partial[size_t(i - begin)], row);
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
    for (size_t e = 0; e < row_.size(); ++e) {
      plain_v_[e] += sign * row_[e];
      plain_v2_[e] += sign * row_[e] * row_[e];
    }
  };
  if (plain_at_.end <= keys.begin && plain_at_.size() == 0) plain_at_ = {keys.begin, keys.begin};
  for (; plain_at_.end < keys.end; ++plain_at_.end) change(plain_at_.end, 1);
  for (; plain_at_.begin < keys.begin; ++plain_at_.begin) change(plain_at_.begin, -1);
}

// The keys of a row that have a p below `least`, if each group stands evenly in what it sees.
AlibiRows::Below AlibiRows::below(int64_t group, int64_t place, double total, double least) const {
  const Interval seen = book_.geometry().keys(b_, place);
  const int64_t p = book_.geometry().diagonal(b_, place);
  const double nearest = double(nearest_place(place));
  // Sum of first e^(-rate n) over n = 0 .. count - 1
  const auto fading = [](double first, double rate, double count) {
    return first * (rate > 0 ? std::expm1(-rate * count) / std::expm1(-rate) : count);
  };
  Below sums;
  for (size_t g = 0; g < groups_; ++g) {
    const double largest =
        std::exp(scores_.score[size_t(group) * groups_ + g] - top_[size_t(group)]) / total;
    if (plain_groups_[g] <= 0 || largest <= 0 || (largest >= least && slope_ <= 0)) continue;
    const double share = plain_groups_[g] / double(seen.size()),
                 from = nearest + (largest < least ? 0 : std::log(largest / least) / slope_);
    const auto add_side = [&](double begin, int64_t end) {
      const double count = std::max(double(end) - begin, 0.0),
                   first = largest * std::exp(-slope_ * (begin - nearest));
      sums.keys += share * count;
      sums.p += share * fading(first, slope_, count);
      sums.p2 += share * fading(first * first, 2 * slope_, count);
    };
    add_side(from, p + 1 - seen.begin);
    add_side(std::max(from, 1.0), seen.end - p);  // without the diagonal's key
  }
  return sums;
}

void AlibiRows::finish(int64_t place, int64_t group, const Partial& partial, const Row& row) {
  const Interval seen = book_.geometry().keys(b_, place);
  move_plain(seen);
  const auto keys = int64_t(plain_count_);
  std::vector<double> o(size_t(p_.head_dim_v)), sigma(o.size(), model_.element_sigma({}, 0));
  if (keys == 0 || partial.total <= 0) return row(place, o.data(), sigma.data(), -kInfinity, 0);
  const double total = partial.total, total2 = total * total,
               lse = top_[size_t(group)] - slope_ * double(nearest_place(place)) + std::log(total);
  const auto under = [&](double least) { return below(group, place, total, least); };
  const double kappa = model_.kappa(partial.largest, lse), eta = model_.eta_p * kappa,
               theta = model_.theta;
  const double gone = std::min(under(model_.unsummed_below(partial.largest, lse, keys)).p, 1.0);
  const double largest_p = std::min(std::exp(partial.largest - lse), 1.0),
               rest = model_.rest(gone, largest_p, keys);
  const double flush_below = model_.flush_below * (1 + model_.flush_apart) * kappa;
  const Below flushed = flush_below > 0 ? under(flush_below) : Below();
  const SigmaModel::Flushing flushing = model_.flushing(kappa, keys);
  const double cut_keys = flushing.cut > 0 && flushing.below > flushing.gone
                              ? under(flushing.below).keys - under(flushing.gone).keys
                              : 0;
  // (x + y)^2 <= 2 x^2 + 2 y^2: what one code has on both sides errs alike.
  const double p2 = partial.p2 / total2, sides = double(partial.sides);
  const double rounding = 2 * (model_.u_p * model_.u_p * p2 + eta * eta * plain_count_);
  const double score_error = scores_.largest_error[size_t(group)];  // however far its keys are
  auto sum = [&](FadedSum which, size_t e) { return partial.sums[size_t(which * width_) + e]; };
  for (size_t e = 0; e < o.size(); ++e) {
    o[e] = sum(kOutput, e) / total;
    const double p2v2 = sum(kP2V2, e) / total2, p2v = sum(kP2V, e) / total2, x = theta * o[e];
    const double relative = p2v2 - 2 * x * p2v + x * x * p2,
                 absolute = plain_v2_[e] - 2 * x * plain_v_[e] + x * x * plain_count_;
    // Their values are those of any keys: a mean, and what is random about them.
    const double mean = plain_v_[e] / plain_count_, mean_square = plain_v2_[e] / plain_count_,
                 spread = std::max(mean_square - mean * mean, 0.0),
                 together = (flushed.p + flushing.cut * cut_keys) * mean,
                 apart = (flushed.p2 + flushing.cut * flushing.cut * cut_keys) * spread,
                 lost = together * together + apart;
    const double lone = moved(o[e], sum(kE2V2, e), sum(kE2V, e), partial.e2);
    const double shared = moved(o[e], sum(kShared2, e), sum(kShared1, e), partial.shared);
    sigma[e] =
        model_.element_sigma({.o = o[e],
                              .rounding = model_.u_p * model_.u_p * relative + eta * eta * absolute,
                              .score = (lone + sides * shared) / total2,
                              .p2v2 = p2v2,
                              .p2 = p2,
                              .flushed = std::sqrt(lost),
                              .resummed = rounding,
                              .lost = model_.lost_of_rest(gone, rest),
                              .stalled = gone,
                              .rest = rest,
                              .top = largest_p,
                              .at_cap = partial.at_cap / total,
                              .kappa = kappa,
                              .largest_v = Codebook::kLargestValue,
                              .lse = lse},
                             keys);
    if (score_error > 0) sigma[e] = std::hypot(sigma[e], scores_.any_average(model_));
  }
  const LseSums sums{.lse = lse,
                     .rounding = rounding,
                     .score = (partial.lse_score + sides * partial.lse_shared) / total2,
                     .square = partial.square / total,
                     .mean_dot = partial.mean_dot / total,
                     .lost = model_.lost_of_lse(gone, rest),
                     .stalled = gone,
                     .at_cap = partial.at_cap / total};
  const double lse_sigma = std::hypot(model_.lse_sigma(sums, keys), 2 * score_error);
  row(place, o.data(), sigma.data(), lse, lse_sigma);
}

}  // namespace attest::core::codebook
