#include "core/judge/guess.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

#include "core/judge/check.hpp"
#include "core/judge/locate.hpp"
#include "core/operations/mistake.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

// Of one run. Some forty goldens take as long as it in float64, and up to 70 more if rows have few
// keys: add_rescale_mistakes.
constexpr double kMostGuessFlops = 1e8;
// A mistake may leave so many rows unexplained, as shares of the rows that are wrong and of all
// rows: those that would see no key are often treated in a way of their own.
constexpr double kUnexplained = 0.1, kUnexplainedOfAll = 0.05;

// By role, what an output is multiplied by.
using Factors = std::map<int32_t, double>;

// The golden of the outputs that have a factor, multiplied by it. Errors grow with them.
class ScaledGolden : public Golden {
 public:
  ScaledGolden(const Golden& golden, Factors factors)
      : golden_(golden), factors_(std::move(factors)) {}
  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    golden_.expect(arithmetic, [&](const Expected& chunk) {
      const auto found = factors_.find(chunk.role);
      if (found == factors_.end()) return;
      const double factor = found->second;
      const size_t count = chunk.element_count();
      const std::vector<double> value = scaled(chunk.value, count, factor),
                                sigma = scaled(chunk.sigma, count, std::fabs(factor)),
                                low = scaled(chunk.low, count, factor),
                                high = scaled(chunk.high, count, factor);
      Expected changed = chunk;
      if (chunk.value) {
        changed.value = value.data();
        changed.sigma = sigma.data();
      }
      if (chunk.low) changed.low = (factor < 0 ? high : low).data();
      if (chunk.high) changed.high = (factor < 0 ? low : high).data();
      sink(changed);
    });
  }
  int64_t distinct_rows() const override { return golden_.distinct_rows(); }
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return golden_.independent_rows(arithmetic, role);
  }
  std::string method() const override { return golden_.method(); }

 private:
  static std::vector<double> scaled(const double* from, size_t count, double factor) {
    std::vector<double> to(from ? count : 0);
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[i] * factor;
    return to;
  }

  const Golden& golden_;
  const Factors factors_;
};

// The golden of an output whose rows have a factor each, by number (leading 3). Errors grow with
// them.
class RowScaledGolden : public Golden {
 public:
  RowScaledGolden(std::unique_ptr<Golden> golden, const std::vector<double>& factors)
      : golden_(std::move(golden)), factors_(factors) {}
  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    golden_->expect(arithmetic, [&](const Expected& chunk) {
      if (!chunk.value) return;
      const auto width = size_t(chunk.width);
      std::vector<double> value(width * chunk.rows.size()), sigma(value);
      for (size_t n = 0; n < value.size(); ++n) {
        const double factor = factors_[size_t(chunk.rows[n / width])];
        const size_t from = chunk.shared ? n % width : n;
        value[n] = factor * chunk.value[from];
        sigma[n] = factor * chunk.sigma[from];
      }
      Expected changed = chunk;
      changed.shared = false;
      changed.value = value.data();
      changed.sigma = sigma.data();
      sink(changed);
    });
  }
  int64_t distinct_rows() const override { return golden_->distinct_rows(); }
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return golden_->independent_rows(arithmetic, role);
  }
  std::string method() const override { return golden_->method(); }

 private:
  const std::unique_ptr<Golden> golden_;
  const std::vector<double>& factors_;
};

// Which outputs a trial judges. Optional ones may be wrong by themselves.
enum class Outputs { kRequired, kAll };

