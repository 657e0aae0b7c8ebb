#include "core/operations/softmax/closed_form/golden/rows.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/operations/softmax/closed_form/golden/kernels.hpp"
#include "core/operations/softmax/closed_form/value_sizes.hpp"
#include "core/operations/softmax/sigma/phases.hpp"
#include "core/operations/softmax/sigma/weight_errors.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core::codebook {
namespace {

// `vectors` as float64 after one rounding to `dtype`: what lies in memory.
std::vector<double> stored(const std::vector<float>& vectors, DType dtype) {
  const auto count = int64_t(vectors.size());
  std::vector<uint64_t> memory(vectors.size());
  std::vector<double> values(vectors.size());
  store_row(memory.data(), dtype, 0, count, 1, vectors.data());
  load_row(memory.data(), dtype, 0, count, 1, values.data());
  return values;
}

int64_t count_distinct(const std::vector<double>& vectors, size_t width) {
  std::set<std::vector<double>> seen;
  for (auto at = vectors.begin(); at != vectors.end(); at += std::ptrdiff_t(width))
    seen.emplace(at, at + std::ptrdiff_t(width));
  return int64_t(seen.size());
}

}  // namespace

constexpr double kSmallError = 1e-4;  // of a score

HeadScores::HeadScores(const Codebook& book, const attest_softmax_params& p, int64_t head,
                       DType q_dtype, DType k_dtype) {
  const auto queries = size_t(book.query_codes()), codes = size_t(book.key_codes()),
             head_dim = size_t(p.head_dim);
  const std::vector<double> q = stored(book.queries(head), q_dtype),
                            k = stored(book.keys(head / (p.num_heads / p.num_kv_heads)), k_dtype);
  distinct_queries_ = count_distinct(q, head_dim);
  const double scale = double(p.softmax_scale), cap = double(p.softcap);
  const auto groups = size_t(book.key_groups()),
             query_levels = size_t(book.levels().query_levels()),
             key_levels = size_t(book.levels().key_levels());
  query_groups_ = size_t(book.query_groups());
  for (size_t g = 0; g < groups; ++g) {
    localised.push_back(book.localised(int64_t(g / key_levels)));
    largest_of_.push_back(largest_value_of(book, int64_t(g / key_levels)));
  }
  huge_ = book.kind() == Codebook::Kind::kHuge;
  keys_ = p.seq_len_kv;
  largest_value_ = book.largest_value();
  rises_ = book.kind() == Codebook::Kind::kRising;
  large_scores_ = huge_ || rises_;
  for (auto* table : {&score, &a, &b2, &dot2, &kept2, &added2, &common_b2, &own_dot2})
    table->resize(size_t(book.query_groups()) * groups);
  if (cap > 0) {
    cap_ = cap;
    uncapped.resize(score.size());
    uncapped_b2.resize(score.size());
  }
  for (size_t h = 0; h < queries; ++h) {
    for (size_t g = 0; g < codes; ++g) {
      double dot = 0, sum = 0, squares = 0;
      // All keys have the same power of two in channel 0: a rounded operand moves their scores
      // together.
      const double common = huge_ ? q[h * head_dim] * k[g * head_dim] : 0;
      for (size_t c = 0; c < head_dim; ++c) {
        const double product = q[h * head_dim + c] * k[g * head_dim + c];
        dot += product;
        sum += std::fabs(product);
        squares += product * product;
      }
      const double bent = cap > 0 ? std::tanh(scale * dot / cap) : 0,
                   slope = 1 - bent * bent;  // what softcap leaves of an error
      for (size_t m = 0; m < query_levels; ++m)
        for (size_t n = 0; n < key_levels; ++n) {
          const size_t at = (h * query_levels + m) * groups + g * key_levels + n;
          const double capped = cap > 0 ? cap * bent : scale * dot;
          if (cap > 0) {
            uncapped[at] = scale * dot;
            uncapped_b2[at] = scale * scale * std::max(squares - common * common, 0.0);
          }
          score[at] = capped + book.levels().term(int64_t(m), int64_t(n));
          dot2[at] = scale * dot * scale * dot * slope * slope;
          own_dot2[at] = scale * (dot - common) * scale * (dot - common) * slope * slope;
          common_b2[at] = scale * scale * slope * slope * common * common;
          kept2[at] = dot2[at] + (cap > 0 ? capped * capped : 0);
          added2[at] = score[at] != capped && score[at] > -kInfinity ? score[at] * score[at] : 0;
          a[at] = std::fabs(scale) * slope * sum;
          b2[at] = scale * scale * slope * slope * std::max(squares - common * common, 0.0);
        }
    }
  }
}

