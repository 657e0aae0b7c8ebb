// A job with its inputs, made at the first need and shared by all implementations.
#pragma once
#include <memory>
#include <optional>

#include "core/record/case_key.hpp"
#include "core/run/registry.hpp"
#include "core/run/runner.hpp"
#include "core/session/plan.hpp"

namespace attest::core {

class OpenJob {
 public:
  virtual ~OpenJob() = default;

  /// A test vector has a record of its own before those of implementations: of the reference, or of
  /// the outputs that it brings. Its key; none: a case has no such record.
  virtual std::optional<CaseKey> reference_key() const { return {}; }
  /// Makes that record.
  virtual Record reference() { return {}; }
  /// Whether there is a problem that implementations can take.
  virtual bool has_problem() const { return true; }
  /// Judges and times one implementation. Throws Error: inputs that cannot be made.
  virtual Record run(const Registry::Entry& entry) = 0;
  /// Seconds spent in making inputs, and in goldens and comparing.
  virtual double inputs_s() const = 0;
  virtual double judging_s() const = 0;
};

/// Loads the tokens of a case, reads a vector. `options` and `rates` must outlive it. Throws Error:
/// tokens that cannot be loaded. A vector that cannot be read is a record of its reference.
std::unique_ptr<OpenJob> open_job(const Job& job, TokenStore& tokens, const RunOptions& options,
                                  Rates& rates);

}  // namespace attest::core
