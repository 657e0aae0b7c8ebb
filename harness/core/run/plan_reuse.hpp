// plan-reuse: problems of equal shape that differ in one thing each, in one process, their plans
// alive at the same time and their runs interleaved. Whatever a plugin keeps between plans must not
// serve one problem with what belongs to another.
//
// Two processes do the same in opposite orders: the problem itself comes first in one, its last
// variant in the other. So each problem is early in one process and late in the other, and an
// output that depends on what came before differs.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/variant.hpp"
#include "core/record/record.hpp"
#include "core/run/plugin.hpp"

namespace attest::core {

class PlanReuse {
 public:
  /// Of the problem, which must outlive this, and its variants (Operation::variants); inputs follow
  /// from `seed`.
  PlanReuse(const Problem& problem, uint64_t seed);
  ~PlanReuse();

  /// Tries the variants that the implementation takes and, unless `again`, that were not tried with
  /// it on this plugin before; nothing where none is left.
  std::optional<RelationRecord> run(Plugin& plugin, const Implementation& implementation,
                                    bool again);

  double inputs_s() const { return inputs_s_; }
  double judging_s() const { return judging_s_; }

 private:
  struct Member;
  struct Part;
  using Parts = std::vector<std::unique_ptr<Part>>;
  Parts parts(Plugin& plugin, const Implementation& implementation, bool again);
  bool play(Plugin& plugin, const Implementation& implementation, Parts& parts, bool forward,
            bool alive_at_once, RelationRecord& record);
  void judge(Plugin& plugin, const Implementation& implementation, Part& part,
             RelationRecord& record);
  void make_inputs(Member& member);

  std::vector<std::unique_ptr<Member>> members_;  // the problem itself, then its variants
  uint64_t seed_;
  double inputs_s_ = 0, judging_s_ = 0;
};

}  // namespace attest::core
