// Runs that a relation ties together -> judgement.
#pragma once
#include "core/judge/check.hpp"
#include "core/operations/relation.hpp"

namespace attest::core {

/// Judges what `relation` claims of these runs: within twice the gate (each run may be off by one),
/// and to the bit where the relation allows no less and the implementation is deterministic. Ratios
/// are of twice the gate. A failure's code is "fail:<relation>".
Judgement judge_relation(const Relation& relation, const RelationRun& base,
                         std::span<const RelationRun> runs, bool deterministic);

}  // namespace attest::core
