// The golden of codebook fills that have no closed form.
#include <algorithm>

#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/operations/softmax/golden/known_inputs.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr uint64_t kAskedSeed = 0x61736b6564;
// These rows cost several times as much as those of random inputs: the errors of equal keys are
// added before they are squared.
constexpr RowBudget kBudget{.all = 5e8, .sampled = 1e9, .rows_a_head = 128},
    kBudgetOfMarks{.all = 5e8, .sampled = 2e9, .rows_a_head = 256};

// Returns one row of sequence b and head h for each query code that occurs there. Each head begins
// with other codes, so that a few rows of each head cover most codes. The last head begins with the
// codes that show most bugs, because ALiBi lowers leads least there.
std::vector<int64_t> rows_of_codes(const Codebook& book, int64_t heads, int64_t b, int64_t h) {
  const Geometry& geometry = book.geometry();
  const int64_t length = geometry.length_q(b), unit = b * heads + h,
                units = geometry.batch() * heads;
  const auto from = int64_t(random_below(kAskedSeed, uint64_t(unit), uint64_t(length)));
  std::vector<int64_t> row_of(size_t(book.query_codes()), -1);
  for (int64_t n = 0; n < length; ++n) {
    const int64_t i = (from + n) % length;
    int64_t& row = row_of[book.query_code(h, geometry.query(b, i))];
    if (row < 0 && geometry.keys(b, i).size() > 0) row = i;
  }
  const auto first = row_of.begin() + (units - 1 - unit) * book.query_codes() / units;
  std::rotate(row_of.begin(), first, row_of.end());
  std::erase(row_of, -1);
  return row_of;
}

}  // namespace

std::unique_ptr<Golden> sampled_codebook_golden(const Problem& problem, const Fill& fill,
                                                const Tensors& tensors,
                                                const GoldenDevice* device) {
  const Codebook::Kind kind = Codebook::kind_of(fill.name);
  KnownInputs known{.vectors = kind == Codebook::Kind::kHuge ? KnownInputs::Vectors::kHuge
                                                             : KnownInputs::Vectors::kFewCodes,
                    .budget = kind == Codebook::Kind::kRising ? kBudgetOfMarks : kBudget};
  const int64_t heads = problem.as<attest_softmax_params>().num_heads;
  std::unique_ptr<Codebook> book;  // made if rows are sampled
  known.wanted = [&](int64_t b, int64_t h) {
    if (!book) book = std::make_unique<Codebook>(problem, fill, tensors);
    return rows_of_codes(*book, heads, b, h);
  };
  return golden_of(problem, tensors, known, device);
}

}  // namespace attest::core
