// Events of BLOCK_MASK and of global tokens: rows and keys at the edges of blocks, and pairs that
// only a mistaken index sees.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/operations/softmax/events/events.hpp"

namespace attest::core::events {
namespace {

using Params = attest_softmax_params;

constexpr int64_t kMostBlockRows = 4096;  // rows of blocks, over all heads, that are looked at

// Smaller block masks have no room for every kind of row.
bool has_room(const TensorSpec& mask) { return mask.dim[2] >= 4 && mask.dim[3] >= 3; }

std::string unless(bool possible, const char* why_not) { return possible ? "" : why_not; }

// The rows of blocks in which a row is judged.
class JudgedBlocks {
 public:
  JudgedBlocks(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
               const std::vector<bool>& judged, Found& found)
      : p_(problem.as<Params>()),
        mask_(tensors[ATTEST_BLOCK_MASK]),
        rows_(mask_.spec.dim[2]),
        columns_(mask_.spec.dim[3]),
        geometry_(geometry),
        judged_(judged),
        found_(found) {}

  void look_at(int64_t b, int64_t h, int64_t row) {
    if (!is_judged(b, h, row)) return;
    int64_t seen = 0;
    for (int64_t c = 0; c < columns_; ++c) seen += sees(b, h, row, c);
    const bool last = sees(b, h, row, columns_ - 1),
               is_short = p_.seq_len_kv % p_.block_kv != 0 && columns_ > 1;
    note(seen == 0, "blind");
    note(seen == 1 && last, "only_last");
    note(is_short && last && seen < columns_, "short_last/seen");
    note(is_short && !last && seen > 0, "short_last/hidden");
    if (p_.seq_len_q % p_.block_q != 0 && row == rows_ - 1 && row > 0)
      note(differ([&](int64_t c) { return sees(b, h, row - 1, c); }, b, h, row), "short_rows");
    note(differ([&](int64_t c) { return c < rows_ && row < columns_ && sees(b, h, c, row); }, b, h,
                row),
         "transposed");
    note(h > 0 && differ([&](int64_t c) { return sees(b, 0, row, c); }, b, h, row), "heads");
    note(b > 0 && differ([&](int64_t c) { return sees(0, h, row, c); }, b, h, row), "sequences");
  }

 private:
  bool sees(int64_t b, int64_t h, int64_t row, int64_t column) const {
    return mask_.at({b, h, row, column}) != 0;
  }
  template <class Other>
  bool differ(const Other& other, int64_t b, int64_t h, int64_t row) const {
    for (int64_t c = 0; c < columns_; ++c)
      if (sees(b, h, row, c) != other(c)) return true;
    return false;
  }
  bool is_judged(int64_t b, int64_t h, int64_t row) const {
    const int64_t end = std::min((row + 1) * p_.block_q, geometry_.length_q(b));
    for (int64_t i = row * p_.block_q; i < end; ++i)
      if (geometry_.keys(b, i).size() > 0 && judged_[size_t(geometry_.output_row(b, h, i))])
        return true;
    return false;
  }
  void note(bool happens, const char* name) {
    if (happens) found_.insert(fmt::format("block_mask/{}", name));
  }

