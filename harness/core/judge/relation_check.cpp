#include "core/judge/relation_check.hpp"
#include "core/judge/gates.hpp"
#include "core/operations/unsure.hpp"
#include "core/tensor/constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace attest::core {
namespace {

bool same_bits(double first, double second) {
  return (std::isnan(first) && std::isnan(second)) ||
         std::memcmp(&first, &second, sizeof first) == 0;
}

bool is_known(double sigma) { return !std::isnan(sigma) && sigma != kUnsure; }

// Distance in sums of standard deviations; `sigma` NaN: not known, so only what no error explains
// counts; kUnsure: nothing does.
double distance(double first, double second, double sigma) {
  if (sigma == kUnsure) return 0;
  if (first == second || (std::isnan(first) && std::isnan(second))) return 0;
  if (!std::isfinite(first) || !std::isfinite(second)) return kInfinity;
  return std::isnan(sigma) ? 0 : std::fabs(first - second) / sigma;
}

struct RelationTally {
  int64_t known = 0, compared = 0, different = 0;
  int64_t rows = 0;  // that have known elements
  double sum_squares = 0, worst = -1;
  Mismatch mismatch;
};

void add(RelationTally& tally, const Claim& claim, const RelationRun& base, bool bitwise) {
  tally.rows += std::any_of(claim.sigma.begin(), claim.sigma.end(), is_known);
  for (size_t e = 0; e < claim.first.size(); ++e) {
    const double first = claim.first[e], second = claim.second[e], sigma = claim.sigma[e];
    const double apart = distance(first, second, sigma);
    const bool differs = !same_bits(first, second);
    ++tally.compared;
    tally.known += is_known(sigma);
    tally.different += differs;
    tally.sum_squares += apart * apart;
    if (!(apart > tally.worst) && !(bitwise && differs && tally.different == 1)) continue;
    tally.worst = std::max(tally.worst, apart);
    const TensorSpec& spec = base.problem.tensor[size_t(claim.role)];
    tally.mismatch = {find_role(*base.problem.operation, claim.role)->name,
                      row_index(spec, claim.leading, claim.row),
                      first,
                      second,
                      sigma,
                      apart / Gates::kLargest};
    if (claim.leading < spec.rank) tally.mismatch.index.push_back(int64_t(e));
  }
}

// Where the relation does not hold.
ReasonCode code_of(const Relation& relation) {
  const std::string wanted = fmt::format("fail:{}", relation.name());
  const Reason* reason = find_reason(wanted);
  if (!reason) throw std::logic_error(wanted + " is no reason code");
  return reason->code;
}

}  // namespace

Judgement judge_relation(const Relation& relation, const RelationRun& base,
                         std::span<const RelationRun> runs, bool deterministic) {
  const bool bitwise = relation.bitwise() && deterministic;
  RelationTally tally;
  relation.compare(base, runs, [&](const Claim& claim) { add(tally, claim, base, bitwise); });

  Judgement judgement;
  judgement.method = bitwise ? "to the bit" : "within twice the gate";
  judgement.exact_elements = bitwise ? tally.compared : tally.known;
  judgement.max_ratio = std::max(tally.worst, 0.0) / Gates::kLargest;
  const int64_t distinct = base.sigmas ? base.sigmas->distinct_rows() : tally.rows;
  judgement.rms_ratio = tally.known > 0 ? std::sqrt(tally.sum_squares / double(tally.known)) /
                                              Gates::rms(std::min(tally.rows, distinct))
                                        : 0;
  if (tally.worst >= 0) judgement.worst = tally.mismatch;
  const bool far = judgement.max_ratio > 1 || judgement.rms_ratio > 1;
  if (!far && !(bitwise && tally.different > 0)) return judgement;
  const Mismatch& m = tally.mismatch;
  const std::string pair = fmt::format("{}[{}] is {:.9g} and {:.9g}", m.tensor,
                                       fmt::join(m.index, ","), m.expected, m.got);
  const std::string reason =
      far ? fmt::format(
                "{}: {} where both should be the same, {:.3g} of twice the gate (root mean square "
                "{:.3g})",
                relation.name(), pair, judgement.max_ratio, judgement.rms_ratio)
          : fmt::format(
                "{}: {}, {} of {} elements differ, and it does not declare itself nondeterministic",
                relation.name(), pair, tally.different, tally.compared);
  judgement.outcome = {code_of(relation), reason};
  return judgement;
}

}  // namespace attest::core
