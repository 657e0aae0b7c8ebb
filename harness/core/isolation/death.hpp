// How a worker ended, as a verdict with its reason.
#pragma once
#include <optional>
#include <string>

#include "core/isolation/worker_process.hpp"
#include "core/judge/verdict.hpp"
#include "core/operations/operation.hpp"

namespace attest::core {

/// What the worker is doing: "in run", "in timed run 17".
std::string doing(const StatusPage& page);

/// Whether the worker faulted where tensors were before run returned.
bool faulted_late(const StatusPage& page);

/// Says how a worker that is gone went, where it was, and what it said last. Waits a moment for its
/// end; one that has only closed its connection is ended. `problem` names the tensors; it may be
/// null.
Outcome explain_death(Worker& worker, const Problem* problem);

}  // namespace attest::core
