// Sums over equal keys. Their errors are equal, so they are added before they are squared.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/operations/softmax/golden/passes/key_sums.hpp"

namespace attest::core::passes {

/// One of several equal keys, in one row.
struct EqualKey {
  int32_t group = 0;              // the number of its group of equal keys
  double score = 0;               // a visible score
  double p = 0;                   // its probability
  double rounding_square = 0;     // a^2, see kernels::WeightModel
  double magnitude = 0;           // of its dot product: TileScores::magnitudes
  double staged_square = 0;       // SigmaModel::staged_square of all steps of the score
  double added_square = 0;        // the part of staged_square from the addition
  double lead_variance = 0;       // SigmaModel::lead_variance of its row
  const double* value = nullptr;  // [head_dim_v]
};

/// Equal keys have the same dot product, with the same error. Those to which the same number is
/// added have the same score, and their probabilities round alike. So there are two kinds of sums:
/// over a run of keys with one score, and over a group of equal keys. At the end of a run or group,
/// its squares are added to the row's KeySums. A few numbers may be added in any order (BIAS,
/// REL_BIAS), so a group has several runs at a time; where all numbers differ (ALiBi), a new run
/// ends an older one.
class EqualKeySums {
 public:
  EqualKeySums(int64_t head_dim_v, KeySums& sums);

  /// Starts rows 0 to rows - 1 without an open group.
  void start(int64_t rows);
  /// Adds the next key of a row. The keys of a group must follow one another.
  void add(int64_t row, const EqualKey& key, const SigmaModel& model,
           const SigmaModel::Flushing& flushing);
  /// Ends the open group of a row.
  void finish(int64_t row, const SigmaModel& model);

 private:
  // Keys of one score. e is p times the error of the addition and of the maximum's subtraction.
  struct Run {
    int64_t keys = 0;                             // 0: the run is not open
    double score = 0, added_square = 0;           // the same for all keys
    double a = 0, e = 0, p = 0;                   // sums
    std::vector<double> av, a2v2, ev, unsure_pv;  // [head_dim_v]: sums; empty before the first use
  };
  static constexpr size_t kRuns = 16;
  // Equal keys. e is p times the error of the dot product.
  struct Group {
    int32_t id = -1;                      // -1: none is open
    double square = 0, dot_variance = 0;  // the same for all keys: staged_square before the
                                          // addition, SigmaModel::qk_variance
    double e = 0, p = 0;                  // sums
    std::vector<double> ev;               // [head_dim_v]: sum
    std::array<Run, kRuns> runs;          // each score has its place
  };

  Run& run_of(int64_t row, double score, const SigmaModel& model);
  void add_own_part(int64_t row, double variance, const double* value);
  void end_run(int64_t row, Run& run, const SigmaModel& model);
  void end_group(int64_t row, const SigmaModel& model);

  int64_t head_dim_v_;
  KeySums& sums_;
  std::vector<Group> open_;  // [rows]
};

}  // namespace attest::core::passes