void HeadScores::declare(const SigmaModel& model) {
  const double linear = huge_ ? SigmaModel::kLinearIfLarge : SigmaModel::kLinear;
  const size_t groups = kept2.size() / std::max<size_t>(query_groups_, 1);
  error.assign(score.size(), 0.0);
  largest_error.assign(query_groups_, 0.0);
  too_large.resize(groups);
  for (size_t g = 0; g < groups; ++g) too_large[g] = largest_of_[g] > model.largest_v;
  for (auto* table : {&shared_variance, &shared_lse_variance, &added_variance, &added_lse_variance,
                      &lone_variance, &at_cap})
    table->resize(score.size());
  const double rounding = model.u_s * model.u_s, bias = model.scale_bias * model.scale_bias;
  // Where all scores are large, so are the sums of dot products from the first products on.
  const double uneven = large_scores_ ? SigmaModel::kUneven : 1, growth = model.growth() * uneven;
  // "rising" has all of it in RowExpectation::prefix.
  const double rescale = model.needs_prefix() && !rises_ ? model.rescale * model.rescale : 0;
  for (size_t i = 0; i < score.size(); ++i) {
    const double magnitude = model.squares() ? b2[i] : a[i];
    const double of_operands = model.qk_variance(magnitude);
    const double qk =
        model.coarse_scores && cap_ > 0 ? capped_variance(i, of_operands, model) : of_operands;
    shared_variance[i] = rounding / 3 * kept2[i] + growth * dot2[i] + bias * own_dot2[i] + qk;
    shared_lse_variance[i] = rounding * kept2[i] + growth * dot2[i] + qk;
    at_cap[i] = cap_ > 0 && model.is_at_cap(1 - std::pow(std::tanh(uncapped[i] / cap_), 2)) ? 1 : 0;
    added_variance[i] = rounding / 3 * added2[i];
    added_lse_variance[i] = rounding * added2[i];
    // Codes that are spread evenly reach their prefixes in a random walk: each key adds its own
    // part of the variance.
    lone_variance[i] = model.accumulation_variance(uneven * dot2[i], magnitude) + rescale;
    if (!(large_scores_ || model.coarse_scores) || score[i] == -kInfinity) continue;
    double all = std::sqrt(shared_variance[i] + added_variance[i]);
    // Where a query is all zeros, so many equal weights are added that a coarse sum stops growing.
    if (huge_) all = std::max(all, model.u_acc * model.chain(keys_));
    if (all <= linear) continue;
    error[i] = all;
    largest_error[i / groups] = std::max(largest_error[i / groups], all);
  }
}

double HeadScores::capped_variance(size_t at, double variance, const SigmaModel& model) const {
  constexpr int kSigmas = 3;
  const double x = uncapped[at] / cap_, bent = std::tanh(x);
  const double apart = std::sqrt(model.qk_variance(uncapped_b2[at])) / cap_;
  // Beyond the bend an error of three sigmas may move the score by more than three times one's.
  for (int n = 1; n <= kSigmas; ++n) {
    const double down = bent - std::tanh(x - n * apart), up = std::tanh(x + n * apart) - bent;
    const double sigma = cap_ * std::max(down, up) / n;
    variance = std::max(variance, sigma * sigma);
  }
  return variance;
}

GroupSums::GroupSums(const Codebook& book, const Tensor& v, int64_t b, int64_t head,
                     int64_t kv_head, int64_t place)
    : book_(book),
      v_(v),
      b_(b),
      head_(head),
      kv_head_(kv_head),
      place_(place),
      width_(width_of(v.spec.dim[3])),
      count_(size_t(book.key_groups())),
      sum_(size_t(book.key_groups() * width_)),
      squares_(sum_.size()),
      row_(size_t(width_)) {}

int64_t GroupSums::width_of(int64_t head_dim_v) {
  return (head_dim_v + kLanes - 1) / kLanes * kLanes;
}

void GroupSums::move_to(Interval to) {
  if (to.begin >= at_.end) clear(to.begin);
  for (; at_.begin < to.begin; ++at_.begin) add(at_.begin, -1);
  for (; at_.end < to.end; ++at_.end) add(at_.end, 1);
}

