// Attention that is wrong in block masks or in global tokens: one bug for each table. A bug says
// which pairs a kernel with it would see; plain attention then runs with these pairs as its mask.
// An implementation refuses problems where its bug does nothing.
#include <algorithm>
#include <utility>

#include "mutants/features/planted.hpp"
#include "mutants/features/problem_copy.hpp"
#include "mutants/plain_attention.hpp"

namespace {

using Copy = mutants::ProblemCopy<attest_softmax_params>;

enum class Bug {
  kNone,
  // Block masks
  kIgnored,
  kTransposed,
  kLastColumnHidden,
  kLastColumnSeen,
  kLastRowSeesAll,
  kKeysByRowSize,
  kQueriesByKeySize,
  kHeadZero,
  kHeadAsSequence,
  kSequenceZero,
  kTileOfQueries,
  kTileOfKeys,
  kByMaskOfFirst,
  kDiagonalSeen,
  kBlindSeesAll,
  // Global tokens
  kGlobalsDoNotSee,
  kGlobalsAreNotSeen,
  kOneTooFew,
  kOneTooMany,
  kWholeTiles,
  kGlobalsCausal,
};

constexpr mutants::PlantedBug kBugs[] = {
    {"block_none", "plain attention, healthy"},
    {"block_ignored", "the block mask is left out"},
    {"block_transposed", "rows and columns of the block mask are swapped"},
    {"block_last_column_hidden", "the number of columns is rounded down: a short block is lost"},
    {"block_last_column_seen", "a short last block of keys is always seen"},
    {"block_last_row_sees_all", "a short last block of queries has no row in the block mask"},
    {"block_keys_by_row_size", "keys are cut into blocks of block_q"},
    {"block_queries_by_key_size", "queries are cut into blocks of block_kv"},
    {"block_head_zero", "all heads have the block mask of head 0"},
    {"block_head_as_sequence", "the block mask's first two dims are swapped"},
    {"block_sequence_zero", "all sequences have the block mask of sequence 0"},
    {"block_tile_of_queries", "two blocks of queries share the row of the first"},
    {"block_tile_of_keys", "two blocks of keys are skipped where the first is hidden"},
    {"block_by_mask_of_first", "a block is skipped where mask hides its first pair"},
    {"block_diagonal_seen", "blocks that the band cuts forget the block mask"},
    {"block_blind_sees_all", "a row of blocks that sees none sees all"},
    {"global_do_not_see", "global tokens are seen by all, but do not see all"},
    {"global_are_not_seen", "global tokens see all, but are not seen by all"},
    {"global_one_too_few", "the last global token is none"},
    {"global_one_too_many", "the first token behind the global ones is one"},
    {"global_whole_tiles", "global tokens fill up tiles of 16"},
    {"global_causal", "global tokens see no key behind their band"},
};
static_assert(std::size(kBugs) == size_t(Bug::kGlobalsCausal) + 1);

bool does_something(Bug bug, const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  const attest_tensor& mask = problem.tensor[ATTEST_BLOCK_MASK];
  const bool blocks = mask.dtype != ATTEST_NONE, globals = p.global_tokens > 0,
             several = blocks && mask.dim[2] > 1 && mask.dim[3] > 2;
  switch (bug) {
    case Bug::kNone: return blocks || globals;
    case Bug::kIgnored:
    case Bug::kTransposed:
    case Bug::kTileOfQueries:
    case Bug::kTileOfKeys: return several;
    case Bug::kLastColumnHidden:
    case Bug::kLastColumnSeen: return several && p.seq_len_kv % p.block_kv != 0;
    case Bug::kLastRowSeesAll: return several && p.seq_len_q % p.block_q != 0;
    case Bug::kKeysByRowSize:
    case Bug::kQueriesByKeySize: return several && p.block_q != p.block_kv;
    case Bug::kHeadZero: return several && mask.dim[1] > 1;
    case Bug::kHeadAsSequence: return several && mask.dim[0] > 1 && mask.dim[1] > 1;
    case Bug::kSequenceZero: return several && mask.dim[0] > 1;
    case Bug::kByMaskOfFirst: return several && problem.tensor[ATTEST_MASK].dtype != ATTEST_NONE;
    case Bug::kDiagonalSeen: return several && (p.window_left >= 0 || p.window_right >= 0);
    case Bug::kBlindSeesAll: return several && mask.dim[2] > 3;
    case Bug::kGlobalsCausal:
      return globals && p.window_right >= 0 && p.window_right + 2 < p.seq_len_kv;
    case Bug::kWholeTiles: return globals && p.global_tokens % 16 != 0 && p.seq_len_q > 32;
    case Bug::kGlobalsDoNotSee:
    case Bug::kGlobalsAreNotSeen:
    case Bug::kOneTooFew:
    case Bug::kOneTooMany: return globals;
  }
  return false;
}

/// Which pairs a kernel with a bug sees, as far as block mask and band say.
class Sight {
 public:
  Sight(Bug bug, const attest_problem& problem, void* const* data)
      : bug_(bug),
        p_(attest::params<attest_softmax_params>(problem)),
        at_(problem, data),
        blocks_(problem, data, ATTEST_BLOCK_MASK),
        mask_(problem, data, ATTEST_MASK) {}

  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (mask_ && !mask_(b, h, i, j)) return false;
    return in_band(b, i, j) && (!blocks_ || in_blocks(b, h, i, j));
  }

 private:
  bool is(Bug bug) const { return bug_ == bug; }

