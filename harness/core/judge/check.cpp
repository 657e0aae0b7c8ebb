#include "core/judge/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "core/judge/element.hpp"
#include "core/judge/gates.hpp"
#include "core/judge/tolerance_check.hpp"
#include "core/operations/numerics/rounding.hpp"
#include "core/operations/unsure.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

// What is known of one output tensor after some chunks; merged under a lock.
struct Tally {
  int64_t exact = 0, swept = 0, rows = 0;  // rows: exact ones that err by themselves
  int64_t unsure = 0;      // elements of which rounding decides whether they are numbers: not exact
  double sum_squares = 0;  // of error / sigma
  double worst_ratio = -1;  // error / sigma
  int64_t worst_row = 0, worst_element = 0;
  int worst_leading = 0;
  double worst_expected = 0, worst_got = 0, worst_sigma = 0;
  bool unwritten = false;     // poison at the worst element
  bool out_of_range = false;  // a sweep failed and nothing exact did worse
  int64_t zeros = 0,
          // Zero outputs where the golden is clearly not zero; all elements of that kind
      telling = 0;
  int64_t rounded = 0;  // elements that may err by their own rounding and by little else
  double outward = 0;   // of these, the sum of error / sigma away from 0
  // Of these, the sum of error^2 / sigma^2, what it may be in the mean,
  double rounded_squares = 0;
  double rounded_mean = 0, rounded_variance = 0;  // and its variance
  double rounded_exactly = 0;  // the same sum for these very values, correctly rounded
  ExpectedRow worst_expectation;
  RowSample sample;
  double least_got = kInfinity, largest_got = -kInfinity, least_expected = kInfinity,
         largest_expected = -kInfinity, largest_sigma = 0;

  double mean_outward() const { return outward / double(rounded); }

  void merge(const Tally& other) {
    exact += other.exact;
    unsure += other.unsure;
    swept += other.swept;
    rows += other.rows;
    sum_squares += other.sum_squares;
    zeros += other.zeros;
    telling += other.telling;
    rounded += other.rounded;
    outward += other.outward;
    rounded_squares += other.rounded_squares;
    rounded_mean += other.rounded_mean;
    rounded_variance += other.rounded_variance;
    rounded_exactly += other.rounded_exactly;
    least_got = std::min(least_got, other.least_got);
    largest_got = std::max(largest_got, other.largest_got);
    least_expected = std::min(least_expected, other.least_expected);
    largest_expected = std::max(largest_expected, other.largest_expected);
    largest_sigma = std::max(largest_sigma, other.largest_sigma);
    sample.merge(other.sample);
    // Equal ratios (several infinities) are settled by position, so that threads do not change the
    // report.
    const bool earlier =
        other.worst_ratio == worst_ratio &&
        std::pair(other.worst_row, other.worst_element) < std::pair(worst_row, worst_element);
    if (other.worst_ratio > worst_ratio || earlier) {
      worst_ratio = other.worst_ratio;
      worst_row = other.worst_row;
      worst_element = other.worst_element;
      worst_leading = other.worst_leading;
      worst_expected = other.worst_expected;
      worst_got = other.worst_got;
      worst_sigma = other.worst_sigma;
      worst_expectation = other.worst_expectation;
      unwritten = other.unwritten;
      out_of_range = other.out_of_range;
    }
  }
};

class ChunkJudge {
 public:
  ChunkJudge(const Tensor& tensor, const Expected& chunk)
      : tensor_(tensor),
        chunk_(chunk),
        rounding_(unit_roundoff(tensor.spec.dtype) / std::sqrt(3)),
        row_(size_t(chunk.width)) {
    tally_.worst_leading = chunk.leading;
  }

  const Tally& judge() {
    const TensorSpec& spec = tensor_.spec;
    const int64_t stride = chunk_.leading < spec.rank ? spec.stride[chunk_.leading] : 0;
    for (size_t r = 0; r < chunk_.rows.size(); ++r) {
      const int64_t offset = row_offset(spec, chunk_.leading, chunk_.rows[r]);
      load_row(tensor_.data, spec.dtype, offset, chunk_.width, stride, row_.data());
      const size_t at = chunk_.shared ? 0 : r * size_t(chunk_.width);
      if (chunk_.value)
        exact_row(r, offset, stride, chunk_.value + at, chunk_.sigma + at);
      else
        sweep_row(chunk_.rows[r], offset, stride, chunk_.low + at, chunk_.high + at);
    }
    if (chunk_.value && worst_index_ < chunk_.rows.size())
      tally_.worst_expectation = expected_row(chunk_, worst_index_);
    tally_.sample.add(chunk_);
    const auto elements = int64_t(chunk_.rows.size()) * chunk_.width;
    (chunk_.value ? tally_.exact : tally_.swept) = elements - tally_.unsure;
    if (chunk_.value) tally_.rows = chunk_.shared ? 1 : count_known_rows();
    return tally_;
  }

