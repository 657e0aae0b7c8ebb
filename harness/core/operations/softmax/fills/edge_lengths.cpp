#include "core/operations/softmax/fills/edge_lengths.hpp"

#include <algorithm>

namespace attest::core {
namespace {

enum class LengthEdge { kOneKey, kWholePages, kKeyAlone, kOneQuery };
constexpr int kEdgesOfKeys = 3;    // the first three
constexpr size_t kMostTried = 64;  // sequences

bool shows(LengthEdge edge, int64_t rows, int64_t keys, int64_t page) {
  switch (edge) {
    case LengthEdge::kOneKey: return rows > 0 && keys == 1;
    case LengthEdge::kWholePages: return rows > 0 && keys > 0 && keys % page == 0;
    case LengthEdge::kKeyAlone: return rows > 0 && keys > 1 && keys % page == 1;
    case LengthEdge::kOneQuery: return rows == 1 && keys > 1;
  }
  return false;
}

// Returns the largest length with that edge that is at most `length`, or the least one if there is
// none.
int64_t length_of(LengthEdge edge, int64_t length, int64_t page) {
  switch (edge) {
    case LengthEdge::kWholePages: return std::max<int64_t>(length / page, 1) * page;
    case LengthEdge::kKeyAlone: return std::max<int64_t>((length - 1) / page, 1) * page + 1;
    default: return 1;
  }
}

// The lengths of one side, and which of them have an edge and stay.
struct EdgeSide {
  LengthLimits limits;
  std::vector<int64_t> length;
  std::vector<bool> stays;

  bool is_fixed(size_t b) const {
    return stays[b] || length[b] == 0 || length[b] == limits.longest;
  }

  // Sets one length. If tokens are packed, other lengths take the difference; none of them becomes
  // 0, 1 or the longest. Returns whether the sum of the lengths is what it was, if it has to be.
  bool set(size_t b, int64_t to) {
    int64_t left = length[b] - to;
    length[b] = to;
    for (size_t other = 0; other < length.size() && limits.packed && left != 0; ++other) {
      if (other == b || is_fixed(other)) continue;
      const int64_t moved = std::clamp(left, std::min<int64_t>(2 - length[other], 0),
                                       limits.longest - 1 - length[other]);
      length[other] += moved;
      left -= moved;
    }
    return !limits.packed || left == 0;
  }
};

class WithEdges {
 public:
  WithEdges(const Lengths& lengths, const EdgeLimits& limits,
            const std::function<bool(const Lengths&)>& keeps)
      : limits_(limits), keeps_(keeps) {
    const std::vector<bool> none(lengths.q.size());
    q_ = {limits.q, lengths.q, none};
    kv_ = {limits.kv, lengths.kv, none};
  }

  Lengths make() {
    for (int n = 0; n < kEdgesOfKeys && limits_.kv.varies; ++n)
      add(static_cast<LengthEdge>((limits_.kv.longest + n) % kEdgesOfKeys), kv_);
    if (limits_.q.varies && !limits_.same_tokens) add(LengthEdge::kOneQuery, q_);
    return {q_.length, kv_.length};
  }

 private:
  bool shows_at(LengthEdge edge, size_t b) const {
    return shows(edge, q_.length[b], kv_.length[b], limits_.page);
  }

  void add(LengthEdge edge, EdgeSide& side) {
    const size_t tried = std::min(side.length.size(), kMostTried);
    for (size_t b = 0; b < tried; ++b)
      if (shows_at(edge, b) || change(edge, side, b)) {
        side.stays[b] = true;
        return;
      }
  }

  bool change(LengthEdge edge, EdgeSide& side, size_t b) {
    const int64_t to = length_of(edge, side.length[b], limits_.page);
    if (side.is_fixed(b) || to >= side.limits.longest) return false;
    const std::vector<int64_t> q = q_.length, kv = kv_.length;
    const bool fits = side.set(b, to);
    if (limits_.same_tokens) q_.length = kv_.length;
    if (fits && shows_at(edge, b) && keeps_({q_.length, kv_.length})) return true;
    q_.length = q;
    kv_.length = kv;
    return false;
  }

  const EdgeLimits& limits_;
  const std::function<bool(const Lengths&)>& keeps_;
  EdgeSide q_, kv_;
};

}  // namespace

Lengths with_edges(const Lengths& lengths, const EdgeLimits& limits,
                   const std::function<bool(const Lengths&)>& keeps) {
  return WithEdges(lengths, limits, keeps).make();
}

}  // namespace attest::core
