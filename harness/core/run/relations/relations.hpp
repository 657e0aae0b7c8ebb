// Checks the relations of one problem: an implementation runs again on changed inputs, and its
// outputs are compared with one another.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/inputs/golden_store.hpp"
#include "core/operations/relation.hpp"
#include "core/record/record.hpp"
#include "core/run/trial.hpp"

namespace attest::core {

/// For which problems relations are checked: none, the cheap ones, or all.
enum class RelationChoice { kNone, kAuto, kAll };

/// Where a run takes longer, no relation is checked, and no run is repeated for kAll.
inline constexpr double kLongestRun_ns = 20e9;

/// Whether relations are checked for this problem, on which one run took `run_ns`.
bool wants_relations(RelationChoice choice, const Problem& problem, double run_ns);

/// All relations of one problem and one set of inputs. Changed inputs and their goldens are made
/// once for all implementations.
class RelationChecks {
 public:
  /// The first three arguments must outlive this object. `only`: the name of the one relation to
  /// check; empty: all relations. `names_fill`: records name the fill behind the relation.
  RelationChecks(const Problem& problem, const PreparedInputs& base, GoldenStore& goldens,
                 std::string_view only, bool names_fill);
  ~RelationChecks();

  /// Checks the relations; without `all`, stops at the first that does not hold.
  std::vector<RelationRecord> run(const Trial& trial, bool all);
  /// Seconds spent so far in making inputs, and in goldens and comparisons.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  struct Derived;
  struct Made;
  Outcome fits(const Relation& relation, const Made& made) const;
  RelationRecord check(size_t index, Made& made);
  Outcome make_run(Made& made, Derived& derived, bool own_sigmas, double& run_ns);

  const Problem& problem_;
  const PreparedInputs& base_;
  GoldenStore& goldens_;
  std::vector<std::unique_ptr<Relation>> relations_;
  std::vector<std::vector<std::unique_ptr<Derived>>>
      derived_;         // for each relation, one for each of its runs
  std::string suffix_;  // added to the relations' names
  bool keep_ = false;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
