#include "core/operations/softmax/golden/passes/equal_key_sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/tensor/random.hpp"

namespace attest::core::passes {

EqualKeySums::EqualKeySums(int64_t head_dim_v, KeySums& sums)
    : head_dim_v_(head_dim_v), sums_(sums) {}

// Groups that were open before have been ended, and can be used again.
void EqualKeySums::start(int64_t rows) {
  if (open_.size() < size_t(rows)) open_.resize(size_t(rows));
  for (Group& group : open_) group.ev.assign(size_t(head_dim_v_), 0.0);
}

// The open run of that score. It may take the place of a run of another score.
EqualKeySums::Run& EqualKeySums::run_of(int64_t row, double score, const SigmaModel& model) {
  const size_t place = random_bits(std::bit_cast<uint64_t>(score), 0) % kRuns;
  Run& run = open_[size_t(row)].runs[place];
  if (run.keys > 0 && run.score != score) end_run(row, run, model);
  if (run.av.empty())
    for (auto* sums : {&run.av, &run.a2v2, &run.ev, &run.unsure_pv})
      sums->resize(size_t(head_dim_v_));
  run.score = score;
  return run;
}

void EqualKeySums::add(int64_t row, const EqualKey& key, const SigmaModel& model,
                       const SigmaModel::Flushing& flushing) {
  Group& group = open_[size_t(row)];
  if (key.group != group.id) end_group(row, model);
  Run& run = run_of(row, key.score, model);
  group.id = key.group;
  group.square = key.staged_square - key.added_square;
  group.dot_variance = model.qk_variance(key.magnitude);
  run.added_square = key.added_square;
  ++run.keys;
  const double p = key.p, a = std::sqrt(key.rounding_square);
  const double run_e = p * std::sqrt(key.added_square * model.score_square() + key.lead_variance);
  const double group_e = p * std::sqrt(group.square * model.score_square() + group.dot_variance);
  run.a += a;
  run.e += run_e;
  run.p += p;
  group.e += group_e;
  group.p += p;
  const double* value = key.value;
  double *av = run.av.data(), *a2v2 = run.a2v2.data(), *ev = run.ev.data(),
         *group_ev = group.ev.data(), *unsure_pv = run.unsure_pv.data();
#pragma omp simd
  for (int64_t d = 0; d < head_dim_v_; ++d) {
    av[d] += a * value[d];
    a2v2[d] += a * a * value[d] * value[d];
    ev[d] += run_e * value[d];
    group_ev[d] += group_e * value[d];
  }
  if (p >= flushing.gone && p < flushing.kept)
    for (int64_t d = 0; d < head_dim_v_; ++d) unsure_pv[d] += p * value[d];
  // Beside a common rounding of p where the normaliser sums the rounded ones too.
  const double own_rounding = model.theta / 3 * a * a;
  add_own_part(row, p * p * model.accumulation_variance(group.square, key.magnitude) + own_rounding,
               value);
}

// What a key of a group does not share: its dot product may be summed in another order.
void EqualKeySums::add_own_part(int64_t row, double variance, const double* value) {
  sums_.scalars[size_t(row)].weights.e2 += variance;
  double *e2v = sums_.e2v.row(row), *e2v2 = sums_.e2v2.row(row);
#pragma omp simd
  for (int64_t d = 0; d < head_dim_v_; ++d) {
    e2v[d] += variance * value[d];
    e2v2[d] += variance * value[d] * value[d];
  }
}

// Probabilities of one score round alike beside one maximum. Where an online softmax has met the
// keys at several maxima they do not, and what would cancel between them is left.
void EqualKeySums::end_run(int64_t row, Run& run, const SigmaModel& model) {
  KeySums::Scalars& scalars = sums_.scalars[size_t(row)];
  const double share = model.theta / 3, p2 = run.p * run.p;
  scalars.weights.p2 += p2;
  scalars.weights.p2t += p2 * run.added_square;
  scalars.weights.a2 += run.a * run.a;
  scalars.weights.e2 += run.e * run.e + share * run.a * run.a;
  if (run.keys > 1) scalars.repeated += double(run.keys) * double(run.keys);
  double *a2v2 = sums_.a2v2.row(row), *e2v = sums_.e2v.row(row), *e2v2 = sums_.e2v2.row(row),
         *unsure2 = sums_.unsure2.row(row);
  const bool one_by_one = needs_a2(model);
  double *run_av = run.av.data(), *run_a2v2 = run.a2v2.data(), *run_ev = run.ev.data(),
         *run_unsure = run.unsure_pv.data();
  const double alike2 = model.alike * model.alike, a = run.a, e = run.e;
#pragma omp simd
  for (int64_t d = 0; d < head_dim_v_; ++d) {
    const double av = run_av[d], ev = run_ev[d], unsure = run_unsure[d], common = alike2 * av * av,
                 own = one_by_one ? run_a2v2[d] : 0;
    a2v2[d] += common < own ? own : common;
    e2v[d] += ev * e + share * av * a;
    e2v2[d] += ev * ev + share * av * av;
    unsure2[d] += unsure * unsure;
    run_av[d] = 0;
    run_a2v2[d] = 0;
    run_ev[d] = 0;
    run_unsure[d] = 0;
  }
  run.a = run.e = run.p = 0;
  run.keys = 0;
}

void EqualKeySums::end_group(int64_t row, const SigmaModel& model) {
  Group& group = open_[size_t(row)];
  if (group.id < 0) return;
  for (Run& run : group.runs)
    if (run.keys > 0) end_run(row, run, model);
  kernels::WeightSums& weights = sums_.scalars[size_t(row)].weights;
  const double p2 = group.p * group.p;
  weights.p2t += p2 * group.square;
  weights.p2q += p2 * group.dot_variance;
  weights.e2 += group.e * group.e;
  double *e2v = sums_.e2v.row(row), *e2v2 = sums_.e2v2.row(row);
  for (size_t d = 0; d < group.ev.size(); ++d) {
    e2v[d] += group.ev[d] * group.e;
    e2v2[d] += group.ev[d] * group.ev[d];
    group.ev[d] = 0;
  }
  group.e = group.p = group.square = group.dot_variance = 0;
  group.id = -1;
}

void EqualKeySums::finish(int64_t row, const SigmaModel& model) { end_group(row, model); }

}  // namespace attest::core::passes
