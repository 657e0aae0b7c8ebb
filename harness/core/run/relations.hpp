// Metamorphic checks of one problem: an implementation runs again on changed inputs, and its
// outputs are compared with one another.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/inputs/prepared.hpp"
#include "core/operations/relation.hpp"
#include "core/record/record.hpp"
#include "core/run/plugin.hpp"

namespace attest::core {

/// Which problems get them: none; those that are cheap enough to do it always; all.
enum class RelationChoice { kNone, kAuto, kAll };

/// Whether `choice` means this problem, one run of which took `run_ns`.
bool wants_relations(RelationChoice choice, const Problem& problem, double run_ns);

/// All relations of one problem and one set of inputs; what has to be made for them is made once
/// for all implementations.
class RelationChecks {
 public:
  /// Both must outlive it. `only`: one relation's name, whose records then name the fill too;
  /// empty: all.
  RelationChecks(const Problem& problem, PreparedInputs& base, std::string_view only = {});
  ~RelationChecks();

  /// `outputs`: of the problem, with the workspace that the implementation declared for it. Stops
  /// at the first relation that does not hold unless `all`.
  std::vector<RelationRecord> run(Plugin& plugin, const Implementation& implementation,
                                  const Arithmetic& arithmetic, SharedTensors& outputs, bool all);
  /// Seconds spent so far in making inputs, and in goldens and comparing.
  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  struct Derived;
  struct Made;
  bool fits(const Relation& relation, const Made& made, RelationRecord& record) const;
  RelationRecord check(size_t index, Made& made);
  bool make_run(Made& made, const Problem& problem, Derived& derived, bool own_sigmas,
                RelationRecord& record);

  const Problem& problem_;
  PreparedInputs& base_;
  std::vector<std::unique_ptr<Relation>> relations_;
  std::vector<std::vector<std::unique_ptr<Derived>>>
      derived_;         // of each relation, of each of its runs
  std::string suffix_;  // of the relations' names
  bool keep_ = false;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