 private:
  // Rows of which not all elements may be anything.
  int64_t count_known_rows() const {
    const auto width = size_t(chunk_.width);
    int64_t count = 0;
    for (size_t r = 0; r < chunk_.rows.size(); ++r) {
      const std::span<const double> sigmas(chunk_.sigma + r * width, width);
      count += std::ranges::any_of(sigmas, [](double sigma) { return sigma != kUnsure; });
    }
    return count;
  }

  void exact_row(size_t index, int64_t offset, int64_t stride, const double* value,
                 const double* sigma) {
    const int64_t row = chunk_.rows[index];
    const bool once = !chunk_.shared || index == 0;  // rows with one expectation err alike
    for (int64_t e = 0; e < chunk_.width; ++e) {
      const double got = row_[size_t(e)];
      if (sigma[e] == kUnsure) {
        unsure_element(row, e, value[e], got, offset + e * stride);
        continue;
      }
      double ratio = std::fabs(got - value[e]) / sigma[e];
      if (!(ratio <= tally_.worst_ratio)) {  // rare: a new worst, or not a number
        ratio = error_in_sigmas(value[e], got, sigma[e], tensor_.spec.dtype);
        if (ratio > tally_.worst_ratio) {
          note_worst(ratio, row, e, value[e], got, sigma[e], offset + e * stride);
          worst_index_ = index;
        }
      }
      tally_.sum_squares += ratio * ratio;
      if (std::fabs(value[e]) > Gates::kLargest * sigma[e]) {
        ++tally_.telling;
        tally_.zeros += got == 0;
      }
      if (once && std::isfinite(value[e]) && std::isfinite(got) &&
          rounding_ * std::fabs(value[e]) > Gates::kOwnRounding * sigma[e])
        note_rounded(value[e], got, sigma[e]);
      if (std::isfinite(value[e])) {
        tally_.least_got = std::min(tally_.least_got, got);
        tally_.largest_got = std::max(tally_.largest_got, got);
        tally_.least_expected = std::min(tally_.least_expected, value[e]);
        tally_.largest_expected = std::max(tally_.largest_expected, value[e]);
        tally_.largest_sigma = std::max(tally_.largest_sigma, sigma[e]);
      }
    }
  }

  // An element of which rounding decides whether it is a number. Only poison is wrong there.
  void unsure_element(int64_t row, int64_t element, double value, double got, int64_t offset) {
    ++tally_.unsure;
    if (is_poison(tensor_, offset) && tally_.worst_ratio < kInfinity)
      note_worst(kInfinity, row, element, value, got, 0, offset);
  }

  // An element that little but its own rounding may change.
  void note_rounded(double value, double got, double sigma) {
    const double ratio = (got - value) / sigma, own = rounding_ * value / sigma;
    // Half an ulp / sqrt(3): the deviation of its rounding.
    const double own_rounding = rounding_ * binade(value) / sigma,
                 own_square = own_rounding * own_rounding;
    ++tally_.rounded;
    tally_.outward += std::copysign(1, value) * ratio;
    tally_.rounded_squares += ratio * ratio;
    tally_.rounded_mean += own_square + Gates::kRms * Gates::kRms * (1 - own * own);
    // Sums of few numbers lie on a coarse lattice, and round by more than the mean: by half an ulp
    // every second time, say.
    const double exact = (value - rounded(value, tensor_.spec.dtype)) / sigma;
    tally_.rounded_exactly += exact * exact + Gates::kRms * Gates::kRms * (1 - own * own);
    // x evenly between -1 and 1: x^4 is 1/5, x^2 1/3 in the mean.
    tally_.rounded_variance += 0.8 * own_square * own_square;
  }

  void sweep_row(int64_t row, int64_t offset, int64_t stride, const double* low,
                 const double* high) {
    for (int64_t e = 0; e < chunk_.width; ++e) {
      const double got = row_[size_t(e)];
      if (in_sweep(tensor_, offset + e * stride, got, low[e], high[e])) continue;
      if (tally_.worst_ratio == kInfinity) continue;
      note_worst(kInfinity, row, e, got < low[e] ? low[e] : high[e], got, 0, offset + e * stride);
      tally_.out_of_range = true;
    }
  }

  void note_worst(double ratio, int64_t row, int64_t element, double expected, double got,
                  double sigma, int64_t offset) {
    tally_.worst_ratio = ratio;
    tally_.worst_row = row;
    tally_.worst_element = element;
    tally_.worst_expected = expected;
    tally_.worst_got = got;
    tally_.worst_sigma = sigma;
    tally_.unwritten = is_poison(tensor_, offset);
    tally_.out_of_range = false;
  }