// Outputs, judged by the golden of a problem and its inputs.
class Trial {
 public:
  Trial(const Problem& problem, const Tensors& inputs, const Arithmetic& arithmetic,
        const Tensors& outputs, Outputs judged = Outputs::kRequired)
      : problem_(problem), tensors_(inputs), arithmetic_(arithmetic) {
    for (const Role& role : problem_.operation->roles()) {
      if (!is_output(role)) continue;
      if (!role.required && judged == Outputs::kRequired) problem_.tensor[size_t(role.index)] = {};
      if (problem_.has(role.index)) tensors_[size_t(role.index)] = outputs[size_t(role.index)];
    }
    golden_ = problem_.operation->golden(problem_, {.name = "random", .seed = 0}, tensors_);
  }
  /// Of the outputs that a mistake gives, which must outlive this object.
  Trial(const Mistake& mistake, const Arithmetic& arithmetic, const Tensors& outputs)
      : Trial(mistake.problem, mistake.inputs, arithmetic, outputs) {
    if (!mistake.row_factors.empty())
      golden_ = std::make_unique<RowScaledGolden>(std::move(golden_), mistake.row_factors);
  }
  bool passes() const { return judge(problem_, *golden_, arithmetic_, tensors_).outcome.passes(); }
  /// Whether output `role` passes if it should be `factor` times what it should be.
  bool passes_times(int32_t role, double factor) const {
    Problem alone = problem_;
    for (const Role& one : problem_.operation->roles())
      if (is_output(one) && one.index != role) alone.tensor[size_t(one.index)] = {};
    return judge(alone, ScaledGolden(*golden_, {{role, factor}}), arithmetic_, tensors_)
        .outcome.passes();
  }
  bool has(int32_t role) const { return problem_.has(role); }
  /// The factor between the golden and an output, by least squares of errors in sigmas; 0: there
  /// is none.
  double output_factor(int32_t role) const {
    double products = 0, squares = 0;
    std::mutex lock;
    golden_->expect(arithmetic_, [&](const Expected& chunk) {
      if (!chunk.value || chunk.role != role) return;
      const Tensor& tensor = tensors_[size_t(chunk.role)];
      const int64_t stride =
          chunk.leading < tensor.spec.rank ? tensor.spec.stride[chunk.leading] : 0;
      std::vector<double> got(static_cast<size_t>(chunk.width));
      const std::lock_guard guard(lock);
      for (size_t r = 0; r < chunk.rows.size(); ++r) {
        load_row(tensor.data, tensor.spec.dtype,
                 row_offset(tensor.spec, chunk.leading, chunk.rows[r]), chunk.width, stride,
                 got.data());
        const size_t first = chunk.shared ? 0 : r * got.size();
        for (size_t e = 0; e < got.size(); ++e) {
          const double value = chunk.value[first + e], sigma = chunk.sigma[first + e];
          if (!(sigma > 0) || !std::isfinite(value) || !std::isfinite(got[e])) continue;
          products += got[e] / sigma * (value / sigma);
          squares += value / sigma * (value / sigma);
        }
      }
    });
    const double factor = products / squares;
    return std::isfinite(factor) ? factor : 0;
  }
  std::optional<Location> location() const {
    return locate(problem_, *golden_, arithmetic_, tensors_);
  }

 private:
  Problem problem_;
  Tensors tensors_;
  const Arithmetic& arithmetic_;
  std::unique_ptr<Golden> golden_;
};

// A few rows of the main output, and what an exact kernel with another scale would give there.
class ScaleSearch {
 public:
  ScaleSearch(const Problem& problem, const Field& field, const Tensors& inputs,
              const Tensors& outputs)
      : problem_(problem), field_(field), inputs_(inputs) {
    for (auto& stage : exact_.stage) stage.dtype = ATTEST_F64;
    for (const Role& role : problem.operation->roles())
      if (is_output(role) && role.required) role_ = role.index;
    const Tensor& output = outputs[size_t(role_)];
    const int leading = output.spec.rank - 1;
    const int64_t count = row_count(output.spec, leading), width = output.spec.dim[leading];
    const double row_flops = problem.operation->flops(problem) / double(count),
                 trials = 2 * (kDecades / kStep + kSteps);
    const int64_t most = std::min({count, kRows, int64_t(kMostFlops / (trials * row_flops))});
    for (int64_t n = 0; n < most; ++n) {
      // The last rows see most keys of a band. Those of several heads are not all of one query.
      const int64_t row = std::max<int64_t>(count - 1 - n * count / most - n, 0);
      std::vector<double>& got = got_[row];
      if (!got.empty()) continue;
      got.resize(size_t(width));
      load_row(output.data, output.spec.dtype, row_offset(output.spec, leading, row), width,
               output.spec.stride[leading], got.data());
      rows_.push_back(row);
    }
  }

