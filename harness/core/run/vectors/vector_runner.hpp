// Runs test vectors: first compares the reference with the vector's outputs, then judges every
// implementation against the reference, by sigma.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "core/run/runner.hpp"
#include "core/vectors/read_vectors.hpp"

namespace attest::core {

/// The name of the reference in records.
inline constexpr std::string_view kReference = "reference";
/// The name, in records, of outputs that the user gave to be judged.
inline constexpr std::string_view kGiven = "given";

/// Reads the vector at `place`. If that is impossible, returns a record of the reference with the
/// reason: "unsupported:vector" for an operation that attest does not know, "error:vector" for
/// damaged files.
std::variant<TestVector, Record> vector_or_record(const std::string& suite,
                                                  const VectorPlace& place);

/// The words that the description of a vector lacks: with them the reference passes, which failed
/// without them. "--params causal"; nothing: no other reading helps, or the vector is too large for
/// trying.
std::optional<std::string> words_to_pass(const VectorPlace& place, const RunOptions& options);

class VectorRunner {
 public:
  /// `vector` must not be unsupported. `vector`, `options` and `rates` must outlive this object.
  VectorRunner(const TestVector& vector, std::string suite, const RunOptions& options,
               Rates& rates);

  /// Compares the reference with every output of the vector. If TestVector::arithmetic is set,
  /// judges these outputs by sigma instead; the record is then called kGiven. Never throws: invalid
  /// inputs give error:vector.
  Record reference() const;
  /// Says in the reference's record, which is bad, where the outputs are wrong and which mistake
  /// gives them.
  void explain(Record& record) const;
  /// Whether there is a problem for implementations to run.
  bool has_problem() const { return runner_ != nullptr; }
  /// Judges one implementation. Never throws: invalid inputs give error:vector.
  Record run(Plugin& plugin, const Implementation& implementation);
  /// Seconds that run() spent in making inputs, and in goldens and comparisons.
  double inputs_s() const { return runner_ ? runner_->inputs_s() : 0; }
  double judging_s() const { return runner_ ? runner_->judging_s() : 0; }
  double pacing_s() const { return runner_ ? runner_->pacing_s() : 0; }

 private:
  void judge_outputs(Record& record) const;
  void judge_given(Record& record) const;

  const TestVector& vector_;
  std::string suite_, spec_;
  const RunOptions& options_;
  std::unique_ptr<CaseRunner> runner_;
};

}  // namespace attest::core
