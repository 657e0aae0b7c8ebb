// Judges whether a relation holds between runs.
#pragma once
#include "core/judge/check.hpp"
#include "core/operations/relation.hpp"

namespace attest::core {

/// Judges the claims of `relation` about these runs. Outputs must agree within twice the gate,
/// since each run may be off by one gate. They must agree in every bit if the relation is bitwise
/// and the implementation deterministic. Ratios are shares of twice the gate. The code of a failure
/// is "fail:<relation>".
Judgement judge_relation(const Relation& relation, const RelationRun& base,
                         std::span<const RelationRun> runs, bool deterministic);

}  // namespace attest::core