void GroupSums::gather(int64_t i, Interval keys) {
  clear(keys.begin);
  const auto width = size_t(width_);
  if (keys.begin != kept_.begin || keys.end != kept_.end) {
    kept_ = keys;
    kept_codes_.resize(size_t(keys.size()));
    kept_rows_.resize(kept_codes_.size() * width);
    for (size_t n = 0; n < kept_codes_.size(); ++n)
      read(keys.begin + int64_t(n), kept_codes_[n], &kept_rows_[n * width]);
  }
  for (size_t n = 0; n < kept_codes_.size(); ++n) {
    const int64_t level = book_.levels().of_key(b_, head_, i, keys.begin + int64_t(n));
    if (level >= 0) add(kept_codes_[n], level, &kept_rows_[n * width], 1);
  }
}

void GroupSums::clear(int64_t place) {
  for (auto* sums : {&count_, &sum_, &squares_}) std::fill(sums->begin(), sums->end(), 0.0);
  at_ = {place, place};
}

// Where levels are of keys and patterns.
void GroupSums::add(int64_t j, double sign) {
  const int64_t level = book_.levels().of_key(b_, head_, place_, j);
  if (level < 0) return;
  int64_t code = 0;
  read(j, code, row_.data());
  add(code, level, row_.data(), sign);
}

void GroupSums::add(int64_t code, int64_t level, const double* row, double sign) {
  const auto group = size_t(code * book_.levels().key_levels() + level);
  codebook::add(row, sign, width_, &sum_[group * size_t(width_)],
                &squares_[group * size_t(width_)]);
  count_[group] += sign;
}

// The code of key place j, and its values.
void GroupSums::read(int64_t j, int64_t& code, double* row) const {
  const Cell cell = book_.geometry().key(b_, j);
  const TensorSpec& spec = v_.spec;
  code = book_.key_code(kv_head_, cell);
  load_row(v_.data, spec.dtype,
           cell.outer * spec.stride[0] + kv_head_ * spec.stride[1] + cell.row * spec.stride[2],
           spec.dim[3], spec.stride[3], row);
}

RowExpectation::RowExpectation(const SigmaModel& model, const HeadScores& scores, int64_t codes,
                               int64_t levels, int64_t head_dim_v, int64_t width, double sink)
    : model_(model),
      scores_(scores),
      codes_(size_t(codes)),
      levels_(size_t(levels)),
      head_dim_v_(head_dim_v),
      sink_(sink),
      count_(codes_ + 1),
      p_(codes_ + 1),
      a2_(codes_),
      e2_(codes_),
      lone2_(codes_),
      shared2_(codes_ / levels_),
      o_(size_t(width)),
      rounding_(o_.size()),
      score_(o_.size()),
      p2v2_(o_.size()),
      flushed_(o_.size()),
      unsure_(o_.size()),
      zone_(o_.size()) {}

