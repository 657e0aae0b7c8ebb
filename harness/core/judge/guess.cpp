#include "core/judge/guess.hpp"

#include <fmt/format.h>

#include "core/judge/check.hpp"
#include "core/judge/locate.hpp"
#include "core/operations/mistake.hpp"

namespace attest::core {
namespace {

constexpr double kMostGuessFlops = 1e8;  // of one run; there are some forty goldens
// A mistake may leave so many rows unexplained, as shares of the rows that are wrong and of all
// rows: those that would see no key are often treated in a way of their own.
constexpr double kUnexplained = 0.1, kUnexplainedOfAll = 0.05;

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
  std::optional<Location> location() const {
    return locate(problem_, *golden_, arithmetic_, tensors_);
  }

 private:
  Problem problem_;
  Tensors tensors_;
  const Arithmetic& arithmetic_;
  std::unique_ptr<Golden> golden_;
};

}  // namespace

std::optional<std::string> guess_mistake(const Problem& problem, const Arithmetic& arithmetic,
                                         const Tensors& inputs, const Tensors& outputs) {
  if (problem.operation->flops(problem) > kMostGuessFlops) return std::nullopt;
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
    if (trial.passes()) return "it is as if " + mistake.words;
    const std::optional<Location> left = trial.location();
    if (!left || double(left->wrong_rows) > fewest) continue;
    fewest = double(left->wrong_rows) - 1;
    nearest = fmt::format("it is as if {}, but for {} of {} rows", mistake.words, left->wrong_rows,
                          left->rows);
  }
  return nearest;
}

}  // namespace attest::core
