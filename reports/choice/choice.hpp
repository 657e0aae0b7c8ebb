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

#include "reports/choice/problems.hpp"

namespace attest::reports {

/// What an implementation has to keep. A limit without a value limits nothing.
struct ChoiceLimits {
  std::optional<double> deadline_ns;      // of the slowest time seen (worst_of)
  std::optional<double> memory_bytes;     // measured, beyond the tensors
  std::optional<double> max_error_ratio;  // of the largest error, as a share of its gate
};

/// How far the estimated time of a skipped case may be off: it rejects an implementation only above
/// so many times the deadline. Estimates are the operations divided by the highest speed that the
/// same implementation had before. On CPUs they were 2.9 times too long at most (64 timed records
/// of the quick suites). On a GPU they were up to 98 times too long, because the first run loads
/// the kernels; there they reject nothing.
inline constexpr double kEstimateFactor = 10;

enum class Usable { kYes, kUnknown, kNo };
/// "usable", "undecided", "rejected".
const char* name(Usable usable);

/// What one record says of its implementation.
struct Finding {
  Usable usable = Usable::kYes;
  /// What is broken, or what is not known: a verdict that is not pass, "estimate" (skipped, and far
  /// too slow by its estimated time), "accuracy", "memory", "time" (not timed, or not above 0),
  /// "deadline". Empty if it is usable.
  std::string limit;

  /// Keeps the first of the most serious findings.
  void set(Usable found, const char* what) {
    if (found > usable) *this = {found, what};
  }
};
Finding judge(const core::Record& record, const ChoiceLimits& limits);

/// The slowest time that was seen, warm, cold or of a frame by a clock, alone: what a deadline has
/// to hold against. NaN if one of these times is NaN. The record has times.
double worst_of(const core::Record& record);
/// The longest that a frame took, alone. 0: no frames were run. NaN if one is NaN.
double worst_frame_of(const core::Record& record);
/// The slowest cold time. 0: none was measured. NaN if one is NaN.
double worst_cold_of(const core::TimeRecord& time);

/// By how much an implementation that passes misses what is asked of it.
struct Miss {
  std::string limit;  // the one that is exceeded the most: "accuracy", "memory" or "deadline"
  double factor = 0;  // what was measured, divided by the limit; above 1
};

/// One implementation with one number of threads.
struct Candidate {
  std::string impl;
  int32_t threads = 1;
  Usable usable = Usable::kYes;
  /// As Finding has it, or "range" (more or fewer tokens than measured), "between" (the measured
  /// sizes on both sides disagree), "alignment" (both say yes, but all judged sizes are multiples
  /// of what this one is no multiple of).
  std::string limit;
  std::vector<const core::Record*> points;  // the records that decide, the nearest first
  /// Of "alignment": the largest power of two that all judged sizes are multiples of.
  int64_t judged_multiple = 0;
  /// Of an implementation that passes at the nearest point, and breaks a limit there.
  std::optional<Miss> miss;

  /// The largest median, and the slowest time seen, of the points; nothing: one was not timed, or
  /// has a time that is not finite.
  std::optional<double> median_ns() const, worst_ns() const;
};

struct Choice {
  std::optional<int64_t> tokens;      // what was asked about; nothing: the case as it was measured
  std::vector<Candidate> candidates;  // usable, undecided, rejected; the fastest first

  /// The fastest that may be used; null: there is none.
  const Candidate* best() const;
  /// Of those that may not be used, the one that misses its limits by the least: of the undecided,
  /// or if they have no miss, of the rejected. Null if some may be used, or if no miss was
  /// measured.
  const Candidate* nearest_miss() const;
  /// kUnknown: none may be used for certain, but of some the records cannot tell.
  Usable usable() const;
  /// How many candidates may be used.
  size_t usable_count() const;
};

/// The answer for a case, or with `tokens` for a family at that size. Of several records of an
/// implementation, with the same case and threads, the last one that was not skipped counts. If it
/// passes, but an earlier record of the same library is wrong, the last wrong one counts. Of
/// several cases of the size that is asked about, the most serious decides. Between two measured
/// sizes both have to agree; otherwise the answer is unknown. It is also unknown if all judged
/// sizes are multiples of a power of two, and the asked size is not. Above the largest measured
/// size an implementation is rejected if it is at the largest, and is otherwise undecided. Below
/// the smallest it is rejected if it is unsupported there for a reason that does not depend on
/// tokens: of its table or its kernels, or the same at two sizes or more. Sizes that were skipped
/// count as not measured, unless what is estimated or declared of them rejects.
Choice choose(const ProblemRecords& problem, std::optional<int64_t> tokens,
              const ChoiceLimits& limits);

}  // namespace attest::reports