void RowExpectation::compute(const GroupSums& sums, size_t h, double* o, double* o_sigma,
                             double* lse, double* lse_sigma) {
  const double *s = &scores_.score[h * codes_], *count = count_.data();
  double top = -kInfinity, total = 0;
  int64_t keys = 0;
  for (size_t g = 0; g < codes_; ++g) {
    count_[g] = s[g] > -kInfinity ? sums.count()[g] : 0;
    if (count[g] > 0) {
      top = std::max(top, s[g]);
      keys += int64_t(count[g]);
    }
  }
  const double largest = top;
  count_[codes_] = keys > 0 && sink_ > -kInfinity ? 1 : 0;
  if (count_[codes_] > 0) top = std::max(top, sink_);
  lead_variance_ = keys > 0 ? model_.lead_variance(top - largest) : 0;
  p_[codes_] = count_[codes_] > 0 ? std::exp(sink_ - top) : 0;
  total += p_[codes_];
  for (size_t g = 0; g < codes_; ++g) {
    p_[g] = count[g] > 0 ? std::exp(s[g] - top) : 0;
    total += count[g] * p_[g];
  }
  *lse = keys > 0 ? top + std::log(total) : -kInfinity;
  *lse_sigma = keys > 0 ? weigh_codes(count, h, total, top, *lse, keys) : 0;
  if (keys == 0) {  // nothing is left of the row before
    p2_ = lost_ = stalled_ = top_ = rounding_sum_ = repeated_ = sink_error_ = at_cap_ = 0;
    rest_ = 1;
    for (auto* weights : {&a2_, &e2_, &lone2_, &shared2_})
      std::fill(weights->begin(), weights->end(), 0.0);
  }
  const Groups groups{.codes = int64_t(codes_),
                      .levels = int64_t(levels_),
                      .width = sums.width(),
                      .sum = sums.sum(),
                      .squares = sums.squares(),
                      .count = count,
                      .p = p_.data(),
                      .a2 = a2_.data(),
                      .e2 = e2_.data(),
                      .lone2 = lone2_.data(),
                      .shared2 = shared2_.data(),
                      .theta = model_.theta};
  weigh(groups, o_.data(), rounding_.data(), score_.data(), p2v2_.data());
  const double kappa = keys > 0 ? model_.kappa(top, *lse) : 0;
  find_bent(s, top);
  find_unsure(h);
  if (keys > 0) *lse_sigma = std::hypot(*lse_sigma, 2 * unsure_error_);
  const double as_kept = keys > 0 && !model_.normalised_first
                             ? total
                             : 1;  // what it is multiplied by when it is flushed
  add_flushed(sums, as_kept);
  const double lost_beside_top = model_.lost_beside_top(stalled_, top_, keys);
  for (int64_t e = 0; e < head_dim_v_; ++e) {
    const auto i = size_t(e);
    o[i] = o_[i];
    const double score =
        score_[i] + (repeated_ + sink_error_) * o_[i] * o_[i] + bent_variance(sums, i);
    const double linear =
        model_.element_sigma({.o = o_[i],
                              .rounding = rounding_[i],
                              .score = score,
                              .p2v2 = p2v2_[i],
                              .p2 = p2_,
                              .flushed = flushed_[i],
                              .unsure = unsure_[i],
                              .prefix = model_.needs_prefix() ? prefix(sums, i) : 0,
                              .resummed = rounding_sum_,
                              .leaning = leaning(sums, i),
                              .lost = lost_,
                              .lost_beside_top = lost_beside_top,
                              .stalled = stalled_,
                              .rest = rest_,
                              .top = top_,
                              .at_cap = at_cap_,
                              .kappa = kappa,
                              .largest_v = scores_.largest_value(),
                              .lse = keys > 0 ? *lse : 0},
                             keys);
    o_sigma[i] = std::hypot(linear, unsure_sigma(sums, i));
  }
}

// From exp(s - top) in p_ to the weights of one key of each code; returns the sigma of the lse.
double RowExpectation::weigh_codes(const double* count, size_t h, double total, double top,
                                   double lse, int64_t keys) {
  const double* lone_variance = &scores_.lone_variance[h * codes_];
  const double eta = model_.eta_p * model_.kappa(top, lse);
  LseSums sums{.lse = lse};
  p2_ = 0;
  for (size_t g = 0; g < codes_; ++g) {
    p_[g] /= total;
    const double a = model_.u_p * p_[g] + eta, of_group = count[g] * p_[g];
    a2_[g] = scores_.score[h * codes_ + g] > -kInfinity ? a * a : 0;
    lone2_[g] = p_[g] * p_[g] * lone_variance[g];
    sums.rounding += count[g] * count[g] * a * a;
    p2_ += of_group * p_[g];
    sums.at_cap += of_group * scores_.at_cap[h * codes_ + g];
    if (model_.squares()) sums.square += of_group * scores_.common_square(h * codes_ + g);
    if (model_.scale_bias > 0) sums.mean_dot += of_group * std::sqrt(scores_.dot2[h * codes_ + g]);
  }
  share_errors(count, h, sums);
  if (model_.needs_prefix()) sums.rescales = 1 + count_later(count);
  p_[codes_] /= total;
  add_sink(sums);
  repeated_ = repeated_variance(p_, count_, model_.u_acc, model_.chain(keys),
                                double(keys) + count_[codes_], total);
  sums.score += repeated_;
  top_ = *std::ranges::max_element(p_);
  const double flushed = lost_mass(count, total, model_.normalised_first ? total : 1);
  rest_ = model_.rest(flushed, top_, keys);
  lost_ = model_.lost_of_rest(flushed, rest_);
  stalled_ = 0;
  for (size_t g = 0; g < codes_; ++g)
    stalled_ += p_[g] < model_.absorbed_below(keys) ? count[g] * p_[g] : 0;
  sums.lost = model_.lost_of_lse(flushed, rest_);
  sums.stalled = stalled_;
  find_code_errors(count, keys > 0 && model_.leans() ? model_.kappa(top, lse) : 0);
  sums.leaning_variance = model_.leaning_of_normaliser(leaning_of_normaliser_, sums.rounding);
  rounding_sum_ = sums.rounding + sums.leaning_variance;
  at_cap_ = sums.at_cap;
  return model_.lse_sigma(sums, keys);
}

