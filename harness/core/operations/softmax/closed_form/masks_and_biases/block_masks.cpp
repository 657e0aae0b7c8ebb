#include "core/operations/softmax/closed_form/masks_and_biases/block_masks.hpp"

#include <span>

#include "core/operations/fill_rows.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

// What a row of blocks sees.
enum class Row {
  kAll,
  kNone,
  kFirst,
  kLast,
  kAllButFirst,
  kAllButLast,
  kLocal,  // three blocks near the diagonal
  kEveryOther,
  kQuarter,  // at random
  kHalf
};

constexpr Row kSparseTurns[] = {Row::kLocal,   Row::kLast,  Row::kQuarter, Row::kNone,
                                Row::kQuarter, Row::kLocal, Row::kFirst,   Row::kQuarter};
constexpr int64_t kAllOf = 64;  // of so many sparse rows, one sees all blocks
// Sixteen turns are sixteen patterns. Half of the rows see all blocks, or nearly all.
constexpr Row kDenseTurns[] = {Row::kAll,         Row::kLast, Row::kAllButFirst, Row::kNone,
                               Row::kAllButLast,  Row::kHalf, Row::kAll,         Row::kEveryOther,
                               Row::kAll,         Row::kHalf, Row::kFirst,       Row::kAllButLast,
                               Row::kAllButFirst, Row::kAll,  Row::kHalf,        Row::kAll};

struct Place {
  int64_t row, rows, columns;
  uint64_t seed;  // of what is drawn at random
};

bool sees(Row row, const Place& at, int64_t column) {
  const bool first = column == 0, last = column == at.columns - 1;
  switch (row) {
    case Row::kAll: return true;
    case Row::kNone: return false;
    case Row::kFirst: return first;
    case Row::kLast: return last;
    case Row::kAllButFirst: return !first;
    case Row::kAllButLast: return !last;
    case Row::kLocal: {
      const int64_t centre = at.row * at.columns / at.rows;
      return column >= centre - 1 && column <= centre + 1;
    }
    case Row::kEveryOther: return column % 2 == at.row % 2;
    case Row::kQuarter: return random_below(at.seed, uint64_t(column), 4) == 0;
    case Row::kHalf: return random_below(at.seed, uint64_t(column), 2) == 0;
  }
  return true;
}

}  // namespace

void fill_block_mask(const Tensor& block_mask, uint64_t seed, BlockDensity density) {
  const TensorSpec& spec = block_mask.spec;
  const bool dense = density == BlockDensity::kDense;
  const std::span<const Row> turns =
      dense ? std::span<const Row>(kDenseTurns) : std::span<const Row>(kSparseTurns);
  fill_rows(block_mask, [&](int64_t r, std::span<float> values) {
    const int64_t head = r / spec.dim[2], row = r % spec.dim[2],
                  turn = (row + 3 * head) % int64_t(turns.size());
    const bool all = !dense && (row + 3 * head) % kAllOf == kAllOf / 2;
    // Dense rows of one turn are equal, so that a closed form has few patterns.
    const auto stream = uint64_t(dense ? head * int64_t(turns.size()) + turn : r);
    const Place at{dense ? turn : row, dense ? int64_t(turns.size()) : spec.dim[2],
                   int64_t(values.size()), random_bits(seed, stream)};
    for (size_t column = 0; column < values.size(); ++column)
      values[column] = all || sees(turns[size_t(turn)], at, int64_t(column)) ? 1.0f : 0.0f;
  });
}

}  // namespace attest::core
