#include "testing/scale_operation.hpp"

#include <cmath>

#include "core/operations/numerics/rounding.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/random.hpp"

namespace attest::testing {
namespace {

using namespace core;

// What is lost where x is rounded to less than float32, in which it comes at most.
double operand_roundoff(const Arithmetic& arithmetic) {
  const DType operand = arithmetic.stage[kOperand].dtype;
  return unit_roundoff(operand) > unit_roundoff(ATTEST_F32) ? unit_roundoff(operand) : 0;
}

class ScaleGolden final : public Golden {
 public:
  ScaleGolden(const Problem& problem, const Tensor& x) : problem_(problem), x_(x) {}

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    const auto& p = problem_.as<ScaleParams>();
    std::vector<double> value(size_t(p.width)), sigma(size_t(p.width));
    for (int64_t row = 0; row < p.rows; ++row) {
      for (int64_t i = 0; i < p.width; ++i) {
        value[size_t(i)] = double(p.factor) * x_.at({row, i});
        sigma[size_t(i)] = std::hypot(unit_roundoff(arithmetic.output) * value[size_t(i)],
                                      half_subnormal(arithmetic.output),
                                      operand_roundoff(arithmetic) * value[size_t(i)]) /
                           std::sqrt(3);
      }
      sink({.role = kY,
            .leading = 1,
            .width = p.width,
            .rows = {&row, 1},
            .value = value.data(),
            .sigma = sigma.data()});
    }
  }
  std::string method() const override { return "float64, all rows"; }

 private:
  const Problem& problem_;
  Tensor x_;
};

class ScaleOperation final : public Operation {
 public:
  int32_t number() const override { return kScale; }
  std::string_view name() const override { return "scale"; }
  size_t params_size() const override { return sizeof(ScaleParams); }
  std::span<const Field> fields() const override {
    static const Field fields[] = {ATTEST_FIELD(ScaleParams, factor, 3, "factor"),
                                   ATTEST_FIELD(ScaleParams, rows, 1, "rows"),
                                   ATTEST_FIELD(ScaleParams, width, 1, "elements in a row")};
    return fields;
  }
  std::span<const Role> roles() const override {
    static const Role roles[] = {{kX, "x", ATTEST_READ, true, ATTEST_NONE},
                                 {kY, "y", ATTEST_WRITE, true, ATTEST_NONE}};
    return roles;
  }
  std::span<const ArithmeticStage> stages() const override {
    static const ArithmeticStage stages[] = {{kOperand, "operand"}};
    return stages;
  }
  void complete(Problem&) const override {}
  std::vector<int64_t> dims(const Problem& problem, int32_t) const override {
    const auto& p = problem.as<ScaleParams>();
    return {p.rows, p.width};
  }
  void check(const Problem& problem) const override {
    const auto& p = problem.as<ScaleParams>();
    if (p.rows < 1 || p.width < 1) throw Error("scale: rows and width must be at least 1");
  }
  uint64_t features(const Problem&) const override { return 0; }
  double flops(const Problem& problem) const override {
    const auto& p = problem.as<ScaleParams>();
    return double(p.rows) * double(p.width);
  }
  std::vector<std::string> fills(const Problem&) const override { return {"random"}; }
  void fill(const Problem& problem, const Fill& fill, const Tensors& tensors, bool) const override {
    const auto& p = problem.as<ScaleParams>();
    for (int64_t i = 0; i < p.rows * p.width; ++i) {
      const TensorSpec& spec = tensors[kX].spec;
      store(tensors[kX].data, spec.dtype, row_offset(spec, 2, i),
            double(random_normal(fill.seed, uint64_t(i))));
    }
  }
  std::unique_ptr<Golden> golden(const Problem& problem, const Fill&,
                                 const Tensors& tensors) const override {
    return std::make_unique<ScaleGolden>(problem, tensors[kX]);
  }
  void emulate(const Problem& problem, const Tensors& tensors, const Arithmetic& arithmetic,
               int /*kernel*/, std::span<const int64_t> rows,
               const EmulationSink& sink) const override {
    const auto& p = problem.as<ScaleParams>();
    std::vector<double> values(size_t(p.width));
    for (const int64_t row : rows) {
      for (int64_t i = 0; i < p.width; ++i)
        values[size_t(i)] = rounded(
            double(p.factor) * rounded(tensors[kX].at({row, i}), arithmetic.stage[kOperand].dtype),
            arithmetic.output);
      sink(kY, row, values);
    }
  }
};

}  // namespace

const Operation& scale_operation() {
  static const ScaleOperation operation;
  static const bool registered = (register_operation(&operation), true);
  (void)registered;
  return operation;
}

// A program that this is linked into knows the operation from its start.
[[maybe_unused]] static const Operation& known_from_the_start = scale_operation();

Problem scale_problem(int64_t rows, int64_t width, DType dtype) {
  Problem problem = blank_problem(scale_operation(), dtype);
  problem.as<ScaleParams>().rows = rows;
  problem.as<ScaleParams>().width = width;
  finish_problem(problem);
  return problem;
}

}  // namespace attest::testing
