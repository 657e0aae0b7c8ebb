// Metamorphic relations: properties that must hold between the outputs of runs on related inputs.
// They need no golden.
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

/// The sigmas of all output elements that a golden judges exactly.
class SigmaTable {
 public:
  SigmaTable(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic);
  /// The sigmas from element `first` on, in dense order; NaN for elements that the golden does not
  /// judge exactly. Null if the role is an input.
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
  const SigmaTable* sigmas = nullptr;  // null: not known for this run
};

/// Elements of one output row of the base problem, computed by two runs. first[e] and second[e]
/// must agree.
struct Claim {
  int32_t role = 0;
  int leading = 0;  // `row` counts through the first `leading` dims of the base's tensor
  int64_t row = 0;
  std::span<const double> first, second;
  std::span<const double> sigma;  // sum of both runs' sigmas; NaN: not known
};

class Relation {
 public:
  using Sink = std::function<void(const Claim&)>;
  virtual ~Relation() = default;

  /// "key-permutation"; if the relation does not hold, the reason code is "fail:key-permutation".
  virtual std::string_view name() const = 0;
  /// Whether the outputs of a deterministic implementation must agree in every bit. True if the
  /// change leaves every number that a row is computed from as it was, at the same address.
  virtual bool bitwise() const { return false; }
  /// One problem for each further run; the base run is not among them.
  virtual const std::vector<Problem>& problems() const = 0;
  /// Whether an honest implementation of that arithmetic holds the relation. If the change makes
  /// numbers too large for a declared dtype, it need not.
  virtual bool suits(const Arithmetic& /*arithmetic*/) const { return true; }
  /// Whether the sigmas of these runs differ from the base's. If so, each run needs its own golden.
  virtual bool own_sigmas() const { return false; }
  /// Writes all inputs of run `run`. May be called again.
  virtual void fill(size_t run, const Tensors& inputs) const = 0;
  /// Calls `sink` with everything that must agree.
  virtual void compare(const RelationRun& base, std::span<const RelationRun> runs,
                       const Sink& sink) const = 0;
};

/// Reads `count` elements of `tensor` from dense index `first` on, as float64. All lie in one row
/// of the last dim.
void read_elements(const Tensor& tensor, int64_t first, int64_t count, double* values);
/// Copies every element, bit by bit. Both tensors have the same dtype and dims; layouts may differ.
void copy_elements(const Tensor& from, const Tensor& to);

/// A relation with one run. Its inputs are the base's, changed by `change`; its outputs are
/// compared with the base's row by row.
class SamePlaces : public Relation {
 public:
  SamePlaces(const Problem& problem, const Tensors& inputs) : problems_{problem}, inputs_(inputs) {}
  const std::vector<Problem>& problems() const override { return problems_; }
  void fill(size_t run, const Tensors& inputs) const override;
  void compare(const RelationRun& base, std::span<const RelationRun> runs,
               const Sink& sink) const override;

 protected:
  virtual void change(const Tensors& /*inputs*/) const {}
  /// Rows of outputs count through this many dims; by default all but the last.
  virtual int leading(const TensorSpec& spec) const { return spec.rank - 1; }
  /// Whether this row is compared.
  virtual bool compares(int32_t /*role*/, int64_t /*row*/) const { return true; }
  /// The change multiplies the outputs of that role by this.
  virtual double factor(int32_t /*role*/) const { return 1; }
  const Problem& problem() const { return problems_[0]; }
  const Tensors& inputs() const { return inputs_; }

 private:
  std::vector<Problem> problems_;
  Tensors inputs_;
};

/// The same inputs again: another run of the same plan or of another plan, with other contents in
/// the workspace. No operation lists this relation; every problem has it
/// (run/relations/repetition.hpp).
std::unique_ptr<Relation> repetition(const Problem& problem, const Tensors& inputs);
/// The largest magnitude that a stage has to hold for the inputs of a problem.
struct StageRange {
  int32_t stage;                    // ATTEST_SOFTMAX_ACCUMULATOR ...
  std::function<double()> largest;  // called at most once, if a declared dtype has a small range
};
/// V times 16, 8, 4 and 2. It shows kernels that clip values. Each suits arithmetics that can hold
/// V times that factor, and no more. Factors with which V or O would leave the range of their
/// dtypes are missing. `ranges`: those that are multiplied with V.
std::vector<std::unique_ptr<Relation>> value_scales(const Problem& problem, const Tensors& inputs,
                                                    std::vector<StageRange> ranges);
/// `larger` has some larger dims than the base problem. Its tensors repeat the base's along those
/// dims; its outputs must repeat likewise.
std::unique_ptr<Relation> repeated(std::string_view name, const Tensors& inputs,
                                   const Problem& larger);

/// A permutation of rows of one tensor. Element [.., outer, .., place, ..] of the new tensor is
/// element [.., o, .., s, ..] of the old one, where source[outer * dim(axis) + place] is o *
/// dim(axis) + s. If outer_axis is -1, it is element [.., source[place], ..].
struct Rearrangement {
  int32_t role;
  int outer_axis, axis;
  std::vector<int64_t> source;
};
std::unique_ptr<Relation> rearranged(std::string_view name, const Problem& problem,
                                     const Tensors& inputs,
                                     std::vector<Rearrangement> rearrangements);

/// The numbers 0 .. count - 1 in an order that follows from `seed`.
std::vector<int64_t> shuffled_places(int64_t count, uint64_t seed);
/// The largest magnitude of the finite elements.
double largest_value(const Tensor& tensor);

/// The base problem with sizes changed by `change`. Every present tensor becomes dense and keeps
/// its dtype; a broadcast dim stays broadcast. Throws Error if the result is invalid.
Problem resized(const Problem& problem, const std::function<void(Problem&)>& change);

}  // namespace attest::core