  const Tensor& tensor_;
  const Expected& chunk_;
  const double rounding_;  // standard deviation of rounding 1 to the tensor's dtype
  std::vector<double> row_;
  Tally tally_;
  size_t worst_index_ = std::numeric_limits<size_t>::max();  // in the chunk's rows
};

Mismatch describe(const Role& role, const TensorSpec& spec, const Tally& tally) {
  Mismatch mismatch{role.name,
                    row_index(spec, tally.worst_leading, tally.worst_row),
                    tally.worst_expected,
                    tally.worst_got,
                    tally.worst_sigma,
                    tally.worst_ratio / Gates::kLargest};
  if (tally.worst_leading < spec.rank) mismatch.index.push_back(tally.worst_element);
  return mismatch;
}

std::string place(const Mismatch& m) {
  return fmt::format("{}[{}]", m.tensor, fmt::join(m.index, ","));
}

// The verdict of one output, in order of what says most.
void decide(Judgement& judgement, const Mismatch& worst, const Tally& tally, double largest,
            double rms) {
  const auto set = [&](ReasonCode code, std::string reason) {
    judgement.outcome = {code, std::move(reason)};
  };
  if (tally.unwritten) {
    set(ReasonCode::kFailUnwritten, fmt::format("{} was not written", place(worst)));
  } else if (tally.telling >= 8 && tally.zeros * 2 > tally.telling) {
    set(ReasonCode::kSuspectZeros,
        fmt::format("{} of {} elements that are clearly not 0 are 0", tally.zeros, tally.telling));
  } else if (tally.exact >= 8 && tally.least_got == tally.largest_got &&
             tally.largest_expected - tally.least_expected >
                 2 * Gates::kLargest * tally.largest_sigma) {
    set(ReasonCode::kSuspectConstant,
        fmt::format("every judged element is {:.6g} where the golden goes from {:.6g} to {:.6g}",
                    tally.least_got, tally.least_expected, tally.largest_expected));
  } else if (tally.out_of_range && std::isfinite(worst.got)) {
    set(ReasonCode::kFailRange,
        fmt::format("{} = {:.9g} lies beyond {:.9g}, outside of what it averages", place(worst),
                    worst.got, worst.expected));
  } else if (!std::isfinite(worst.got) || !std::isfinite(worst.expected)) {
    set(ReasonCode::kFailNan,
        fmt::format("{} = {} where {:.9g} is right", place(worst), worst.got, worst.expected));
  } else {
    const char* which = largest > 1 ? "largest" : "root mean square";
    set(ReasonCode::kFailTolerance,
        fmt::format("{} error is {:.3g} of its gate; {} = {:.9g}, expected {:.9g} +- {:.2g}", which,
                    largest > 1 ? largest : rms, place(worst), worst.got, worst.expected,
                    worst.sigma));
  }
}

// Elements that err by little but their own rounding, and each by itself; 0 where they are too few
// to say anything.
double independently_rounded(const Tally& tally, int64_t distinct_rows) {
  const double independent =
      double(tally.rounded) *
      std::min(1.0, double(distinct_rows) / double(std::max<int64_t>(tally.rows, 1)));
  return independent < Gates::kFewestRounded ? 0 : independent;
}

// Of these, the mean of error / sigma away from 0, as a share of its gate.
double one_sided_ratio(const Tally& tally, int64_t distinct_rows) {
  const double independent = independently_rounded(tally, distinct_rows);
  return independent == 0 ? 0 : std::fabs(tally.mean_outward()) / Gates::one_sided(independent);
}

// The same of their root mean square.
double rounded_rms_ratio(const Tally& tally, int64_t distinct_rows) {
  const double independent = independently_rounded(tally, distinct_rows),
               all = double(tally.rounded);
  if (independent == 0) return 0;
  return std::sqrt(tally.rounded_squares / all) /
         Gates::rounded_rms(std::max(tally.rounded_mean, tally.rounded_exactly) / all,
                            std::sqrt(tally.rounded_variance / all), independent);
}

void decide_one_sided(Judgement& judgement, const Role& role, const Tally& tally) {
  judgement.outcome = {
      ReasonCode::kFailOneSided,
      fmt::format("{} errs towards {} in the mean over {} elements that little but their own "
                  "rounding may change ({:.2f} sigma): cut, not rounded",
                  role.name, tally.outward < 0 ? "0" : "infinity", tally.rounded,
                  std::fabs(tally.mean_outward()))};
}