// What groups err by together: e2_ where they are alone, shared2_ for those of one code.
void RowExpectation::share_errors(const double* count, size_t h, LseSums& sums) {
  const size_t first = h * codes_;
  for (size_t code = 0; code < shared2_.size(); ++code) {
    double of_code = 0;
    for (size_t g = code * levels_; g < (code + 1) * levels_; ++g) {
      const double of_group = count[g] * p_[g];
      e2_[g] = p_[g] * p_[g] *
               (scores_.added_variance[first + g] + lead_variance_ +
                (levels_ == 1 ? scores_.shared_variance[first + g] : 0));
      of_code += of_group;
      sums.score += of_group * of_group * scores_.added_lse_variance[first + g];
    }
    shared2_[code] = scores_.shared_variance[first + code * levels_];
    sums.score += of_code * of_code * scores_.shared_lse_variance[first + code * levels_];
  }
}

// A key like another one, whose value is 0: only terms of o are left of it.
void RowExpectation::add_sink(LseSums& sums) {
  sink_error_ = 0;
  if (count_[codes_] == 0) return;
  const double p2 = p_[codes_] * p_[codes_], square = sink_ * sink_;
  sink_error_ = p2 * (square * model_.score_square() + model_.theta * model_.u_p * model_.u_p / 3);
  sums.rounding += model_.u_p * model_.u_p * p2;
  sums.score += (model_.u_s * model_.u_s + model_.growth()) * p2 * square;
}

// A probability is flushed as it is kept: before it is divided by `total`, unless normalised first
// (total 1).
void RowExpectation::add_flushed(const GroupSums& sums, double total) {
  for (auto* what : {&flushed_, &unsure_, &zone_}) std::fill(what->begin(), what->end(), 0.0);
  if (model_.flush_below <= 0) return;
  const double lost = model_.flush_below * (1 - model_.flush_apart),
               kept = model_.flush_below * (1 + model_.flush_apart);
  for (size_t g = 0; g < codes_; ++g) {
    if (count_[g] == 0 || p_[g] * total >= std::max(kept, model_.cut_below)) continue;
    const bool is_lost = p_[g] * total < lost;
    const double *sum = &sums.sum()[g * flushed_.size()],
                 *squares = &sums.squares()[g * flushed_.size()];
    if (p_[g] * total >= kept) {
      for (size_t e = 0; e < flushed_.size(); ++e) flushed_[e] += model_.cut_step / total * sum[e];
      continue;
    }
    for (size_t e = 0; e < flushed_.size(); ++e) {
      const double of_group = p_[g] * sum[e];
      (is_lost ? flushed_ : zone_)[e] += of_group;
      unsure_[e] +=
          is_lost ? model_.flushed_apart * p_[g] * p_[g] * squares[e] : of_group * of_group;
    }
  }
  for (size_t e = 0; e < flushed_.size(); ++e)
    flushed_[e] = std::max(std::fabs(flushed_[e]), std::fabs(flushed_[e] + zone_[e]));
}

// What a normaliser lacks that sums rounded probabilities, or whose sums are flushed. Before they
// are divided by `total`, probabilities are exp(s - maximum); when they are rounded they are
// already divided by `divided_by`.
double RowExpectation::lost_mass(const double* count, double total, double divided_by) const {
  double mass = 0;
  const double from =
      std::max(model_.sums_rounded ? model_.flush_below * divided_by : 0, model_.sums_from);
  for (size_t g = 0; g < codes_ && from > 0; ++g)
    if (p_[g] * total < from * (1 + model_.flush_apart)) mass += count[g] * p_[g];
  return mass;
}

