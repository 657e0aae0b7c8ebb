// A job whose inputs are made once, when they are first needed, for all implementations.
#pragma once
#include <memory>
#include <optional>

#include "core/record/case_key.hpp"
#include "core/run/plugins/registry.hpp"
#include "core/run/runner.hpp"
#include "core/session/plan.hpp"

namespace attest::core {

class OpenJob {
 public:
  virtual ~OpenJob() = default;

  /// A test vector has one record more than implementations: that of the reference, or of the
  /// outputs that the user gave. Returns its key; nothing for a case of a suite.
  virtual std::optional<CaseKey> reference_key() const { return {}; }
  /// Makes that record.
  virtual Record reference() { return {}; }
  /// Whether there is a problem for implementations to run.
  virtual bool has_problem() const { return true; }
  /// Judges and times one implementation. Throws Error if the inputs cannot be made.
  virtual Record run(const Registry::Entry& entry) = 0;
  /// Seconds spent in making inputs, in goldens and comparisons, in frames and windows of energy.
  virtual double inputs_s() const = 0;
  virtual double judging_s() const = 0;
  virtual double pacing_s() const = 0;
};

/// Loads the tokens of a case, or reads a vector. `options` and `rates` must outlive the result.
/// Throws Error if tokens cannot be loaded. If a vector cannot be read, its reference record says
/// so.
std::unique_ptr<OpenJob> open_job(const Job& job, TokenStore& tokens, const RunOptions& options,
                                  Rates& rates);

}  // namespace attest::core