  // Without global tokens plain attention takes the band as it is.
  bool in_band(int64_t b, int64_t i, int64_t j) const {
    int64_t globals = p_.global_tokens;
    if (globals == 0) return true;
    if (is(Bug::kOneTooFew)) --globals;
    if (is(Bug::kOneTooMany)) ++globals;
    if (is(Bug::kWholeTiles)) globals = (globals + 15) / 16 * 16;
    if (i < globals && is(Bug::kGlobalsCausal)) {
      const int64_t end = at_.diagonal(b, i) + p_.window_right;
      return j < globals || j <= end;
    }
    if (i < globals && !is(Bug::kGlobalsDoNotSee)) return true;
    if (j < globals && !is(Bug::kGlobalsAreNotSeen)) return true;
    const int64_t centre = at_.diagonal(b, i);
    return (p_.window_left < 0 || j >= centre - p_.window_left) &&
           (p_.window_right < 0 || j <= centre + p_.window_right);
  }

  // The block mask at a row and a column, which may lie outside it.
  bool block(int64_t b, int64_t h, int64_t row, int64_t column) const {
    return blocks_(b, h, std::min(row, blocks_.dim(2) - 1), std::min(column, blocks_.dim(3) - 1));
  }

  bool in_blocks(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t row = i / p_.block_q, column = j / p_.block_kv;
    const int64_t last_row = blocks_.dim(2) - 1, last_column = blocks_.dim(3) - 1;
    switch (bug_) {
      case Bug::kIgnored: return true;
      case Bug::kTransposed: std::swap(row, column); break;
      case Bug::kLastColumnHidden:
        if (column == last_column) return false;
        break;
      case Bug::kLastColumnSeen:
        if (column == last_column) return true;
        break;
      case Bug::kLastRowSeesAll:
        if (row == last_row) return true;
        break;
      case Bug::kKeysByRowSize: column = j / p_.block_q; break;
      case Bug::kQueriesByKeySize: row = i / p_.block_kv; break;
      case Bug::kHeadZero: h = 0; break;
      case Bug::kSequenceZero: b = 0; break;
      case Bug::kHeadAsSequence: {
        // As a dense [num_heads, batch] would be read.
        const int64_t batch = blocks_.dim(0), heads = blocks_.dim(1),
                      at = (heads > 1 ? h : 0) * batch + (batch > 1 ? b : 0);
        b = at / heads;
        h = at % heads;
        break;
      }
      case Bug::kTileOfQueries: row -= row % 2; break;
      case Bug::kTileOfKeys:
        if (!block(b, h, row, column - column % 2)) return false;
        break;
      case Bug::kByMaskOfFirst:
        if (!mask_(b, h, row * p_.block_q, column * p_.block_kv)) return false;
        break;
      case Bug::kDiagonalSeen: {
        const attest::Keys first = at_.keys(b, row * p_.block_q),
                           last =
                               at_.keys(b, std::min((row + 1) * p_.block_q, at_.length_q(b)) - 1);
        const int64_t begin = column * p_.block_kv, end = begin + p_.block_kv;
        if (begin < last.begin || end > first.end) return true;
        break;
      }
      case Bug::kBlindSeesAll: {
        bool any = false;
        for (int64_t c = 0; c <= last_column && !any; ++c) any = block(b, h, row, c);
        if (!any) return true;
        break;
      }
      default: break;
    }
    return block(b, h, row, column);
  }

  Bug bug_;
  const attest_softmax_params& p_;
  const attest::Sequences at_;
  const attest::View<const uint8_t> blocks_, mask_;
};

/// Puts the pairs that the bug sees into MASK, and leaves block mask and global tokens out.
void spoil(Bug bug, const attest_problem& problem, void* const* data, Copy& c) {
  attest_softmax_params& p = c.params;
  const Sight sight(bug, problem, data);
  c.bytes.reserve(static_cast<size_t>(p.batch * p.num_heads * p.seq_len_q * p.seq_len_kv));
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < p.seq_len_q; ++i)
        for (int64_t j = 0; j < p.seq_len_kv; ++j) c.bytes.push_back(sight.sees(b, h, i, j));
  c.forget(ATTEST_BLOCK_MASK);
  if (p.global_tokens > 0) {
    p.window_left = p.window_right = -1;
    p.global_tokens = 0;
  }
  attest_tensor& mask = c.tensor[ATTEST_MASK];
  mask.dtype = ATTEST_BOOL;
  mask.rank = 4;
  const int64_t dims[] = {p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv};
  std::copy_n(dims, 4, mask.dim);
  c.take_for_dense(ATTEST_MASK);
  c.data[ATTEST_MASK] = c.bytes.data();
}

constexpr uint64_t kFeatures = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                               ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP |
                               ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_LSE |
                               ATTEST_WITH_SEQ_LENS | ATTEST_WITH_STRIDES | ATTEST_WITH_ALIBI |
                               ATTEST_WITH_SINKS | ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL;

template <size_t kIndex>
struct Implementation : mutants::Planted<Bug{kIndex}, kBugs, does_something, kFeatures> {
  template <class T>
  void run(void* const* data, void* /*workspace*/, void* /*stream*/) const {
    Copy copy(this->problem, data);
    spoil(this->kBug, this->problem, data, copy);
    mutants::attend(attest::Softmax<T>(copy.problem, copy.data.data()));
  }
};

}  // namespace

extern "C" const attest_impl* attest_plugin_v1(size_t index) {
  return mutants::table_at<Implementation, std::size(kBugs)>(index);
}
