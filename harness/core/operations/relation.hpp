// Metamorphic relations: what the outputs of several runs on related inputs have to do with one
// another, whatever they are.
//
//   for (const auto& relation : operation.relations(problem, inputs)) {
//     for (size_t run = 0; run < relation->problems().size(); ++run)
//       relation->fill(run, inputs_of(relation->problems()[run]));
//     // The implementation runs on these inputs. Then both sides of each claim have to agree.
//     relation->compare(base, runs, [](const Claim& claim) { ... });
//   }
//
// An operation names its own relations; runner and judge never ask which operation they have.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/operations/golden.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// Standard deviations of the error in every element of the outputs that a golden judges exactly.
class SigmaTable {
 public:
  SigmaTable(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic);
  /// Of elements `first` and on, counted through all dims, the last fastest; NaN where the golden
  /// has no value. Null for an input.
  const double* at(int32_t role, int64_t first) const;
  /// Golden::distinct_rows
  int64_t distinct_rows() const { return distinct_rows_; }

 private:
  std::map<int32_t, std::vector<double>> sigmas_;
  int64_t distinct_rows_;
};

/// One run of an implementation.
struct RelationRun {
  const Problem& problem;
  const Tensors& inputs;
  const Tensors& outputs;
  const SigmaTable* sigmas = nullptr;  // null: of this run they are not known
};

/// Some elements of an output of the base problem as two runs have them: first[e] and second[e]
/// have to agree.
struct Claim {
  int32_t role = 0;
  int leading = 0;  // the row counts through so many dims of the base's tensor
  int64_t row = 0;
  std::span<const double> first, second;
  std::span<const double> sigma;  // sum of both standard deviations; NaN where it is not known
};

class Relation {
 public:
  using Sink = std::function<void(const Claim&)>;
  virtual ~Relation() = default;

  /// "key-permutation"; where it does not hold the reason code is "fail:key-permutation".
  virtual std::string_view name() const = 0;
  /// Whether a deterministic implementation has no honest reason to differ in any bit: the
  /// transformation leaves every number that a row is computed from, and its place in memory, as it
  /// was.
  virtual bool bitwise() const { return false; }
  /// The problems of the runs beside the base's own run.
  virtual const std::vector<Problem>& problems() const = 0;
  /// Whether errors of these runs have other sigmas than the base's, so that goldens of their own
  /// are needed.
  virtual bool own_sigmas() const { return false; }
  /// Writes all inputs of run `run`. May be called again.
  virtual void fill(size_t run, const Tensors& inputs) const = 0;
  virtual void compare(const RelationRun& base, std::span<const RelationRun> runs,
                       const Sink& sink) const = 0;
};

/// `count` elements of `tensor` from dense index `first` on, as float64. All lie in one row of the
/// last dim.
void read_elements(const Tensor& tensor, int64_t first, int64_t count, double* values);
/// Copies every element, bit by bit; both have the same dtype and dims, layouts may differ.
void copy_elements(const Tensor& from, const Tensor& to);

/// A relation with one run on inputs that are the base's own but for what `change` does to them,
/// and whose outputs are compared row by row; `factor`: what the outputs of `role` grow by.
class SamePlaces : public Relation {
 public:
  SamePlaces(const Problem& problem, const Tensors& inputs) : problems_{problem}, inputs_(inputs) {}
  const std::vector<Problem>& problems() const override { return problems_; }
  void fill(size_t run, const Tensors& inputs) const override;
  void compare(const RelationRun& base, std::span<const RelationRun> runs,
               const Sink& sink) const override;

 protected:
  virtual void change(const Tensors& /*inputs*/) const {}
  /// Rows of outputs are counted through so many dims, or all but the last.
  virtual int leading(const TensorSpec& spec) const { return spec.rank - 1; }
  virtual bool compares(int32_t /*role*/, int64_t /*row*/) const { return true; }
  virtual double factor(int32_t /*role*/) const { return 1; }
  const Problem& problem() const { return problems_[0]; }
  const Tensors& inputs() const { return inputs_; }

 private:
  std::vector<Problem> problems_;
  Tensors inputs_;
};

/// The same once more: another run of the same plan or of another one, with something else in its
/// workspace. No operation lists it; every problem has it (run/repetition.hpp).
std::unique_ptr<Relation> repetition(const Problem& problem, const Tensors& inputs);
/// V times a power of two: what it is large enough to run into would be a limit that attention does
/// not have. Null where V would leave its dtype.
std::unique_ptr<Relation> value_scale(const Problem& problem, const Tensors& inputs);
/// Every tensor of `larger` filled with the base's own over and over along each dim that has grown;
/// its outputs repeat likewise.
std::unique_ptr<Relation> repeated(std::string_view name, const Tensors& inputs,
                                   const Problem& larger);

/// Rows of some tensors in another order: element [.., outer, .., place, ..] of the new tensor is
/// the old one's at source[outer * dim(axis) + place], split the same way; where outer_axis is -1,
/// at [.., source[place], ..].
struct Rearrangement {
  int32_t role;
  int outer_axis, axis;
  std::vector<int64_t> source;
};
std::unique_ptr<Relation> rearranged(std::string_view name, const Problem& problem,
                                     const Tensors& inputs,
                                     std::vector<Rearrangement> rearrangements);

/// The base problem with other sizes: every present tensor dense, of the dtype it had, a dim that
/// was broadcast still so. Throws Error where that is no problem.
Problem resized(const Problem& problem, const std::function<void(Problem&)>& change);

}  // namespace attest::core