  /// The factor on the scale that fits the rows best; 0: none fits them.
  double find() const {
    if (rows_.empty()) return 0;
    double best = 0, least = kFits;
    for (double exponent = -kDecades; exponent <= kDecades; exponent += kStep)
      if (const double error = error_at(exponent); error < least) {
        least = error;
        best = exponent;
      }
    if (least == kFits) return 0;
    double low = best - kStep, high = best + kStep;
    constexpr double kGolden = 0.6180339887498949;
    for (int step = 0; step < kSteps; ++step) {
      const double first = high - kGolden * (high - low), second = low + kGolden * (high - low);
      if (error_at(first) < error_at(second))
        high = second;
      else
        low = first;
    }
    return std::exp2((low + high) / 2);
  }

 private:
  static constexpr int64_t kRows = 6;
  static constexpr int kSteps = 45;  // each makes the interval smaller by 0.62
  static constexpr double kMostFlops =
      4e8;  // of the whole search: a second, as emulations are slow
  static constexpr double kDecades = 8, kStep = 0.25;  // of the binary logarithm
  static constexpr double kFits = 0.1;  // of the squares of the output: more is no fit

  /// The median over the rows, some of which may be rounded coarsely.
  double error_at(double exponent) const {
    Problem changed = problem_;
    set_field(changed, field_, get_field(problem_, field_) * std::exp2(exponent));
    std::vector<double> errors;
    problem_.operation->emulate(changed, inputs_, exact_, 0, rows_,
                                [&](int32_t role, int64_t row, std::span<const double> values) {
                                  if (role != role_) return;
                                  const std::vector<double>& got = got_.at(row);
                                  double error = 0, squares = 0;
                                  for (size_t e = 0; e < values.size(); ++e) {
                                    error += (values[e] - got[e]) * (values[e] - got[e]);
                                    squares += got[e] * got[e];
                                  }
                                  const bool is_number = std::isfinite(error) && squares > 0;
                                  errors.push_back(is_number ? error / squares : kInfinity);
                                });
    if (errors.empty()) return kInfinity;
    const auto median = errors.begin() + ptrdiff_t((errors.size() - 1) / 2);
    std::ranges::nth_element(errors, median);
    return *median;
  }

  const Problem& problem_;
  const Field& field_;
  const Tensors& inputs_;
  Arithmetic exact_;
  int32_t role_ = 0;
  std::map<int64_t, std::vector<double>> got_;
  std::vector<int64_t> rows_;
};

// A field of the problem; 0: its operation has none of that name.
double field_of(const Problem& problem, std::string_view name) {
  for (const Field& field : problem.operation->fields())
    if (field.name == name) return get_field(problem, field);
  return 0;
}

// What a factor is, in words: " (1 / softmax_scale, which is sqrt(head_dim))"; "" for one that is
// none of those that kernels forget or apply twice.
std::string name_of_factor(const Problem& problem, double factor) {
  constexpr double kNear = 2e-3, kSame = 1e-6;
  const double scale = field_of(problem, "softmax_scale"), dim = field_of(problem, "head_dim"),
               heads = field_of(problem, "num_heads"), kv_heads = field_of(problem, "num_kv_heads"),
               points = field_of(problem, "num_points");
  struct Known {
    double factor;
    std::string name, inverse;
  };
  std::vector<Known> known;
  if (std::fabs(scale * std::sqrt(dim) - 1) < kSame)
    known = {{scale, "softmax_scale, which is 1 / sqrt(head_dim)",
              "1 / softmax_scale, which is sqrt(head_dim)"},
             {scale * scale, "softmax_scale squared, which is 1 / head_dim",
              "1 / (softmax_scale squared), which is head_dim"}};
  else
    known = {{scale, "softmax_scale", "1 / softmax_scale"},
             {scale * scale, "softmax_scale squared", "1 / (softmax_scale squared)"},
             {std::sqrt(dim), "sqrt(head_dim)", "1 / sqrt(head_dim)"},
             {dim, "head_dim", "1 / head_dim"}};
  known.push_back({std::numbers::log2e, "log2(e)", "1 / log2(e)"});
  known.push_back({kv_heads > 0 ? heads / kv_heads : 0, "num_heads / num_kv_heads",
                   "1 / (num_heads / num_kv_heads)"});
  known.push_back({heads, "num_heads", "1 / num_heads"});
  known.push_back({points, "num_points", "1 / num_points"});
  std::vector<std::string> names;
  const auto is_near = [&](double one) { return std::fabs(factor / one - 1) < kNear; };
  for (const auto& [one, name, inverse] : known) {
    if (!(one > 0) || std::fabs(one - 1) < kNear) continue;
    if (is_near(one)) names.push_back(name);
    if (is_near(1 / one)) names.push_back(inverse);
  }
  return names.empty() ? "" : fmt::format(" ({})", fmt::join(names, " or "));
}