// Marks have one key each. Those that weigh more than a code may all come after its keys. Returns
// their mean number over the weights.
double RowExpectation::count_later(const double* count) {
  later_.assign(codes_, 0.0);
  if (!scores_.rises()) return 0;
  marks_.clear();
  for (size_t g = 0; g < codes_; ++g)
    if (scores_.localised[g] && count[g] > 0) marks_.push_back(p_[g]);
  std::ranges::sort(marks_);
  double mean = 0;
  for (size_t g = 0; g < codes_; ++g) {
    later_[g] = double(marks_.end() - std::ranges::upper_bound(marks_, p_[g]));
    mean += count[g] * p_[g] * later_[g];
  }
  return mean;
}

// Keys of one code round alike, and so do codes whose p are nearly equal. `kappa`: 0 if the row has
// no such errors. Codes without keys have a p of 0, which does not err.
void RowExpectation::find_code_errors(const double* count, double kappa) {
  code_errors_.resize(kappa > 0 ? size_t(kTriedMaxima) : 0);
  own_errors_.resize(codes_);
  leaning_of_normaliser_ = 0;
  for (size_t n = 0; n < code_errors_.size(); ++n) {
    CodeErrors& errors = code_errors_[n];
    errors.of_operands.resize(codes_);
    find_weight_errors(model_, unit_beside(model_, kappa, int(n)), p_.data(), int64_t(codes_),
                       own_errors_.data(), errors.of_operands.data());
    errors.sum = 0;
    double of_normaliser = 0;
    for (size_t g = 0; g < codes_; ++g) {
      errors.sum += count[g] * errors.of_operands[g];
      of_normaliser += count[g] * own_errors_[g];
    }
    leaning_of_normaliser_ = std::max(leaning_of_normaliser_, std::fabs(of_normaliser));
  }
}

// The largest |sum of dp (v - theta o)| over keys, beside any maximum.
double RowExpectation::leaning(const GroupSums& sums, size_t element) const {
  double most = 0;
  for (const CodeErrors& errors : code_errors_) {
    double sum = -model_.theta * o_[element] * errors.sum;
    for (size_t g = 0; g < codes_; ++g)
      sum += errors.of_operands[g] * sums.sum()[g * o_.size() + element];
    most = std::max(most, std::fabs(sum));
  }
  return most;
}

// An error of a score multiplies its weight by as much as this.
double most_of(double error) { return std::expm1(std::min(SigmaModel::kGate * error, 700.0)); }

// Codes that weigh nothing do not count, unless they may weigh something by their error.
void RowExpectation::find_unsure(size_t h) {
  constexpr double kNothing = 1e-3;
  unsure_codes_.clear();
  unsure_error_ = 0;
  saturated_ = false;
  // If the score of the heaviest code errs, the others gain or lose weight beside it.
  size_t heaviest = 0;
  double largest = 0;
  for (size_t g = 0; g < codes_; ++g)
    if (count_[g] > 0 && p_[g] > largest) {
      heaviest = g;
      largest = p_[g];
    }
  const double common = scores_.error[h * codes_ + heaviest];
  for (size_t g = 0; g < codes_; ++g) {
    const double own = scores_.error[h * codes_ + g],
                 error = g == heaviest ? own : std::hypot(own, common);
    saturated_ |= scores_.too_large[g] && count_[g] > 0 && p_[g] > SigmaModel::kWeightless;
    if (error == 0 || count_[g] * p_[g] * most_of(error) < kNothing) continue;
    unsure_codes_.push_back({g, error});
    unsure_error_ = std::max(unsure_error_, error);
  }
}

// Sigma is linear in the error of scores. Where that is large, an output may be as far off as its
// weights may grow; at most it is another average of the values.
double RowExpectation::unsure_sigma(const GroupSums& sums, size_t element) const {
  const double any_average = scores_.any_average(model_);
  if (saturated_) return any_average;
  double most = 0;
  for (const auto& [g, error] : unsure_codes_) {
    const double of_code = sums.sum()[g * o_.size() + element] - count_[g] * o_[element];
    most += p_[g] * std::fabs(of_code) * most_of(error) / SigmaModel::kGate;
  }
  return std::min(most, any_average);
}

// Scores that a softcap bends to nearly one number are rounded to the same side.
void RowExpectation::find_bent(const double* s, double top) {
  bent_.clear();
  bent_error_ = model_.u_s * std::fabs(top);
  if (!scores_.rises() || !scores_.has_softcap()) return;
  if (bent_error_ < kSmallError || bent_error_ == kInfinity) return;
  for (size_t g = 0; g < codes_; ++g)
    if (count_[g] > 0 && s[g] > top - 2 * bent_error_) bent_.push_back(g);
}

