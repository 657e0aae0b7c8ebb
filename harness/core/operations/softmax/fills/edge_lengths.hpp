// Lengths at which code for the ends of sequences has its edges.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace attest::core {

/// The lengths of a problem's sequences.
struct Lengths {
  std::vector<int64_t> q, kv;
  bool operator==(const Lengths&) const = default;
};

/// What the lengths of the queries, or those of the keys, may become.
struct LengthLimits {
  bool varies = false;
  bool packed = false;  // their sum stays
  int64_t longest = 0;  // the largest length; each sequence that has it keeps it
};

struct EdgeLimits {
  LengthLimits q, kv;
  bool same_tokens = false;  // queries and keys have the same lengths
  int64_t page = 0;          // keys of a page; without pages, of a likely tile
};

/// Changes single lengths as far as `keeps` accepts them, so that one sequence has one key, one has
/// as many keys as fill its pages, one has a single key in its last page, and one has a single
/// query. A sequence shows one of these. Where sequences are too few, the longest length decides
/// which of the first three are left out.
Lengths with_edges(const Lengths& lengths, const EdgeLimits& limits,
                   const std::function<bool(const Lengths&)>& keeps);

}  // namespace attest::core