// A factor on each output that is wrong, each its own: "dq were multiplied by 0.25, dk by 4".
std::optional<std::string> guess_output_factors(const Problem& problem, const Trial& trial) {
  constexpr double kLeast = 1e-3;  // an output of zeros is zero times anything
  std::string words;
  for (const Role& role : problem.operation->roles()) {
    if (!is_output(role) || !trial.has(role.index) || trial.passes_times(role.index, 1)) continue;
    const double factor = trial.output_factor(role.index);
    if (std::fabs(factor) <= kLeast || !trial.passes_times(role.index, factor)) return std::nullopt;
    words += fmt::format("{}{} {}by {:.4g}{}", words.empty() ? "" : ", ", role.name,
                         words.empty() ? "were multiplied " : "", factor,
                         name_of_factor(problem, factor));
  }
  if (words.empty()) return std::nullopt;
  return std::string(kAsIf) + words;
}

// A factor on the outputs, or on the scale of the scores, that nobody would list.
std::optional<std::string> guess_factor(const Problem& problem, const Trial& truth,
                                        const Arithmetic& arithmetic, const Tensors& inputs,
                                        const Tensors& outputs) {
  if (std::optional<std::string> words = guess_output_factors(problem, truth)) return words;
  for (const Field& field : problem.operation->fields()) {
    if (std::string_view(field.name) != "softmax_scale") continue;
    const double factor = ScaleSearch(problem, field, inputs, outputs).find();
    if (factor == 0) continue;
    const double scale = get_field(problem, field) * factor;
    std::vector<Mistake> mistakes;
    add_mistake(
        mistakes, fmt::format("softmax_scale were {:.4g} ({:.4g} of what it is)", scale, factor),
        problem, inputs, [&](Mistake& mistake) { set_field(mistake.problem, field, scale); });
    for (const Mistake& mistake : mistakes)
      if (Trial(mistake.problem, mistake.inputs, arithmetic, outputs).passes())
        return std::string(kAsIf) + mistake.words;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> guess_mistake(const Problem& problem, const Arithmetic& arithmetic,
                                         const Tensors& inputs, const Tensors& outputs) {
  if (problem.operation->flops(problem) > kMostGuessFlops)
    return "the problem is too large to try known mistakes; a smaller one may name it";
  const Trial truth(problem, inputs, arithmetic, outputs);
  if (truth.passes())
    return guess_output_factors(problem,
                                Trial(problem, inputs, arithmetic, outputs, Outputs::kAll));
  const std::optional<Location> wrong = truth.location();
  double fewest = 0;  // unexplained rows
  if (wrong)
    fewest =
        std::min(kUnexplained * double(wrong->wrong_rows), kUnexplainedOfAll * double(wrong->rows));
  std::string nearest = "no known mistake gives this output";
  for (const Mistake& mistake : problem.operation->mistakes(problem, inputs)) {
    const Trial trial(mistake, arithmetic, outputs);
    if (trial.passes()) return std::string(kAsIf) + mistake.words;
    const std::optional<Location> left = trial.location();
    if (!left || double(left->wrong_rows) > fewest) continue;
    fewest = double(left->wrong_rows) - 1;
    nearest = fmt::format("{}{}, but for {} of {} rows", kAsIf, mistake.words, left->wrong_rows,
                          left->rows);
  }
  if (std::optional<std::string> factor = guess_factor(problem, truth, arithmetic, inputs, outputs))
    return factor;
  return nearest;
}

}  // namespace attest::core
