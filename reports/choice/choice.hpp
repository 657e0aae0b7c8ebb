// Chooses an implementation for a problem within limits on time, memory and error. The command
// `attest choose` and the page's Decide (html/decide.js) have these same rules.
//
//   for (const ProblemRecords& problem : families(input))
//     if (const Choice choice = choose(problem, 32768, {.deadline_ns = 50e6}); choice.best())
//       fmt::print("{}: {}\n", title(problem), choice.best()->impl);
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/input.hpp"

namespace attest::reports {

/// What an implementation has to keep. A limit without a value limits nothing.
struct ChoiceLimits {
  std::optional<double> deadline_ns;      // of the slowest time seen, warm or cold
  std::optional<double> memory_bytes;     // measured, beyond the tensors
  std::optional<double> max_error_ratio;  // share of the gate
};

/// The records of one case, or of a family: problems that differ from one another in tokens alone.
/// All are of one machine. The input must outlive it.
struct ProblemRecords {
  std::string suite, name, dtype, machine;  // name: of the case; of a family, empty
  std::string spec;  // the problem; of a family, without what gives the tokens
  std::vector<const core::Record*> records;
};

/// The cases in the order of their first records.
std::vector<ProblemRecords> cases(const Input& input);
/// The families in the order of their first records. Problems without tokens are in none.
std::vector<ProblemRecords> families(const Input& input);

/// "lidar/full_32768/self f16"; of a family its spec, "lidar: softmax dtype=f16 head_dim=64".
std::string title(const ProblemRecords& problem);

/// The spec without the tokens, which the problems of a family have in common beside suite and
/// dtype. Empty if the record is in no family: it has no tokens, or is the smallest problem of a
/// sweep, measured for the launch cost.
std::string family_of(const core::Record& record);

enum class Usable { kYes, kUnknown, kNo };
/// "usable", "undecided", "rejected".
const char* name(Usable usable);

/// One implementation with one number of threads.
struct Candidate {
  std::string impl;
  int32_t threads = 1;
  Usable usable = Usable::kYes;
  /// What the implementation breaks, or what is not known: a verdict that is not pass,
  /// "accuracy", "memory", "time" (not timed), "deadline", "range" (more or fewer tokens than
  /// measured), "between" (the measured sizes on both sides disagree). Empty if it is usable.
  std::string limit;
  std::vector<const core::Record*> points;  // the measured points that decide, the nearest first

  /// The largest median, and the slowest time seen, of the points; nothing: one was not timed.
  std::optional<double> median_ns() const, worst_ns() const;
};

struct Choice {
  std::optional<int64_t> tokens;      // what was asked about; nothing: the case as it was measured
  std::vector<Candidate> candidates;  // usable, undecided, rejected; the fastest first

  /// The fastest that may be used; null: there is none.
  const Candidate* best() const;
  /// kUnknown: none may be used for certain, but of some the records cannot tell.
  Usable usable() const;
  /// How many candidates may be used.
  size_t usable_count() const;
};

/// The answer for a case, or with `tokens` for a family at that size. Of several records of an
/// implementation, with the same case and threads, the last one counts. Between two measured sizes
/// both decide; where they disagree, the records cannot tell. Above the largest measured size an
/// implementation is rejected if it is at the largest, and is otherwise undecided. Sizes that were
/// skipped count as not measured.
Choice choose(const ProblemRecords& problem, std::optional<int64_t> tokens,
              const ChoiceLimits& limits);

/// The powers of two from the fewest to the most tokens that the problems of a family have.
std::vector<int64_t> grid(const ProblemRecords& family);

/// Why a candidate of a choice may or may not be used: one sentence without its end.
std::string why(const Candidate& candidate, std::optional<int64_t> tokens,
                const ChoiceLimits& limits);

}  // namespace attest::reports