// A failure that the declared arithmetic itself would have is none of the implementation's.
// `failed`: its share of the gate.
void question(Judgement& judgement, const Problem& problem, const Golden& golden,
              const Arithmetic& arithmetic, const Tensors& inputs, const Tally& tally,
              double failed) {
  std::vector<ExpectedRow> rows{tally.worst_expectation};
  for (const auto& [hash, row] : tally.sample.rows())
    if (row.row != rows[0].row) rows.push_back(row);
  const Emulated honest = emulated_errors(problem, golden, arithmetic, inputs, rows);
  if (honest.ratio() <= 1) return;
  const std::string excess = fmt::format(
      "the declared arithmetic, emulated, exceeds the gate itself: {:.3g} of it, root mean square "
      "{:.3g}; {}",
      honest.largest, honest.rms, honest.where);
  if (failed > Gates::kBeyondEmulation * honest.ratio())
    judgement.outcome.reason += "; that is the implementation's, though " + excess;
  else
    judgement.outcome = {ReasonCode::kErrorToleranceModel, excess};
}

}  // namespace

std::vector<Location> locations(const Judgement& judgement) {
  std::vector<Location> all = judgement.more_locations.value_or(std::vector<Location>());
  if (judgement.location) all.insert(all.begin(), *judgement.location);
  return all;
}

void set_locations(Judgement& judgement, std::vector<Location> found) {
  if (found.empty()) return;
  judgement.location = std::move(found.front());
  found.erase(found.begin());
  if (!found.empty()) judgement.more_locations = std::move(found);
}

Judgement judge(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic,
                const Tensors& tensors, const Tensors* inputs) {
  std::map<int32_t, Tally> tallies;
  std::mutex lock;
  golden.expect(arithmetic, [&](const Expected& chunk) {
    ChunkJudge chunk_judge(tensors[size_t(chunk.role)], chunk);
    const Tally& tally = chunk_judge.judge();
    const std::lock_guard guard(lock);
    tallies[chunk.role].merge(tally);
  });

  Judgement judgement;
  judgement.method = golden.method();
  if (std::string device = golden.device(); !device.empty())
    judgement.golden_device = std::move(device);
  for (const auto& [role_index, tally] : tallies) {
    const Role& role = *find_role(*problem.operation, role_index);
    const double largest = std::max(tally.worst_ratio, 0.0) / Gates::kLargest;
    const double of_all =
        tally.exact
            ? std::sqrt(tally.sum_squares / double(tally.exact)) /
                  Gates::rms(std::min(tally.rows, golden.independent_rows(arithmetic, role_index)))
            : 0;
    const double of_rounded = rounded_rms_ratio(tally, golden.distinct_rows());
    const double rms = of_rounded > of_all ? of_rounded : of_all;  // of_all may be NaN
    judgement.exact_elements += tally.exact;
    judgement.swept_elements += tally.swept;
    const Mismatch worst = describe(role, problem.tensor[size_t(role_index)], tally);
    const bool errs_most = !judgement.worst || largest > judgement.worst->ratio;
    if (errs_most) judgement.worst = worst;
    judgement.max_ratio = std::max(judgement.max_ratio, largest);
    judgement.rms_ratio = std::max(judgement.rms_ratio, rms);
    const bool one_sided = one_sided_ratio(tally, golden.distinct_rows()) > 1;
    // Of errors within the gates for all elements, that they point one way says more than their
    // size.
    const bool fails = largest > 1 || !(of_all <= 1) || (of_rounded > 1 && !one_sided);
    const bool says_more =
        errs_most && largest > 1 && judgement.outcome.code == ReasonCode::kFailTolerance;
    if (fails && (judgement.outcome.passes() || says_more)) {
      decide(judgement, worst, tally, largest, rms);
      if (judgement.outcome.code == ReasonCode::kFailTolerance && largest <= 1 &&
          of_rounded > of_all)
        judgement.outcome.reason += fmt::format(
            "; the gate is that of {} elements that little but their own rounding may change",
            tally.rounded);
      if (inputs && judgement.outcome.code == ReasonCode::kFailTolerance)
        question(judgement, problem, golden, arithmetic, *inputs, tally, std::max(largest, of_all));
    }
    if (judgement.outcome.passes() && one_sided) decide_one_sided(judgement, role, tally);
  }
  for (const Role& role : problem.operation->roles()) {
    if (!is_output(role) || !problem.has(role.index)) continue;
    if (const auto tally = tallies.find(role.index);
        tally != tallies.end() && tally->second.exact + tally->second.unsure > 0)
      continue;
    judgement.outcome = {ReasonCode::kErrorGolden,
                         fmt::format("the golden judged no element of {}", role.name)};
  }
  if (!judgement.outcome.passes())
    for (const auto& [role, tally] : tallies) golden.confirm(arithmetic, tally.worst_row);
  return judgement;
}

}  // namespace attest::core