double RowExpectation::bent_variance(const GroupSums& sums, size_t element) const {
  double together = 0;
  for (const size_t g : bent_)
    together += p_[g] * (sums.sum()[g * o_.size() + element] - count_[g] * o_[element]);
  return together == 0 ? 0 : bent_error_ * bent_error_ / 3 * together * together;
}

// Codes whose keys stand together reach a prefix all at once; so does any code of "rising", whose
// prefixes end at marks. The others do so in a random walk: HeadScores::declare.
double RowExpectation::prefix(const GroupSums& sums, size_t element) const {
  double most = 0;
  for (size_t g = 0; g < codes_; ++g)
    if ((scores_.localised[g] || scores_.rises()) && count_[g] > 0) {
      const double of_code = sums.sum()[g * o_.size() + element] - count_[g] * o_[element];
      most += (1 + later_[g]) * p_[g] * std::fabs(of_code);
    }
  return most;
}

namespace {

// The variance from summands that lie alike in the ulps of a coarse sum that ends at `sum`, after
// `steps` roundings of `keys_a_step` keys each. Those below `least` are lost, and do not count.
// `small`: the sum of all but the largest.
double alike_in_ulps(std::span<const double> p, std::span<const double> count, double u,
                     double least, double small, double total, double sum, double steps,
                     double keys_a_step) {
  if (!are_coarse(u) || sum <= 0) return 0;
  const double ulp = ulp_of(u, total * sum) / total;
  Phases phases;
  double keys = 0;
  for (size_t g = 0; g < p.size(); ++g) {
    keys += count[g];
    if (count[g] > 0 && p[g] >= least) phases.add(p[g] / ulp, count[g]);
  }
  return alike_variance(ulp, steps, small, std::pow(phases.alike(keys), keys_a_step));
}

}  // namespace

double repeated_variance(std::span<const double> p, std::span<const double> count, double u,
                         double chain, double keys, double total) {
  const double top = *std::max_element(p.begin(), p.end());
  double small = 0;
  for (size_t g = 0; g < p.size(); ++g) small += p[g] < top ? count[g] * p[g] : 0;
  // Chance that two keys round alike beside a sum of that size.
  const auto alike_beside = [&](double sum) {
    double coherent = 0, random = 0, cosine = 0, sine = 0;
    for (size_t g = 0; g < p.size(); ++g) {
      const double share = count[g] / keys, phase = p[g] < top ? M_PI * p[g] / (u * sum) : 0,
                   kept = phase > 8 ? 0 : std::exp(-phase * phase / 2);
      coherent += share * kept;
      random += share * share * (1 - kept * kept);
      if (p[g] < top) {
        cosine += share * std::cos(phase);
        sine += share * std::sin(phase);
      }
    }
    return std::max(coherent * coherent + random, cosine * cosine + sine * sine);
  };
  // Beside one key that has half of the weight the sum does not grow: if that key comes first,
  // every step errs by an ulp of the end.
  const double step = std::max(0.25, std::min(1.0, 2 * top) / std::sqrt(3.0));
  const double a_step = std::min(u * step, small / chain),
               alike = std::pow(alike_beside(1), keys / chain);
  const auto in_ulps = [&](double sum, double roundings, double keys_a_step) {
    return alike_in_ulps(p, count, u, u * chain / keys, small, total, sum, roundings, keys_a_step);
  };
  const double steps =
      std::max(chain * chain * a_step * a_step * alike, in_ulps(1, chain, keys / chain));
  // The chain may be that of a block of keys, the one with that key among them.
  const double a_key = std::min(u * top / std::sqrt(3.0), small / keys),
               block = chain * chain * a_key * a_key * alike_beside(top);
  // So may those of all others. Their sums reach chain / keys of the weight that is left.
  const double rest = 1 - top;
  if (!(chain < keys && rest > 0)) return std::max(steps, block);
  const double part = std::min(u * chain / 4 * rest, small);
  return std::max({steps, block, part * part * alike_beside(rest * chain / keys),
                   in_ulps(rest * chain / keys, keys, 1)});
}

}  // namespace attest::core::codebook
