// The rounds of the fill "rising": whether scores or a term have the leads in them, and which rows
// ask. rising_rounds (softmax.hpp) tells how many a problem has.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/operations/softmax/closed_form/rising/ask_deal.hpp"
#include "core/operations/softmax/closed_form/rising/mark_plan.hpp"

namespace attest::core {

inline constexpr int64_t kMostRounds = 24;

/// Returns 1 for "rising_2", 2 for "rising_3" and so on, and 0 for all other fills.
int64_t round_of(std::string_view fill);
/// Returns the role of the term that has the leads in further rounds: ATTEST_BIAS, ATTEST_REL_BIAS
/// or ATTEST_ALIBI_SLOPES. Returns 0 if the scores have them.
int32_t leading_term(const Problem& problem);
/// Returns whether the fill is a further round of "rising" in which a term has the leads.
bool leads_in_term(const Problem& problem, const Fill& fill);

/// The asks of a problem's rows in rounds in which `term` has the leads (0: scores). `slopes`: the
/// problem has ALiBi.
std::vector<Ask> asks_of(const Marks& marks, int32_t term, bool slopes);

/// Which rows ask in each round, for lengths of sequences that need not be those of the fills.
class AskingRows {
 public:
  /// `term`: leading_term(), or 0 where the scores have the leads. `problem` must outlive this
  /// object.
  AskingRows(const Problem& problem, int32_t term, std::vector<int64_t> length_q,
             std::vector<int64_t> length_kv);

  /// Returns whether no sequence has a query.
  bool are_none() const;
  /// Returns whether rows are so few that AskDeal deals to them, round by round.
  bool are_dealt() const;
  /// The rows of a round, those that see the most keys first. Of a BIAS that several sequences and
  /// heads share, each row has the leads of one of them, in turn.
  std::vector<AskingRow> of_round(int64_t round) const;
  /// The number of keys in the largest interval that a row sees, at least 1.
  int64_t period() const;
  /// The number of keys of each sequence up to the last one that a row sees.
  std::vector<int64_t> reach() const;

 private:
  void add(std::vector<AskingRow>& rows, int64_t b, int64_t i, int64_t head) const;
  std::vector<AskingRow> of_bias(int64_t round) const;
  bool all_see_all() const;

  const Problem& problem_;
  const attest_softmax_params& params_;
  int32_t term_;
  std::vector<int64_t> length_q_, length_kv_;
};

/// Returns the sequence, head and position whose leads row `at` of BIAS (leading 3) has in that
/// round, or -1 in all three if there is no such position. `length_q`: of each sequence.
struct BiasRow {
  int64_t b = -1, i = -1, head = -1;
};
BiasRow row_of_bias(const TensorSpec& bias, int64_t at, int64_t round, int64_t num_heads,
                    const std::vector<int64_t>& length_q);

}  // namespace attest::core
