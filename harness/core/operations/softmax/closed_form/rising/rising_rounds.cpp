// How many rounds of "rising" a problem has.
#include <algorithm>

#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/operations/softmax/softmax.hpp"

namespace attest::core {
namespace {

// Limits on the bytes of inputs and the operations of all rounds together. Beyond them there are
// two: 32 rows of decoding leave some rises to the second one.
constexpr double kRoundBytes = 512 << 20, kRoundFlops = 1e11, kLeastRounds = 2;

int64_t most_rounds(const Problem& problem) {
  const double by_bytes = kRoundBytes / std::max(1.0, min_bytes(problem)),
               by_flops = kRoundFlops / std::max(1.0, problem.operation->flops(problem));
  return int64_t(std::clamp(std::min(by_bytes, by_flops), kLeastRounds, double(kMostRounds)));
}

// The rounds until a round shows nothing new, if masks and biases hide nothing.
int64_t rounds_until_shown(const AskingRows& rows, const MarkPlan& plan,
                           const std::vector<Ask>& asks, int64_t first, int64_t most) {
  AskDeal deal(asks);
  const std::vector<int64_t> reach = rows.reach();
  std::vector<int64_t> places(size_t(plan.codes()));
  for (int64_t round = first; round < most; ++round) {
    const int64_t before = deal.new_deals();
    for (const AskingRow& row : rows.of_round(round)) {
      for (int64_t code = 0; code < plan.codes(); ++code) {
        const int64_t place = plan.place(code, reach[size_t(row.b)], row.keys.begin);
        places[size_t(code)] = row.keys.contains(place) ? place : -1;
      }
      deal.next(row, places);
    }
    if (deal.new_deals() == before) return round;
  }
  return most;
}

}  // namespace

int64_t rising_rounds(const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  const int32_t term = leading_term(problem);
  const int64_t first = term != 0 ? 1 : 0, least = first + 1,
                most = std::max(most_rounds(problem), least);
  const AskingRows rows(problem, term, sequence_lengths(problem, false),
                        sequence_lengths(problem, true));
  if (p.head_dim <= Codebook::kOwnChannels || rows.are_none()) return 1;
  if (term == ATTEST_REL_BIAS || term == ATTEST_ALIBI_SLOPES) {
    const TensorSpec& spec = problem.tensor[size_t(term)];
    const int64_t heads = spec.dim[0] * (term == ATTEST_REL_BIAS ? 1 : spec.dim[1]),
                  leads = Codebook::leads_of_term(term);
    return std::clamp((leads + heads - 1) / heads + 1, least, most);
  }
  if (!rows.are_dealt()) return least;
  const MarkPlan plan(Codebook::repeats(p), rows.period(), rows.reach(), Marks::kMost);
  const std::vector<Ask> asks = asks_of(plan.marks(), term, problem.has(ATTEST_ALIBI_SLOPES));
  // Rows that do not see the mark that they would ask for leave some steps to one more round. The
  // one after it would show nothing new in any case of the suites.
  const auto hides = [&](int32_t role) {
    return problem.has(role) && problem.tensor[size_t(role)].dim[3] > 1;
  };
  const int64_t more = hides(ATTEST_MASK) || hides(ATTEST_BIAS) ? 1 : 0;
  return std::clamp(rounds_until_shown(rows, plan, asks, first, most) + more, least, most);
}

}  // namespace attest::core
