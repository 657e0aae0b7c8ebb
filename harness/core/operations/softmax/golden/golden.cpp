// The float64 golden of softmax attention: exact values and sigmas of all or of sampled rows, and a
// sweep over all of them.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <list>
#include <mutex>
#include <unordered_set>

#include "core/operations/softmax/golden/device_rows.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"
#include "core/operations/softmax/golden/passes/key_passes.hpp"
#include "core/operations/softmax/golden/sweep.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

constexpr int64_t kPassBytes = int64_t(27) << 20;  // of all threads together
constexpr size_t kKeptSigmas = size_t(2) << 20;    // doubles kept for arithmetics asked for before
constexpr size_t kJudgedRows = 4096;
// In "wide", the rows whose biases are -1e8 have all logits below -1e6, and no other row has.
constexpr double kScoresReach = 1e6;

struct Sigmas {
  Arithmetic arithmetic;
  std::vector<double> o, lse;  // [rows, head_dim_v], [rows]
};

class SoftmaxGolden final : public Golden {
 public:
  /// `device` may be null. Throws GoldenRefused where there is one, and its rows differ from the
  /// host's.
  SoftmaxGolden(const Problem& problem, const Tensors& tensors, const KnownInputs& known,
                const GoldenDevice* device)
      : vectors_(known.vectors),
        values_may_follow_(known.values_may_follow),
        ties_hold_(known.ties_hold),
        few_scores_(known.few_scores),
        scores_spread_(known.scores_spread),
        beside_subnormals_(known.beside_subnormals),
        problem_(problem),
        tensors_(tensors),
        params_(problem_.as<attest_softmax_params>()),
        geometry_(problem_, tensors_),
        equal_(find_groups()),
        device_(device && is_for(*device) ? device : nullptr),
        plan_(plan_rows(problem_, geometry_, device_ ? DeviceRows::budget(*device_) : known.budget,
                        known.wanted)),
        bounds_(problem_, tensors_, geometry_, !plan_.all, known.scores_spread),
        scores_(plan_.rows.size()),
        o_(plan_.rows.size() * size_t(params_.head_dim_v)),
        lse_(plan_.rows.size()) {
    if (device_) {
      device_rows_ = std::make_unique<DeviceRows>(*device_, problem_, tensors_, geometry_, plan_);
      device_rows_->score(scores_.data());
    } else {
      run_tasks([this](KeyPasses& passes, const RowTask& task) {
        passes.score(task, task_rows(task, plan_.rows), equal_keys(task), task_rows(task, scores_));
      });
    }
    for (size_t r = 0; r < lse_.size(); ++r) lse_[r] = scores_[r].lse;
    distinct_ = count_distinct_queries();
    rows_.reserve(plan_.rows.size());
    for (const JudgedRow& row : plan_.rows) rows_.push_back(row.output_row);
  }

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    const std::shared_ptr<const Sigmas> sigmas = sigmas_of(arithmetic);
    const SoftmaxArithmetic declared = SoftmaxArithmetic::of(arithmetic);
    for (size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
      const Known known = known_of(begin, declared);
      for (end = begin + 1; end < std::min(rows_.size(), begin + kJudgedRows) &&
                            known == Known::kValue && known_of(end, declared) == known;)
        ++end;
      if (known == Known::kValue)
        expect_values(begin, end, *sigmas, sink);
      else
        expect_bounds(begin, known, declared, *sigmas, sink);
    }
    if (plan_.all)
      bounds_.sweep_empty(geometry_, declared, sink);
    else
      bounds_.sweep(geometry_, declared, sink);
  }

  std::vector<int64_t> exact_rows(const Arithmetic& arithmetic, int32_t role) const override {
    if (role != ATTEST_O) return Golden::exact_rows(arithmetic, role);
    const SoftmaxArithmetic declared = SoftmaxArithmetic::of(arithmetic);
    std::vector<int64_t> exact = bounds_.empty_rows(geometry_);
    for (size_t r = 0; r < rows_.size(); ++r)
      if (known_of(r, declared) == Known::kValue) exact.push_back(rows_[r]);
    return exact;
  }
  int64_t distinct_rows() const override { return distinct_; }
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    const bool own_keys = vectors_ == KnownInputs::Vectors::kAny;
    return std::min(distinct_rows(),
                    most_independent(arithmetic, problem_, role, own_keys ? params_.batch : 1));
  }
  std::string device() const override { return device_ ? device_->name() : ""; }
  void confirm(const Arithmetic& arithmetic, int64_t output_row) const override {
    const auto at = std::find(rows_.begin(), rows_.end(), output_row);
    if (!device_rows_ || at == rows_.end()) return;
    const std::shared_ptr<const Sigmas> sigmas = sigmas_of(arithmetic);
    const auto row = size_t(at - rows_.begin()), width = size_t(params_.head_dim_v);
    device_rows_->confirm(row, scores_.data(), model_of(arithmetic),
                          {.o = o_.data() + row * width,
                           .sigma = sigmas->o.data() + row * width,
                           .lse_sigma = sigmas->lse.data() + row});
  }

  std::string method() const override {
    if (plan_.all) return "float64, all rows";
    const std::string unswept =
        bounds_.unbounded() > 0
            ? fmt::format(", {} channels with NaN or Inf not swept", bounds_.unbounded())
            : "";
    return fmt::format("float64, {} of {} rows a head{}", plan_.rows_a_head, params_.seq_len_q,
                       unswept);
  }

 private:
  // What the declared arithmetic leaves of a row. kAverage: all logits are so far below 0 that
  // scores are lost beside them, so that O is some average of values. kNothing: the largest logit,
  // times log2(e), is beyond what it holds: kernels that compute in base 2 take all for hidden, or
  // one for infinite; or the weights follow from an LSE that is so far below 0 that they have any
  // sum.
  enum class Known { kValue, kAverage, kNothing };
  Known known_of(size_t r, const SoftmaxArithmetic& declared) const {
    const RowScores& row = scores_[r];
    const bool is_finite = std::isfinite(row.largest) && std::isfinite(row.top());
    if (values_may_follow_ || row.keys == 0 || !is_finite) return Known::kValue;
    const double below = -row.top(), u = unit_roundoff(declared.score);
    // A sink may lead keys whose scores and biases are both infinite in f16: their sum is NaN.
    const double farthest = std::max(std::fabs(below), std::fabs(row.largest));
    if (farthest * M_LOG2E >= largest_finite(declared.score)) return Known::kNothing;
    if (!scores_spread_ || below < kScoresReach) return Known::kValue;
    if (declared.has(ATTEST_WEIGHS_BY_LSE) &&
        below * unit_roundoff(ATTEST_F32) >= SigmaModel::kLinearIfLarge)
      return Known::kNothing;
    return below * u >= SigmaModel::kLinearIfLarge ? Known::kAverage : Known::kValue;
  }

  void expect_values(size_t begin, size_t end, const Sigmas& sigmas, const Sink& sink) const {
    const auto dim_v = size_t(params_.head_dim_v);
    const auto rows = std::span(rows_).subspan(begin, end - begin);
    sink({.role = ATTEST_O,
          .leading = 3,
          .width = params_.head_dim_v,
          .rows = rows,
          .value = o_.data() + begin * dim_v,
          .sigma = sigmas.o.data() + begin * dim_v});
    expect_lse(begin, end, sigmas, sink);
  }
  void expect_lse(size_t begin, size_t end, const Sigmas& sigmas, const Sink& sink) const {
    if (present(problem_.tensor[ATTEST_LSE]))
      sink({.role = ATTEST_LSE,
            .leading = 3,
            .width = 1,
            .rows = std::span(rows_).subspan(begin, end - begin),
            .value = lse_.data() + begin,
            .sigma = sigmas.lse.data() + begin});
  }
  // One row, of which the value is not known.
  void expect_bounds(size_t r, Known known, const SoftmaxArithmetic& declared, const Sigmas& sigmas,
                     const Sink& sink) const {
    ValueBounds::Bounds bounds =
        bounds_.average(geometry_, declared, plan_.rows[r].b, plan_.rows[r].h);
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    if (known == Known::kNothing) std::ranges::fill(bounds.low, nothing);
    const auto rows = std::span(rows_).subspan(r, 1);
    sink({.role = ATTEST_O,
          .leading = 3,
          .width = params_.head_dim_v,
          .rows = rows,
          .low = bounds.low.data(),
          .high = bounds.high.data()});
    if (known == Known::kAverage) return expect_lse(r, r + 1, sigmas, sink);
    if (present(problem_.tensor[ATTEST_LSE]))
      sink({.role = ATTEST_LSE,
            .leading = 3,
            .width = 1,
            .rows = rows,
            .low = &nothing,
            .high = &nothing});
  }

  const EqualKeys& equal_keys(const RowTask& task) const {
    return equal_[size_t(task.b * params_.num_kv_heads + task.kv_head)];
  }

  std::vector<EqualKeys> find_groups() const {
    std::vector<EqualKeys> equal(size_t(params_.batch * params_.num_kv_heads));
    if (ScopedTermFactor<SigmaTerm>::of(SigmaTerm::kEqualScores) == 0) return equal;
#pragma omp parallel for schedule(                                                      \
        dynamic, 1) if (int64_t(equal.size()) * params_.seq_len_kv * params_.head_dim > \
                            kThreadedElements)
    for (size_t unit = 0; unit < equal.size(); ++unit)
      equal[unit] =
          find_equal_keys(tensors_[ATTEST_K], geometry_, int64_t(unit) / params_.num_kv_heads,
                          int64_t(unit) % params_.num_kv_heads);
    return equal;
  }

  // Where the host would sample few rows, and the device can do more.
  bool is_for(const GoldenDevice& device) const {
    return vectors_ != KnownInputs::Vectors::kHuge &&
           multiply_adds(problem_, geometry_) > device.worthwhile_multiply_adds() &&
           DeviceRows::budget(device).sampled > RowBudget{}.sampled &&
           DeviceRows::unknown(problem_, equal_).empty();
  }

  int64_t count_distinct_queries() const {
    const Tensor& q = tensors_[ATTEST_Q];
    const TensorSpec& spec = q.spec;
    std::vector<double> row(size_t(params_.head_dim));
    std::unordered_set<uint64_t> seen;
    for (const JudgedRow& judged : plan_.rows) {
      const Cell cell = geometry_.query(judged.b, judged.i);
      load_row(q.data, spec.dtype,
               cell.outer * spec.stride[0] + judged.h * spec.stride[1] + cell.row * spec.stride[2],
               params_.head_dim, spec.stride[3], row.data());
      seen.insert(hash_bytes(row.data(), row.size() * sizeof(double), uint64_t(judged.h)));
    }
    return int64_t(seen.size());
  }

  // As many threads as their buffers fit into the budget, and no more than there is work for.
  template <class Body>
  void run_tasks(const Body& body) const {
    const int64_t fitting =
        std::max<int64_t>(1, kPassBytes / KeyPasses::bytes(params_, values_may_follow_));
    double multiply_adds = 0;
    for (const RowTask& task : plan_.tasks)
      multiply_adds += double(task.end - task.begin) * double(task.keys.size()) *
                       double(params_.head_dim + params_.head_dim_v);
    const auto worthwhile = int64_t(std::min(multiply_adds / 1e6, 1e6)) + 1;
    const int threads = int(std::min<int64_t>(
        {fitting, omp_get_max_threads(), int64_t(plan_.tasks.size()) + 1, worthwhile}));
#pragma omp parallel num_threads(threads)
    {
      KeyPasses passes(problem_, tensors_, geometry_, vectors_ == KnownInputs::Vectors::kHuge,
                       ties_hold_);
#pragma omp for schedule(dynamic, 1)
      for (size_t t = 0; t < plan_.tasks.size(); ++t) body(passes, plan_.tasks[t]);
    }
  }

  SigmaModel model_of(const Arithmetic& arithmetic) const {
    SigmaModel model = SigmaModel::of(SoftmaxArithmetic::of(arithmetic), problem_);
    if (vectors_ != KnownInputs::Vectors::kAny)
      model.take_few_codes(vectors_ == KnownInputs::Vectors::kHuge);
    if (values_may_follow_) model.take_any_values();
    if (few_scores_) model.take_few_scores();
    if (scores_spread_) model.take_spread_scores();
    if (beside_subnormals_ > 0) model.take_subnormal_operands(beside_subnormals_);
    return model;
  }

  std::shared_ptr<const Sigmas> sigmas_of(const Arithmetic& arithmetic) const {
    const std::lock_guard guard(lock_);
    for (const auto& kept : kept_)
      if (kept->arithmetic == arithmetic) return kept;
    auto sigmas = std::make_shared<Sigmas>(
        Sigmas{arithmetic, std::vector<double>(o_.size()), std::vector<double>(rows_.size())});
    const SigmaModel model = model_of(arithmetic);
    if (device_rows_)
      device_rows_->finish(scores_.data(), model,
                           {.o = have_o_ ? nullptr : o_.data(),
                            .sigma = sigmas->o.data(),
                            .lse_sigma = sigmas->lse.data()});
    else
      run_tasks([&](KeyPasses& passes, const RowTask& task) {
        const size_t at = task.begin * size_t(params_.head_dim_v);
        passes.finish(task, task_rows(task, plan_.rows), equal_keys(task), task_rows(task, scores_),
                      model,
                      {.o = have_o_ ? nullptr : o_.data() + at,
                       .sigma = sigmas->o.data() + at,
                       .lse_sigma = sigmas->lse.data() + task.begin});
      });
    have_o_ = true;
    kept_.push_back(sigmas);
    while (kept_.size() > 1 && kept_.size() * o_.size() > kKeptSigmas) kept_.pop_front();
    return sigmas;
  }

  const KnownInputs::Vectors vectors_;
  const bool values_may_follow_, ties_hold_, few_scores_, scores_spread_;
  const double beside_subnormals_;
  const Problem problem_;
  const Tensors tensors_;
  const attest_softmax_params& params_;
  const Geometry geometry_;
  const std::vector<EqualKeys> equal_;  // [batch, num_kv_heads]
  const GoldenDevice* const device_;    // null: the host makes all rows
  const RowPlan plan_;
  const ValueBounds bounds_;
  int64_t distinct_ = 0;
  std::unique_ptr<DeviceRows> device_rows_;
  std::vector<RowScores> scores_;
  // Outputs do not depend on the arithmetic: the first second pass writes them, for good.
  mutable std::vector<double> o_;  // [rows, head_dim_v]
  mutable bool have_o_ = false;
  std::vector<double> lse_;
  std::vector<int64_t> rows_;  // output rows
  mutable std::mutex lock_;
  mutable std::list<std::shared_ptr<const Sigmas>> kept_;
};

}  // namespace

std::unique_ptr<Golden> golden_of(const Problem& problem, const Tensors& tensors,
                                  const KnownInputs& known, const GoldenDevice* device) {
  return std::make_unique<SoftmaxGolden>(problem, tensors, known, device);
}

std::unique_ptr<Golden> softmax_golden(const Problem& problem, const Tensors& tensors,
                                       const GoldenDevice* device, bool values_may_follow) {
  return golden_of(problem, tensors, {.values_may_follow = values_may_follow}, device);
}

}  // namespace attest::core
