// Vectors: first the reference is held against what others computed, then every implementation
// against the reference, by sigma.
#pragma once
#include <memory>
#include <string>
#include <variant>

#include "core/cases/read_vectors.hpp"
#include "core/run/runner.hpp"

namespace attest::core {

/// The name under which the reference stands among the implementations.
inline constexpr std::string_view kReference = "reference";
/// And that of outputs that were given to be judged.
inline constexpr std::string_view kGiven = "given";

/// The vector of that place; or the record of the reference that says why there is none to run:
/// "unsupported:vector" where attest has no word for it, "error:vector" where its files are
/// damaged.
std::variant<VectorCase, Record> vector_or_record(const std::string& suite,
                                                  const VectorPlace& place);

class VectorRunner {
 public:
  /// `vector` (not an unsupported one) and `options` must outlive it.
  VectorRunner(const VectorCase& vector, std::string suite, const RunOptions& options,
               Rates& rates);

  /// The reference on the given inputs against every output that the vector has; or those outputs
  /// by sigma, where they have an arithmetic of their own (the record is of `kGiven` then). Never
  /// throws: inputs that make no sense are error:vector.
  Record reference() const;
  /// Whether there is a problem that implementations could take.
  bool has_problem() const { return runner_ != nullptr; }
  /// Never throws either: inputs that cannot be made are error:vector.
  Record run(Plugin& plugin, const Implementation& implementation);
  /// Seconds spent in making inputs, and in goldens and comparing, by run().
  double inputs_s() const { return runner_ ? runner_->inputs_s() : 0; }
  double judging_s() const { return runner_ ? runner_->judging_s() : 0; }

 private:
  void judge_outputs(Record& record) const;
  void judge_given(Record& record) const;

  const VectorCase& vector_;
  std::string suite_, spec_;
  const RunOptions& options_;
  std::unique_ptr<CaseRunner> runner_;
};

}  // namespace attest::core