  const Params& p_;
  const Tensor& mask_;
  int64_t rows_, columns_;
  const Geometry& geometry_;
  const std::vector<bool>& judged_;
  Found& found_;
};

void find_blocks_of_mask(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                         const std::vector<bool>& judged, Found& found) {
  const auto& p = problem.as<Params>();
  if (!tensors[ATTEST_BLOCK_MASK] || p.grid_height > 0) return;
  if (!has_room(tensors[ATTEST_BLOCK_MASK].spec)) return;
  JudgedBlocks blocks(problem, tensors, geometry, judged, found);
  const int64_t rows = tensors[ATTEST_BLOCK_MASK].spec.dim[2],
                step = std::max<int64_t>(1, rows * p.num_heads * p.batch / kMostBlockRows);
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t row = 0; row < rows; row += step) {
        blocks.look_at(b, h, row);
        if (row + step >= rows && row < rows - 1) blocks.look_at(b, h, rows - 1);
      }
}

// Events of the pairs that only global tokens let see, in row i of a sequence of `length` tokens.
void find_globals_of_row(const Params& p, int64_t i, int64_t length, Found& found) {
  Params banded = p;
  banded.global_tokens = 0;
  const Interval band = visible_keys(banded, i, length, length);
  const auto beyond = [&](int64_t j) { return j < length && !band.contains(j); };
  const bool hides = beyond(0) || beyond(length - 1);
  if (i < p.global_tokens) {
    if (hides) found.insert("global/sees_all");
    if (hides && i == p.global_tokens - 1) found.insert("global/last_query");
    return;
  }
  if (beyond(p.global_tokens - 1)) found.insert("global/is_seen");
  if (beyond(p.global_tokens)) found.insert("global/first_other_key");
  if (i == p.global_tokens && hides) found.insert("global/first_other_query");
}

void find_globals(const Problem& problem, const Geometry& geometry, const std::vector<bool>& judged,
                  Found& found) {
  const auto& p = problem.as<Params>();
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t i = 0; i < geometry.length_q(b); ++i)
      for (int64_t h = 0; h < p.num_heads; ++h)
        if (judged[size_t(geometry.output_row(b, h, i))]) {
          find_globals_of_row(p, i, geometry.length_kv(b), found);
          break;
        }
}

void list_block_mask(const Problem& problem, std::vector<NumericEvent>& events) {
  const auto& p = problem.as<Params>();
  const TensorSpec& mask = problem.tensor[ATTEST_BLOCK_MASK];
  const auto add = [&](const char* name, std::string why_not) {
    events.push_back({fmt::format("block_mask/{}", name), std::move(why_not)});
  };
  const std::string small =
      unless(has_room(mask), "block_mask has fewer than four rows or three columns");
  const auto room_and = [&](bool possible, const char* why_not) {
    return small.empty() ? unless(possible, why_not) : small;
  };
  const bool is_short = p.seq_len_kv % p.block_kv != 0;
  constexpr const char* kWhole = "the last column of block_mask is a whole block";
  add("blind", small);
  add("only_last", small);
  add("short_last/seen", room_and(is_short, kWhole));
  add("short_last/hidden", room_and(is_short, kWhole));
  add("short_rows",
      room_and(p.seq_len_q % p.block_q != 0, "the last row of block_mask is a whole block"));
  add("transposed", small);
  add("heads", room_and(mask.dim[1] > 1, "all heads share the block mask"));
  add("sequences", room_and(mask.dim[0] > 1, "all sequences share the block mask"));
}

void list_globals(const Params& p, std::vector<NumericEvent>& events) {
  Found possible;
  for (int64_t i = 0; i < p.seq_len_q; ++i) find_globals_of_row(p, i, p.seq_len_q, possible);
  for (const char* name : {"global/sees_all", "global/last_query", "global/is_seen",
                           "global/first_other_key", "global/first_other_query"})
    events.push_back({name, unless(possible.contains(name), "the band shows such pairs")});
}

}  // namespace

std::vector<NumericEvent> structure_events(const Problem& problem) {
  const auto& p = problem.as<Params>();
  std::vector<NumericEvent> events;
  if (problem.has(ATTEST_BLOCK_MASK) && p.grid_height == 0) list_block_mask(problem, events);
  if (p.global_tokens > 0) list_globals(p, events);
  return events;
}

void find_structure(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                    const std::vector<bool>& judged, Found& found) {
  find_blocks_of_mask(problem, tensors, geometry, judged, found);
  if (problem.as<Params>().global_tokens > 0) find_globals(problem, geometry, judged, found);
}

}  // namespace attest::core::events
