#include "core/judge/guess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "core/judge/check.hpp"
#include "core/judge/locate.hpp"
#include "core/operations/mistake.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

constexpr double kMostGuessFlops = 1e8;  // of one run; there are some forty goldens
// A mistake may leave so many rows unexplained, as shares of the rows that are wrong and of all
// rows: those that would see no key are often treated in a way of their own.
constexpr double kUnexplained = 0.1, kUnexplainedOfAll = 0.05;

// The golden of outputs that are all multiplied by one factor. Errors grow with them.
class ScaledGolden : public Golden {
 public:
  ScaledGolden(const Golden& golden, double factor) : golden_(golden), factor_(factor) {}
  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    golden_.expect(arithmetic, [&](const Expected& chunk) {
      const size_t count = size_t(chunk.width) * (chunk.shared ? 1 : chunk.rows.size());
      const std::vector<double> value = scaled(chunk.value, count, factor_),
                                sigma = scaled(chunk.sigma, count, std::fabs(factor_)),
                                low = scaled(chunk.low, count, factor_),
                                high = scaled(chunk.high, count, factor_);
      Expected changed = chunk;
      if (chunk.value) {
        changed.value = value.data();
        changed.sigma = sigma.data();
      }
      if (chunk.low) changed.low = (factor_ < 0 ? high : low).data();
      if (chunk.high) changed.high = (factor_ < 0 ? low : high).data();
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
  const double factor_;
};

// The main output, judged by the golden of a problem and its inputs.
class Trial {
 public:
  Trial(const Problem& problem, const Tensors& inputs, const Arithmetic& arithmetic,
        const Tensors& outputs)
      : problem_(problem), tensors_(inputs), arithmetic_(arithmetic) {
    for (const Role& role : problem_.operation->roles()) {
      if (!is_output(role)) continue;
      // Optional outputs may be wrong by themselves.
      if (!role.required) problem_.tensor[size_t(role.index)] = {};
      if (problem_.has(role.index)) tensors_[size_t(role.index)] = outputs[size_t(role.index)];
    }
    golden_ = problem_.operation->golden(problem_, {.name = "random", .seed = 0}, tensors_);
  }
  bool passes() const { return judge(problem_, *golden_, arithmetic_, tensors_).outcome.passes(); }
  bool passes_times(double factor) const {
    return judge(problem_, ScaledGolden(*golden_, factor), arithmetic_, tensors_).outcome.passes();
  }
  /// The factor between the golden and the output, by least squares of errors in sigmas; 0: there
  /// is none.
  double output_factor() const {
    double products = 0, squares = 0;
    std::mutex lock;
    golden_->expect(arithmetic_, [&](const Expected& chunk) {
      if (!chunk.value) return;
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
          if (!(sigma > 0)) continue;
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

// A factor on the scale of the scores, or on the output, that nobody would list.
std::optional<std::string> guess_factor(const Problem& problem, const Trial& truth,
                                        const Arithmetic& arithmetic, const Tensors& inputs,
                                        const Tensors& outputs) {
  constexpr double kLeast = 1e-3;  // an output of zeros is zero times anything
  if (const double factor = truth.output_factor();
      std::fabs(factor) > kLeast && truth.passes_times(factor))
    return fmt::format("{}o were multiplied by {:.4g}", kAsIf, factor);
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
  if (truth.passes()) return std::nullopt;
  const std::optional<Location> wrong = truth.location();
  double fewest = 0;  // unexplained rows
  if (wrong)
    fewest =
        std::min(kUnexplained * double(wrong->wrong_rows), kUnexplainedOfAll * double(wrong->rows));
  std::string nearest = "no known mistake gives this output";
  for (const Mistake& mistake : problem.operation->mistakes(problem, inputs)) {
    const Trial trial(mistake.problem, mistake.inputs, arithmetic, outputs);
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
