// Events of the lengths of sequences, and which of them a problem has room for.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/operations/softmax/events/events.hpp"

namespace attest::core::events {
namespace {

using Params = attest_softmax_params;

// What the lengths of the queries or of the keys may be: empty, or why not.
struct LengthRoom {
  std::string partial, empty;
  int64_t filled = 0;  // the most sequences that are not empty
};

LengthRoom room_of(const Problem& problem, bool kv) {
  const Params& p = problem.as<Params>();
  const char* side = kv ? "kv" : "q";
  const int64_t longest = kv ? p.seq_len_kv : p.seq_len_q, others = p.batch - 1;
  const std::string none = fmt::format("every sequence has seq_len_{}", side),
                    one_long = fmt::format("seq_len_{} is 1", side);
  const bool packed = problem.has(kv ? ATTEST_CU_SEQLENS_KV : ATTEST_CU_SEQLENS_Q),
             padded = problem.has(kv ? ATTEST_SEQ_LENS_KV : ATTEST_SEQ_LENS_Q);
  if (!packed && !padded) return {none, none, p.batch};
  LengthRoom room{longest > 1 ? "" : one_long, others > 0 ? "" : "there is one sequence", p.batch};
  if (!packed) return room;
  const int64_t left = problem.operation->dims(problem, kv ? ATTEST_K : ATTEST_Q)[2] - longest;
  room.filled = 1 + std::min(others, left);
  const std::string tokens =
      fmt::format("{} sequences of up to {} have {} tokens", p.batch, longest, left + longest);
  if (room.partial.empty() && (left == 0 || left == others * longest)) room.partial = tokens;
  if (room.empty.empty() && left > (others - 1) * longest) room.empty = tokens;
  return room;
}

bool varies(const LengthRoom& room) { return room.partial.empty() || room.empty.empty(); }

// Why queries and keys cannot differ in number.
std::string no_difference(const Problem& problem, const LengthRoom& q, const LengthRoom& kv) {
  const Params& p = problem.as<Params>();
  const bool same_tokens = (problem.has(ATTEST_ORDER) || p.patch_size > 0) &&
                           problem.has(ATTEST_SEQ_LENS_Q) == problem.has(ATTEST_SEQ_LENS_KV);
  if (same_tokens) return "queries and keys are the same tokens";
  return p.seq_len_q == p.seq_len_kv && !varies(q) && !varies(kv)
             ? "every sequence has as many keys as queries"
             : "";
}

// A packed sequence without queries, beside the rows of others.
void find_empty_between(const Geometry& geometry, const std::vector<bool>& judged, Found& found) {
  // Whether the first (last) packed row of a sequence is judged and sees a key.
  const auto shows = [&](int64_t b, bool first) {
    int64_t edge = 0;  // position of that row
    for (int64_t i = 1; i < geometry.length_q(b); ++i)
      if ((geometry.query(b, i).row < geometry.query(b, edge).row) == first) edge = i;
    return geometry.length_q(b) > 0 && geometry.keys(b, edge).size() > 0 &&
           judged[size_t(geometry.output_row(b, 0, edge))];
  };
  for (int64_t b = 0; b < geometry.batch(); ++b) {
    if (geometry.length_q(b) > 0) continue;
    if (b + 1 < geometry.batch() && shows(b + 1, true)) found.insert("lengths/empty/q_before_rows");
    if (b > 0 && shows(b - 1, false)) found.insert("lengths/empty/q_behind_rows");
  }
}

}  // namespace

std::vector<NumericEvent> length_events(const Problem& problem) {
  const LengthRoom q = room_of(problem, false), kv = room_of(problem, true);
  const std::string same = no_difference(problem, q, kv);
  std::string offsets = same;
  if (offsets.empty() && !q.partial.empty() && !kv.partial.empty())
    offsets = "no sequence is partly filled";
  if (offsets.empty() && std::min(q.filled, kv.filled) < 2)
    offsets = "no two sequences have queries and keys";
  const std::string beside =
      problem.has(ATTEST_CU_SEQLENS_Q) ? q.empty : "no sequence's rows follow another's";
  return {{"lengths/q_differs", same},
          {"lengths/offsets_differ", offsets},
          {"lengths/partial/q", q.partial},
          {"lengths/partial/kv", kv.partial},
          {"lengths/empty/q", q.empty},
          {"lengths/empty/q_before_rows", beside},
          {"lengths/empty/q_behind_rows", beside},
          {"lengths/empty/kv", kv.empty}};
}

void find_lengths(const Problem& problem, const Geometry& geometry, const std::vector<bool>& judged,
                  Found& found) {
  const Params& p = problem.as<Params>();
  const auto is_judged = [&](int64_t b) {
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < geometry.length_q(b); ++i)
        if (judged[size_t(geometry.output_row(b, h, i))]) return true;
    return false;
  };
  if (problem.has(ATTEST_CU_SEQLENS_Q)) find_empty_between(geometry, judged, found);
  std::optional<int64_t> offset;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t rows = geometry.length_q(b), keys = geometry.length_kv(b);
    if (rows == 0) found.insert("lengths/empty/q");
    if (rows == 0 || !is_judged(b)) continue;
    if (rows < p.seq_len_q) found.insert("lengths/partial/q");
    if (keys == 0) found.insert("lengths/empty/kv");
    if (keys == 0) continue;
    if (keys < p.seq_len_kv) found.insert("lengths/partial/kv");
    if (rows != keys) found.insert("lengths/q_differs");
    if (offset.value_or(keys - rows) != keys - rows) found.insert("lengths/offsets_differ");
    offset = keys - rows;
  }
}

}  // namespace attest::core::events
